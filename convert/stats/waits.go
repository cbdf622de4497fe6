package stats

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// waitCells is a row of waits.
type waitCells struct {
	Name      string  `key:"name" title:"function"`
	WaitedFor string  `key:"waited_for" title:"waited for" rank:"1"` // stream whose work finished last
	PID       *uint32 `key:"pid" unit:"id"`
	TID       *uint32 `key:"tid" title:"thread" rank:"3" unit:"id"`
	totals
	Share *float64 `key:"share" title:"share" rank:"2"` // part of the time of all waiting calls
	// from the start of a call to the end of the work; 0 where that had ended before
	Blocked uint64 `key:"blocked_ns" title:"blocked" rank:"2"`
	spread

	timed  // whole calls
	stream *timeline.Stream
}

// A waitKey is a function, the thread that called it, and the stream whose work was the last to finish.
type waitKey struct {
	name   string
	thread *timeline.Thread
	stream *timeline.Stream
}

var waitsReport = declare(grouped[waitKey, waitCells]{
	Report: Report{
		Name: "waits", Title: "calls that waited for GPU work",
		needs: gpuWork, whyEmpty: "no calls that waited for GPU work",
	},
	things: [2]string{"wait", "waits"},
	others: waitKey{name: other},
	row: func(k waitKey) waitCells {
		r := waitCells{Name: k.name, stream: k.stream}
		if k.thread != nil {
			r.PID, r.TID = &k.thread.Process.PID, &k.thread.TID
		}
		return r
	},
	from: func(s *section, rows *query.Rows[waitKey, waitCells]) {
		s.waits.Each(func(c *call) {
			last := timeline.Awaited{}
			for _, a := range c.Waits() {
				if last.Stream == nil || a.End > last.End {
					last = a
				}
			}
			r := rows.Of(waitKey{c.Name, c.thread, last.Stream})
			if c.Flags&timeline.Unfinished == 0 {
				r.time.Add(length(c.Slice))
			}
			r.Blocked = sketch.Sum(r.Blocked, max(min(last.End, c.End), c.Start)-c.Start)
		})
	},
	merge: func(r, later *waitCells) {
		r.timed.merge(&later.timed)
		r.Blocked = sketch.Sum(r.Blocked, later.Blocked)
	},
	fill: func(_ *view, r *waitCells, total uint64) {
		r.WaitedFor = streamTitle(r.stream)
		r.totals, r.Share, r.spread = r.columns(total, 0)
	},
})

// streamTitle names a stream, "" where several streams are one row.
func streamTitle(s *timeline.Stream) string {
	if s == nil {
		return ""
	}
	title := fmt.Sprintf("stream %d", s.ID)
	if s.Name != "" {
		title += " (" + s.Name + ")"
	}
	return fmt.Sprintf("%s of GPU %d", title, s.Context.GPU)
}

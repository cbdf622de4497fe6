package stats

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// waits is the report of calls that waited for GPU work.
type waits struct{ rows groups[waitKey, waitRow] }

// A waitKey is a function, the thread that called it, and the stream whose work was the last to
// finish.
type waitKey struct {
	name   string
	thread *timeline.Thread
	stream *timeline.Stream
}

type waitRow struct {
	waitKey
	time    sketch.Ordered // of the whole calls
	blocked uint64         // ns from the beginning of a call to the end of the work
}

func newWaits() waits {
	return waits{newGroups(waitKey{name: other}, func(k waitKey) *waitRow { return &waitRow{waitKey: k} })}
}

func (s *waits) countWait(t *timeline.Thread, sl *timeline.Slice) {
	last := timeline.Awaited{}
	for _, a := range sl.Waits() {
		if last.Stream == nil || a.End > last.End {
			last = a
		}
	}
	r := s.rows.of(waitKey{sl.Name, t, last.Stream})
	if sl.Flags&timeline.Unfinished == 0 {
		r.time.Add(length(sl))
	}
	r.blocked = sketch.Sum(r.blocked, max(min(last.End, sl.End), sl.Start)-sl.Start)
}

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

var waitsReport = Report{
	Name: "waits", Title: "calls that waited for GPU work",
	needs: gpuWork, whyEmpty: "no calls that waited for GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.waits.table() },
}

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
}

func (s *waits) table() *table.Table {
	total := totalOf(s.rows.list, func(r *waitRow) *sketch.Distribution { return &r.time.Distribution })
	var rows []waitCells
	for _, r := range s.rows.list {
		x := waitCells{Name: r.name, WaitedFor: streamTitle(r.stream), totals: totals{r.time.Count, r.time.Total},
			Share: table.ShareOf(r.time.Total, total), Blocked: r.blocked, spread: spreadOf(&r.time)}
		if r.thread != nil {
			x.PID, x.TID = &r.thread.Process.PID, &r.thread.TID
		}
		rows = append(rows, x)
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

package stats

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
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

// streamTitle names a stream, nil where several streams are one row.
func streamTitle(s *timeline.Stream) any {
	if s == nil {
		return nil
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
	Keys: []Key{
		{"name", ""},
		{"waited_for", "stream whose work finished last"},
		{"pid, tid", ""},
		{"count, total_ns", ""},
		{"share", "part of the time of all waiting calls"},
		{"blocked_ns", "from the start of a call to the end of the work; 0 where that had ended before"},
		{"min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns", ""},
	},
}

func (s *waits) table() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("function"), column("waited_for", "waited for", table.Text, 1), id("pid", "", 0), id("tid", "thread", 3)},
		totals(), []table.Column{duration("blocked_ns", "blocked", 2)}, spread())
	total := totalOf(s.rows.list, func(r *waitRow) *sketch.Distribution { return &r.time.Distribution })
	for _, r := range s.rows.list {
		var pid, tid any
		if r.thread != nil {
			pid, tid = uint64(r.thread.Process.PID), uint64(r.thread.TID)
		}
		t.Rows = append(t.Rows, slices.Concat([]any{r.name, streamTitle(r.stream), pid, tid, r.time.Count, r.time.Total,
			table.ShareOf(r.time.Total, total), r.blocked}, spreadOf(&r.time)))
	}
	t.Sort("total_ns")
	return t
}

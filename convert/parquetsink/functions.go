package parquetsink

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// functionBegin takes a function of any library, functionEnd its end.
func (s *Sink) functionBegin(e *timeline.SpanBegin) {
	sp := e.Span
	s.functions[e.Track] = append(s.functions[e.Track], &sp)
}

func (s *Sink) functionEnd(e *timeline.SpanEnd) {
	open := s.functions[e.Track]
	if len(open) == 0 {
		return
	}
	sp := open[len(open)-1]
	s.functions[e.Track] = open[:len(open)-1]
	sp.Args = slices.Concat(sp.Args, e.Args)
	dur := int64(parquet.NullInt)
	if _, returned := fact(sp.Args, "returns"); returned {
		dur = bounded(e.Time - min(sp.Start, e.Time))
	}
	s.functionRow(e.Track, sp, dur)
}

func fact(of []timeline.Detail, name string) (d timeline.Detail, ok bool) {
	i := slices.IndexFunc(of, func(d timeline.Detail) bool { return d.Name == name })
	if i < 0 {
		return d, false
	}
	return of[i], true
}

func (s *Sink) functionRow(t *timeline.Track, sp *timeline.Span, dur int64) {
	b := s.part(t.Process).buffer(functionTable)
	library, _ := fact(sp.Args, "library")
	b.int(s.unix(sp.Start))
	b.int(dur)
	b.text(sp.Name)
	b.text(library.Text)
	b.small(s.options.HostPID(t.Process.PID))
	b.small(s.options.HostPID(t.Thread.TID))
	b.small(uint32(len(s.functions[t])))
	for _, name := range []string{"arg0", "arg1", "arg2", "arg3", "arg4", "arg5", "returns"} {
		if d, known := fact(sp.Args, name); known {
			b.int(int64(d.Value))
		} else {
			b.int(parquet.NullInt)
		}
	}
	s.end(b)
}

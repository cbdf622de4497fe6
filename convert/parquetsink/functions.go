package parquetsink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// function takes a call of a function of any library.
func (s *Sink) function(t *timeline.Track, sp *timeline.Span) {
	f, b := sp.Function, s.part(t.Process).buffer(functionTable)
	dur, ret := int64(parquet.NullInt), int64(parquet.NullInt)
	if f.Returned {
		dur, ret = bounded(sp.End-min(sp.Start, sp.End)), int64(f.Ret)
	}
	b.int(s.unix(sp.Start))
	b.int(dur)
	b.text(sp.Name)
	b.text(f.Library)
	b.small(s.options.HostPID(t.Process.PID))
	b.small(s.options.HostPID(t.Thread.TID))
	b.small(uint32(sp.Depth))
	for i := range 6 {
		if i < len(f.Args) {
			b.int(int64(f.Args[i]))
		} else {
			b.int(parquet.NullInt)
		}
	}
	b.int(ret)
	s.end(b)
}

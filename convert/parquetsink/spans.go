package parquetsink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

// span takes a span that has ended, or an instant.
func (s *Sink) span(t *timeline.Track, sp *timeline.Span, kind string) {
	switch t.Category {
	case timeline.Functions:
		s.function(t, sp)
	case timeline.NVTX:
		s.nvtx(t, sp, kind)
	}
}

func (s *Sink) nvtx(t *timeline.Track, sp *timeline.Span, kind string) {
	p, dur := s.part(t.Process), int64(parquet.NullInt)
	if kind == "range" && sp.Flags&timeline.Unfinished == 0 {
		dur = int64(min(sp.End-min(sp.Start, sp.End), 1<<62))
	}
	b := p.buffer(nvtxTable)
	b.int(s.unix(sp.Start))
	b.int(dur)
	b.text(sp.Name)
	b.text(t.Domain)
	b.text(kind)
	b.small(s.options.HostPID(t.Process.PID))
	tid := uint32(null)
	if t.Thread != nil {
		tid = s.options.HostPID(t.Thread.TID)
	}
	b.small(tid)
	b.text(p.ranges(sp.Ranges))
	s.end(b)
}

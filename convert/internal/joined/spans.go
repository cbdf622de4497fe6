package joined

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// span takes a span that has ended, or an instant.
func (s *Sink) span(t *timeline.Track, sp *timeline.Span, kind string) {
	switch t.Category {
	case timeline.Functions:
		s.function(t, sp)
	case timeline.NVTX:
		s.nvtx(t, sp, kind)
	case timeline.Operators:
		s.operator(t, sp)
	}
}

// operator takes an operator of PyTorch, if its own times are known.
func (s *Sink) operator(t *timeline.Track, sp *timeline.Span) {
	if !t.Thread.Spans {
		return
	}
	p := s.part(t.Process)
	name, stack := p.operator(sp.Operator)
	r := Operator{Start: s.unix(sp.Start), Dur: bounded(sp.End - min(sp.Start, sp.End)), Name: name,
		PID: s.options.HostPID(t.Process.PID), TID: s.options.HostPID(t.Thread.TID), Depth: uint32(sp.Depth), Stack: stack}
	if made := sp.Operator.Made(); made != nil {
		_, r.Forward = p.operator(made)
	}
	row(p, r)
}

func (s *Sink) nvtx(t *timeline.Track, sp *timeline.Span, kind string) {
	p := s.part(t.Process)
	r := Range{Start: s.unix(sp.Start), Dur: NoNumber, Name: sp.Name, Domain: t.Domain, Kind: kind,
		PID: s.options.HostPID(t.Process.PID), TID: None, NVTX: p.ranges(sp.Ranges)}
	if kind == "range" && sp.Flags&timeline.Unfinished == 0 {
		r.Dur = int64(min(sp.End-min(sp.Start, sp.End), 1<<62))
	}
	if t.Thread != nil {
		r.TID = s.options.HostPID(t.Thread.TID)
	}
	row(p, r)
}

// function takes a call of a function of any library.
func (s *Sink) function(t *timeline.Track, sp *timeline.Span) {
	f := sp.Function
	r := Function{Start: s.unix(sp.Start), Dur: NoNumber, Name: sp.Name, Library: f.Library,
		PID: s.options.HostPID(t.Process.PID), TID: s.options.HostPID(t.Thread.TID), Depth: uint32(sp.Depth),
		Returns: NoNumber}
	for i, arg := range []*int64{&r.Arg0, &r.Arg1, &r.Arg2, &r.Arg3, &r.Arg4, &r.Arg5} {
		if *arg = NoNumber; i < len(f.Args) {
			*arg = int64(f.Args[i])
		}
	}
	if f.Returned {
		r.Dur, r.Returns = bounded(sp.End-min(sp.Start, sp.End)), int64(f.Ret)
	}
	row(s.part(t.Process), r)
}

package parquetsink

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

func (s *Sink) slices(l *timeline.Slices) {
	if len(l.List) == 0 {
		return
	}
	p := s.part(l.Thread.Process)
	b, arrows := p.buffer(callTable), p.buffer(arrowTable)
	pid, tid := s.options.HostPID(l.Thread.Process.PID), s.options.HostPID(l.Thread.TID)
	for i := range l.List {
		sl := &l.List[i]
		p.calls++
		p.slice(b, sl, pid, tid)
		for _, id := range sl.Work() {
			p.arrow(arrows, "launch", sl.Start, p.calls, id, pid, tid)
		}
		for _, w := range sl.Waits() {
			p.arrow(arrows, "wait", w.End, p.calls, w.Work, pid, tid)
		}
	}
}

func (p *part) slice(b *buffer, sl *timeline.Slice, pid, tid uint32) {
	s := p.sink
	b.int(s.unix(sl.Start))
	if sl.Flags&timeline.Unfinished != 0 {
		b.int(parquet.NullInt)
	} else {
		b.uint(sl.End - min(sl.Start, sl.End))
	}
	b.int(p.calls)
	b.text(sl.Name)
	b.text(sl.Library)
	b.small(pid)
	b.small(tid)
	b.small(uint32(max(sl.Depth, 0)))
	b.known(sl.Correlation)
	stream := uint32(null)
	if sl.Stream != nil {
		stream = sl.Stream.ID
	}
	b.small(stream)
	if sl.Flags&(timeline.Unfinished|timeline.NoReturn) != 0 {
		b.int(parquet.NullInt)
		b.small(null)
	} else {
		b.int(int64(sl.Ret))
		b.text(sl.ErrorName())
	}
	b.flag(sl.Failed())
	b.text(p.caller(sl.Caller))
	b.text(p.ranges(sl.Ranges))
	s.end(b)
}

func (p *part) arrow(b *buffer, kind string, at uint64, call int64, work uint64, pid, tid uint32) {
	s := p.sink
	b.int(s.unix(at))
	b.text(kind)
	b.int(call)
	b.uint(work)
	b.small(pid)
	b.small(tid)
	s.end(b)
}

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
	b := p.buffer(callTable)
	pid, tid := s.options.HostPID(l.Thread.Process.PID), s.options.HostPID(l.Thread.TID)
	for list := l.List; len(list) > 0; {
		n := b.begin(len(list))
		p.callRows(b, l.Thread, list[:n], pid, tid)
		list = list[n:]
	}
	p.arrowRows(pid, tid)
}

// callRows adds a piece of calls, and notes their arrows.
func (p *part) callRows(b *buffer, t *timeline.Thread, list []timeline.Slice, pid, tid uint32) {
	start, dur, id := b.ints(), b.ints(), b.ints()
	names, libraries := b.smalls(), b.smalls()
	b.small(pid)
	b.small(tid)
	depth, correlation, stream := b.smalls(), b.smalls(), b.smalls()
	for i := range list {
		sl := &list[i]
		p.calls++
		start[i], id[i] = p.sink.unix(sl.Start), p.calls
		dur[i] = parquet.NullInt
		if sl.Flags&timeline.Unfinished == 0 {
			dur[i] = bounded(sl.End - min(sl.Start, sl.End))
		}
		names[i], libraries[i] = b.id(sl.Name), b.idOrNull(sl.Library)
		depth[i], correlation[i], stream[i] = uint32(max(sl.Depth, 0)), known(sl.Correlation), null
		if sl.Stream != nil {
			stream[i] = sl.Stream.ID
		}
		p.noteArrows(sl)
	}
	p.results(b, list)
	callers, ranges, stacks := b.smalls(), b.smalls(), b.smalls()
	for i := range list {
		sl, python := &list[i], list[i].Python
		if sl.HasWork() {
			python = t.Launching(python)
		}
		callers[i], ranges[i], stacks[i] = b.caller(p, sl.Caller), b.rangesOf(p, sl.Ranges), p.stack(python)
	}
	p.sink.end(b)
}

// results adds what calls returned.
func (p *part) results(b *buffer, list []timeline.Slice) {
	results, errors, failed := b.ints(), b.smalls(), b.ints()
	for i := range list {
		sl := &list[i]
		results[i], errors[i], failed[i] = int64(sl.Ret), null, number(sl.Failed())
		switch {
		case sl.Flags&(timeline.Unfinished|timeline.NoReturn) != 0:
			results[i] = parquet.NullInt
		case sl.Ret != 0:
			errors[i] = b.idOrNull(sl.ErrorName())
		}
	}
}

// An arrow is a row of arrows.
type arrow struct {
	kind string
	at   uint64
	call int64
	work uint64
}

// noteArrows notes the arrows of the last call.
func (p *part) noteArrows(sl *timeline.Slice) {
	for _, id := range sl.Work() {
		p.arrows = append(p.arrows, arrow{"launch", sl.Start, p.calls, id})
	}
	for _, w := range sl.Waits() {
		p.arrows = append(p.arrows, arrow{"wait", w.End, p.calls, w.Work})
	}
}

// arrowRows adds the arrows that were noted.
func (p *part) arrowRows(pid, tid uint32) {
	b := p.buffer(arrowTable)
	for all := p.arrows; len(all) > 0; {
		n := b.begin(len(all))
		start, kind, call, work := b.ints(), b.smalls(), b.ints(), b.ints()
		for i, a := range all[:n] {
			start[i], kind[i], call[i], work[i] = p.sink.unix(a.at), b.id(a.kind), a.call, bounded(a.work)
		}
		b.small(pid)
		b.small(tid)
		p.sink.end(b)
		all = all[n:]
	}
	p.arrows = p.arrows[:0]
}

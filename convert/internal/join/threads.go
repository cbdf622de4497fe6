package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// threadCalls are the calls of a thread that can't be stacked yet because later blocks may have
// earlier calls, of all programs of a process.
type threadCalls struct {
	key     read.ThreadKey
	process *read.Process
	merger  *read.Merger[read.Call]
	lows    read.Lows
	stacks  byProgram[*stack]
	active  bool
}

// threads are the threads of a log.
type threads struct {
	catalog  *read.Catalog
	programs map[uint32][]*program
	calls    *read.Calls
	output   *stackOutput
	lows     read.ThreadLows
	byKey    map[read.ThreadKey]*threadCalls
	all      []*threadCalls
	active   []*threadCalls // those with calls to come, or to show; all of them at the end
	latest   *threadCalls
}

func newThreads(c *read.Catalog, programs map[uint32][]*program, calls *read.Calls, o *stackOutput) *threads {
	return &threads{catalog: c, programs: programs, calls: calls, output: o,
		lows: c.Watermarks.Threads(&c.Names), byKey: make(map[read.ThreadKey]*threadCalls)}
}

// merger returns the merger of a thread by its host TID.
func (l *threads) merger(pid, tid uint32) *read.Merger[read.Call] {
	key := read.ThreadKey{PID: pid, TID: tid}
	if t := l.latest; t != nil && t.key == key {
		return t.merger
	}
	t := l.byKey[key]
	if t == nil {
		p := l.catalog.Processes.Get(pid)
		t = &threadCalls{key: key, process: p, merger: l.calls.Thread(p), lows: l.lows.Of(key)}
		l.byKey[key] = t
		l.all = append(l.all, t)
	}
	if !t.active {
		t.active = true
		l.active = append(l.active, t)
	}
	l.latest = t
	return t.merger
}

// rest takes the threads out of those that are active that have nothing left to show: a program may make a thread for
// each request.
func (l *threads) rest() {
	l.active = slices.DeleteFunc(l.active, func(t *threadCalls) bool {
		waits := func(s *stack) bool { return s.pending.len() > 0 || len(s.open) > 0 || s.entered }
		t.active = t.lows.Low() != timeline.Never || t.merger.Held() > 0 || slices.ContainsFunc(t.stacks.values, waits)
		if !t.active && l.latest == t {
			l.latest = nil
		}
		return !t.active
	})
}

// each calls f with every stack of the active threads.
func (l *threads) each(f func(*stack)) {
	for _, t := range l.active {
		for _, s := range t.stacks.values {
			f(s)
		}
	}
}

// advance stacks the calls of a thread that begin before low; with all, every call.
func (l *threads) advance(t *threadCalls, low uint64, all bool) {
	t.merger.Until(low, all)
	for r := t.merger.Next(); r != nil; r = t.merger.Next() {
		s := t.stacks.get(r.Program, func() *stack {
			return newStack(l.output, l.programs[t.key.PID][r.Program], t.key.TID)
		})
		s.place(r)
	}
	for _, s := range t.stacks.values {
		s.known = low
		if !all {
			s.settleEntry(low)
			s.closeUntil(low)
		}
	}
}

// held is the number of records that all threads hold back for later blocks.
func (l *threads) held() (n int) {
	for _, t := range l.active {
		n += t.merger.Held()
	}
	return n
}

// relieve stacks the older half of the records that are held back. A call that lasted for
// hours, or a lost return, holds back everything that its thread did meanwhile.
func (l *threads) relieve() {
	for _, t := range l.active {
		if x := t.merger.Extent(timeline.Never); x.Rows > 0 {
			l.advance(t, x.From+(x.To-x.From)/2+1, false)
		}
	}
}

package read

import (
	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Merger gives the records of one thread or one stream in the order of time. The blocks of
// the thread or stream may overlap in any way.
type Merger[T any] struct {
	kind    *mergedKind[T]
	process *ProcessRecords
	queue   blockQueue
	loose   ordered.List[T] // records that are in no source
	active  []*source[T]    // blocks in progress; the last has the next record
	first   *source[T]      // the source of the latest record
	second  *source[T]      // the source after first
	limit   uint64          // records of first and second before this time come before all others
	below   uint64          // see Until
	all     bool
	taken   T // the latest record, if it was loose
}

// maxActive is the number of blocks that are decoded side by side. Where more blocks overlap,
// their records become loose.
const maxActive = 64

// sourceRows is the number of rows of a block that are decoded at once: few enough that these
// records and the decoder's tables stay in the processor's nearest cache.
const sourceRows = 64

// A mergedKind has what all mergers of one kind of record share.
type mergedKind[T any] struct {
	start  func(*T) uint64
	before func(a, b *T) bool // the order of records, by start first
	decode func() decoder[T]  // makes a decoder
	free   []*source[T]
	none   source[T] // replaces a missing source: its record never comes
}

// A decoder decodes the rows of a block into records.
type decoder[T any] interface {
	// open starts a block of a process.
	open(b *tracelog.Block, p *ProcessRecords)
	// before is the order of the block's rows.
	before(a, b *uint32) bool
	// rows decodes selected rows and their starts, as many as there is room for. It returns
	// their number, 0 at the end.
	rows(rows *Rows, into []T, starts []uint64) int
}

// A source is a block in progress.
type source[T any] struct {
	values  [sourceRows]T
	starts  [sourceRows]uint64
	at, n   int // index of the next record, and number of records
	rows    Rows
	block   queuedBlock
	decoder decoder[T]
}

func (k *mergedKind[T]) merger(p *ProcessRecords) *Merger[T] {
	k.none.n, k.none.starts[0] = 1, timeline.Never
	return &Merger[T]{kind: k, process: p, first: &k.none, second: &k.none, loose: ordered.NewList(k.before)}
}

func (k *mergedKind[T]) source() *source[T] {
	if n := len(k.free); n > 0 {
		s := k.free[n-1]
		k.free = k.free[:n-1]
		return s
	}
	return &source[T]{decoder: k.decode()}
}

// put returns a source to the free sources.
func (k *mergedKind[T]) put(s *source[T]) {
	s.block, s.at, s.n = queuedBlock{}, 0, 0
	k.free = append(k.free, s)
}

// push adds a kept block. All its records belong to the merger's thread or stream.
func (m *Merger[T]) push(b *tracelog.Block, distinct bool) { m.queue.push(b, distinct) }

// Until lets Next give the records that begin before a time, or all records.
func (m *Merger[T]) Until(below uint64, all bool) { m.below, m.all, m.limit = below, all, 0 }

// Next returns the next record, nil where there is none. It is valid until the next call.
func (m *Merger[T]) Next() *T {
	// Nearly always a thread has two sources, its calls and its API records.
	s, o := m.first, m.second
	if s.at == s.n {
		return m.turn()
	}
	a, b := s.starts[s.at], o.starts[o.at]
	if b < a {
		n := len(m.active)
		m.first, m.second = o, s
		m.active[n-1], m.active[n-2] = o, s
		s, a, b = o, b, a
	}
	if a == b || a >= m.limit {
		return m.turn()
	}
	s.at++
	return &s.values[s.at-1]
}

// turn finds the source with the next record and takes that record.
func (m *Merger[T]) turn() *T {
	m.settle()
	m.first, m.second = &m.kind.none, &m.kind.none
	for m.due() {
		if len(m.active) < maxActive {
			m.begin(m.queue.pop())
		} else {
			m.flatten()
		}
	}
	n := len(m.active)
	if m.loose.Len() > 0 {
		head := &m.loose.Values()[0]
		if n == 0 || !m.kind.before(m.active[n-1].head(), head) {
			return m.takeLoose(head)
		}
	}
	if n == 0 || m.beyond(m.active[n-1].start()) {
		return nil
	}
	s := m.active[n-1]
	m.first, m.limit = s, m.queue.first()
	if n > 1 {
		m.second = m.active[n-2]
	}
	if n > 2 {
		m.limit = min(m.limit, m.active[n-3].start())
	}
	if m.loose.Len() > 0 {
		m.limit = min(m.limit, m.kind.start(&m.loose.Values()[0]))
	}
	if !m.all {
		m.limit = min(m.limit, m.below)
	}
	s.at++
	return &s.values[s.at-1]
}

// beyond reports whether a time is past the limit of Until.
func (m *Merger[T]) beyond(at uint64) bool { return at >= m.below && !m.all }

func (m *Merger[T]) takeLoose(head *T) *T {
	if m.beyond(m.kind.start(head)) {
		return nil
	}
	m.taken = *head
	m.loose.Drop(1)
	return &m.taken
}

// due reports whether the first queued block may have the next record.
func (m *Merger[T]) due() bool {
	if m.queue.empty() || m.beyond(m.queue.first()) {
		return false
	}
	at, some := timeline.Never, false
	if n := len(m.active); n > 0 {
		at, some = m.active[n-1].start(), true
	}
	if m.loose.Len() > 0 {
		at, some = min(at, m.kind.start(&m.loose.Values()[0])), true
	}
	return !some || m.queue.first() <= at
}

// settle sorts the sources again from which records were taken, and removes empty ones.
func (m *Merger[T]) settle() {
	last := len(m.active) - 1
	if last < 0 || m.active[last] != m.first {
		return
	}
	if s := m.first; s.at == s.n && !s.fill() {
		m.active[last] = nil
		m.active = m.active[:last]
		m.end(s)
		last--
	}
	for i := max(last-1, 0); i <= last; i++ {
		m.sink(i)
	}
}

// sink moves the source at an index in front of those whose next record comes earlier.
func (m *Merger[T]) sink(i int) {
	s := m.active[i]
	for ; i > 0 && m.comes(m.active[i-1], s); i-- {
		m.active[i] = m.active[i-1]
	}
	m.active[i] = s
}

// comes reports whether the next record of a comes before that of b.
func (m *Merger[T]) comes(a, b *source[T]) bool {
	if x, y := a.start(), b.start(); x != y {
		return x < y
	}
	switch x, y := a.head(), b.head(); {
	case m.kind.before(x, y):
		return true
	case m.kind.before(y, x):
		return false
	}
	return a.block.nth < b.block.nth
}

func (s *source[T]) head() *T      { return &s.values[s.at] }
func (s *source[T]) start() uint64 { return s.starts[s.at] }

// left is an upper bound for the records that the source still has.
func (s *source[T]) left() int { return s.n - s.at + s.rows.left() }

// open makes a source of a block, without records yet.
func (m *Merger[T]) open(b queuedBlock) *source[T] {
	s := m.kind.source()
	s.block = b
	s.decoder.open(b.Block, m.process)
	s.rows.reset(b.N, b.sorted, s.decoder.before)
	return s
}

// begin starts a block as a source.
func (m *Merger[T]) begin(b queuedBlock) {
	s := m.open(b)
	if !s.fill() { // no record of the block is selected
		m.end(s)
		return
	}
	m.active = append(m.active, s)
	m.sink(len(m.active) - 1)
}

// fill decodes the next rows of the block. It reports whether there are any.
func (s *source[T]) fill() bool {
	s.at, s.n = 0, s.decoder.rows(&s.rows, s.values[:], s.starts[:])
	return s.n > 0
}

// end releases a source and its block.
func (m *Merger[T]) end(s *source[T]) {
	s.block.Release()
	m.kind.put(s)
}

// flatten makes all records of the sources loose, and those of the queued blocks up to the
// limit of Until.
func (m *Merger[T]) flatten() {
	for n := len(m.active); n > 0; n-- {
		m.loosen(m.active[n-1])
	}
	clear(m.active)
	m.active = m.active[:0]
	for !m.queue.empty() && !m.beyond(m.queue.first()) {
		m.loosen(m.open(m.queue.pop()))
	}
	m.first, m.second = &m.kind.none, &m.kind.none
}

// loosen makes the records of a source loose, and ends it.
func (m *Merger[T]) loosen(s *source[T]) {
	for more := true; more; more = s.fill() {
		for _, v := range s.values[s.at:s.n] {
			m.loose.Add(v)
		}
	}
	m.end(s)
}

// Held is an upper bound for the number of records that the merger holds.
func (m *Merger[T]) Held() int {
	n := m.queue.rows + m.loose.Len()
	for _, s := range m.active {
		n += s.left()
	}
	return n
}

// Trim frees memory after a burst of loose records.
func (m *Merger[T]) Trim() { m.loose.Trim() }

// Extent returns the extent of the records that begin before a time.
func (m *Merger[T]) Extent(before uint64) Extent {
	x := NoExtent
	m.queue.extent(&x, before)
	for _, s := range m.active {
		if s.start() < before {
			x.widen(s.start(), min(s.block.to, before), s.left())
		}
	}
	if m.loose.Len() > 0 {
		loose := m.loose.Values()
		if first, last := m.kind.start(&loose[0]), m.kind.start(&loose[len(loose)-1]); first < before {
			x.widen(first, min(last, before), len(loose))
		}
	}
	return x
}

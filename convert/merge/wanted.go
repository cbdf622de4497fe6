package merge

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Wanted says which records of a log a filter wants, and counts them.
type Wanted struct {
	Filter  *tracelog.Filter // nil wants all
	Threads Threads
	Taken   uint64 // records that the filter wanted
}

// Threads are the threads that a filter wants, where they have other numbers in their PID
// namespace. The filter has both numbers of each; uprobe pairs have the host's, records of
// CUPTI those of the namespace. The zero Threads are all that the filter wants.
type Threads struct {
	Host      []uint32                   // the host's numbers
	Namesakes map[catalog.ThreadKey]bool // other threads, by numbers in their namespace that the filter has
}

// Match says whether row i of a block is wanted.
func (w *Wanted) Match(b *tracelog.Block, i int) bool {
	if w.Filter == nil {
		return true
	}
	if !w.Filter.Match(b, i) || len(w.Threads.Host) > 0 && !w.Threads.match(b, i) {
		return false
	}
	w.Taken++
	return true
}

// match says whether row i of a block is of one of the threads, or of none at all.
func (t *Threads) match(b *tracelog.Block, i int) bool {
	switch b.Kind {
	case tracelog.KindCall:
		tid := b.Column("tid")
		return slices.Contains(t.Host, uint32(tid.At(i)))
	case tracelog.KindAPI, tracelog.KindMarker, tracelog.KindOverhead, tracelog.KindMemory:
		pid, tid := b.Column("pid"), b.Column("tid")
		return !t.Namesakes[catalog.ThreadKey{PID: uint32(pid.At(i)), TID: uint32(tid.At(i))}]
	}
	return true
}

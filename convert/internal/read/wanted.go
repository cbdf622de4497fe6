package read

import (
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Wanted selects the records of a log by a filter, and counts them.
type Wanted struct {
	Filter  *tracelog.Filter // nil selects all records
	Threads Threads
	Taken   uint64 // records that the filter selected, without those of other times
}

// Threads are the threads that a filter selects, where their TIDs in a PID namespace differ from
// those of the host. The filter has both TIDs of each thread: uprobe pairs have the host TID, CUPTI's
// records the namespace TID. The zero value leaves the selection to the filter.
type Threads struct {
	Host      []uint32           // host TIDs
	Namesakes map[ThreadKey]bool // other threads, by namespace TIDs that the filter has
}

// Match reports whether row i of a block is selected.
func (w *Wanted) Match(b *tracelog.Block, i int) bool {
	if w.Filter == nil {
		return true
	}
	if !w.Filter.Match(b, i) || len(w.Threads.Host) > 0 && !w.Threads.match(b, i) {
		return false
	}
	if w.Filter.InTime(b, i) {
		w.Taken++
	}
	return true
}

// matchOpen reports whether an open call is selected. A catalog has those of wanted processes and threads alone.
func (w *Wanted) matchOpen(c *tracelog.OpenCall) bool {
	if w.Filter == nil {
		return true
	}
	f := w.Filter
	if c.Enter < f.From || f.To > 0 && c.Enter > f.To || len(w.Threads.Host) > 0 &&
		!w.Threads.has(c.PID, c.TID, c.Name != "") {
		return false
	}
	w.Taken++
	return true
}

// match reports whether row i of a block is of one of the threads, or of none at all.
func (t *Threads) match(b *tracelog.Block, i int) bool {
	switch {
	case b.Kind == tracelog.KindCall || b.Kind == tracelog.KindFunctionEvent || b.Kind == tracelog.KindTorchMemory:
		tid := b.Column("tid")
		return slices.Contains(t.Host, uint32(tid.At(i)))
	case schema.LayoutOf(b.Kind).TID >= 0:
		pid, tid := b.Column("pid"), b.Column("tid")
		return t.has(uint32(pid.At(i)), uint32(tid.At(i)), true)
	}
	return true
}

// has reports whether a thread that the filter has is one of them. The TID is that of CUPTI or of the host.
func (t *Threads) has(pid, tid uint32, ofCUPTI bool) bool {
	if ofCUPTI {
		return !t.Namesakes[ThreadKey{PID: pid, TID: tid}]
	}
	return slices.Contains(t.Host, tid)
}

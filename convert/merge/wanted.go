package merge

import "github.com/cudatrace/cudatrace/record/tracelog"

// Wanted selects the records of a log by a filter, and counts them.
type Wanted struct {
	Filter *tracelog.Filter // nil selects all records
	Taken  uint64           // records that the filter selected
}

// Match says whether row i of a block is selected.
func (w *Wanted) Match(b *tracelog.Block, i int) bool {
	if w.Filter == nil {
		return true
	}
	if !w.Filter.Match(b, i) {
		return false
	}
	w.Taken++
	return true
}

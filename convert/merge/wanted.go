package merge

import "github.com/cudatrace/cudatrace/record/tracelog"

// Wanted says which records of a log a filter wants, and counts them.
type Wanted struct {
	Filter *tracelog.Filter // nil wants all
	Taken  uint64           // records that the filter wanted
}

// Match says whether row i of a block is wanted.
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

package tracelog

import (
	"errors"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Faults of the blocks that describe other blocks.
var (
	errIndexWrong  = errors.New("an index does not match the blocks in front of it")
	errFooterWrong = errors.New("the footer does not match the blocks in front of it")
)

// A ledger is what a reader of a whole log knows of the blocks so far. It checks the index and
// the footer of a log without damage against them: other readings rely on the index.
type ledger struct {
	entries   []IndexEntry // of the record blocks since the last index block, in the order of the file
	more      bool         // there were more of them than an index block has rows
	directory []uint64     // as that of a footer
	totals    [256]uint64  // records by kind
}

// records notes a block of records.
func (l *ledger) records(b *Block) {
	l.totals[b.Kind] += uint64(b.N)
	if len(l.entries) == schema.MaxRows {
		l.more = true
		return
	}
	e := b.entry()
	e.From, e.To = b.Time()
	l.entries = append(l.entries, e)
}

// index checks an index block and starts the list of the next one. intact says that the log has
// no damage so far, v is its version.
func (l *ledger) index(d *decoding, intact bool, v blockfile.Version) error {
	var rows []IndexEntry
	err := d.dec.EachTable(d.Payload, func(t *columns.Table) error {
		for i := 0; i < t.Rows && t.Number == uint64(schema.Index); i++ {
			rows = append(rows, entryAt(t, i))
		}
		return nil
	})
	same := func(e, row IndexEntry) bool { return e.matches(&row, v) }
	if err == nil && intact && (l.more || !slices.EqualFunc(l.entries, rows, same)) {
		err = errIndexWrong
	}
	if len(l.directory) < 2*schema.MaxRows {
		l.directory = append(l.directory, uint64(d.Offset), uint64(len(rows)))
	}
	l.entries, l.more = l.entries[:0], false
	return err
}

// matches reports whether a row of an index of version v is that of a block. A newer version may know more fields of
// a block than this one.
func (e *IndexEntry) matches(row *IndexEntry, v blockfile.Version) bool {
	if v.Minor > blockfile.Current.Minor {
		return row.Kind == e.Kind && row.Rows == e.Rows
	}
	return *row == *e
}

// footer checks the footer of a log without damage.
func (l *ledger) footer(d *decoding, intact bool) error {
	var totals [256]uint64
	var directory []uint64
	err := d.dec.EachTable(d.Payload, func(t *columns.Table) error {
		first, second := t.Find(0), t.Find(1)
		for i := range t.Rows {
			switch Kind(min(t.Number, math.MaxUint8)) {
			case schema.Totals:
				totals[uint8(first.At(i))] = second.At(i)
			case schema.Directory:
				directory = append(directory, first.At(i), second.At(i))
			}
		}
		return nil
	})
	if err == nil && intact && (totals != l.totals || !slices.Equal(directory, l.directory)) {
		err = errFooterWrong
	}
	return err
}

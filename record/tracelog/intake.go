package tracelog

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An intake is a log as far as a reader has taken in its blocks: its schema, its strings, its
// damage and the block of records for the reader's caller.
type intake struct {
	filter    *Filter // nil wants all
	ledger    *ledger // nil for a reader of a part of the log
	rows      int64   // records so far
	refused   uint64  // of these, see refuse
	copies    bool    // blocks are copied as they are: no record is refused
	version   blockfile.Version
	footed    bool // the footer has been read
	described bool // blocks of records, or the schema, have been read
	schema    *columns.Schema
	strings   stringTable
	block     Block
	damage    Damage
	end       End
	ended     bool
}

func newIntake() intake { return intake{schema: columns.BuiltinSchema(), ledger: new(ledger)} }

// faults takes in what is wrong with the file in front of a block.
func (in *intake) faults(b *blockfile.Block) {
	for i := range b.Faults {
		in.damage.addFault(&b.Faults[i], in.ended)
	}
	in.damage.Count += b.MoreFaults
}

// admit checks and counts an intact block of a log of some size. It reports whether the block is for the
// reader's caller. A fault of the block is damage; the error is one of the whole log.
func (in *intake) admit(d *decoding, size int64) (given bool, err error) {
	given, fault := in.accept(d, size)
	if err := in.excess(size); err != nil {
		return false, err
	}
	if d.fault = fault; fault != nil {
		in.damage.addError(&CorruptError{d.Offset, blockfile.HeaderSize + int64(len(d.Payload)), fault.Error()})
	}
	return given, nil
}

// excess is the error of a log with more records than its size allows: a reader could spend any
// time on it.
func (in *intake) excess(size int64) error {
	if most := schema.MostRecords(size); in.rows > most {
		return fmt.Errorf("has more than %d records in its %d bytes: no recorder writes such a log", most, size)
	}
	return nil
}

// accept takes in an intact block and reports whether it is one for the caller. The error is a
// fault of the block.
func (in *intake) accept(d *decoding, size int64) (given bool, err error) {
	switch d.Type {
	case blockfile.Schema:
		return false, in.takeSchema(d)
	case blockfile.Records:
		in.described = true
		if d.fault != nil {
			return false, d.fault
		}
		return in.records(d, size)
	case blockfile.Index:
		if in.ledger != nil {
			return false, in.ledger.index(d, in.damage.Count == 0, in.version)
		}
	case blockfile.Footer:
		in.footed = true
		if in.ledger != nil {
			return false, in.ledger.footer(d, in.damage.Count == 0)
		}
	}
	return false, nil // a type of a newer version, or a description of other blocks
}

var errLateSchema = errors.New("a schema has records or another schema in front of it")

// takeSchema takes the schema block in. The blocks of records before it were read without it.
func (in *intake) takeSchema(d *decoding) error {
	s, err := columns.ParseSchema(d.dec, d.Payload)
	switch {
	case err != nil:
		return err
	case in.described:
		return errLateSchema
	}
	in.schema, in.described = s, true
	return nil
}

// records takes a table of records: strings into the string table, others into the block.
func (in *intake) records(d *decoding, size int64) (given bool, err error) {
	if d.table.Number >= uint64(schema.Kinds) {
		return false, columns.ErrSchema
	}
	b := &in.block
	*b = Block{Kind: Kind(d.table.Number), N: d.table.Rows, Offset: d.Offset, strings: &in.strings}
	in.fill(b, d)
	if err := cmp.Or(typed(b.table, d.table), keyed(b)); err != nil {
		return false, err
	}
	if b.Kind == KindString {
		if err := in.strings.addTexts(b, schema.MostStringBytes(size)); err != nil {
			return false, err
		}
	}
	in.rows += int64(b.N)
	if in.ledger != nil {
		in.ledger.records(b)
	}
	if !in.copies {
		in.refused += uint64(in.refuse(b, d))
	}
	if b.Kind == KindString || b.N == 0 {
		return false, nil
	}
	if b.Kind == KindEnd {
		in.end.Read(b, 0)
		in.ended = true
	}
	return in.filter == nil || in.filter.block(b), nil
}

var errType = errors.New("a column has texts in place of numbers, or numbers in place of texts")

// typed checks that a table has texts in the fields of texts and numbers in the others. described
// is the log's description of the table, nil without one.
func typed(described *schema.Table, t *columns.Table) error {
	for i, f := range t.Fields {
		if described != nil && f < uint64(len(described.Fields)) &&
			(described.Fields[f].Type == schema.Text) != (t.Columns[i].Texts != nil) {
			return errType
		}
	}
	return nil
}

var errKeys = errors.New("its records differ in a field that is a key")

// keyed checks that the records of a block are of one thread, one stream, one set of metrics.
func keyed(b *Block) error {
	l := schema.LayoutOf(b.Kind)
	if l == nil {
		return nil
	}
	for _, f := range l.Keys {
		for i := 1; i < b.N && b.own[f].Mask != 0; i++ {
			if b.at(f, i) != b.at(f, 0) {
				return errKeys
			}
		}
	}
	return nil
}

// fill sets the columns of the block: by the log's schema, and by this version's.
func (in *intake) fill(b *Block, d *decoding) {
	b.table = in.schema.Table(b.Kind)
	d.file = d.file[:0]
	for range schema.MaxColumns {
		d.file = append(d.file, columns.Zeros())
	}
	for i, f := range d.table.Fields {
		d.file[f] = d.table.Columns[i]
	}
	b.file = d.file
	l := schema.LayoutOf(b.Kind)
	if l == nil {
		return
	}
	d.own = d.own[:0]
	for _, from := range in.schema.PlacesOf(l) {
		c := columns.Zeros()
		if from >= 0 {
			c = b.file[from]
		}
		d.own = append(d.own, c)
	}
	b.own = d.own
}

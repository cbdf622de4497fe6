package parquetsink

import (
	"reflect"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/parquet"
)

// A buffer holds rows of a table until they are a row group. Each text is held once.
type buffer struct {
	table   *Table
	memory  *memory
	columns []column
	rows    int
	bytes   int // that the texts take
	log     string

	order []uint32     // of the rows, by time; nil if they are in it. Set by sort
	freed atomic.Int32 // columns

	texts  []string
	ids    map[string]uint32
	recent [64]numbered
}

// A numbered is a text and its number.
type numbered struct {
	text string
	id   uint32
}

// A column holds values: in the list for its type.
type column struct {
	wide   list[int64]
	small  list[uint32] // small numbers, and indexes of texts
	floats list[float64]
}

func newBuffer(t *Table, m *memory) *buffer {
	return &buffer{table: t, memory: m, columns: make([]column, len(t.Columns)), ids: make(map[string]uint32)}
}

// add adds rows of the table.
func (b *buffer) add(rows joined.Batch) {
	for at := 0; at < rows.N; {
		n := min(rows.N-at, blockRows-b.rows%blockRows)
		p := piece{b, rows.Part(at, n)}
		for i := range b.table.Columns {
			p.column(&b.table.Columns[i], &b.columns[i])
		}
		b.rows += n
		at += n
	}
}

// A piece is rows that a buffer takes at once.
type piece struct {
	*buffer
	rows joined.Batch
}

// Package joined and package parquet have the same values for no value, or this does not compile: columns are copied.
var _ = [1]struct{}{}[(joined.NoNumber-parquet.NullInt)|(joined.None-parquet.NullSmall)|(joined.None-parquet.NullText)]

// column adds the values of a column.
func (p *piece) column(of *Column, to *column) {
	b, m := p.buffer, p.memory
	switch {
	case of.Name == logID:
		id, room := b.id(b.log), to.small.room(b.rows, p.rows.N, &m.small)
		for i := range room {
			room[i] = id
		}
	case of.kind == reflect.Int64:
		joined.Copy(&p.rows, of.offset, to.wide.room(b.rows, p.rows.N, &m.wide))
	case of.kind == reflect.Uint32:
		joined.Copy(&p.rows, of.offset, to.small.room(b.rows, p.rows.N, &m.small))
	case of.kind == reflect.Float64:
		joined.Copy(&p.rows, of.offset, to.floats.room(b.rows, p.rows.N, &m.floats))
	case of.kind == reflect.Bool:
		for i, room := 0, to.wide.room(b.rows, p.rows.N, &m.wide); i < len(room); i++ {
			if room[i] = 0; *joined.Field[bool](&p.rows, of.offset, i) {
				room[i] = 1
			}
		}
	default:
		p.texts(of, to.small.room(b.rows, p.rows.N, &m.small))
	}
}

// texts sets the numbers of texts.
func (p *piece) texts(of *Column, to []uint32) {
	var last *string
	for i := range to {
		text := joined.Field[string](&p.rows, of.offset, i)
		switch {
		case last != nil && *text == *last:
			to[i] = to[i-1]
		case *text == "" && of.Nullable:
			to[i] = joined.None
		default:
			to[i] = p.id(*text)
		}
		last = text
	}
}

// id returns the number of a text.
func (b *buffer) id(s string) uint32 {
	if s == "" {
		return b.newID(s)
	}
	r := &b.recent[(len(s)+int(s[len(s)-1])+int(s[len(s)/2])<<2)%len(b.recent)]
	if r.text != s {
		*r = numbered{s, b.newID(s)}
	}
	return r.id
}

func (b *buffer) newID(s string) uint32 {
	id, ok := b.ids[s]
	if !ok {
		id = uint32(len(b.texts))
		b.ids[s], b.texts = id, append(b.texts, s)
		b.bytes += len(s) + textBytes
	}
	return id
}

// textBytes is what a text takes beside its characters.
const textBytes = 64

// size is what the buffer takes of the budget.
func (b *buffer) size() int {
	n := b.bytes
	for i := range b.columns {
		n += b.columns[i].size()
	}
	return n
}

func (c *column) size() int { return 8*c.wide.held + 4*c.small.held + 8*c.floats.held }

// clear forgets the values.
func (c *column) clear(m *memory) {
	c.wide.clear(&m.wide)
	c.small.clear(&m.small)
	c.floats.clear(&m.floats)
}

// free gives back the memory of a column, and, once, that of the texts; with the last column that of the order.
func (b *buffer) free(column int) {
	c := &b.columns[column]
	bytes := c.size()
	if column == 0 {
		bytes += b.bytes
	}
	c.clear(b.memory)
	b.memory.left(bytes)
	if int(b.freed.Add(1)) == len(b.columns) && b.order != nil {
		b.memory.orders.put(b.order)
		b.order = nil
	}
}

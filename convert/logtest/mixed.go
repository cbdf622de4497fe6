package logtest

import (
	"encoding/binary"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// Mixed makes a log as another writer might, by FORMAT.md alone: within each part, successive
// records of one kind are one block, whatever their threads and streams. The log has no schema,
// no index and no end.
func Mixed(t testing.TB, parts ...string) Opener {
	t.Helper()
	m := mixer{ids: make(map[string]uint64)}
	m.log = le.AppendUint16(le.AppendUint16([]byte("CUDATRC\n"), 2), 0)
	m.log = le.AppendUint32(m.log, checksum(m.log))
	g := newGrowing(t, tracelog.Options{RowsPerBlock: 1}) // the records of a text in its order
	r := g.Follow()
	for _, text := range parts {
		for g.Append(text); r.Next(); {
			m.record(r.Block())
		}
		m.block()
	}
	return InMemory(m.log)
}

// A mixer makes the blocks of a log.
type mixer struct {
	log  []byte
	seq  uint32
	ids  map[string]uint64 // of texts
	kind tracelog.Kind     // of the block that is being made
	rows [][]uint64
}

// record adds a record to the block in progress.
func (m *mixer) record(b *tracelog.Block) {
	if b.Kind != m.kind {
		m.block()
	}
	var row []uint64
	for i, f := range b.Fields() {
		c := b.FileColumn(i)
		v := c.At(0)
		if f.Type == schema.String {
			v = m.id(b.Text(v))
		}
		row = append(row, v)
	}
	m.kind, m.rows = b.Kind, append(m.rows, row)
}

// id returns the number of a text. A new text gets a block.
func (m *mixer) id(text string) uint64 {
	if text == "" {
		return 0
	}
	id, known := m.ids[text]
	if !known {
		id = uint64(len(m.ids) + 1)
		m.ids[text] = id
		table := appendColumn([]byte{byte(tracelog.KindString), 1, 2}, 0, constant, binary.AppendUvarint(nil, id))
		m.write(appendColumn(table, 1, texts, append(binary.AppendUvarint(nil, uint64(len(text))), text...)))
	}
	return id
}

// block writes the added records as one block.
func (m *mixer) block() {
	if len(m.rows) == 0 {
		return
	}
	table := []byte{byte(m.kind)}
	table = binary.AppendUvarint(table, uint64(len(m.rows)))
	table = append(table, byte(len(m.rows[0])))
	for field := range m.rows[0] {
		table = m.column(table, field)
	}
	m.write(table)
	m.rows = nil
}

// column appends a field of all records: one number if they share it, else a number each.
func (m *mixer) column(table []byte, field int) []byte {
	encoding, data := byte(constant), binary.AppendUvarint(nil, m.rows[0][field])
	for _, row := range m.rows[1:] {
		if row[field] != m.rows[0][field] {
			encoding = varint
		}
	}
	for _, row := range m.rows[1:] {
		if encoding == varint {
			data = binary.AppendUvarint(data, row[field])
		}
	}
	return appendColumn(table, field, encoding, data)
}

// Encodings of a column.
const (
	constant = 0 // one number for all rows
	varint   = 1 // a number for each row
	texts    = 5
)

func appendColumn(table []byte, field int, encoding byte, data []byte) []byte {
	table = append(table, byte(field), encoding)
	return append(binary.AppendUvarint(table, uint64(len(data))), data...)
}

// write writes a table as a block of records.
func (m *mixer) write(table []byte) {
	payload := append(binary.AppendUvarint(nil, uint64(len(table))), table...)
	header := le.AppendUint32([]byte{0xCD, 0x7A, 0xB1, 0x0C, 2, 0, 0, 0}, m.seq)
	header = le.AppendUint32(le.AppendUint32(header, uint32(len(payload))), checksum(payload))
	header = le.AppendUint32(header, checksum(header))
	m.log = append(append(m.log, header...), payload...)
	m.seq++
}

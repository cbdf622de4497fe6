package tracelog

import "encoding/binary"

// A groupKey says which open block a record goes to. Records that share it share
// the fields that take no room when they are equal, and their times follow
// each other closely. It is the kind, then the values of the grouping fields.
type groupKey [5]uint32

// recentGroups is the size of the table of groups used lately, which spares most
// records the look-up in the map of all.
const recentGroups = 256

// slot is the key's place in that table.
func (k *groupKey) slot() uint32 {
	h := k[0]
	for _, v := range k[1:] {
		h = (h ^ v) * 0x9E3779B1
	}
	return h >> 24 % recentGroups
}

// A group is an open block: its records as rows, one after the other.
type group struct {
	layout *layout
	key    groupKey
	data   []uint64
}

func (g *group) rows() int { return len(g.data) / len(g.layout.Fields) }

// flushSize is the number of bytes of finished blocks that are written together.
const flushSize = 128 << 10

// firstRows is the number of rows for which an open block has room at first.
const firstRows = 16

// add puts a record into its open block.
func (w *Writer) add(k Kind, r *row) {
	l := layouts[k]
	key := groupKey{uint32(k)}
	for i, f := range l.groups {
		key[i+1] = uint32(r[f])
	}
	g := w.recent[key.slot()]
	if g == nil || g.key != key {
		g = w.group(l, key)
	}
	width := len(l.Fields)
	if w.err == nil && len(g.data)+width > cap(g.data) {
		w.grow(g, width)
	}
	if w.err != nil { // making room failed, and dropped every open block
		w.dropped[k]++
		return
	}
	g.data = append(g.data, r[:width]...)
	if l.defines {
		w.defines++
	}
	if len(g.data) >= w.opt.RowsPerBlock*width {
		w.seal(g)
	}
	if len(w.buf) >= flushSize {
		w.emit()
	}
}

// group returns the open block of a key.
func (w *Writer) group(l *layout, key groupKey) *group {
	g := w.open[key]
	if g == nil {
		g = w.newGroup(l, key)
	}
	w.recent[key.slot()] = g
	return g
}

func (w *Writer) newGroup(l *layout, key groupKey) *group {
	if len(w.open) >= w.opt.MaxOpen {
		w.sealAll()
		w.forget()
	}
	g := &group{layout: l, key: key}
	w.open[key] = g
	w.order = append(w.order, g)
	return g
}

// grow doubles the room of a group, and first makes room elsewhere when all groups
// together would take too much.
func (w *Writer) grow(g *group, width int) {
	had := cap(g.data)
	want := min(max(2*had, firstRows*width), w.opt.RowsPerBlock*width)
	want = max(want, len(g.data)+width)
	if w.held+8*want > w.opt.MaxMemory {
		w.sealAll()
		for _, other := range w.order {
			other.data = nil
		}
		w.held, had = 0, 0
		want = firstRows * width
	}
	data := make([]uint64, len(g.data), want)
	copy(data, g.data)
	g.data = data
	w.held += 8 * (want - had)
}

// forget removes the groups that have no records, so that a thread that has ended
// costs nothing.
func (w *Writer) forget() {
	clear(w.recent[:])
	kept := w.order[:0]
	for _, g := range w.order {
		if len(g.data) > 0 {
			kept = append(kept, g)
			continue
		}
		w.held -= 8 * cap(g.data)
		delete(w.open, g.key)
	}
	clear(w.order[len(kept):])
	w.order = kept
}

// sealAll writes every open block to the buffer.
func (w *Writer) sealAll() {
	for _, g := range w.order {
		w.seal(g)
		if len(w.buf) >= flushSize {
			w.emit()
		}
		if w.err != nil {
			return
		}
	}
	w.sealStrings()
}

// seal writes the records of a group to the buffer as a block, behind the
// strings and the definitions that they refer to. Where the writing fails on the
// way, discard has counted them.
func (w *Writer) seal(g *group) {
	if len(g.data) == 0 || w.err != nil {
		return
	}
	if w.defines > 0 && !g.layout.defines {
		w.sealDefinitions()
	}
	w.sealStrings()
	if w.err != nil {
		return
	}
	if g.layout.defines {
		w.defines -= g.rows()
	}
	w.records(g.layout, g.data, nil)
	g.data = g.data[:0]
}

func (w *Writer) sealDefinitions() {
	for _, g := range w.order {
		if g.layout.defines {
			w.seal(g)
		}
	}
}

// stringsPerBlock and stringBytes bound a block of strings; one text may be longer.
const (
	stringsPerBlock = 8192
	stringBytes     = 1 << 20
)

// sealStrings writes the texts that are new.
func (w *Writer) sealStrings() {
	pending := w.in.pending
	id := uint64(len(w.in.ids) - len(pending))
	for len(pending) > 0 && w.err == nil {
		var rows []uint64
		n, size := 0, 0
		for n < min(len(pending), stringsPerBlock) && (n == 0 || size+len(pending[n]) <= stringBytes) {
			id++
			rows = append(rows, id, 0)
			size += len(pending[n])
			n++
		}
		w.records(layouts[KindString], rows, pending[:n])
		pending = pending[n:]
		if len(w.buf) >= flushSize {
			w.emit()
		}
	}
	clear(w.in.pending)
	w.in.pending = w.in.pending[:0]
}

// records appends a block of records to the buffer and notes it in the index.
func (w *Writer) records(l *layout, rows []uint64, texts []string) {
	w.noteBlock(l, rows)
	w.table = w.enc.appendSized(w.table[:0], l, rows, texts)
	w.block(blockRecords, w.table)
	n := uint64(len(rows) / len(l.Fields))
	w.queued = append(w.queued, queued{len(w.buf), l.Kind, n})
}

// appendSized appends a table preceded by its length.
func (e *encoder) appendSized(dst []byte, l *layout, rows []uint64, texts []string) []byte {
	e.sized = e.appendTable(e.sized[:0], l, rows, texts)
	dst = binary.AppendUvarint(dst, uint64(len(e.sized)))
	return append(dst, e.sized...)
}

package tracelog

import "github.com/cudatrace/cudatrace/record/tracelog/schema"

// A groupKey says which open block a record goes to. Records that share it share
// the fields that take no room when they are equal, and their times follow
// each other closely. It is the kind, then the values of the key's fields, of which
// there are at most schema.MaxKeys.
type groupKey [3]uint64

// keyOf is the key of a row.
func keyOf(l *schema.Layout, r *row) (k groupKey) {
	k[0] = uint64(l.Kind)
	for i, f := range l.Keys {
		at := uint(i+1) & 7
		k[at>>1%3] |= uint64(uint32(r[f&31])) << (at & 1 * 32)
	}
	return k
}

// recentGroups is the size of the table of groups used lately, which spares most
// records the look-up in the map of all. A key has two places in it.
const recentGroups = 1024

// slot is the key's first place in that table; the second is slot^1.
func (k *groupKey) slot() uint32 {
	h := k[0]*0x9E3779B97F4A7C15 ^ k[1]
	h = (h*0x9E3779B97F4A7C15 ^ k[2]) * 0x9E3779B97F4A7C15
	return uint32(h >> 54)
}

// A group is an open block.
type group struct {
	layout *schema.Layout
	key    groupKey
	rows   rowset
	since  uint64 // Writer.rows at the first of these
}

// firstRows is the number of rows for which an open block has room at first.
const firstRows = 16

// add puts a record into its open block.
func (w *Writer) add(k Kind, r *row) {
	l := schema.LayoutOf(k)
	key := keyOf(l, r)
	slot := key.slot()
	g := w.recent[slot]
	if g == nil || !g.key.is(&key) {
		g = w.group(l, key, slot)
	}
	if !g.rows.fits(r) {
		w.widen(g, r)
	}
	if g.rows.n == 0 {
		g.since = w.rows
	}
	g.rows.add(r)
	if l.Role == schema.Definition {
		w.defines++
	}
	if w.rows++; w.rows%(maxSpan/8) == 0 {
		w.sealOld()
	}
	if g.rows.n >= w.opt.RowsPerBlock {
		if k == KindFlushed {
			w.sealAll()
		}
		w.seal(g)
	}
	w.emitDue()
}

// is reports whether two keys are the same.
func (k *groupKey) is(o *groupKey) bool { return k[0] == o[0] && k[1] == o[1] && k[2] == o[2] }

// group returns the open block of a key that does not have the first of its places,
// and gives it that.
func (w *Writer) group(l *schema.Layout, key groupKey, slot uint32) *group {
	g := w.recent[slot^1]
	if g == nil || !g.key.is(&key) {
		g = w.openGroup(l, key)
	}
	w.recent[slot], w.recent[slot^1] = g, w.recent[slot]
	return g
}

// openGroup returns the open block of a key, which it makes if there is none.
func (w *Writer) openGroup(l *schema.Layout, key groupKey) *group {
	g := w.open[key]
	if g != nil {
		return g
	}
	if len(w.open) >= w.opt.MaxOpen {
		w.sealAll()
		w.forget()
	}
	g = &group{layout: l, key: key, rows: newRowset(len(l.Fields), key.slot())}
	w.open[key] = g
	w.order = append(w.order, g)
	return g
}

// widen makes a group ready for a row that does not fit. It first makes room
// elsewhere when all groups together would take too much.
func (w *Writer) widen(g *group, r *row) {
	for !g.rows.fits(r) {
		more := g.rows.needs(r, w.opt.RowsPerBlock)
		if w.held+more > w.opt.MaxMemory && w.held > 0 {
			w.sealAll()
			w.release()
			continue
		}
		g.rows.widen(r, w.opt.RowsPerBlock)
		w.held += more
	}
}

// release frees the memory of open blocks that have no records.
func (w *Writer) release() {
	for _, g := range w.order {
		if g.rows.n == 0 {
			w.held -= g.rows.memory()
			g.rows = newRowset(len(g.layout.Fields), g.key.slot())
		}
	}
}

// forget removes the groups that have no records, so that a thread that has ended
// costs nothing.
func (w *Writer) forget() {
	clear(w.recent[:])
	kept := w.order[:0]
	for _, g := range w.order {
		if g.rows.n > 0 {
			kept = append(kept, g)
			continue
		}
		w.held -= g.rows.memory()
		delete(w.open, g.key)
	}
	clear(w.order[len(kept):])
	w.order = kept
}

// sealAll makes blocks of all records, those last that say what the log has.
func (w *Writer) sealAll() {
	for _, said := range []bool{false, true} {
		for _, g := range w.order {
			if (g.layout.Kind == KindFlushed) == said {
				w.seal(g)
				w.emitDue()
			}
		}
	}
	w.sealStrings()
}

// maxSpan is how many records may come between the first of an open block and its end. A
// reader that wants all events in the order of time has to hold that many.
// Where there are many groups it is spanRows for each, as small blocks take room.
const (
	maxSpan  = 1 << 17
	spanRows = 128
)

// sealOld makes blocks of records that would otherwise wait long for others of their group.
func (w *Writer) sealOld() {
	span := uint64(max(maxSpan, spanRows*len(w.order)))
	for _, g := range w.order {
		if w.rows-g.since >= span && g.layout.Kind != KindFlushed {
			w.seal(g)
		}
	}
}

// seal makes a block of the records of a group, behind the strings and the
// definitions that they refer to.
func (w *Writer) seal(g *group) {
	if g.rows.n == 0 {
		return
	}
	if w.defines > 0 && g.layout.Role != schema.Definition {
		w.sealDefinitions()
	}
	w.sealStrings()
	if g.layout.Role == schema.Definition {
		w.defines -= g.rows.n
	}
	w.records(g.layout, &g.rows, nil)
	g.rows.n = 0
}

func (w *Writer) sealDefinitions() {
	for _, g := range w.order {
		if g.layout.Role == schema.Definition {
			w.seal(g)
		}
	}
}

// stringsPerBlock and stringBytes bound a block of strings; one text may be longer.
const (
	stringsPerBlock = 8192
	stringBytes     = 1 << 20
)

// sealStrings makes blocks of the texts that are new.
func (w *Writer) sealStrings() {
	pending := w.in.pending
	id := w.in.last - uint64(len(pending))
	for len(pending) > 0 {
		var rows []uint64
		n, size := 0, 0
		for n < min(len(pending), stringsPerBlock) && (n == 0 || size+len(pending[n]) <= stringBytes) {
			id++
			rows = append(rows, id, 0)
			size += len(pending[n])
			n++
		}
		l := schema.LayoutOf(KindString)
		w.records(l, w.enc.transpose(l, rows), pending[:n])
		pending = pending[n:]
		w.emitDue()
	}
	clear(w.in.pending)
	w.in.pending = w.in.pending[:0]
}

// records makes a block of records and notes it in the index. While the file
// cannot be written and too much waits for it already, the records are dropped.
func (w *Writer) records(l *schema.Layout, rows *rowset, texts []string) {
	if w.err != nil && len(w.buf) >= backlog(l) {
		w.drop(l, rows, texts)
		return
	}
	time := rows.span(l)
	w.noteBlock(l, rows, time)
	w.table = w.enc.appendSized(w.table[:0], l, rows, texts)
	w.block(blockRecords, w.table)
	w.queued = append(w.queued, queued{len(w.buf), l.Kind, uint64(rows.n), time})
}

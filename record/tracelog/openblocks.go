package tracelog

import (
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// openBlocks are the blocks that still take records: one for each kind, process and thread
// or stream. A block that is full, or has waited long, goes to a blockWriter.
type openBlocks struct {
	to     *blockWriter
	limits Options

	byKey       map[blockKey]*openBlock
	recent      [recentKeys]*openBlock
	list        []*openBlock // in the order in which they were opened
	memory      int          // bytes of their columns
	rows        uint64       // records so far
	definitions int          // records of definitions in open blocks
}

// An openBlock is a block that still takes records.
type openBlock struct {
	layout *schema.Layout
	key    blockKey
	rows   columns.Rows
	since  uint64 // openBlocks.rows at the first of these
}

// A blockKey says which open block a record goes to. It has the kind and the values of the key
// fields, at most schema.MaxKeys. Records with the same key take little room together: they
// have fields in common, and their times follow each other closely.
type blockKey [3]uint64

func keyOf(l *schema.Layout, r *columns.Row) (k blockKey) {
	k[0] = uint64(l.Kind)
	for i, f := range l.Keys {
		at := uint(i+1) & 7
		k[at>>1%3] |= uint64(uint32(r[f&31])) << (at & 1 * 32)
	}
	return k
}

// is reports whether two keys are the same.
func (k *blockKey) is(o *blockKey) bool { return k[0] == o[0] && k[1] == o[1] && k[2] == o[2] }

// recentKeys is the size of the table of recently used blocks, which spares most records the
// look-up in the map of all blocks. A key has two places in the table.
const recentKeys = 1024

// slot is the key's first place in that table; the second is slot^1.
func (k *blockKey) slot() uint32 {
	h := k[0]*0x9E3779B97F4A7C15 ^ k[1]
	h = (h*0x9E3779B97F4A7C15 ^ k[2]) * 0x9E3779B97F4A7C15
	return uint32(h >> 54)
}

// A block is finished, full or not, when about maxWait other records have come since its first:
// a reader that wants all events in the order of time has to hold that many. With many open
// blocks the wait is waitPerBlock for each, because small blocks take more room.
const (
	maxWait      = 1 << 17
	waitPerBlock = 128
)

// addRow puts a record into its open block.
func (o *openBlocks) addRow(k Kind, r *columns.Row) {
	l := schema.LayoutOf(k)
	key := keyOf(l, r)
	slot := key.slot()
	b := o.recent[slot]
	if b == nil || !b.key.is(&key) {
		b = o.block(l, key, slot)
	}
	if !b.rows.Fits(r) {
		o.widen(b, r)
	}
	if b.rows.Len() == 0 {
		b.since = o.rows
	}
	b.rows.Add(r)
	if l.Role == schema.Definition {
		o.definitions++
	}
	if o.rows++; o.rows%(maxWait/8) == 0 {
		o.finishOld()
	}
	if b.rows.Len() >= o.limits.RowsPerBlock {
		if l.Role == schema.Watermark {
			o.finishAll()
		}
		o.finish(b)
	}
	o.to.out.SendDue()
}

// block returns the open block of a key that is not at its first place in the table of recent
// blocks, and puts it there.
func (o *openBlocks) block(l *schema.Layout, key blockKey, slot uint32) *openBlock {
	b := o.recent[slot^1]
	if b == nil || !b.key.is(&key) {
		b = o.open(l, key)
	}
	o.recent[slot], o.recent[slot^1] = b, o.recent[slot]
	return b
}

// open returns the open block of a key. It makes one if there is none.
func (o *openBlocks) open(l *schema.Layout, key blockKey) *openBlock {
	if b := o.byKey[key]; b != nil {
		return b
	}
	if len(o.byKey) >= o.limits.MaxOpen {
		o.finishAll()
		o.forgetEmpty()
	}
	b := &openBlock{layout: l, key: key, rows: columns.NewRows(len(l.Fields), key.slot())}
	o.byKey[key] = b
	o.list = append(o.list, b)
	return b
}

// widen makes a block ready for a row that does not fit. It first makes room
// elsewhere when all blocks together would take too much.
func (o *openBlocks) widen(b *openBlock, r *columns.Row) {
	for !b.rows.Fits(r) {
		more := b.rows.Needs(r, o.limits.RowsPerBlock)
		if o.memory+more > o.limits.MaxMemory && o.memory > 0 {
			o.finishAll()
			o.releaseEmpty()
			continue
		}
		b.rows.Widen(r, o.limits.RowsPerBlock)
		o.memory += more
	}
}

// releaseEmpty frees the memory of blocks without records.
func (o *openBlocks) releaseEmpty() {
	for _, b := range o.list {
		if b.rows.Len() == 0 {
			o.memory -= b.rows.Memory()
			b.rows = columns.NewRows(len(b.layout.Fields), b.key.slot())
		}
	}
}

// forgetEmpty removes the blocks without records. So a thread that has ended costs nothing.
func (o *openBlocks) forgetEmpty() {
	clear(o.recent[:])
	kept := o.list[:0]
	for _, b := range o.list {
		if b.rows.Len() > 0 {
			kept = append(kept, b)
			continue
		}
		o.memory -= b.rows.Memory()
		delete(o.byKey, b.key)
	}
	clear(o.list[len(kept):])
	o.list = kept
}

// finishAll finishes all blocks, watermarks last.
func (o *openBlocks) finishAll() {
	for _, watermarks := range []bool{false, true} {
		for _, b := range o.list {
			if (b.layout.Role == schema.Watermark) == watermarks {
				o.finish(b)
				o.to.out.SendDue()
			}
		}
	}
	o.to.newStrings()
}

// finishOld finishes the blocks that have waited long for other records of their key.
func (o *openBlocks) finishOld() {
	wait := uint64(max(maxWait, waitPerBlock*len(o.list)))
	for _, b := range o.list {
		if o.rows-b.since >= wait && b.layout.Role != schema.Watermark {
			o.finish(b)
		}
	}
}

// finish hands the records of a block to the writer, behind the strings and the
// definitions that they refer to. The block stays open for others.
func (o *openBlocks) finish(b *openBlock) {
	if b.rows.Len() == 0 {
		return
	}
	if o.definitions > 0 && b.layout.Role != schema.Definition {
		o.finishDefinitions()
	}
	o.to.newStrings()
	if b.layout.Role == schema.Definition {
		o.definitions -= b.rows.Len()
	}
	o.to.records(b.layout, &b.rows, nil)
	b.rows.Clear()
}

func (o *openBlocks) finishDefinitions() {
	for _, b := range o.list {
		if b.layout.Role == schema.Definition {
			o.finish(b)
		}
	}
}

// discard removes all blocks.
func (o *openBlocks) discard() {
	o.byKey, o.list, o.memory, o.definitions = nil, nil, 0, 0
	clear(o.recent[:])
}

package tracelog

import (
	"io"
	"os"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A blockWriter makes blocks of rows and puts them into the outbox: first the strings that
// they use, now and then an index.
type blockWriter struct {
	out     blockfile.Outbox
	enc     *columns.Encoder
	strings interner
	index   indexEntries
	held    []heldBlock    // blocks without a place in the log, for which there was no room
	holds   int            // bytes of them
	waiting []waitingBatch // batches that may not be in the file yet
	lost    losses
	table   []byte // the table of records being made
	entries []byte // the table of an index or a footer being made

	count     int64 // records in blocks, strings included
	textBytes int64 // of the strings in blocks
}

func newBlockWriter(out io.Writer, name string, o Options) (*blockWriter, error) {
	enc, err := columns.NewEncoder()
	if err != nil {
		return nil, err
	}
	return &blockWriter{out: blockfile.NewOutbox(out, name), enc: enc,
		strings: newInterner(o.MaxStrings, o.MaxStringBytes)}, nil
}

// begin begins the log. There is an error where the file has no space for the end of the log.
func (w *blockWriter) begin(out io.Writer) error {
	if f, ok := out.(*os.File); ok {
		w.out.Reserve(f)
	}
	w.out.Begin(blockfile.Current)
	w.schema()
	w.out.Send()
	w.out.Room(schema.Statement, 0)
	return w.out.Err()
}

// schema writes the block that describes the records of this version.
func (w *blockWriter) schema() {
	w.out.Block(blockfile.Schema, columns.AppendSchema(nil, w.enc, schema.Records()))
}

// A heldBlock is a block of records without a place in the log.
type heldBlock struct {
	role    schema.Role
	payload []byte
	batch   batch
	entry   IndexEntry
	texts   []string // of a block of strings
}

// maxHeld is the number of bytes in held blocks from which on events are dropped. Other records refer to definitions,
// and statements say how complete the log is: these may take more.
const maxHeld = 8 << 20

// records makes a block of records. While there is no room for it the block is held. When too much is held, it
// drops and counts the records: they get no place in the log.
func (w *blockWriter) records(l *schema.Layout, rows *columns.Rows, texts []string) {
	time := spanOf(rows, l)
	b := heldBlock{l.Role, nil, batch{l.Kind, uint64(rows.Len()), time}, entryOf(l, rows, time), texts}
	if w.holds >= maxHeld && (l.Role == schema.Event || w.holds >= 4*maxHeld) {
		w.drop(&b)
		return
	}
	w.table = w.enc.AppendTable(w.table[:0], l, rows, texts)
	b.payload = w.table
	if len(w.held) == 0 && w.out.Room(b.role, w.sizeOf(&b)) {
		w.append(b.payload, b.batch, b.entry, texts)
		return
	}
	b.payload, b.texts = slices.Clone(b.payload), slices.Clone(texts)
	w.held = append(w.held, b)
	w.holds += len(b.payload)
}

// drop counts a block of records as lost.
func (w *blockWriter) drop(b *heldBlock) {
	w.lost.addBatch(b.batch)
	w.strings.unwritten(b.texts)
}

// release writes what waits, and gives held blocks a place as far as there is room now.
func (w *blockWriter) release() {
	w.out.Send()
	done := 0
	for ; done < len(w.held); done++ {
		b := &w.held[done]
		if !w.out.Room(b.role, w.sizeOf(b)) {
			break
		}
		w.append(b.payload, b.batch, b.entry, b.texts)
		w.holds -= len(b.payload)
		w.out.SendDue()
	}
	w.held = slices.Delete(w.held, 0, done)
}

// releaseLast gives held blocks a place in the space that is reserved for the end of the log, events where the other
// blocks behind them leave room for them. It drops the rest.
func (w *blockWriter) releaseLast() {
	others := 0
	for i := range w.held {
		if w.held[i].role != schema.Event {
			others += w.sizeOf(&w.held[i])
		}
	}
	for i := range w.held {
		b := &w.held[i]
		size := w.sizeOf(b)
		needs := size
		if b.role == schema.Event {
			needs += others
		} else {
			others -= size
		}
		if w.out.LastRoom(needs) {
			w.append(b.payload, b.batch, b.entry, b.texts)
		} else {
			w.drop(b)
		}
	}
	w.held, w.holds = nil, 0
	w.out.UseReserve()
}

// append appends a block of records with its entry in the index. texts are the strings in the block.
func (w *blockWriter) append(payload []byte, b batch, e IndexEntry, texts []string) {
	w.pad(payload, b, texts)
	w.note(e)
	w.out.Block(blockfile.Records, payload)
	if written := w.out.Written(); len(w.waiting) > 0 && w.waiting[0].end <= written {
		w.waiting = slices.DeleteFunc(w.waiting, func(old waitingBatch) bool { return old.end <= written })
	}
	w.waiting = append(w.waiting, waitingBatch{b, w.out.Offset()})
}

// zeros are what a block of padding has at most: enough for any block of records.
var zeros [1 << 20]byte

// pad makes the log long enough for a block of records. Readers hold a log with more records or strings than its size
// allows for a hostile one, and some records and strings take next to no room.
func (w *blockWriter) pad(payload []byte, b batch, texts []string) {
	padded := w.padding(payload, b, texts)
	w.count += int64(b.rows)
	w.textBytes += bytesOf(texts)
	if padded > 0 {
		w.out.Block(blockfile.Padding, zeros[:padded-blockfile.HeaderSize])
	}
}

// padding is the number of bytes of padding in front of a block of records, its header included.
func (w *blockWriter) padding(payload []byte, b batch, texts []string) int64 {
	end := w.out.Offset() + blockfile.HeaderSize + int64(len(payload))
	missing := schema.LeastSize(w.count+int64(b.rows), w.textBytes+bytesOf(texts)) - end
	if missing <= 0 {
		return 0
	}
	return max(missing, blockfile.HeaderSize)
}

// sizeOf is the number of bytes that a block takes in the log, with the padding in front of it.
func (w *blockWriter) sizeOf(b *heldBlock) int {
	return blockfile.HeaderSize + len(b.payload) + int(w.padding(b.payload, b.batch, b.texts))
}

func bytesOf(texts []string) (n int64) {
	for _, s := range texts {
		n += int64(len(s))
	}
	return n
}

// stringsPerBlock and stringBytes bound a block of strings; one text may be longer.
const (
	stringsPerBlock = 8192
	stringBytes     = 1 << 20
)

// newStrings makes blocks of the texts that are new.
func (w *blockWriter) newStrings() {
	pending := w.strings.pending
	id := w.strings.last - uint64(len(pending))
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
		w.records(l, w.enc.Transpose(l, rows), pending[:n])
		pending = pending[n:]
		w.out.SendDue()
	}
	clear(w.strings.pending)
	w.strings.pending = w.strings.pending[:0]
}

// note adds the block of records that is about to be appended to the index.
func (w *blockWriter) note(e IndexEntry) {
	if w.index.len() >= indexRows {
		w.indexBlock()
	}
	e.Offset = w.out.Offset()
	w.index.addEntry(&e)
}

// indexFlushed indexes the blocks that a flush has written, so that a log without a footer
// has an index nearly to its end.
func (w *blockWriter) indexFlushed() {
	if w.index.worthABlock() {
		w.indexBlock()
	}
}

// indexBlock appends the entries so far as an index block.
func (w *blockWriter) indexBlock() {
	if w.index.len() == 0 {
		return
	}
	l := schema.LayoutOf(schema.Index)
	w.entries = w.enc.AppendTable(w.entries[:0], l, w.enc.Transpose(l, w.index.rows), nil)
	at := w.out.Offset()
	w.out.Block(blockfile.Index, w.entries)
	w.index.written(at)
}

// finish appends the rest of the index, the footer and the trailer. The directory
// of a log with more index blocks than a table has rows ends early; a reader finds
// the others behind the last one in it.
func (w *blockWriter) finish() {
	w.indexBlock()
	footer := w.out.Offset()
	l := schema.LayoutOf(schema.Totals)
	w.entries = w.enc.AppendTable(w.entries[:0], l, w.enc.Transpose(l, w.index.totalRows()), nil)
	l = schema.LayoutOf(schema.Directory)
	directory := w.index.directory[:min(len(w.index.directory), 2*schema.MaxRows)]
	w.entries = w.enc.AppendTable(w.entries, l, w.enc.Transpose(l, directory), nil)
	w.out.Block(blockfile.Footer, w.entries)
	w.out.Trailer(footer)
}

// discard counts the records that never reached the file, and frees the memory.
func (w *blockWriter) discard() {
	for i := range w.held {
		w.lost.addBatch(w.held[i].batch)
	}
	w.held, w.holds = nil, 0
	w.out.Abandon()
	for _, b := range w.waiting {
		if b.end > w.out.Written() {
			w.lost.addBatch(b.batch)
		}
	}
	w.waiting = nil
	w.strings.forget()
}

// A batch says which records a block has: their kind, number and time.
type batch struct {
	kind Kind
	rows uint64
	time span
}

// A waitingBatch is in the file when its block has been written.
type waitingBatch struct {
	batch
	end int64 // offset of the end of its block
}

// losses counts the records that do not reach the file.
type losses struct {
	counts [256]uint64 // by kind
	time   span
}

func (l *losses) addBatch(b batch) {
	l.counts[b.kind] += b.rows
	l.time.join(b.time)
}

// byKind is the number of lost records by kind, nil if none is lost. It leaves out strings,
// which no caller adds.
func (l *losses) byKind() (m map[Kind]uint64) {
	for k, n := range l.counts {
		if n == 0 || Kind(k) == KindString {
			continue
		}
		if m == nil {
			m = make(map[Kind]uint64)
		}
		m[Kind(k)] = n
	}
	return m
}

// total is the number of lost records.
func (l *losses) total() (n uint64) {
	for _, count := range l.byKind() {
		n += count
	}
	return n
}

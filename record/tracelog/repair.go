package tracelog

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Repair is what Repair did.
type Repair struct {
	Records uint64 // kept
	Blocks  int    // of records, kept; texts and definitions among them
	Dropped int64  // bytes that are no intact block
	Missing uint64 // records that the log's index tells of and that are not kept
	Damage  Damage // what was wrong with the log
	Reason  string // in the End record of what was written: why it is not complete
}

// RepairFile writes a log that has every intact block of the one at path to out. It first
// makes a file beside out, which then takes the place of a regular file of that name, or of
// the one that a symbolic link of that name leads to. A log without damage is left as it is:
// then Repair.Damage.Count is 0 and nothing is written.
func RepairFile(path, out string) (*Repair, error) {
	r, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	target, err := replaceable(path, out)
	if err != nil {
		return nil, err
	}
	temp := PartialName(target, fmt.Sprintf("%d-%x", os.Getpid(), time.Now().UnixNano()))
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, createError(out, err)
	}
	done, err := RepairTo(f, out, r)
	if closing := f.Close(); err == nil && closing != nil {
		err = fmt.Errorf("cannot write %s: %w", out, bareRead(closing))
	}
	if err != nil || done.Damage.Count == 0 {
		os.Remove(temp)
		return done, err
	}
	if err := os.Rename(temp, target); err != nil {
		os.Remove(temp)
		return nil, createError(out, err)
	}
	return done, nil
}

// replaceable is the file that is to be replaced where out is named, which must be none
// that a repair could do harm to: the damaged log has what a later repair may still save,
// and may be growing.
func replaceable(path, out string) (string, error) {
	info, err := os.Stat(out)
	switch {
	case err != nil:
		return out, nil // nothing is in the way, or making the file says what
	case info.IsDir():
		return "", fmt.Errorf("cannot write %s: it is a folder (add a file's name)", out)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("cannot write %s: it is not a regular file (choose another name)", out)
	}
	if log, err := os.Stat(path); err == nil && os.SameFile(log, info) {
		return "", fmt.Errorf("cannot write %s: it is the damaged log itself (choose another name)", out)
	}
	if real, err := filepath.EvalSymlinks(out); err == nil {
		return real, nil
	}
	return out, nil
}

// RepairTo writes a log that has every intact block of another one to out, which
// messages call name: with a note that says so, a new index, and an End record that says
// why it is not complete. r must be new.
func RepairTo(out io.Writer, name string, r *Reader) (*Repair, error) {
	w, err := emptyWriter(out, name, Options{})
	if err != nil {
		return nil, err
	}
	m := mender{r: r, w: w}
	m.want = m.r.totals()
	for !r.done && w.err == nil {
		r.take()
		if r.use(r.task); !r.task.end && r.task.err == nil {
			m.piece(r.task)
		}
	}
	if r.err != nil {
		return nil, r.Err()
	}
	m.finish()
	return &m.done, w.err
}

// totals are the numbers of records that the footer tells of, nil without one.
func (r *Reader) totals() map[Kind]uint64 {
	totals := make(map[Kind]uint64)
	if _, _, err := r.src.footer(totals); err != nil {
		return nil
	}
	return totals
}

// A mender copies intact blocks from a reader to a writer.
type mender struct {
	r    *Reader
	w    *Writer
	want map[Kind]uint64 // records by kind, as the footer tells; nil without
	done Repair
	time span
	read int64 // bytes of the log that are in intact blocks
}

func (m *mender) piece(t *task) {
	if t.fault != nil {
		return
	}
	m.read += blockHeaderSize + int64(len(t.payload))
	m.begin(t)
	switch {
	case t.head.kind == blockIndex, t.head.kind == blockFooter:
	case t.head.kind != blockRecords:
		m.w.block(t.head.kind, t.payload)
	case t.table != nil && Kind(t.table.number) != KindEnd:
		m.records(t)
	}
	m.w.emitDue()
}

// begin writes the header, and a schema where the log has lost its own.
func (m *mender) begin(t *task) {
	if m.w.off > 0 {
		return
	}
	m.w.buf = appendHeader(m.w.buf, m.r.minor)
	m.w.off = headerSize
	if t == nil || t.head.kind != blockSchema {
		m.w.block(blockSchema, m.w.enc.appendSchema(nil, schema.Records()))
	}
}

// records copies a block of records, with a new entry in the index.
func (m *mender) records(t *task) {
	b := &m.r.block
	rows := uint64(b.N)
	e := b.entry()
	e.From, e.To = b.Time()
	m.time.join(span{e.From, e.To})
	m.w.noteEntry(&e)
	m.w.block(blockRecords, t.payload)
	m.w.queued = append(m.w.queued, queued{len(m.w.buf), b.Kind, rows, span{e.From, e.To}})
	m.done.Blocks++
	if b.Kind != KindString {
		m.done.Records += rows
	}
	if m.want[b.Kind] >= rows {
		m.want[b.Kind] -= rows
	}
}

// finish adds what the repair says of itself.
func (m *mender) finish() {
	m.begin(nil)
	m.done.Damage = m.r.damage
	m.done.Dropped = max(m.r.Size()-m.read-headerSize, 0)
	if m.r.footed {
		m.done.Dropped = max(m.done.Dropped-trailerSize, 0)
	}
	for k, n := range m.want {
		if k != KindString && k != KindEnd {
			m.done.Missing += n
		}
	}
	end := m.r.end
	if !m.r.ended {
		end.Time = m.time.to
	}
	m.done.Reason = m.reason()
	end.spoil(m.done.Reason)
	// A log with as many texts as there can be gives up its last two, behind all
	// records that use them.
	m.w.in.last = uint64(min(len(m.r.strings.texts), schema.MaxStrings-2))
	note := Note{Time: end.Time, Severity: NoteWarning, Text: m.done.Reason}
	var first, last row
	note.fill(&first, &m.w.in)
	end.fill(&last, &m.w.in)
	m.w.sealStrings()
	m.put(KindNote, &first)
	m.put(KindEnd, &last)
	m.w.footer()
	m.w.emit()
}

// put adds a record of our own, with its fields where the log's schema has them.
func (m *mender) put(k Kind, r *row) {
	l := schema.LayoutOf(k)
	if file := m.r.schema[k]; file != nil && file != l.Table {
		var moved row
		for i, to := range mapping(l, file) {
			if to >= 0 && to < len(moved) {
				moved[to] = r[i]
			}
		}
		fields := file.Fields[:min(len(file.Fields), len(moved))]
		l, r = schema.NewLayout(&schema.Table{Kind: k, Fields: fields}), &moved
		l.Texts = nil // we have none
	}
	rows := newRowset(len(l.Fields), 0)
	rows.add(r)
	m.w.records(l, &rows, nil)
}

// reason says why the repaired log is not complete.
func (m *mender) reason() string {
	why := "the log was repaired: its recording did not finish or its end was cut off"
	if m.r.ended {
		why = "the log was repaired"
	}
	if m.done.Dropped > 0 {
		why += fmt.Sprintf("; %d damaged bytes were left out", m.done.Dropped)
	}
	if m.done.Missing > 0 {
		why += fmt.Sprintf(", %d records with them", m.done.Missing)
	}
	return why
}

package tracelog

import (
	"io"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Repair says what was kept and what was lost in the repair of a log.
type Repair struct {
	Records uint64 // kept
	Blocks  int    // of records, kept; blocks of strings count
	Dropped int64  // bytes that are not in an intact block
	Missing uint64 // records that the log's footer counts and that are not kept
	Damage  Damage // what was wrong with the log
	Reason  string // why the repaired log is not complete; it is in its End record
}

// RepairTo writes a log with every intact block of another one to out, which messages call
// name. It adds a note that the log was repaired, a new index, and an End record that says why
// the log is not complete. r must be new.
func RepairTo(out io.Writer, name string, r *Reader) (*Repair, error) {
	w, err := newBlockWriter(out, name, Options{}.withDefaults())
	if err != nil {
		return nil, err
	}
	r.log.copies = true
	m := mender{r: r, w: w, totals: totals(r.src)}
	for !r.done && w.out.Err() == nil {
		r.takeBlock()
		if r.use(r.current); !r.current.End && r.current.Err == nil {
			m.block(r.current)
		}
	}
	if r.err != nil {
		return nil, r.Err()
	}
	m.finish()
	return &m.done, w.out.Err()
}

// totals are the numbers of records by kind in a log's footer, nil without one.
func totals(src *blockfile.Source) map[Kind]uint64 {
	dec, err := columns.NewDecoder()
	if err != nil {
		return nil
	}
	f, err := readFooter(src, dec)
	if err != nil {
		return nil
	}
	return f.totals
}

// repairStrings is the number of texts that a repair adds.
const repairStrings = 2

// A mender copies intact blocks from a reader to a writer.
type mender struct {
	r       *Reader
	w       *blockWriter
	totals  map[Kind]uint64 // records by kind that the footer counts and that are not copied yet; nil without a footer
	done    Repair
	open    OpenCalls
	latest  span
	intact  int64 // bytes of the log that are in intact blocks
	started bool
}

// block copies a block. The index, the footer and padding are made anew.
func (m *mender) block(d *decoding) {
	if d.fault != nil {
		return
	}
	m.intact += d.Size()
	m.start(d.Type)
	switch {
	case d.Type == blockfile.Index, d.Type == blockfile.Footer, d.Type == blockfile.Padding:
	case d.Type != blockfile.Records:
		m.w.out.Block(d.Type, d.Payload)
	case d.table != nil && Kind(d.table.Number) != KindEnd:
		m.records(d)
	}
	m.w.out.SendDue()
}

// start writes the header. It adds a schema where the log has lost its own, which shows in
// the type of the first block.
func (m *mender) start(first uint8) {
	if m.started {
		return
	}
	m.started = true
	m.w.out.Begin(m.r.log.version)
	if first != blockfile.Schema {
		m.w.schema()
	}
}

// records copies a block of records, with a new entry in the index.
func (m *mender) records(d *decoding) {
	b := &m.r.log.block
	e := b.entry()
	e.From, e.To = b.Time()
	time := span{e.From, e.To}
	m.latest.join(time)
	var texts []string
	switch b.Kind {
	case KindString:
		texts = b.own[1].Texts
	case KindOpenCall:
		for i := range b.N {
			m.open.Learn(b, i)
		}
	case KindCall, KindAPI:
		m.open.Take(b)
	}
	m.w.append(d.Payload, batch{b.Kind, e.Rows, time}, e, texts)
	m.done.Blocks++
	if b.Kind != KindString {
		m.done.Records += e.Rows
	}
	if m.totals[b.Kind] >= e.Rows {
		m.totals[b.Kind] -= e.Rows
	}
}

// finish counts what is missing, and ends the log.
func (m *mender) finish() {
	m.start(0)
	m.done.Damage = m.r.log.damage
	m.done.Dropped = max(m.r.Size()-m.intact-blockfile.FileHeaderSize, 0)
	if m.r.log.footed {
		m.done.Dropped = max(m.done.Dropped-blockfile.TrailerSize, 0)
	}
	for k, n := range m.totals {
		if k != KindString && k != KindEnd {
			m.done.Missing += n
		}
	}
	m.done.Reason = m.reason()
	end := m.r.log.end
	if !m.r.log.ended {
		end.Time = m.latest.to
		m.endOpenCalls()
	}
	end.spoil(m.done.Reason)
	m.end(end)
}

// endOpenCalls adds a record of each call that had not returned: a log with an end has them.
func (m *mender) endOpenCalls() {
	all, names := m.open.All(), map[string]bool{}
	for _, o := range all {
		names[o.Name] = true
	}
	for i, text := range m.r.log.strings.texts {
		if names[text] {
			m.w.strings.ids[text] = uint64(i + 1) // the log has it
		}
	}
	for _, o := range all {
		var row columns.Row
		if o.Name != "" {
			a := API{
				PID: o.PID, TID: o.TID, Domain: DomainDriver, Name: o.Name, Start: o.Enter, Caller: o.Caller, Flags: CallUnfinished,
			}
			a.fill(&row, &m.w.strings)
			m.put(KindAPI, &row)
			continue
		}
		c := Call{
			PID: o.PID, TID: o.TID, Func: o.Func, Flags: CallUnfinished, Enter: o.Enter, Caller: o.Caller, NArgs: MaxArgs,
			Args: o.Args,
		}
		for c.NArgs > 0 && c.Args[c.NArgs-1] == 0 {
			c.NArgs--
		}
		c.fill(&row, &m.w.strings)
		m.put(KindCall, &row)
	}
}

// end adds what the repair says of itself: a note and the End record.
func (m *mender) end(end End) {
	// In a log with the largest number of texts, ours replace the last two. They stand
	// behind all records that use those.
	m.w.strings.last = uint64(min(len(m.r.log.strings.texts), schema.MaxStrings-repairStrings))
	note := Note{Time: end.Time, Severity: NoteWarning, Text: m.done.Reason}
	var first, last columns.Row
	note.fill(&first, &m.w.strings)
	end.fill(&last, &m.w.strings)
	m.w.newStrings()
	m.put(KindNote, &first)
	m.put(KindEnd, &last)
	m.w.finish()
	m.w.out.Send()
}

// put adds a record. It puts each field where the log's own schema has it.
func (m *mender) put(k Kind, r *columns.Row) {
	l := schema.LayoutOf(k)
	if file := m.r.log.schema.Table(k); file != l.Table {
		var moved columns.Row
		for i, to := range m.r.log.schema.PlacesOf(l) {
			if to >= 0 && to < len(moved) {
				moved[to] = r[i]
			}
		}
		fields := file.Fields[:min(len(file.Fields), len(moved))]
		l, r = schema.NewLayout(&schema.Table{Kind: k, Fields: fields}), &moved
		l.Texts = nil // this version's texts are not in the log
	}
	rows := columns.NewRows(len(l.Fields), 0)
	rows.Add(r)
	m.w.records(l, &rows, nil)
}

// reason says why the repaired log is not complete.
func (m *mender) reason() string {
	why := "the log was repaired: its recording did not finish or its end was cut off"
	if m.r.log.ended {
		why = "the log was repaired"
	}
	if m.done.Dropped > 0 {
		why += "; " + count(int64(m.done.Dropped), "damaged byte was", "damaged bytes were") + " left out"
	}
	if m.done.Missing > 0 {
		why += ", " + count(int64(m.done.Missing), "record", "records") + " with them"
	}
	return why
}

package tracelog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// readerSeeds are the named inputs of FuzzReader: intact logs, logs of other
// versions, and every way in which a log can be wrong.
func readerSeeds(t testing.TB) map[string][]byte {
	seeds := map[string][]byte{
		"intact":        smallLog(t),
		"launches":      launches(t, 60),
		"header_only":   appendHeader(nil, VersionMinor),
		"empty":         nil,
		"text":          []byte("not a log at all, but long enough for one"),
		"newer_version": append(appendHeader(nil, VersionMinor)[:8], 7, 0, 0, 0, 0, 0, 0, 0),
	}
	for _, c := range damagedLogs(t) {
		seeds[c.name] = c.log
	}
	return seeds
}

// The seeds are kept as files, which fuzzing and every test run begin with; -update
// writes those of this version.
func TestReaderSeeds(t *testing.T) {
	seeds := readerSeeds(t)
	seeds["newer_minor_version"] = newerVersion(t)
	for name, log := range seeds {
		path := filepath.Join("testdata", "fuzz", "FuzzReader", name)
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, fmt.Appendf(nil, "go test fuzz v1\n[]byte(%q)\n", log), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("seed %s: %v", name, err)
		}
	}
}

// mend makes the checksums of all blocks right, so that what is changed behind
// them is looked at.
func mend(log []byte) []byte {
	log = bytes.Clone(log)
	for at := headerSize; at+blockHeaderSize <= len(log); {
		next := bytes.Index(log[at:], marker)
		if next < 0 || at+next+blockHeaderSize > len(log) {
			break
		}
		at += next
		length := le.Uint32(log[at+12:])
		if uint64(length) > uint64(len(log)-at-blockHeaderSize) {
			at++
			continue
		}
		payload := log[at+blockHeaderSize:][:length]
		le.PutUint32(log[at+16:], checksum(payload))
		le.PutUint32(log[at+20:], checksum(log[at:at+20]))
		at += blockHeaderSize + int(length)
	}
	return log
}

// fuzzRows bounds the records of one input that are looked at: a few bytes can
// stand for very many equal ones.
const fuzzRows = 300_000

func exercise(t *testing.T, log []byte) {
	r, err := NewReader(bytes.NewReader(log), int64(len(log)), "fuzz")
	if err != nil {
		return
	}
	last, rows, ends := int64(-1), 0, 0
	for rows < fuzzRows && r.Next() {
		b := r.Block()
		if b.Offset <= last || b.N < 1 || b.N > schema.MaxRows {
			t.Fatalf("block at %d of %d rows behind the one at %d", b.Offset, b.N, last)
		}
		last = b.Offset
		if rows += b.N; b.Kind == KindEnd {
			ends += b.N
		}
		if from, to := b.Time(); from > to {
			t.Fatalf("a block is from %d to %d", from, to)
		}
		b.PID()
		if b.Known() && b.Kind != KindEnd {
			record := NewRecord(b.Kind)
			for i := 0; i < b.N; i += 1 + b.N/100 {
				record.Read(b, i)
			}
		}
	}
	if (r.Err() != nil) != (r.Damage().Count > 0) || r.Damage().String() == "" {
		t.Fatalf("error %v, damage %v", r.Err(), r.Damage())
	}
	if index, err := r.Index(); err == nil && len(index.Blocks) > len(log)/blockHeaderSize {
		t.Fatalf("%d blocks in %d bytes", len(index.Blocks), len(log))
	}
	exerciseSelect(t, log)
	if rows < fuzzRows {
		exerciseRepair(t, log, rows-ends, r)
	}
	if r, err = NewReader(bytes.NewReader(log), int64(len(log)), "fuzz"); err != nil {
		t.Fatal(err)
	}
	if err := Dump(&failingWriter{1 << 20}, r); err != nil && err != errFull {
		t.Fatal(err)
	}
}

// exerciseSelect reads a part by the index, and keeps blocks. (Other goroutines would
// make the coverage, by which inputs are chosen, a matter of chance.)
func exerciseSelect(t *testing.T, log []byte) {
	r := openBytes(t, log)
	defer r.Close()
	f := Filter{Kinds: []Kind{KindCall, KindKernel, KindNote, 77}, From: 1, To: 1 << 50, PIDs: []uint32{1, 12, 4711}}
	if err := r.Select(f); err != nil {
		return
	}
	var kept []*Block
	for rows := 0; rows < fuzzRows && r.Next(); rows += r.Block().N {
		if b := r.Block(); len(f.Kinds) > 0 && b.Kind != KindCall && b.Kind != KindKernel && b.Kind != KindNote && b.Kind != 77 {
			t.Fatalf("%v records were not asked for", b.Kind)
		}
		if kept = append(kept, r.Keep()); len(kept) > 3 {
			kept[0].Release()
			kept = kept[1:]
		}
	}
	for _, b := range kept {
		for i := 0; i < b.N; i += 1 + b.N/100 {
			if f.Match(b, i) && b.Kind == KindCall {
				new(Call).Read(b, i)
			}
		}
		b.Release()
	}
}

// exerciseRepair repairs a log that has been read, with so many records but for its end:
// the result has them, a note, one end, and no damage.
func exerciseRepair(t *testing.T, log []byte, rows int, read *Reader) {
	fixed, done := repairOf(t, log)
	r := openBytes(t, fixed)
	if n := survivors(r); n != rows+2 || r.Err() != nil || done.Damage.Count != read.Damage().Count {
		t.Fatalf("%d records were %d; error %v; damage was %v", n, rows+2, r.Err(), read.Damage())
	}
}

// No input makes the reader panic, hang or give what it must not.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, log []byte) {
		exercise(t, log)
		exercise(t, mend(log))
	})
}

// No table makes the decoder panic, and what it gives has the rows that it says.
func FuzzTable(f *testing.F) {
	e, err := newEncoder()
	if err != nil {
		f.Fatal(err)
	}
	w := newWorkload()
	var rows []uint64
	for range 100 {
		w.step()
		var r row
		w.call.fill(&r, nil)
		rows = append(rows, r[:len(schema.LayoutOf(KindCall).Fields)]...)
	}
	f.Add(e.appendTable(nil, schema.LayoutOf(KindCall), e.transpose(schema.LayoutOf(KindCall), rows), nil))
	f.Add(e.appendTable(nil, schema.LayoutOf(KindString), e.transpose(schema.LayoutOf(KindString), []uint64{1, 0, 2, 0}), []string{"a", ""}))
	d, err := newDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		table, err := d.decode(b)
		if err != nil {
			return
		}
		for i := range table.cols {
			c := &table.cols[i]
			c.at(table.rows - 1)
			if c.texts != nil {
				c.text(table.rows - 1)
			}
		}
	})
}

// Any numbers come back from a table as they were.
func FuzzColumns(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 9}, byte(1))
	f.Add(bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0, 0xFF}, 80), byte(3))
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{
		{Name: "a", Type: schema.Hex}, {Name: "b", Type: schema.Time}, {Name: "c", Type: schema.Dur}, {Name: "d", Type: schema.Uint}}})
	e, err := newEncoder()
	if err != nil {
		f.Fatal(err)
	}
	d, err := newDecoder()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte, size byte) {
		step := 1 + int(size)%8
		var rows []uint64
		for len(b) >= step && len(rows) < 4*schema.MaxRows {
			var v [8]byte
			copy(v[:], b[:step])
			rows, b = append(rows, le.Uint64(v[:])), b[step:]
		}
		rows = rows[:len(rows)/4*4]
		if len(rows) == 0 {
			return
		}
		table, err := d.decode(e.appendTable(nil, l, e.transpose(l, rows), nil))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(rowsOf(table, 4), rows) {
			t.Fatal("the rows are not what they were")
		}
	})
}

// Any text is refused or becomes a log whose text is the same when it has been a log again.
func FuzzAssemble(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "all.txt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(golden))
	for line := range strings.Lines(string(golden)) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		w, err := NewWriter(&out, Options{})
		if err != nil {
			t.Fatal(err)
		}
		end, err := Assemble(strings.NewReader(text), w)
		if err != nil {
			return
		}
		if err := w.Close(end); err != nil {
			t.Fatal(err)
		}
		first := dump(t, out.Bytes())
		second := dump(t, assemble(t, first))
		if !slices.Equal(sortedLines(first), sortedLines(second)) {
			t.Fatalf("first\n%s\nthen\n%s", first, second)
		}
	})
}

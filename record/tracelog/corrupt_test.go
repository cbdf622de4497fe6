package tracelog

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
	"github.com/klauspost/compress/zstd"
)

// smallLog has a few blocks of every sort: 10 notes a block, then calls and kernels.
func smallLog(t testing.TB) []byte {
	t.Helper()
	w, out := newTestWriter(t, Options{RowsPerBlock: 10})
	for i := range uint64(40) {
		w.Add(&Note{Time: 1000 + i, Text: fmt.Sprint("note ", i%3)})
	}
	for i := range uint64(25) {
		w.Add(&Call{PID: 1, TID: 2, Func: 3, Enter: 2000 + i*i*7%1000, Dur: i, NArgs: 2, Args: [MaxArgs]uint64{i, i * i}})
		w.Add(&Kernel{GPU: GPU{PID: 1, Start: 3000 + i}, Name: "k"})
	}
	must.Do(t, w.Close(End{Time: 9999, Complete: 1}))
	return out.Bytes()
}

// A place is a block of a log: its first byte, and the byte behind it.
type place struct {
	from, to int
	header   blockfile.Header
	records  int // that callers see
}

// blocksOf lists the blocks of an intact log.
func blocksOf(t testing.TB, log []byte) []place {
	t.Helper()
	var list []place
	for at := blockfile.FileHeaderSize; at < len(log)-blockfile.TrailerSize; {
		h, ok := blockfile.ParseHeader(log[at:])
		if !ok {
			t.Fatalf("there is no block at byte %d", at)
		}
		p := place{from: at, to: at + int(h.Size()), header: h}
		list = append(list, p)
		at = p.to
	}
	r := openBytes(t, log)
	for r.Next() {
		for i := range list {
			if int64(list[i].from) == r.Block().Offset {
				list[i].records = r.Block().N
			}
		}
	}
	return list
}

// survivors reads everything and returns the number of records.
func survivors(r *Reader) (n int) {
	for r.Next() {
		n += r.Block().N
	}
	return n
}

// A log cut at any byte gives every block before the cut and says what is missing.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	log := smallLog(t)
	blocks := blocksOf(t, log)
	for cut := range len(log) {
		r, err := NewReader(bytes.NewReader(log[:cut]), int64(cut), "cut.cudatrace")
		if cut < blockfile.FileHeaderSize {
			var early *TruncatedError
			if cut == 0 && !errors.Is(err, ErrEmpty) || cut > 0 && !errors.As(err, &early) {
				t.Errorf("cut at %d: error %v", cut, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := 0
		for _, b := range blocks {
			if b.to <= cut {
				want += b.records
			}
		}
		if got := survivors(r); got != want {
			t.Errorf("cut at %d: %d records, want %d", cut, got, want)
		}
		var early *TruncatedError
		if !errors.As(r.Err(), &early) || r.Damage().Count != 1 || !strings.Contains(early.Error(), "byte") {
			t.Errorf("cut at %d: error %v", cut, r.Err())
		}
	}
}

// A flipped byte costs the block that it is in and no other, and is reported with
// the block's offset.
func TestFlipAnywhere(t *testing.T) {
	t.Parallel()
	log := smallLog(t)
	blocks := blocksOf(t, log)
	all := survivors(openBytes(t, log))
	for at := range log {
		bad := bytes.Clone(log)
		bad[at] ^= 1
		r, err := NewReader(bytes.NewReader(bad), int64(len(bad)), "flip.cudatrace")
		if at == 8 || at == 9 { // the version
			if !errors.Is(err, ErrNewer) {
				t.Errorf("byte %d: error %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("byte %d: %v", at, err)
		}
		want, offset := all, int64(0)
		for _, b := range blocks {
			if b.from <= at && at < b.to {
				want, offset = all-b.records, int64(b.from)
			}
		}
		if at >= len(log)-blockfile.TrailerSize {
			offset = int64(len(log) - blockfile.TrailerSize)
		}
		if got := survivors(r); got != want {
			t.Errorf("byte %d: %d records, want %d", at, got, want)
		}
		var corrupt *CorruptError
		if !errors.As(r.Err(), &corrupt) || corrupt.Offset != offset {
			t.Errorf("byte %d in the block at %d: error %v", at, offset, r.Err())
		}
	}
}

// A lost block of strings leaves the records, with names that say so.
func TestLostStrings(t *testing.T) {
	log := smallLog(t)
	log[blocksOf(t, log)[1].from+blockfile.HeaderSize] ^= 1
	r := openBytes(t, log)
	var n Note
	for r.Next() {
		if r.Block().Kind == KindNote {
			n.Read(r.Block(), 0)
			if n.Text != lostText {
				t.Errorf("text is %q", n.Text)
			}
		}
	}
	if r.Err() == nil {
		t.Error("nothing is said of the lost strings")
	}
}

// withBlock appends a block with right checksums to the blocks of a log.
func withBlock(log []byte, typ uint8, seq uint32, payload []byte) []byte {
	return blockfile.AppendBlock(bytes.Clone(log), typ, seq, payload)
}

// Encodings of columns, as FORMAT.md numbers them.
const (
	reprConst  = 0
	reprVarint = 1
	reprDict   = 2
	reprSplit  = 3
	reprLookup = 4
	reprText   = 5
	relDelta   = 1 << 4
	relDelta2  = 2 << 4
	relGap     = 3 << 4
	relMedian  = 4 << 4
	packed     = 0x80
)

// oneTable is the payload with one table.
func oneTable(table ...byte) []byte { return append([]byte{byte(len(table))}, table...) }

// A damagedLog is a log made wrong in one way, with what can still be read of it.
type damagedLog struct {
	name    string
	log     []byte
	records int
	says    string // part of the first error
	count   int    // of all errors
}

// damagedLogs names the ways in which a log can be wrong. Its cases are the seeds
// of the fuzzer too.
func damagedLogs(t testing.TB) []damagedLog {
	log := smallLog(t)
	blocks := blocksOf(t, log)
	all := survivors(openBytes(t, log))
	last := blocks[len(blocks)-1]
	footless := log[:blocks[len(blocks)-2].from] // without index, footer and trailer
	seq := uint32(len(blocks) - 2)
	patch := func(at int, b ...byte) []byte {
		bad := bytes.Clone(log)
		copy(bad[at:], b)
		return bad
	}
	cutOut := func(from, to int) []byte { return append(bytes.Clone(log[:from]), log[to:]...) }
	insert := func(at int, b []byte) []byte {
		return append(append(bytes.Clone(log[:at]), b...), log[at:]...)
	}
	sixth, seventh := blocks[5], blocks[6]
	payload := func(b place) []byte { return log[b.from+blockfile.HeaderSize : b.to] }
	records := func(table ...byte) []byte { return withBlock(footless, blockfile.Records, seq, oneTable(table...)) }
	// const column 0 of 1 row; a column is field, encoding, length, data
	return []damagedLog{
		{"torn_last_block", log[:last.to-5], all, "the log ends in the middle of a block", 1},
		{"torn_trailer", log[:len(log)-1], all, "the log ends in the middle of its trailer", 1},
		{"no_footer", footless, all, "the log ends before its footer", 1},
		{"not_finished", log[:blocks[len(blocks)-3].from], all - 1, "without an end record", 1},
		{"bad_checksum", patch(sixth.to-1, log[sixth.to-1]^1), all - sixth.records, "the checksum of a block is wrong", 1},
		{"bad_length", patch(sixth.from+12, 0xFF), all - sixth.records, "there is no block here", 1},
		{"bad_marker", patch(sixth.from, 0), all - sixth.records, "there is no block here", 1},
		{"zeroed_block", patch(sixth.from, make([]byte, sixth.to-sixth.from)...), all - sixth.records, "there is no block here", 1},
		{"zeroed_tail", patch(sixth.from, make([]byte, len(log)-sixth.from)...), recordsBefore(blocks, sixth.from), "there is no block here", 2},
		{"missing_block", cutOut(sixth.from, sixth.to), all - sixth.records, "the number of blocks missing before this one is 1", 1},
		{"missing_half_block", cutOut(sixth.from+30, sixth.to), all - sixth.records, "the checksum of a block is wrong", 1},
		{"repeated_block", insert(sixth.to, log[sixth.from:sixth.to]), all, "a second time", 1},
		{"repeated_later", insert(last.from, log[sixth.from:sixth.to]), all, "a second time", 1},
		{"reordered_blocks", slices.Concat(log[:sixth.from], log[sixth.to:seventh.to], log[sixth.from:sixth.to], log[seventh.to:]), all, "the number of blocks missing before this one is 1", 2},
		{"reordered_twice", slices.Concat(log[:sixth.from], log[sixth.to:seventh.to], log[sixth.from:sixth.to], log[sixth.from:sixth.to], log[seventh.to:]), all, "the number of blocks missing before this one is 1", 3},
		{"foreign_bytes", insert(sixth.to, []byte("some text of another program, inserted")), all, "there is no block here", 1},
		{"foreign_block", insert(sixth.to, withBlock(nil, blockfile.Records, 2, oneTable(byte(KindNote), 3, 0))), all, "a second time", 1},
		{"appended_text", append(bytes.Clone(log), "text"...), all, "the log has ended and something follows", 1},
		{"appended_log", append(bytes.Clone(log), log...), all, "the log has ended and something follows", 1},
		{"cut_and_appended_log", slices.Concat(log[:sixth.to-5], log), recordsBefore(blocks, sixth.from), "the checksum of a block is wrong", 2},
		{"unknown_block_type", withBlock(footless, 99, seq, []byte("x")), all, "the log ends before its footer", 1},
		{"unknown_kind", records(100, 2, 1, 0, reprConst, 1, 7), all + 2, "the log ends before its footer", 1},
		{"unknown_field", records(byte(KindNote), 2, 1, 40, reprConst, 1, 7), all + 2, "the log ends before its footer", 1},
		{"no_columns", records(byte(KindNote), 3, 0), all + 3, "the log ends before its footer", 1},
		{"empty_payload", withBlock(footless, blockfile.Records, seq, nil), all, "wrong number of tables", 2},
		{"two_tables", withBlock(footless, blockfile.Records, seq, append(oneTable(byte(KindNote), 3, 0), oneTable(byte(KindNote), 3, 0)...)), all, "wrong number of tables", 2},
		{"no_rows", records(byte(KindNote), 0, 0), all, "too many rows", 2},
		{"huge_row_count", records(byte(KindNote), 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1, 0, reprConst, 1, 7), all, "too many rows", 2},
		{"huge_column_count", records(byte(KindNote), 1, 0xFF, 0x7F), all, "too many columns", 2},
		{"huge_column_length", records(byte(KindNote), 1, 1, 0, reprConst, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1), all, "cut short", 2},
		{"column_twice", records(byte(KindNote), 1, 2, 0, reprConst, 1, 7, 0, reprConst, 1, 7), all, "one of them twice", 2},
		{"unknown_encoding", records(byte(KindNote), 1, 1, 0, 9, 1, 7), all, "unknown encoding", 2},
		{"median_of_changes", records(byte(KindNote), 1, 1, 0, reprVarint|relDelta2|relMedian, 1, 7), all, "unknown encoding", 2},
		{"median_of_const", records(byte(KindNote), 1, 1, 0, reprConst|relMedian, 1, 7), all, "unknown encoding", 2},
		{"lookup_of_nothing", records(byte(KindNote), 1, 1, 0, reprLookup, 0, 2, 1, 2), all, "cannot serve it", 2},
		{"gap_of_nothing", records(byte(KindNote), 1, 1, 0, reprVarint|relGap, 3, 1, 1), all, "cannot serve it", 2},
		{"gap_of_texts", records(byte(KindString), 1, 2, 1, reprText, 2, 1, 'x', 0, reprVarint|relGap, 0, 1, 9), all, "cannot serve it", 2},
		{"median_gap_of_nothing", records(byte(KindNote), 1, 1, 0, reprVarint|relGap|relMedian, 3, 1, 1), all, "cannot serve it", 2},
		{"short_varints", records(byte(KindNote), 3, 1, 0, reprVarint, 3, 1, 0x80, 0x80), all, "a column is cut short", 2},
		{"endless_varint", records(byte(KindNote), 1, 1, 0, reprVarint, 11, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80), all, "a column is cut short", 2},
		{"dict_index_too_large", records(byte(KindNote), 2, 1, 0, reprDict, 4, 0, 1, 1, 2), all, "a column is cut short", 2},
		{"bad_symbol", records(byte(KindNote), 1, 1, 0, reprSplit, 1, 255), all, "a column is cut short", 2},
		{"split_without_bits", records(byte(KindNote), 1, 1, 0, reprSplit, 1, 200), all, "a column is cut short", 2},
		{"zip_bomb", withBlock(footless, blockfile.Records, seq, bombTable(t, 64<<20, 64<<20)), all, "too large when decoded", 2},
		{"zip_bomb_that_lies", withBlock(footless, blockfile.Records, seq, bombTable(t, 64<<20, 1000)), all, "does not decompress", 2},
		{"string_id_too_large", records(byte(KindString), 1, 2, 0, reprConst, 4, 0xFF, 0xFF, 0xFF, 0x0F, 1, reprText, 2, 1, 'x'), all, "its strings are", 2},
		{"text_too_long", records(byte(KindString), 1, 2, 0, reprConst, 1, 9, 1, reprText, 2, 0x7F, 'x'), all, "a column is cut short", 2},
		{"record_block_of_a_frame_table", records(0x80|byte(schema.Index), 1, 1, 0), all, "the schema makes no sense", 2},
		{"schema_without_texts", withBlock(footless, blockfile.Schema, seq, schemaWithoutTexts(t)), all, "the schema makes no sense", 2},
		{"schema_again", withBlock(footless, blockfile.Schema, seq, payload(blocks[0])), all, "has records or another schema in front of it", 2},
		{"numbers_for_texts", records(byte(KindString), 1, 2, 0, reprConst, 1, 99, 1, reprConst, 1, 7), all, "numbers in place of texts", 2},
		{"texts_for_numbers", records(byte(KindNote), 1, 1, 0, reprText, 2, 1, 'x'), all, "texts in place of numbers", 2},
		{"string_of_two_texts", records(byte(KindString), 1, 2, 0, reprConst, 1, 1, 1, reprText, 2, 1, 'x'), all, "its strings are", 2},
		{"keys_that_differ", records(byte(KindCall), 2, 1, 0, reprVarint, 2, 1, 2), all, "differ in a field that is a key", 2},
		{"index_of_another_kind", withIndex(t, log, func(e *IndexEntry) { e.Kind++ }), all, "an index does not match", 1},
		{"index_of_another_process", withIndex(t, log, func(e *IndexEntry) { e.PID = 99 }), all, "an index does not match", 1},
		{"index_of_another_time", withIndex(t, log, func(e *IndexEntry) { e.To++ }), all, "an index does not match", 1},
		{"index_of_nothing", ended(footless, seq, oneTable(0x80|byte(schema.Index), 1, 1, 0), payload(last)), all, "an index does not match", 1},
		{"index_cut_short", ended(footless, seq, oneTable(0x80|byte(schema.Index), 1, 1, 1), payload(last)), all, "a table is cut short", 1},
		{"footer_of_nothing", ended(footless, seq, payload(blocks[len(blocks)-2]), nil), all, "the footer does not match", 1},
		{"footer_cut_short", ended(footless, seq, payload(blocks[len(blocks)-2]), oneTable(0x80|byte(schema.Totals), 1, 1, 1)), all, "a table is cut short", 1},
		{"trailer_of_another_footer", blockfile.AppendTrailer(bytes.Clone(log[:len(log)-blockfile.TrailerSize]), 16), all, "the trailer is wrong", 1},
		{"schema_of_nonsense", withBlock(footless, blockfile.Schema, seq, oneTable(0x80|byte(schema.Fields), 1, 1, 1, 0, reprConst, 1, 100)), all, "the schema makes no sense", 2},
	}
}

// ended appends an index, a footer and a trailer to a log.
func ended(log []byte, seq uint32, index, footer []byte) []byte {
	log = withBlock(log, blockfile.Index, seq, index)
	return blockfile.AppendTrailer(withBlock(log, blockfile.Footer, seq+1, footer), uint64(len(log)))
}

// withIndex is a log whose index is wrong in its fourth row.
func withIndex(t testing.TB, log []byte, wrong func(*IndexEntry)) []byte {
	t.Helper()
	x := must.Get(openBytes(t, log).Index())(t)
	wrong(&x.Blocks[3])
	var rows indexEntries
	for i := range x.Blocks {
		rows.addEntry(&x.Blocks[i])
	}
	blocks, e, l := blocksOf(t, log), newEncoder(t), schema.LayoutOf(schema.Index)
	index, footer := blocks[len(blocks)-2], blocks[len(blocks)-1]
	return ended(log[:index.from], index.header.Seq, e.AppendTable(nil, l, e.Transpose(l, rows.rows), nil), log[footer.from+blockfile.HeaderSize:footer.to])
}

// schemaWithoutTexts is a schema whose strings have no text.
func schemaWithoutTexts(t testing.TB) []byte {
	t.Helper()
	list := schema.Records()
	list[0].Fields = []schema.Field{{Name: "id", Type: schema.Uint, Meaning: "number"}, {Name: "words", Type: schema.Text, Meaning: "its bytes"}}
	return columns.AppendSchema(nil, newEncoder(t), list)
}

func newEncoder(t testing.TB) *columns.Encoder {
	t.Helper()
	e := must.Get(columns.NewEncoder())(t)
	return e
}

func recordsBefore(blocks []place, at int) (n int) {
	for _, b := range blocks {
		if b.from < at {
			n += b.records
		}
	}
	return n
}

// bombTable is a table whose column decompresses to size bytes and says claimed.
func bombTable(t testing.TB, size, claimed int) []byte {
	t.Helper()
	z := must.Get(zstd.NewWriter(nil, zstd.WithWindowSize(1<<20)))(t)
	frame := z.EncodeAll(make([]byte, size), nil)
	var data []byte
	data = appendUvarints(data, uint64(claimed), uint64(len(frame)))
	data = append(data, frame...)
	table := []byte{byte(KindNote)}
	table = appendUvarints(table, 1000, 1, 0)
	table = append(table, reprVarint|packed)
	table = append(appendUvarints(table, uint64(len(data))), data...)
	return append(appendUvarints(nil, uint64(len(table))), table...)
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for _, c := range damagedLogs(t) {
		t.Run(c.name, func(t *testing.T) {
			r := openBytes(t, c.log)
			if got := survivors(r); got != c.records {
				t.Errorf("%d records, want %d", got, c.records)
			}
			if r.Err() == nil || !strings.Contains(r.Err().Error(), c.says) {
				t.Errorf("error %v, want %s", r.Err(), c.says)
			}
			if r.Damage().Count != c.count {
				t.Errorf("%d errors, want %d: %v", r.Damage().Count, c.count, r.Damage())
			}
		})
	}
}

// FORMAT.md lists the cases of damage, by the number of records that can be read.
func TestDamageIsDocumented(t *testing.T) {
	t.Parallel()
	cases := make(map[int][]string)
	for _, c := range damagedLogs(t) {
		cases[c.records] = append(cases[c.records], "`"+c.name+"`")
	}
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(cases)) {
		fmt.Fprintf(&b, "- %d records: %s\n", n, strings.Join(cases[n], ", "))
	}
	goldentest.Section(t, formatFile, "<!-- damage: go test ./record/tracelog -update -->\n", "<!-- end of damage -->", b.String())
}

// Damage keeps a bounded list and the whole count.
func TestDamageIsBounded(t *testing.T) {
	w, out := newTestWriter(t, Options{RowsPerBlock: 1})
	for range 100 {
		w.Add(&Note{Time: 1})
	}
	must.Do(t, w.Close(End{}))
	log := out.Bytes()
	for i, b := range blocksOf(t, log) {
		if i%2 == 0 {
			log[b.to-1] ^= 1
		}
	}
	r := openBytes(t, log)
	survivors(r)
	if d := r.Damage(); len(d.Errors) != blockfile.MaxFaults || d.Count < 50 || !strings.HasSuffix(d.String(), " more faults") {
		t.Errorf("%d errors, %d kept: %v", d.Count, len(d.Errors), d)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	newer := blockfile.AppendFileHeader(nil, blockfile.Current)
	newer[8] = 7
	older := blockfile.AppendFileHeader(nil, blockfile.Version{Major: 1, Minor: 2})
	for name, c := range map[string]struct {
		content string
		is      error
		says    string
	}{
		"empty.cudatrace": {"", ErrEmpty, " is empty"},
		"app.txt":         {"just a text file that is long enough to hold a header", ErrNotLog, " is not a cudatrace log"},
		"short.txt":       {"hello", ErrNotLog, " is not a cudatrace log"},
		"new.cudatrace":   {string(newer), ErrNewer, " was written by a newer cudatrace (log version 7, this one reads 2): update cudatrace"},
		"old.cudatrace":   {string(older), ErrOlder, " was written by an older cudatrace (log version 1, this one reads 2): record the program again"},
		"cut.cudatrace":   {"CUDAT", nil, " is cut off inside its header: nothing in it can be read"},
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(c.content), 0o600))
		_, err := Open(path)
		if err == nil || err.Error() != path+c.says || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Open(dir); err == nil || err.Error() != dir+" is not a cudatrace log: it is a folder" {
		t.Errorf("folder: error %v", err)
	}
	missing := filepath.Join(dir, "none")
	if _, err := Open(missing); !errors.Is(err, os.ErrNotExist) || err.Error() != missing+" cannot be opened: no such file or directory" {
		t.Errorf("missing: error %v", err)
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.cudatrace")
	w := must.Get(Create(path, Options{}))(t)
	w.Add(&Note{Text: "x"})
	must.Do(t, w.Flush())
	if info, err := os.Stat(path); err != nil || info.Size() != w.Size() || info.Mode().Perm()&0o133 != 0 {
		t.Errorf("file is %v, %v; the writer has %d bytes", info, err, w.Size())
	}
	must.Do(t, w.Close(End{Complete: 1}))
	w.Add(&Note{Text: "late"})
	if n := w.Dropped()[KindNote]; n != 1 {
		t.Errorf("%d notes after Close are counted", n)
	}
	r := must.Get(Open(path))(t)
	defer r.Close()
	if all := readAll(t, r); len(all[KindNote]) != 1 {
		t.Errorf("records are %v", all)
	}
}

// The real thing, where there is a device that is always full.
func TestDevFull(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	if _, err := NewWriter(f, Options{}); err == nil || err.Error() != "cannot write /dev/full: no space left on device (make room or choose another folder)" {
		t.Errorf("error %v", err)
	}
}

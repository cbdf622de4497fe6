package tracelog

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
	"github.com/google/go-cmp/cmp"
)

func appendUvarints(dst []byte, vals ...uint64) []byte {
	for _, v := range vals {
		dst = binary.AppendUvarint(dst, v)
	}
	return dst
}

// The index says of each block what reading it says.
func TestIndex(t *testing.T) {
	log := launches(t, 30_000)
	r := openBytes(t, log)
	index := must.Get(r.Index())(t)
	at := make(map[int64]IndexEntry)
	for _, e := range index.Blocks {
		at[e.Offset] = e
	}
	totals := map[Kind]uint64{KindString: index.Totals[KindString]}
	for r.Next() {
		b := r.Block()
		got := b.entry()
		got.From, got.To = b.Time()
		if diff := cmp.Diff(at[b.Offset], got); diff != "" {
			t.Error(diff)
		}
		totals[b.Kind] += uint64(b.N)
	}
	if diff := cmp.Diff(index.Totals, totals); diff != "" {
		t.Error(diff)
	}
	if totals[KindCall] != 30_000 || totals[KindString] != workKernels+4 {
		t.Errorf("totals are %v", totals)
	}
}

func TestNoIndex(t *testing.T) {
	log := smallLog(t)
	for _, cut := range []int{blockfile.FileHeaderSize, blockfile.FileHeaderSize + blockfile.TrailerSize, len(log) / 2, len(log) - 1} {
		r := openBytes(t, log[:cut])
		if _, err := r.Index(); !errors.Is(err, errIndex) {
			t.Errorf("cut at %d: error %v", cut, err)
		}
	}
	blocks := blocksOf(t, log)
	for _, b := range blocks[len(blocks)-2:] {
		log[b.to-1] ^= 1
		if _, err := openBytes(t, log).Index(); !errors.Is(err, errIndex) {
			t.Errorf("damage at %d: error %v", b.to, err)
		}
		log[b.to-1] ^= 1
	}
}

// Times of 0 do not count, and a duration beyond the end of time adds nothing.
func TestSpan(t *testing.T) {
	w, out := newTestWriter(t, Options{})
	const huge = ^uint64(0)
	for _, times := range [][2]uint64{{0, 999}, {500, 10}, {100, huge}, {300, 0}} {
		w.Add(&Call{PID: 1, Enter: times[0], Dur: times[1]})
	}
	must.Do(t, w.Close(End{}))
	r := openBytes(t, out.Bytes())
	r.Next()
	if from, to := r.Block().Time(); from != 300 || to != 510 {
		t.Errorf("time is %d to %d", from, to)
	}
	x, err := r.Index()
	if err != nil || x.Blocks[0].From != 100 || x.Blocks[0].To != 510 || x.Blocks[0].Rows != 4 {
		t.Errorf("the index is %+v (%v)", x, err)
	}
}

// unknownKind is a log whose writer knew a kind that this version does not, with an index that can be wrong in the entry
// of the kind's block.
func unknownKind(t *testing.T, v blockfile.Version, wrong func(*IndexEntry)) []byte {
	t.Helper()
	field := func(name string, typ schema.Type) schema.Field {
		return schema.Field{Name: name, Type: typ, Meaning: "m"}
	}
	visit := schema.Table{Kind: 77, Name: "visit", Meaning: "m", Fields: []schema.Field{
		field("stream", schema.Uint), field("tid", schema.Text), field("pid", schema.Uint), field("from", schema.Time), field("took", schema.Dur)}}
	log := customLog(t, v, []schema.Table{schema.Records()[0], visit}, func(add func(*schema.Layout, []uint64, []string)) {
		add(schema.NewLayout(&visit), []uint64{7, 0, 12, 500, 30, 8, 0, 12, 510, 90}, []string{"a", "b"})
	})
	var x indexEntries
	e := IndexEntry{Offset: int64(blocksOf(t, log)[1].from), Kind: visit.Kind, PID: 12, Rows: 2, From: 500, To: 600, Device: -1, Context: -1, Stream: -1}
	wrong(&e)
	x.addEntry(&e)
	enc, index, totals, directory := newEncoder(t), schema.LayoutOf(schema.Index), schema.LayoutOf(schema.Totals), schema.LayoutOf(schema.Directory)
	footer := enc.AppendTable(nil, totals, enc.Transpose(totals, []uint64{uint64(visit.Kind), 2}), nil)
	footer = enc.AppendTable(footer, directory, enc.Transpose(directory, []uint64{uint64(len(log)), 1}), nil)
	return ended(log, 2, enc.AppendTable(nil, index, enc.Transpose(index, x.rows), nil), footer)
}

// Records of an unknown kind count, and their index is checked by the log's own description of the kind.
func TestIndexOfUnknownKind(t *testing.T) {
	for name, test := range map[string]struct {
		wrong       func(*IndexEntry)
		here, newer bool // the index is refused: in a log of this version, of a newer one
	}{
		"right":           {func(*IndexEntry) {}, false, false},
		"another kind":    {func(e *IndexEntry) { e.Kind++ }, true, true},
		"another number":  {func(e *IndexEntry) { e.Rows++ }, true, true},
		"another process": {func(e *IndexEntry) { e.PID++ }, true, false},
		"a thread":        {func(e *IndexEntry) { e.TID = 1 }, true, false},
		"a stream":        {func(e *IndexEntry) { e.Stream = 7 }, true, false},
		"another start":   {func(e *IndexEntry) { e.From-- }, true, false},
		"another end":     {func(e *IndexEntry) { e.To++ }, true, false},
	} {
		for v, refused := range map[blockfile.Version]bool{blockfile.Current: test.here, nextMinor: test.newer} {
			log := unknownKind(t, v, test.wrong)
			r := openBytes(t, log)
			if n := survivors(r); n != 2 || (r.Err() != nil) != refused {
				t.Errorf("%s, version %v: %d records, error %v", name, v, n, r.Err())
			}
			fixed, _ := repairOf(t, log)
			if r := openBytes(t, fixed); survivors(r) != 4 || r.Err() != nil {
				t.Errorf("%s, version %v: repaired it has the error %v", name, v, r.Err())
			}
		}
	}
}

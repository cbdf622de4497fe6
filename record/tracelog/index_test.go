package tracelog

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
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
	index, err := r.Index()
	if err != nil {
		t.Fatal(err)
	}
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
	if err := w.Close(End{}); err != nil {
		t.Fatal(err)
	}
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

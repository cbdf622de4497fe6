package tracelog

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// liveHeap is the number of bytes that are in use.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// manyBlocks is a log of blocks whose payloads are given.
func manyBlocks(payloads ...[]byte) []byte {
	log := blockfile.AppendFileHeader(nil, blockfile.Current)
	for seq, p := range payloads {
		log = withBlock(log, blockfile.Records, uint32(seq), p)
	}
	return log
}

// wideTable is a table of as many rows and columns as there may be, in few bytes.
func wideTable(t testing.TB) []byte {
	t.Helper()
	e := newEncoder(t)
	var fields []schema.Field
	for range 32 {
		fields = append(fields, schema.Field{Name: "f", Type: schema.Uint, Meaning: ""})
	}
	l := schema.NewLayout(&schema.Table{Kind: 77, Fields: fields})
	var rows []uint64
	for i := range uint64(schema.MaxRows) {
		for f := range uint64(32) {
			rows = append(rows, i*f)
		}
	}
	return e.AppendTable(nil, l, e.Transpose(l, rows), nil)
}

// textTable is a block of n texts of the given length.
func textTable(t testing.TB, first uint64, n, length int) []byte {
	t.Helper()
	e := newEncoder(t)
	var rows []uint64
	var texts []string
	text := string(make([]byte, length))
	for i := range n {
		rows = append(rows, first+uint64(i), 0)
		texts = append(texts, text)
	}
	l := schema.LayoutOf(KindString)
	return e.AppendTable(nil, l, e.Transpose(l, rows), texts)
}

// However a log is made, a reader holds no more than it says. Small logs here say that
// they have much: many numbers, many texts, long ones, index blocks without end.
func TestReaderMemory(t *testing.T) {
	var longTexts, manyTexts [][]byte
	for i := range uint64(40) {
		longTexts = append(longTexts, textTable(t, 1+i, 1, schema.MaxString))
		manyTexts = append(manyTexts, textTable(t, 1+i*30_000, 30_000, 1))
	}
	for name, c := range map[string]struct {
		log  []byte
		most uint64
	}{
		"many numbers": {manyBlocks(wideTable(t), wideTable(t), wideTable(t)), MaxBlockMemory},
		"long texts":   {manyBlocks(longTexts...), MaxReaderMemory},
		"many texts":   {manyBlocks(manyTexts...), MaxReaderMemory},
		"one far text": {manyBlocks(textTable(t, schema.MaxStrings, 1, 1)), 17 * schema.MaxStrings},
	} {
		before := liveHeap()
		r := openBytes(t, c.log)
		for r.Next() {
		}
		held := liveHeap() - min(before, liveHeap())
		t.Logf("%s: a log of %d bytes makes a reader hold %d", name, len(c.log), held)
		if held > c.most {
			t.Errorf("%s: %d bytes, want at most %d", name, held, c.most)
		}
		runtime.KeepAlive(r)
	}
}

// A log of any size takes the same memory to read, and to read a part of.
func TestReaderStreams(t *testing.T) {
	var held []uint64
	for _, n := range []int{50_000, 200_000} {
		log := launches(t, n)
		for _, part := range []bool{false, true} {
			before := liveHeap()
			r := openBytes(t, log)
			if part {
				must.Do(t, r.Select(Filter{Kinds: []Kind{KindKernel}}))
			}
			for r.Next() {
			}
			after := liveHeap()
			held = append(held, after-min(before, after))
			runtime.KeepAlive(r)
		}
		runtime.KeepAlive(log)
	}
	if held[2] > held[0]+1<<20 || held[3] > held[1]+1<<20 {
		t.Errorf("for four times the records %d bytes are held instead of %d, %d instead of %d", held[2], held[0], held[3], held[1])
	}
}

// A block behind of nothing but misplaced blocks tells of few of them.
func TestFaultsAreBounded(t *testing.T) {
	log := blockfile.AppendFileHeader(nil, blockfile.Current)
	log = withBlock(log, 99, 1<<30, nil)
	for range 5000 {
		log = withBlock(log, 99, 7, nil)
	}
	r := openBytes(t, log)
	r.Next()
	if n := r.Damage().Count; n != 5002 || len(r.Damage().Errors) != blockfile.MaxFaults || cap(r.current.Faults) > 4*blockfile.MaxFaults {
		t.Errorf("%d faults, %d kept, room for %d", n, len(r.Damage().Errors), cap(r.current.Faults))
	}
}

// The writer holds no more than its options say, whatever it is given.
func TestWriterMemory(t *testing.T) {
	var out bytes.Buffer
	w := must.Get(NewWriter(&out, Options{MaxMemory: 4 << 20}))(t)
	before := liveHeap()
	for i := range uint32(200_000) {
		w.Add(&Call{PID: i % 7, TID: i % 301, Func: i % 11, Enter: uint64(i) * 977, Dur: uint64(i * i), NArgs: 3, Args: [MaxArgs]uint64{uint64(i), uint64(i * 7)}})
		if out.Len() > 1<<20 {
			out.Reset()
		}
	}
	after := liveHeap()
	if held := after - min(before, after); held > 12<<20 {
		t.Errorf("%d bytes are held", held)
	}
	runtime.KeepAlive(w)
}

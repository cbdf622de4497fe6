package tracelog

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// atLimits gives a writer more than a limit of the format allows, or as much as it takes.
var atLimits = []struct {
	name string
	rows int // of a block
	fill func(w *Writer)
	lost bool // texts are
}{
	{"texts that take no room", 0, func(w *Writer) {
		text := strings.Repeat("x", 2000)
		for i := range uint32(20_000) {
			w.Add(&Marker{PID: 1, TID: 1, Flags: MarkerInstant, ID: i, Time: uint64(i), Name: fmt.Sprint(i, text)})
		}
	}, false},
	{"records of nothing", 0, func(w *Writer) {
		for range 3 << 19 {
			w.Add(&Note{})
		}
	}, false},
	{"texts", 0, func(w *Writer) {
		for i := 0; i < schema.MaxStrings+10_000; i += 4 {
			w.Add(&Process{PID: 1, Start: 1, Exe: fmt.Sprint(i), Args: fmt.Sprint(i + 1), Cwd: fmt.Sprint(i + 2), Environment: fmt.Sprint(i + 3)})
		}
	}, true},
	{"bytes of texts", 0, func(w *Writer) {
		text := strings.Repeat("x", schema.MaxString-8)
		for i := range schema.MaxStringBytes/schema.MaxString + 2 {
			w.Add(&Note{Text: fmt.Sprintf("%08d%s", i, text)})
		}
	}, true},
	{"bytes of a text", 0, func(w *Writer) {
		text := make([]byte, schema.MaxString+1)
		for i := range text {
			text[i] = byte(rand.Uint32())
		}
		for i := range text[:3] {
			w.Add(&Note{Text: string(text[i:])})
		}
	}, true},
	{"bytes of a block", schema.MaxRows, func(w *Writer) {
		var s Sample
		for range schema.MaxRows {
			s.NValues, s.Start, s.Dur, s.PID = MaxMetrics, rand.Uint64()>>2, rand.Uint64()>>2, rand.Uint32()
			for i := range s.Values {
				s.Values[i] = rand.Uint64() | 1<<63
			}
			w.Add(&s)
		}
	}, false},
	{"blocks", 1, func(w *Writer) {
		for i := range uint32(70_000) {
			w.Add(&Call{PID: 1, TID: i, Func: 1, Enter: uint64(i)})
		}
	}, false},
	{"blocks of texts", 1, func(w *Writer) {
		for i := range uint32(40_000) {
			if i%10_000 == 0 {
				w.Add(&Call{PID: 1, TID: i, Func: 1, Enter: 1})
			}
			w.Add(&Note{Text: fmt.Sprint(i)})
		}
	}, false},
	{"numbers", 0, func(w *Writer) {
		for i := range uint64(30_000) {
			w.Add(&Call{PID: math.MaxUint32, TID: uint32(-i), Func: math.MaxUint32, Enter: 1<<62 - i, Dur: 1<<62 - 1, Ret: math.MinInt32, NArgs: MaxArgs})
		}
	}, false},
}

// What a writer writes no reader refuses, whatever it is given.
func TestWriterKeepsLimits(t *testing.T) {
	t.Parallel()
	for _, c := range atLimits {
		t.Run(c.name, func(t *testing.T) {
			w, out := newTestWriter(t, Options{RowsPerBlock: c.rows})
			c.fill(w)
			must.Do(t, w.Close(End{Time: 7, Complete: 1}))
			log := out.Bytes()
			index := must.Get(openBytes(t, log).Index())(t)
			want := 0
			for kind, n := range index.Totals {
				if kind != KindString {
					want += int(n)
				}
			}
			end := checkReaders(t, log, want)
			if lost := end.Complete == 0; lost != c.lost || lost != (index.Totals[KindLost] > 0) {
				t.Errorf("the end is %+v, losses %d", end, index.Totals[KindLost])
			}
		})
	}
}

// checkReaders reads a log of so many records in every way.
func checkReaders(t *testing.T, log []byte, want int) End {
	t.Helper()
	check := func(how string, r *Reader, want int) {
		t.Helper()
		if n := survivors(r); n != want || r.Err() != nil {
			t.Errorf("%s: %d records, want %d; %v", how, n, want, r.Err())
		}
	}
	all := openBytes(t, log)
	all.Remember()
	check("all", all, want)
	again := openBytes(t, log)
	must.Do(t, again.Reread(all.Contents(), Filter{}))
	check("again", again, want)
	ahead := openBytes(t, log)
	ahead.Parallel(2)
	check("ahead", ahead, want)
	ahead.Close()
	some := openBytes(t, log)
	must.Do(t, some.Select(Filter{Kinds: []Kind{KindEnd}}))
	check("some", some, 1)
	checkFollowed(t, log, want)

	fixed, done := repairOf(t, log)
	if done.Damage.Count != 0 || done.Dropped != 0 || done.Missing != 0 || int(done.Records) != want-1 {
		t.Errorf("the repair is %+v, of %d records", done, want-1)
	}
	check("repaired", openBytes(t, fixed), want+1)
	half := openBytes(t, log[:len(log)/2])
	n := survivors(half)
	for _, err := range half.Damage().Errors {
		if !strings.Contains(err.Error(), "recording did not finish") {
			t.Errorf("cut: %v", err)
		}
	}
	fixed, _ = repairOf(t, log[:len(log)/2])
	check("cut and repaired", openBytes(t, fixed), n+2)
	end, _ := all.End()
	return end
}

// checkFollowed reads a log of so many records while it grows.
func checkFollowed(t *testing.T, log []byte, want int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	f := must.Get(os.Create(path))(t)
	defer f.Close()
	must.Get(f.Write(log[:blockfile.FileHeaderSize]))(t)
	r := must.Get(Open(path))(t)
	t.Cleanup(func() { r.Close() })
	must.Do(t, r.Follow())
	const steps = 100
	rest, n := log[blockfile.FileHeaderSize:], 0
	for piece := range slices.Chunk(rest, len(rest)/steps+1) {
		must.Get(f.Write(piece))(t)
		if n += survivors(r); r.Err() != nil {
			t.Fatalf("as it grows: %v", r.Err())
		}
	}
	if n != want {
		t.Errorf("as it grows: %d records, want %d", n, want)
	}
}

// A repair that leaves out the blocks on which the density of the rest rested keeps to the limits, too.
func TestRepairKeepsLimits(t *testing.T) {
	t.Parallel()
	w, out := newTestWriter(t, Options{})
	random := make([]byte, 64<<10)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	for i := range 200 {
		w.Add(&Note{Text: fmt.Sprint(i, string(random))})
	}
	must.Do(t, w.Flush())
	first := out.Len()
	atLimits[0].fill(w)
	must.Do(t, w.Close(End{Complete: 1}))
	log := bytes.Clone(out.Bytes())
	for i := 4096; i < first-4096; i += 4096 {
		log[i] ^= 1
	}
	fixed, done := repairOf(t, log)
	r := openBytes(t, fixed)
	if n := survivors(r); uint64(n) != done.Records+2 || r.Err() != nil || done.Dropped == 0 {
		t.Errorf("%d records of %d, %v; %d bytes are left out", n, done.Records, r.Err(), done.Dropped)
	}
}

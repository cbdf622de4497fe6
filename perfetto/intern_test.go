package perfetto

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A string has one number, whatever strings were asked for in between.
func TestStringTable(t *testing.T) {
	t.Parallel()
	table := stringTable{field: internedEventNames, longest: 100}
	rnd := rand.New(rand.NewPCG(1, 1))
	ids := make(map[string]uint32)
	for range 10_000 {
		s := strings.Repeat("x", rnd.IntN(4)) + string(rune('a'+rnd.IntN(26))) + strings.Repeat("y", rnd.IntN(4))
		want, known := ids[s]
		if !known {
			want = uint32(len(ids) + 1)
			ids[s] = want
		}
		if id := table.id(s); id != want || table.texts[id-1] != s {
			t.Fatalf("%q has id %d, want %d", s, id, want)
		}
	}
	if id := table.id(""); id != 0 {
		t.Errorf("the empty string has id %d", id)
	}
}

// Strings beyond the bounds of a table have no number. Longer ones are cut: an event never bears
// the whole of a huge name.
func TestInternBound(t *testing.T) {
	t.Parallel()
	table := stringTable{field: internedEventNames, longest: len(cutMark) + 3}
	if id := table.id("\x00\x00\x00"); id != 1 {
		t.Errorf("the first string got id %d", id)
	}
	if id := table.id("12345678901234"); id != 2 || table.texts[1] != "123"+cutMark || table.id("12345678901239") != 2 {
		t.Errorf("a string that is too long got id %d of %q", id, table.texts)
	}
	for i := range maxInterned {
		table.id(string([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	if id := table.id("one"); id != 0 {
		t.Errorf("a string more than the table holds got id %d", id)
	}
	if id := table.id("\x00\x00\x00"); id != 1 {
		t.Errorf("the first string has id %d, want 1", id)
	}
}

func TestBitset(t *testing.T) {
	t.Parallel()
	var b bitset
	rnd := rand.New(rand.NewPCG(1, 1))
	in := make(map[uint32]bool)
	for range 2000 {
		i := rnd.Uint32N(1000)
		if b.has(i) != in[i] {
			t.Fatalf("has(%d) is %v", i, !in[i])
		}
		if rnd.IntN(4) == 0 {
			b.set(i)
			in[i] = true
		}
	}
}

// Each sequence interns a string once, before its first use or with it.
func TestInternedOncePerSequence(t *testing.T) {
	t.Parallel()
	trace := encode(t, Options{}, func(w *Writer) {
		for tid := range uint32(3) {
			track := w.Thread(Thread{PID: 1, TID: tid})
			for i := range uint64(4) {
				begin(track, 10*i+1, "call", "driver", nil, nil)
				track.End(10*i + 2)
			}
		}
	})
	text := must.Get(tracetest.Text(trace))(t)
	if n := strings.Count(text, `event_names { iid: 1 name: "call" }`); n != 3 {
		t.Errorf("the name is interned %d times in 3 sequences", n)
	}
}

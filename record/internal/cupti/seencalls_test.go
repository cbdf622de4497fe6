package cupti

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// The rings tell which calls have begun: from a place where calls begin, of the thread that the words are of.
func TestSeenCalls(t *testing.T) {
	t.Parallel()
	word := func(time, site, chain uint64) uint64 { return time<<seenTimeShift | site<<seenChainBits | chain }
	const late = 1 << 50 // ns: more than a word has bits for
	now := uint64(late + 1000)
	rings := [][]uint64{
		{seenOwner(7), word(late%(1<<47)+100, 2, 5), word(late%(1<<47)+110, 3, 5), word(late%(1<<47)+200, 2, 6)},
		{word(late%(1<<47)+300, 2, 9), seenOwner(8), word(late%(1<<47)+400, 2, 5), seenOwner(9), word(late%(1<<47)+500, 2, 1)},
	}
	for _, c := range []struct {
		name   string
		places uint16
		want   []seenCall
	}{
		{"the place is known", 1 << 2, []seenCall{{7, 5, late + 100}, {7, 6, late + 200}, {8, 5, late + 400}, {9, 1, late + 500}}},
		{"another place", 1 << 3, []seenCall{{7, 5, late + 110}}},
		{"no place is known yet", 0, []seenCall{{7, 5, late + 100}, {7, 6, late + 200}, {8, 5, late + 400}, {9, 1, late + 500}}},
	} {
		if got := seenCalls(rings, c.places, now); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What a process has written about its rings is bounded by their memory, and the words before the first one that names a thread
// are left out, unless all are of the latest owner.
func TestSeenMemory(t *testing.T) {
	t.Parallel()
	h := must.Get(newHub())(t)
	t.Cleanup(h.close)
	m, _ := newProcess(t, h)
	put := func(at int64, v any) {
		t.Helper()
		var b bytes.Buffer
		must.Do(t, binary.Write(&b, le, v))
		must.Get(m.file.WriteAt(b.Bytes(), sharedSize+at))(t)
	}
	ring := func(i int, written, size, at, tid uint32) {
		t.Helper()
		put(int64(i*seenRingSize), [4]uint32{written, size, at, tid})
	}
	ring(0, 3, 4, 0, 7)
	put(seenMemoryWordsAt, [4]uint64{1 << 20, seenOwner(8), 2 << 20})
	ring(1, 5, 4, 8, 9)
	put(seenMemoryWordsAt+8*8, [4]uint64{5 << 20, 2 << 20, 3 << 20, 4 << 20})
	ring(2, 1, 3, 0, 1)
	ring(3, 1, 4, seenWords-3, 1)
	rings, chains := m.seen()
	want := [][]uint64{{seenOwner(8), 2 << 20}, {seenOwner(9), 2 << 20, 3 << 20, 4 << 20, 5 << 20}}
	if !reflect.DeepEqual(rings, want) || len(chains) < chainsMax*knownChainSize {
		t.Errorf("rings %x, want %x; %d bytes of chains", rings, want, len(chains))
	}
	for i := range seenRings {
		ring(i, 1<<31, 1<<20, 0, 1)
	}
	rings, _ = m.seen()
	words := 0
	for _, r := range rings {
		words += len(r)
	}
	if words > seenWords+seenRings {
		t.Errorf("%d words of %d", words, seenWords)
	}
}

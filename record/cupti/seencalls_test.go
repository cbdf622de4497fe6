package cupti

import (
	"reflect"
	"testing"
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

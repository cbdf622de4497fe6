package read

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A handle stands for the kernel that it was last made for. A handle that was made of
// another one stands for the other's kernel.
func TestKernelHandles(t *testing.T) {
	t.Parallel()
	var chain []tracelog.Symbol // each is made of the one before it
	for i := range uint64(2 * maxHandles) {
		chain = append(chain, tracelog.Symbol{Time: 100 + i, Handle: 1 + i, Of: i})
	}
	chain[0].Name, chain[0].Of = "first", 0
	for _, test := range []struct {
		name       string
		symbols    []tracelog.Symbol
		handle, at uint64
		want       string
	}{
		{"no symbols", nil, 7, 500, ""},
		{"another handle", []tracelog.Symbol{{Time: 100, Handle: 8, Name: "eight"}}, 7, 500, ""},
		{"a handle with a name", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "seven"}}, 7, 500, "seven"},
		{"at the moment in which it was made", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "old"}, {Time: 500, Handle: 7, Name: "new"}}, 7, 500, "new"},
		{"before it came to mean another kernel", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "old"}, {Time: 501, Handle: 7, Name: "new"}}, 7, 500, "old"},
		{"symbols in another order", []tracelog.Symbol{{Time: 501, Handle: 7, Name: "new"}, {Time: 100, Handle: 7, Name: "old"}}, 7, 500, "old"},
		{"the later in the log of two at one time", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "first"}, {Time: 100, Handle: 7, Name: "second"}}, 7, 100, "second"},
		{"used before it was seen to be made", []tracelog.Symbol{{Time: 600, Handle: 7, Name: "seven"}}, 7, 500, "seven"},
		{"made of another handle", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "seven"}, {Time: 200, Handle: 9, Of: 7}}, 9, 500, "seven"},
		{"made of a handle whose meaning changed", []tracelog.Symbol{{Time: 100, Handle: 7, Name: "old"}, {Time: 200, Handle: 9, Of: 7}, {Time: 300, Handle: 7, Name: "new"}}, 9, 250, "old"},
		{"made of a handle that is not known", []tracelog.Symbol{{Time: 200, Handle: 9, Of: 7}}, 9, 500, ""},
		{"made of itself", []tracelog.Symbol{{Time: 200, Handle: 9, Of: 9}}, 9, 500, ""},
		{"the longest chain that is followed", chain, maxHandles, 500, "first"},
		{"a longer chain", chain, maxHandles + 1, 500, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if k := newKernelHandles(test.symbols).Kernel(test.handle, test.at); k != nil {
				got = k.Name
			}
			if got != test.want {
				t.Errorf("handle %d is %q at %d, want %q", test.handle, got, test.at, test.want)
			}
		})
	}
}

// Handles of one kernel give one value, so that a sink can tell kernels by it.
func TestKernelIsOneValue(t *testing.T) {
	t.Parallel()
	h := newKernelHandles([]tracelog.Symbol{{Time: 1, Handle: 1, Name: "k"}, {Time: 1, Handle: 2, Name: "k"}, {Time: 1, Handle: 3, Of: 1}, {Time: 1, Handle: 4, Name: "other"}})
	var got []string
	for handle := range uint64(4) {
		got = append(got, fmt.Sprint(h.Kernel(handle+1, 5) == h.Kernel(1, 9)))
	}
	if list := strings.Join(got, " "); list != "true true true false" {
		t.Errorf("handles of the kernel of handle 1: %s", list)
	}
}

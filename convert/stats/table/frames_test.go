package table

import (
	"fmt"
	"strings"
	"testing"
)

// Frames have the weights of all that they called, stand in their callers, and small ones are left out.
func TestFrames(t *testing.T) {
	t.Parallel()
	f := new(Folded)
	f.Add([]string{"main", "step", "linear"}, 30)
	f.Add([]string{"main", "step"}, 10)
	f.Add([]string{"main", "copy"}, 50)
	f.Add([]string{"other"}, 9)
	f.Add([]string{"main", "step", "tiny"}, 1)
	list, all := f.Frames(0.01)
	var lines []string
	for _, x := range list {
		lines = append(lines, fmt.Sprintf("%d %s at %d: %d", x.Depth, x.Name, x.Before, x.Weight))
	}
	const want = "0 main at 0: 91; 1 copy at 0: 50; 1 step at 50: 41; 2 linear at 50: 30; 0 other at 91: 9"
	if got := strings.Join(lines, "; "); got != want || all != 100 {
		t.Errorf("of %d: %s, want %s", all, got, want)
	}
}

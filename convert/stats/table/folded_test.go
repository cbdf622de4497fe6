package table

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// Stacks come in the order of their frames, equal ones together, each in a line whose last word is the weight.
func TestFolded(t *testing.T) {
	t.Parallel()
	var f Folded
	f.Add([]string{"main", "b"}, 3)
	f.Add([]string{"main", "a;x\ny", "z"}, 1)
	f.Add([]string{"main", "b"}, 4)
	f.Add([]string{"main"}, 5)
	f.Add([]string{"(none)"}, math.MaxUint64)
	f.Add([]string{"(none)"}, 7)
	f.Add([]string{"nothing"}, 0)
	f.Add(nil, 9)
	var out bytes.Buffer
	must.Do(t, f.Write(&out))
	want := "(none) 18446744073709551615\nmain 5\nmain;a,x y;z 1\nmain;b 7\n"
	if out.String() != want {
		t.Errorf("%q, want %q", &out, want)
	}
}

// What would need more frames than there may be counts for those around it: no weight is missing.
func TestFoldedBound(t *testing.T) {
	t.Parallel()
	var f Folded
	const room, more = 100, 10
	f.nodes = maxFolds - room
	for i := range room + more {
		f.Add([]string{"main", fmt.Sprint(i)}, 1)
	}
	var out bytes.Buffer
	must.Do(t, f.Write(&out))
	if first, _, _ := strings.Cut(out.String(), "\n"); first != fmt.Sprint("main ", more+1) || strings.Count(out.String(), "\n") != room {
		t.Errorf("%d lines, the first is %q", strings.Count(out.String(), "\n"), first)
	}
}

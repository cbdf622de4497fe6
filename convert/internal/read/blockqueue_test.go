package read

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// keptBlocks returns a block of calls for each list of starts.
func keptBlocks(t testing.TB, starts ...[]int) (list []*tracelog.Block) {
	t.Helper()
	var parts []string
	for _, block := range starts {
		text := ""
		for _, at := range block {
			text += eventLine("call", uint64(at))
		}
		parts = append(parts, text)
	}
	for r := openLog(t, logtest.Parts(t, parts...)); r.Next(); {
		if r.Block().Kind == tracelog.KindCall {
			list = append(list, r.Keep())
		}
	}
	return list
}

// A queued block knows when its first and its last record begin, and whether it is in order.
// Calls that begin together are not: the longer comes first.
func TestQueuedBlock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		starts   []int
		distinct bool
		want     string
	}{
		{[]int{5}, true, "5 to 5, sorted true"},
		{[]int{5, 6, 9}, true, "5 to 9, sorted true"},
		{[]int{5, 9, 6}, true, "5 to 9, sorted false"},
		{[]int{9, 6, 5}, false, "5 to 9, sorted false"},
		{[]int{7, 7}, true, "7 to 7, sorted false"},
		{[]int{7, 7}, false, "7 to 7, sorted true"},
		{[]int{5, 6, 6, 9}, true, "5 to 9, sorted false"},
		{[]int{5, 6, 6, 9}, false, "5 to 9, sorted true"},
		{[]int{0, 0, 3}, false, "0 to 3, sorted true"},
	} {
		var q blockQueue
		q.push(keptBlocks(t, test.starts)[0], test.distinct)
		b := q.pop()
		if got := fmt.Sprintf("%d to %d, sorted %t", b.from, b.to, b.sorted); got != test.want {
			t.Errorf("%d (distinct %t) is from %s, want %s", test.starts, test.distinct, got, test.want)
		}
	}
}

// Blocks come out as a stable sort by their starts leaves them, whenever they were put in.
func TestBlockQueueSorts(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	var starts [][]int
	for range 300 {
		starts = append(starts, []int{rnd.IntN(100)})
	}
	var q blockQueue
	var in []queuedBlock
	check := func() {
		slices.SortStableFunc(in, func(a, b queuedBlock) int { return int(a.from) - int(b.from) })
		if b := q.pop(); b != in[0] || q.rows != len(in)-1 {
			t.Fatalf("block %d from %d is taken before block %d from %d", b.nth, b.from, in[0].nth, in[0].from)
		}
		in = in[1:]
	}
	for i, b := range keptBlocks(t, starts...) {
		q.push(b, true)
		in = append(in, queuedBlock{b, uint64(starts[i][0]), uint64(starts[i][0]), uint64(i), true})
		for len(in) > 0 && rnd.IntN(3) == 0 {
			check()
		}
	}
	for len(in) > 0 {
		check()
	}
}

package join

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

// Blocks have the innermost operator of their thread, in whatever order the log has blocks and operators. Where no
// record can wait for all others, they have that one or none.
func TestOperatorsOfBlocks(t *testing.T) {
	t.Parallel()
	known := make(map[int]int)
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		defs, lines, want := "process pid=5 start=1\n", []string(nil), map[uint64]string{}
		for tid := range 3 {
			now, count := uint64(1000+100*tid), 0
			var run func(within string, parent, depth int)
			run = func(within string, parent, depth int) {
				for range 1 + rnd.IntN(4) {
					now += 2 + 2*uint64(rnd.IntN(20))
					if depth == 0 || rnd.IntN(2) == 0 {
						address := uint64(len(lines) + 1)
						want[address] = within
						lines = append(lines, fmt.Sprintf("torch_memory pid=5 tid=%d time=%d address=%#x bytes=512 allocated=512",
							tid+10, now+1, address)) // an odd time: those of operators are even
						continue
					}
					count++
					id, start := tid*1000+count, now
					name := fmt.Sprintf("op%d", id)
					defs += fmt.Sprintf("operator_stack id=%d parent=%d name=%s\n", id, parent, name)
					run(name, id, depth-1)
					now += 2
					lines = append(lines, fmt.Sprintf("operator_span pid=5 tid=%d start=%d dur=%d operators=%d", tid+10, start,
						now-start, id))
				}
			}
			for range 10 {
				run("", 0, 5)
			}
		}
		rnd.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		parts := []string{defs}
		for len(lines) > 0 {
			n := min(1+rnd.IntN(10), len(lines))
			parts, lines = append(parts, strings.Join(lines[:n], "\n")), lines[n:]
		}
		for _, budget := range []*Budget{DefaultBudget(), {Records: Bound{Most: 300}}} {
			j := newJoining(t, logtest.Parts(t, parts...), Options{Budget: budget}).runInSteps()
			for _, p := range j.timeline().Processes {
				for _, b := range p.TorchBlocks {
					got := ""
					if b.Operator != nil {
						got = b.Operator.Name
						known[budget.Records.Most]++
					}
					if got != want[b.Address] && (got != "" || budget.Records.Most > 300) {
						t.Errorf("seed %d, at most %d wait: the block at %d has %q, want %q", seed, budget.Records.Most, b.Address, got,
							want[b.Address])
					}
				}
			}
		}
	}
	if known[300] == 0 || known[300] >= known[1<<21] {
		t.Errorf("blocks with an operator, by how many records may wait: %v", known)
	}
}

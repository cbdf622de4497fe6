package collective_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/join"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// realRanks reads the streams of two ranks of PyTorch with NCCL, recorded on two GPUs of one host. said: with what NCCL says of its communicators.
func realRanks(t *testing.T, said bool) (ranks [2][]*collective.Sequence) {
	t.Helper()
	for i := range ranks {
		s := &join.CollectiveSource{Of: 2, Tells: said, Open: func() (*tracelog.Reader, error) {
			return tracelog.Open(fmt.Sprintf("../../testdata/gpu/logs/nccl-rank%d.cudatrace", i))
		}}
		list, err := join.ReadCollectives(s)
		if err != nil || len(list) != 2 {
			t.Fatalf("rank %d: %d streams with collectives, want 2: %v", i, len(list), err)
		}
		ranks[i] = list
	}
	return ranks
}

// Real ranks of one host, whose clock is known: the clock of one is shifted and skewed, and its collectives give back by how much. The stated
// bound holds, and the estimate is right to 5 us.
func TestRealClocks(t *testing.T) {
	t.Parallel()
	for _, said := range []bool{false, true} {
		for _, c := range []struct {
			shift int64   // ns
			drift float64 // ppm
		}{{0, 0}, {7e12, 0}, {7e12, 12}, {-5e9, -80}, {123456789, 300}} {
			t.Run(fmt.Sprintf("said %t, shift %d, drift %g", said, c.shift, c.drift), func(t *testing.T) {
				t.Parallel()
				ranks := realRanks(t, said)
				from, _ := ranks[0][0].Bounds()
				for _, s := range ranks[1] {
					s.Move(1, func(at uint64) uint64 {
						d := float64(int64(at - from))
						return uint64(int64(from) + c.shift + int64(d+d*c.drift/1e6))
					})
				}
				found := collective.Match(append(ranks[0], ranks[1]...))
				if len(found) != 2 {
					t.Fatalf("%d communicators are found, want 2", len(found))
				}
				fit := align(found)
				if fit == nil {
					t.Fatal("the clocks are not aligned")
				}
				wrong := float64(fit.Shift) + float64(c.shift)
				if math.Abs(wrong) > float64(fit.Error) || math.Abs(wrong) > 5000 || math.Abs(fit.Drift+c.drift) > 3 {
					t.Errorf("the shift is wrong by %.0f ns, said to be right to %d ns; the drift is %.2f ppm", wrong, fit.Error, fit.Drift)
				}
			})
		}
	}
}

// align fits the clock of host 1 to that of host 0.
func align(found []*collective.Communicator) *collective.ClockFit {
	spans := []timeline.Extent{{Start: math.MaxUint64}, {Start: math.MaxUint64}}
	var list []collective.HostParts
	for _, c := range found {
		for _, m := range c.Members {
			from, to := m.Bounds()
			e := &spans[m.Host]
			e.Start, e.End = min(e.Start, from), max(e.End, to)
		}
		c.Each(func(members []*collective.Sequence, parts []collective.Part) {
			var x collective.HostParts
			for i, m := range members {
				x = append(x, collective.HostPart{Host: m.Host, Entered: parts[i].Start, Left: parts[i].End})
			}
			list = append(list, x)
		})
	}
	return collective.AlignClocks(spans, 0, list)[1]
}

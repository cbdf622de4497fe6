package collective_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// realRanks reads the streams of the ranks of PyTorch with NCCL, recorded on GPUs of one host. said: with what NCCL says of its communicators.
func realRanks(t *testing.T, c *logtest.Capture, said bool) (ranks [][]*collective.Sequence) {
	t.Helper()
	for _, path := range c.Paths("../..") {
		s := &join.CollectiveSource{Of: c.Ranks, NamesCommunicators: said,
			Open: func() (*tracelog.Reader, error) { return tracelog.Open(path) }}
		list, err := join.ReadCollectives(s)
		if err != nil || len(list) != c.Streams {
			t.Fatalf("%s: %d streams with collectives, want %d: %v", path, len(list), c.Streams, err)
		}
		ranks = append(ranks, list)
	}
	return ranks
}

// Real ranks of one host, whose clock is known: the clocks of all but one are shifted and skewed, and the collectives give back by how much. The stated
// bounds hold from the first collective to the last, and in the middle one the estimates are right to 5 us.
func TestRealClocks(t *testing.T) {
	t.Parallel()
	for _, capture := range logtest.Captures {
		for _, said := range []bool{false, true} {
			for _, c := range []struct {
				shift int64   // ns
				drift float64 // ppm
			}{{7e12, 0}, {-5e9, -80}, {123456789, 300}} {
				t.Run(fmt.Sprintf("%d ranks, said %t, shift %d, drift %g", capture.Ranks, said, c.shift, c.drift), func(t *testing.T) {
					t.Parallel()
					ranks := realRanks(t, &capture, said)
					from, to := ranks[0][0].Bounds()
					middle := ranks[0][0].Middle()
					clocks := logtest.HostClocks(capture.Ranks, from, c.shift, c.drift)
					var all []*collective.Sequence
					for i, list := range ranks {
						for _, s := range list {
							s.Move(i, clocks[i].At)
						}
						all = append(all, list...)
					}
					found := collective.Match(all)
					if len(found) != capture.Communicators {
						t.Fatalf("%d communicators are found, want %d", len(found), capture.Communicators)
					}
					for i, fit := range align(found, capture.Ranks) {
						switch {
						case i == 0:
							continue
						case fit == nil:
							t.Fatalf("the clock of rank %d is not aligned", i)
						}
						wrong := func(at uint64) float64 { return float64(int64(fit.Clock.At(clocks[i].At(at)) - at)) }
						if first, last := wrong(from), wrong(to); max(math.Abs(first), math.Abs(last)) > float64(fit.Error) {
							t.Errorf("rank %d: wrong by %.0f ns first and %.0f ns last, said to be right to %d ns", i, first, last, fit.Error)
						}
						if off := wrong(middle); math.Abs(off) > 5000 {
							t.Errorf("rank %d: wrong by %.0f ns at the middle collective", i, off)
						}
					}
				})
			}
		}
	}
}

// align fits the clocks of hosts to that of host 0.
func align(found []*collective.Communicator, hosts int) []*collective.ClockFit {
	spans := slices.Repeat([]timeline.Extent{{Start: math.MaxUint64}}, hosts)
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
	return collective.AlignClocks(spans, 0, list)
}

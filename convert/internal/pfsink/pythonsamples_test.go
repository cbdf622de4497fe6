package pfsink

import (
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// However much GPU time there is, the samples of each line have its share of the time, to a period.
func TestPythonSamples(t *testing.T) {
	t.Parallel()
	process := &timeline.Process{}
	thread := &timeline.Thread{Process: process, Python: true}
	for _, most := range []uint64{500, 50_000, 5_000_000, 1 << 40} {
		p, random, shape := newPythonSamples(), rand.New(rand.NewPCG(1, most)), new(timeline.Shape)
		lines := []*timeline.Python{{ID: 1}, {ID: 2}, nil}
		times, counts := make(map[*timeline.Python]uint64), make(map[*timeline.Python]uint64)
		for i := range 10_000 {
			w := timeline.Work{Start: p.total, Dur: random.Uint64N(most), Shape: shape, Call: timeline.Call{Thread: thread, Python: lines[i*7%len(lines)]}}
			times[w.Call.Python] += w.Dur
			p.sample(&w, make(timeline.KernelNames))
		}
		if n := uint64(len(p.list)); n > maxSamples || n < maxSamples/2-1 && p.every > 1000 || n != p.total/p.every {
			t.Errorf("up to %d ns: %d samples of %d ns for %d ns", most, n, p.every, p.total)
		}
		for i, x := range p.list {
			counts[x.python]++
			if at := uint64(i+1) * p.every; x.at != at {
				t.Fatalf("up to %d ns: sample %d is at %d, want %d", most, i, x.at, at)
			}
		}
		for line, time := range times {
			// The pieces of work are drawn at random, so that their sampling is off by a few roots of the number of samples.
			if got := counts[line] * p.every; got < time*95/100 || got > time*105/100 {
				t.Errorf("up to %d ns: %d ns of %d", most, got, time)
			}
		}
		if !p.framed[process] {
			t.Error("the process has no frames")
		}
	}
	p := newPythonSamples()
	for range 10 {
		p.sample(&timeline.Work{Start: 1 << 63, Dur: 1 << 63, Call: timeline.Call{Thread: thread}}, nil)
		p.sample(&timeline.Work{Start: 1, Dur: 1 << 61, Shape: new(timeline.Shape), Call: timeline.Call{Thread: thread}}, make(timeline.KernelNames))
	}
	if n := len(p.list); n > maxSamples {
		t.Errorf("%d samples of impossible times", n)
	}
}

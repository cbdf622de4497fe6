package activity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// However its bins come to be, a series holds the whole quantity, each bin its part.
func TestSeries(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s series
		type part struct{ from, to uint64 }
		var parts []part
		reach := uint64(1) << r.IntN(40)
		for range 1 + r.IntN(50) {
			from := 1<<41 + r.Uint64N(2*reach) - reach
			p := part{from, from + r.Uint64N(reach)}
			parts = append(parts, p)
			s.countEvent(p.from, p.to, 2)
		}
		if len(s.bins) > maxBins {
			t.Fatalf("%d bins", len(s.bins))
		}
		for i, got := range s.bins {
			start := (s.base + uint64(i)) << s.shift
			end, want := start+1<<s.shift, 0.0
			for _, p := range parts {
				if from, to := max(p.from, start), min(p.to, end); from < to {
					want += 2 * float64(to-from)
				}
			}
			if math.Abs(got-want) > 1e-6*want {
				t.Fatalf("bin %d from %d to %d is %g, want %g, of %v", i, start, end, got, want, parts)
			}
		}
	}
}

// A log may hold any time.
func TestExtremeTimes(t *testing.T) {
	t.Parallel()
	var s series
	for _, at := range []uint64{0, math.MaxUint64 - 1, 5, 1 << 63} {
		s.countEvent(at, at+1, 1)
	}
	s.countEvent(0, math.MaxUint64, 1)
	s.countEvent(7, 7, 1)
	s.countEvent(9, 3, 1)
	list := s.samples(0, math.MaxUint64, 1)
	if len(s.bins) > maxBins || len(list) == 0 {
		t.Errorf("%d bins, %d samples", len(s.bins), len(list))
	}
	for i := 1; i < len(list); i++ {
		if list[i].Time <= list[i-1].Time {
			t.Errorf("a sample at %d follows one at %d", list[i].Time, list[i-1].Time)
		}
	}
}

// A counter has a sample for so many events, and never more than MaxSamples.
func TestSampleBounds(t *testing.T) {
	t.Parallel()
	for events, most := range map[int]int{1: leastSamples, 100: leastSamples, 10_000: 10_000 / eventsPerSample, 1_000_000: MaxSamples} {
		var s series
		for i := range events {
			s.countEvent(uint64(i)*1000, uint64(i)*1000+uint64(i%777), 1)
		}
		if n := len(s.samples(0, uint64(events)*1000, 1)); n > most+1 || events > 1000 && n < most/3 {
			t.Errorf("%d samples of %d events, want about %d", n, events, most)
		}
	}
}

func countersText(all []Counter) string {
	var b strings.Builder
	for _, c := range all {
		fmt.Fprintf(&b, "%s", c.Name)
		if c.OnGPU {
			fmt.Fprintf(&b, " of GPU %d", c.GPU)
		}
		if c.Process != nil {
			fmt.Fprintf(&b, " of process %d", c.Process.PID)
		}
		if c.Stream != nil {
			fmt.Fprintf(&b, " of stream %d", c.Stream.ID)
		}
		for _, s := range c.Samples {
			fmt.Fprintf(&b, " %d=%g", s.Time, s.Value)
		}
		fmt.Fprintf(&b, " %s\n", c.Unit)
	}
	return b.String()
}

// All counters of a small timeline. The work of two streams overlaps, and comes in another order than
// that of time.
func TestCounters(t *testing.T) {
	t.Parallel()
	process := &timeline.Process{PID: 10}
	thread := &timeline.Thread{Process: process}
	context := &timeline.Context{Process: process, GPU: 1}
	one, two := &timeline.Stream{Context: context, ID: 7}, &timeline.Stream{Context: context, ID: 13}
	kernel := &timeline.Shape{Kernel: timeline.KernelShape{Name: "k"}}
	copied := &timeline.Shape{Memcpy: timeline.MemcpyShape{Bytes: 5120, CopyKind: 1}}
	launch := new(timeline.Function)
	by := func(end uint64) timeline.Call { return timeline.Call{Function: launch, Start: end - 10, End: end} }
	c := NewCounters(false)
	c.Calls(&timeline.Slices{Thread: thread, List: []timeline.Slice{
		{Function: launch, Start: 0, End: 256, Launched: kernel},
		{Function: launch, Start: 300, End: 310, Kernel: &timeline.Kernel{Name: "k"}},
		{Function: launch, Start: 400, End: 410, Launched: copied},
		{Function: launch, Start: 500, End: 510},
	}})
	c.Work(&timeline.WorkList{Stream: two, List: []timeline.Work{
		{Start: 1024 + 64, Dur: 128, Shape: kernel, Call: by(512)},
		{Start: 2048, Dur: 256, Shape: copied, Kind: timeline.MemcpyWork},
		{Start: 2200, Dur: 0, Shape: kernel, Untimed: true, Call: by(10)},
	}})
	c.Work(&timeline.WorkList{Stream: one, List: []timeline.Work{{Start: 1024, Dur: 128, Shape: kernel}}})
	c.Loss(&timeline.Loss{Time: 9000, Count: 3})
	c.Loss(&timeline.Loss{Time: 600, Count: 4})
	const want = `busy of GPU 1 1024=75 1280=0 2048=100 2304=0 %
kernels in flight of GPU 1 1024=1 1280=0 kernels
copies HtoD of GPU 1 2048=20 2304=0 GB/s
launches a second of process 10 0=3.91e+06 512=0 launches/s
launch queue of GPU 1 of process 10 of stream 13 512=1 1024=0.25 1280=0 launches
records lost 0=0 600=4 4096=7 records
`
	goldentest.Same(t, want, countersText(c.All(0, 4096)), "counters")
}

// A bin that the trace's bounds cut counts as far as it lies within them.
func TestBounds(t *testing.T) {
	t.Parallel()
	var s series
	s.countEvent(300, 700, 1)
	goldentest.Same(t, []Sample{{300, 1}}, s.samples(300, 699, 1), "samples")
}

package collective

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A truth is how a host's clock really runs.
type truth struct {
	offset uint64  // the host's time at the reference's origin
	drift  float64 // millionths by which it is faster
	wander float64 // ns by which it swings about the line
}

const origin = 50_000_000_000_000

// host converts a time of the reference, in ns since the origin, to that of the host.
func (c truth) host(t float64) uint64 {
	wave := c.wander * math.Sin(2*math.Pi*t/60e9)
	return c.offset + uint64(int64(math.Round(t+t*c.drift/1e6+wave)))
}

// A clockJob is collectives of hosts.
type clockJob struct {
	clocks      []truth
	collectives []HostParts
	spans       []timeline.Extent
}

// newJob makes a job of some seconds. late is how long the host with a number is late in a collective, in ns.
func newJob(rnd *rand.Rand, clocks []truth, n int, seconds float64, late func(collective, host int) float64, takes func(collective int) []int) *clockJob {
	j := &clockJob{clocks: clocks}
	for i := range n {
		at := 1e9 + seconds*1e9*float64(i)/float64(n)
		var c HostParts
		var entered []float64
		hosts, last := takes(i), 0.0
		for _, h := range hosts {
			t := at + late(i, h)
			entered, last = append(entered, t), max(last, t)
		}
		last += 20e3 + 10e3*rnd.Float64() // the transfer
		for k, h := range hosts {
			left := last + 2e3*rnd.Float64()
			c = append(c, HostPart{h, clocks[h].host(entered[k]), clocks[h].host(left)})
		}
		j.collectives = append(j.collectives, c)
	}
	for _, c := range clocks {
		j.spans = append(j.spans, timeline.Extent{Start: c.host(0), End: c.host((seconds + 2) * 1e9)})
	}
	return j
}

// off is the largest error of a fit.
func (j *clockJob) off(host int, f *ClockFit, seconds float64) (worst float64) {
	for i := range 101 {
		t := (seconds + 2) * 1e9 * float64(i) / 100
		worst = max(worst, math.Abs(float64(int64(f.Clock.At(j.clocks[host].host(t))-origin))-t))
	}
	return worst
}

// beyond is by how much the error of a fit is larger than its bound for that time, at most; 0 where it never is.
func (j *clockJob) beyond(host int, f *ClockFit, seconds float64) (worst float64) {
	reference := new(timeline.Clock)
	reference.Bound(timeline.ClockBound{})
	for i := range 1001 {
		t := (seconds + 2) * 1e9 * float64(i) / 1000
		at := f.Clock.At(j.clocks[host].host(t))
		bound, known := f.Clock.Apart(reference, at)
		if !known {
			return math.Inf(1)
		}
		worst = max(worst, math.Abs(float64(int64(at-origin))-t)-float64(bound))
	}
	return worst
}

// backwards is by how much a collective ends too early at most, on the timeline.
func (j *clockJob) backwards(fits []*ClockFit) (worst int64) {
	at := func(host int, t uint64) int64 {
		if fits[host] == nil {
			return int64(t - origin)
		}
		return int64(fits[host].Clock.At(t) - origin)
	}
	for _, c := range j.collectives {
		entered, left := int64(math.MinInt64), int64(math.MaxInt64)
		for _, p := range c {
			entered, left = max(entered, at(p.Host, p.Entered)), min(left, at(p.Host, p.Left))
		}
		worst = max(worst, entered-left)
	}
	return worst
}

func everybody(n int) func(int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return func(int) []int { return list }
}

// clocksOf are clocks of hosts that started at any time. The first one is the reference's.
func clocksOf(rnd *rand.Rand, n int, wander float64) []truth {
	list := []truth{{offset: origin}}
	for range n - 1 {
		list = append(list, truth{1e12 + rnd.Uint64N(1e15), 100 * (rnd.Float64() - 0.5), wander * rnd.Float64()})
	}
	return list
}

// turns makes one host after the other the last one, and now and then one of them a straggler.
func turns(rnd *rand.Rand, hosts int) func(collective, host int) float64 {
	return func(collective, host int) float64 {
		late := 400e3 * rnd.Float64()
		if collective%hosts == host {
			late = 500e3 + 100e3*rnd.Float64()
		}
		if rnd.IntN(200) == 0 {
			late += 30e6
		}
		return late
	}
}

// Offsets of days and drifts of many ppm are found to 5 µs where hosts take turns in being last.
func TestTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		const hosts, seconds = 8, 60
		j := newJob(rnd, clocksOf(rnd, hosts, 0), 400, seconds, turns(rnd, hosts), everybody(hosts))
		fits := AlignClocks(j.spans, 0, j.collectives)
		for h := 1; h < hosts; h++ {
			f := fits[h]
			if f == nil {
				t.Fatalf("seed %d: host %d is not aligned", seed, h)
			}
			if off := j.off(h, f, seconds); off > 5000 || off > float64(f.Error) || f.Lines != 1 || f.Collectives != 400 {
				t.Errorf("seed %d: host %d is %.0f ns off, bound %d ns, %d lines, %d collectives", seed, h, off, f.Error, f.Lines, f.Collectives)
			}
			if d := f.Drift + j.clocks[h].drift; math.Abs(d) > 0.2 {
				t.Errorf("seed %d: the drift of host %d is %.3f, want %.3f", seed, h, f.Drift, -j.clocks[h].drift)
			}
		}
		if back := j.backwards(fits); back > 0 {
			t.Errorf("seed %d: a collective ends %d ns before the last host entered it", seed, back)
		}
	}
}

// The bound holds however the hosts behave: also where some are never last, some are always, and few collectives join
// them through others.
func TestBoundHolds(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		hosts := 2 + rnd.IntN(7)
		seconds := 1 + 100*rnd.Float64()
		clocks := clocksOf(rnd, hosts, 0)
		slow, much := rnd.IntN(hosts), math.Pow(10, 3+4*rnd.Float64())
		late := func(_, host int) float64 {
			if host == slow {
				return much * (1 + rnd.Float64())
			}
			return much * rnd.Float64()
		}
		takes := everybody(hosts)
		if seed%2 == 0 && hosts > 2 { // a chain of hosts
			takes = func(i int) []int { h := i % (hosts - 1); return []int{h, h + 1} }
		}
		j := newJob(rnd, clocks, hosts*(16+rnd.IntN(300)), seconds, late, takes)
		fits := AlignClocks(j.spans, 0, j.collectives)
		for h := 1; h < hosts; h++ {
			if fits[h] == nil {
				t.Errorf("seed %d: host %d of %d is not aligned", seed, h, hosts)
			} else if by := j.beyond(h, fits[h], seconds); by > 0 {
				t.Errorf("seed %d: host %d of %d is off by %.0f ns more than its bound", seed, h, hosts, by)
			}
		}
		if back := j.backwards(fits); back > 0 {
			t.Errorf("seed %d: a collective ends %d ns before the last host entered it", seed, back)
		}
	}
}

// Two hosts that each fit the reference may not fit each other: both are moved until they do.
func TestSettle(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 4))
	clocks := clocksOf(rnd, 3, 0)
	// How long after the last host has entered each host leaves, in µs, by the last host: the middle of what the
	// reference allows is 47 µs off for both others, in opposite directions.
	leaves := [3][3]float64{{150, 5, 100}, {100, 150, 10}, {5, 10, 150}}
	j := &clockJob{clocks: clocks}
	for i := range 300 {
		at, last := 1e9+float64(i)*1e8, i%3
		var c HostParts
		for h := range clocks {
			entered := at - 500e3
			if h == last {
				entered = at
			}
			c = append(c, HostPart{h, clocks[h].host(entered), clocks[h].host(at + 1e3*leaves[last][h])})
		}
		j.collectives = append(j.collectives, c)
	}
	for _, c := range clocks {
		j.spans = append(j.spans, timeline.Extent{Start: c.host(0), End: c.host(32e9)})
	}
	fits := AlignClocks(j.spans, 0, j.collectives)
	if fits[1] == nil || fits[2] == nil {
		t.Fatal("a host is not aligned")
	}
	if back := j.backwards(fits); back > 0 {
		t.Errorf("a collective ends %d ns before the last host entered it", back)
	}
	for h := 1; h < 3; h++ {
		if by := j.beyond(h, fits[h], 30); by > 0 {
			t.Errorf("host %d is off by %.0f ns more than its bound", h, by)
		}
	}
}

// A clock that wanders gets several lines.
func TestWander(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 3))
	const hosts, seconds = 3, 60
	j := newJob(rnd, clocksOf(rnd, hosts, 0), 3000, seconds, turns(rnd, hosts), everybody(hosts))
	for h := 1; h < hosts; h++ {
		j.clocks[h].wander = 200e3
	}
	j = newJob(rnd, j.clocks, 3000, seconds, turns(rnd, hosts), everybody(hosts))
	fits := AlignClocks(j.spans, 0, j.collectives)
	for h := 1; h < hosts; h++ {
		if fits[h] == nil || fits[h].Lines < 2 {
			t.Fatalf("host %d is aligned by %+v", h, fits[h])
		}
		if off := j.off(h, fits[h], seconds); off > 40e3 {
			t.Errorf("host %d is %.0f ns off with %d lines", h, off, fits[h].Lines)
		}
	}
}

// Collectives that cannot be align nothing.
func TestNoFit(t *testing.T) {
	t.Parallel()
	spans := []timeline.Extent{{Start: 0, End: 1e9}, {Start: 0, End: 1e9}}
	for name, part := range map[string]func(i uint64) HostParts{
		"few collectives": func(i uint64) HostParts { return nil },
		"one host alone":  func(i uint64) HostParts { return HostParts{{1, i * 1e6, i*1e6 + 1000}} },
		"what no clock can do": func(i uint64) HostParts {
			return HostParts{{0, i * 1e6, i*1e6 + 100}, {1, i * i * 1e6, i*i*1e6 + 100}}
		},
		"times at the end of all": func(i uint64) HostParts { return HostParts{{0, math.MaxUint64 - i, i}, {1, i, math.MaxUint64 - i}} },
	} {
		var list []HostParts
		for i := range uint64(100) {
			if c := part(i); c != nil {
				list = append(list, c)
			}
		}
		if fits := AlignClocks(spans, 0, list); fits[1] != nil && name != "times at the end of all" {
			t.Errorf("%s: %s", name, fmt.Sprintf("%+v", fits[1]))
		}
	}
}

package activity

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A run is a program that is recorded by chance: of its blocks those that a look meets have a reason, and of its code
// there are samples.
type run struct {
	rnd            *rand.Rand
	now, ran       uint64 // ns; ran: time for which the thread ran
	period, sample uint64 // of samples; ran of the next one
	look           uint64 // next look at blocked threads
	h              *History
	lane           *Lane
	truth          map[string]uint64 // ns by text of an owner
}

func newRun(seed uint64) (*run, *Device) {
	d := New(Options{Watch: new(gapCounter)}).NewDevice(nil)
	r := &run{rnd: rand.New(rand.NewPCG(seed, 7)), now: 1e6, period: 10.1e6,
		h: NewRoom().NewHistory(&timeline.Thread{}), truth: make(map[string]uint64),
		lane: d.Lane(&timeline.Stream{Context: &timeline.Context{Process: new(timeline.Process)}})}
	r.sample, r.look = r.rnd.Uint64N(r.period), r.rnd.Uint64N(lookPeriod)
	return r, d
}

// about is a time that differs by a fifth.
func (r *run) about(ns uint64) uint64 { return ns*4/5 + r.rnd.Uint64N(ns*2/5) }

func (r *run) state(kind timeline.ThreadState, ns uint64, why *timeline.Block) {
	r.h.States([]timeline.State{{Start: r.now, End: r.now + ns, ThreadState: kind, Why: why}})
	r.now += ns
}

// code runs.
func (r *run) code(f *timeline.NativeFrame, ns uint64) {
	r.truth[f.Text()] += ns
	for ; r.sample < r.ran+ns; r.sample += r.period {
		s := timeline.StackSample{Time: r.now + r.sample - r.ran, Native: &timeline.Native{NativeFrame: f}}
		r.h.Samples(r.period, []timeline.StackSample{s})
	}
	r.ran += ns
	r.state(timeline.Running, ns, nil)
}

// sleep blocks in a system call.
func (r *run) sleep(call string, ns uint64) {
	b := &timeline.Block{Call: call}
	r.truth[b.Text()] += ns
	for r.look < r.now {
		r.look += lookPeriod
	}
	if r.look >= r.now+ns {
		b = nil
	}
	r.state(timeline.Blocked, ns, b)
}

// kernel launches a kernel and waits for it. What the thread did since the one before made the GPU idle.
func (r *run) kernel(launch, wait *Function, ns uint64) {
	returned := r.now + 10_000
	p := Piece{Start: returned, End: returned + ns, Launch: Launch{Thread: r.h, CallStart: r.now, CallEnd: returned}}
	r.h.Add(p.Launch.CallStart, p.Launch.CallEnd, launch)
	r.h.Add(p.Launch.CallEnd, p.End, wait)
	r.state(timeline.Blocked, p.End-r.now, nil)
	r.lane.Add(&p)
}

// The interval of an owner of idle time has the truth in about 19 of 20 cases, and in nine of ten where a loop takes as
// long as the time between two samples; and it is no wider than it has to be.
func TestIntervalsHoldTheTruth(t *testing.T) {
	t.Parallel()
	frame := func(name string) *timeline.NativeFrame { return &timeline.NativeFrame{Module: name, Symbol: name} }
	a, b, c := frame("a"), frame("b"), frame("c")
	functions := new(Functions)
	launch, wait := functions.Add("cudaLaunchKernel", ""), functions.Add("cudaStreamSynchronize", "")
	for name, steps := range map[string]func(r *run, i int){
		"three functions": func(r *run, _ int) {
			r.code(a, r.about(4e6))
			r.code(b, r.about(4e6))
			r.code(c, r.about(2e6))
		},
		"a loop of 12 ms": func(r *run, _ int) {
			for _, f := range []*timeline.NativeFrame{a, b, c} {
				r.code(f, r.about(4e6))
			}
		},
		"short gaps": func(r *run, _ int) { r.code(a, r.about(200e3)); r.code(b, r.about(100e3)) },
		"sleeps beside code": func(r *run, _ int) {
			r.code(a, r.about(1e6))
			r.sleep("read", r.about(3e6))
			r.sleep("poll", r.about(1e6))
		},
		"long and short blocks": func(r *run, i int) {
			r.sleep("read", r.about(2e6))
			r.sleep("poll", r.about(uint64(1e6+20e6*(i%20/19))))
		},
		"code and sleeps in turns": func(r *run, i int) {
			r.code([]*timeline.NativeFrame{a, b, c}[i%3], r.about(2e6))
			r.sleep("read", r.about(5e5))
		},
	} {
		held, all, wide, time := 0, 0, uint64(0), uint64(0)
		for seed := range uint64(60) {
			r, d := newRun(seed)
			r.kernel(launch, wait, 1e6)
			clear(r.truth)
			for i := range 120 {
				steps(r, i)
				r.kernel(launch, wait, r.about(1e6))
			}
			d.Finish()
			d.Idle.Pool()
			for _, x := range d.Idle.Rows {
				truth := r.truth[x.What]
				if truth == 0 {
					continue
				}
				if all++; x.Low <= truth && truth <= x.High {
					held++
				}
				wide, time = wide+x.High-x.Low, time+truth
			}
		}
		if all < 60 || held*100 < all*90 {
			t.Errorf("%s: the truth is in %d of %d intervals", name, held, all)
		}
		if wide > 3*time {
			t.Errorf("%s: the intervals are %.1f times as wide as the times", name, float64(wide)/float64(time))
		}
	}
}

// Times that are known come by their length, and estimates by name where chance may decide which of them is longer than
// the first.
func TestSortEstimates(t *testing.T) {
	t.Parallel()
	type row struct {
		name string
		Estimate
	}
	exact := func(name string, ns uint64) row { return row{name, Estimate{ns, ns, ns}} }
	for want, list := range map[string][]row{
		"c b a":   {exact("a", 1), exact("b", 2), exact("c", 3)},
		"a b c":   {{"c", Estimate{60, 40, 90}}, {"b", Estimate{50, 30, 70}}, {"a", Estimate{41, 35, 45}}},
		"z a b":   {{"a", Estimate{50, 30, 70}}, {"b", Estimate{60, 40, 90}}, {"z", Estimate{200, 150, 220}}},
		"b z a c": {exact("a", 39), {"b", Estimate{30, 20, 80}}, {"c", Estimate{20, 10, 39}}, {"z", Estimate{60, 40, 90}}},
	} {
		for range 5 {
			rand.Shuffle(len(list), func(i, k int) { list[i], list[k] = list[k], list[i] })
			sorted := slices.Clone(list)
			SortEstimates(sorted, func(r row) Estimate { return r.Estimate },
				func(a, b row) int { return cmp.Compare(a.name, b.name) })
			var got []string
			for _, r := range sorted {
				got = append(got, r.name)
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s, want %s", s, want)
			}
		}
	}
}

// Idle time is kept by stage where there are too many steps to keep that of each, and a gap belongs to the stage in
// which it begins.
func TestStages(t *testing.T) {
	t.Parallel()
	d := New(Options{Watch: new(gapCounter)}).NewDevice(nil)
	p := &timeline.Process{}
	lane := d.Lane(&timeline.Stream{Context: &timeline.Context{Process: p}})
	d.of.idle[byMark] = roomOfMarks // full
	for i := range uint64(10) {
		at := 1000 * (i + 1)
		d.Parts[0].Mark(at-100, i == 4)
		lane.Add(&Piece{Start: at, End: at + 400})
	}
	d.Finish()
	var steps, before, after Idle
	if d.Parts[0].Idle(2900, 3900, &steps) {
		t.Error("the idle time of a step is known")
	}
	if !d.Parts[0].Stages(4900, &before, &after) || d.Parts[0].Stages(3900, new(Idle), new(Idle)) {
		t.Fatal("of a stage that was marked, or of a step")
	}
	sum := func(i *Idle) (s string) {
		for reason, r := range i.Rows {
			s += fmt.Sprint(reason.What, " ", r.Count, " ", r.Time)
		}
		return s
	}
	if got, want := sum(&before)+", "+sum(&after), NoCall+" 4 2400, "+NoCall+" 5 3000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

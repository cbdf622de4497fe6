package ranks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
)

const (
	reduce    = "_Z41ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
	broadcast = "_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE"
)

// A job is some ranks whose collectives a test makes.
type job struct {
	*Collector
	streams []*timeline.Stream
}

// newJob makes ranks with clocks of their hosts, in a timeline of many processes: streams keep few parts.
func newJob(processes int, clocks ...*timeline.Clock) *job {
	j := &job{Collector: New(make(timeline.KernelNames), func(at uint64) uint64 { return at })}
	j.Recording(&timeline.Recording{Processes: processes})
	j.Log(&timeline.Metadata{Values: map[string]string{"run": "r"}})
	for i, c := range clocks {
		p := &timeline.Process{PID: uint32(i + 1), Name: fmt.Sprint("p", i), Clock: c}
		p.Rank = ranks.Rank{Number: uint32(i), Of: uint32(len(clocks)), Known: true}
		j.streams = append(j.streams, &timeline.Stream{ID: 7, Context: &timeline.Context{Process: p, ID: 1}})
	}
	return j
}

// run runs a kernel on each rank from its time on, until the end.
func (j *job) run(kernel string, end uint64, starts ...uint64) {
	for i, start := range starts {
		s := j.streams[i]
		j.Collective(s, &timeline.Work{Kind: timeline.KernelWork, Start: start, Dur: end - start, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: kernel}}})
		j.User(s)
	}
}

// Of many collectives a sample is compared: what is estimated from it is near the truth, and a note says so.
func TestSample(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(1<<12, clock, clock, clock)
	rnd := rand.New(rand.NewPCG(1, 2))
	waited := make([]uint64, 3)
	const n = 1000
	for i := range uint64(n) {
		at := 1e9 + i*1e7
		starts := []uint64{at + rnd.Uint64N(1e6), at + rnd.Uint64N(1e6), at + 2e6 - 5e5*(i%2)}
		for r, s := range starts {
			waited[r] += starts[2] - s
		}
		j.run(reduce, at+3e6, starts...)
	}
	m := j.Result().communicators[0]
	if m.Step() != 16 || m.kept > n/16+1 || m.kinds[0].count != n {
		t.Errorf("one of %d, %d kept, %d in all", m.Step(), m.kept, m.kinds[0].count)
	}
	for r, s := range j.streams {
		w := j.Waits(j.User(s))
		if math.Abs(float64(w.Waited)-float64(waited[r])) > 0.15*float64(waited[r]) {
			t.Errorf("rank %d waited %d ns, want %d", r, w.Waited, waited[r])
		}
	}
	late := m.blame[2]
	if late.count != m.kept || m.blame[0].count+m.blame[1].count != 0 {
		t.Errorf("rank 2 is last in %d of %d", late.count, m.kept)
	}
	if text := strings.Join(j.Tables()[0].Notes, " "); !strings.Contains(text, "one of 16 collectives is compared") {
		t.Errorf("notes %q", text)
	}
	f := j.Findings(&findings.Defaults, nil, nil, true)
	if len(f) != 1 || f[0].Kind != "straggling_rank" || f[0].Process != j.streams[2].Context.Process || !strings.Contains(f[0].Evidence, "estimated from one of 16") {
		t.Errorf("%+v", f)
	}
}

// What does not wait for all ranks counts, and is not compared.
func TestBroadcast(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(2, clock, clock)
	for i := range uint64(40) {
		j.run(reduce, 1e9+i*1e7+3e6, 1e9+i*1e7+i%3*1e5, 1e9+i*1e7+1e6)
		j.run(broadcast, 1e9+i*1e7+6e6, 1e9+i*1e7+4e6, 1e9+i*1e7+5e6)
	}
	c := j.Tables()[0]
	if len(c.Rows) != 2 {
		t.Fatalf("%d rows", len(c.Rows))
	}
	for _, row := range c.Rows {
		waited, compared := row[c.Column("wait_ns")], row[c.Column("compared")]
		if reduces := strings.Contains(row[0].(string), "AllReduce"); reduces != (waited != nil) || reduces != (compared == uint64(40)) || row[c.Column("count")] != uint64(40) {
			t.Errorf("%v", row)
		}
	}
}

// Who came last, as far as the clocks tell, and else by the lengths of the parts.
func TestCompare(t *testing.T) {
	t.Parallel()
	exact, near, far, unknown := new(timeline.Clock), timeline.Shifted(1), timeline.Shifted(2), timeline.Shifted(3)
	exact.Bound(0, true)
	near.Bound(10e3, true)
	far.Bound(5e6, true)
	part := func(start, end uint64) collective.Part { return collective.Part{Start: start * 1e3, End: end * 1e3} }
	for name, c := range map[string]struct {
		clocks   []*timeline.Clock
		parts    []collective.Part
		distrust bool
		together bool
		last     int
		total    uint64 // µs
		late     uint64
		sure     uint64
	}{
		"one clock":                             {[]*timeline.Clock{exact, exact, exact}, []collective.Part{part(100, 900), part(800, 901), part(500, 900)}, false, true, 1, 1000, 300, 300},
		"later than the clocks are wrong":       {[]*timeline.Clock{exact, near}, []collective.Part{part(100, 900), part(800, 901)}, false, true, 1, 700, 700, 690},
		"within the error, but the length":      {[]*timeline.Clock{exact, far}, []collective.Part{part(100, 900), part(800, 901)}, false, true, 1, 699, 699, 598},
		"the starts mislead":                    {[]*timeline.Clock{exact, far}, []collective.Part{part(900, 1000), part(1800, 3000)}, false, true, 0, 1100, 1100, 1000},
		"a clock that is not known":             {[]*timeline.Clock{exact, unknown}, []collective.Part{part(100, 900), part(7800, 7901)}, false, true, 1, 699, 699, 598},
		"neither tells":                         {[]*timeline.Clock{exact, far}, []collective.Part{part(700, 900), part(800, 901)}, false, true, -1, 99, 0, 0},
		"parts of different collectives":        {[]*timeline.Clock{exact, exact}, []collective.Part{part(100, 200), part(300, 400)}, false, false, 0, 0, 0, 0},
		"clocks that contradict":                {[]*timeline.Clock{exact, near}, []collective.Part{part(100, 200), part(300, 400)}, false, false, 0, 0, 0, 0},
		"clocks that are known to contradict":   {[]*timeline.Clock{exact, near}, []collective.Part{part(100, 200), part(300, 330)}, true, true, 1, 70, 70, 40},
		"nobody waits longer than its own part": {[]*timeline.Clock{exact, near}, []collective.Part{part(100, 795), part(800, 901)}, false, true, 1, 695, 695, 685},
	} {
		x := comparison{distrust: c.distrust}
		if got := x.compare(c.clocks, c.parts); got != c.together {
			t.Errorf("%s: they belong together: %t", name, got)
			continue
		}
		if !c.together {
			continue
		}
		if x.last != c.last || x.total != c.total*1e3 || c.last >= 0 && (x.late != c.late*1e3 || x.sure != c.sure*1e3) {
			t.Errorf("%s: last is %d by %d, surely %d, all wait %d", name, x.last, x.late, x.sure, x.total)
		}
	}
}

func TestStepNumbers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int64{"step 7": 7, "step_12": 12, "step#0": 0, "step": next, "step, batch 3": next, "step 7, batch 3": 7,
		"steps": -2, "step 7a": -2, "my step 7": -2, "step 12345678901": -2, "step -": -2} {
		n, is := Steps{Name: "step"}.number(name, "")
		if !is {
			n = -2
		}
		if n != want {
			t.Errorf("%q is %d, want %d", name, n, want)
		}
	}
	for domain, want := range map[string]bool{"": false, "d": true, "*": true} {
		if _, is := (Steps{Name: "step", Domain: domain}).number("step 1", "d"); is != want {
			t.Errorf("domain %q: %t", domain, is)
		}
	}
	if _, is := (Steps{}).number("", ""); is {
		t.Error("a range without a name is a step of no name")
	}
}

// Steps without numbers are counted on each rank; one that has not ended, and a number that comes again, do not count. A step of two hosts
// whose clocks differ by less than they may be wrong has no last rank.
func TestSteps(t *testing.T) {
	t.Parallel()
	exact, near := new(timeline.Clock), timeline.Shifted(1)
	exact.Bound(0, true)
	near.Bound(100, true)
	j := newJob(2, exact, near)
	j.Steps = Steps{Name: "step"}
	span := func(rank int, name string, start, end uint64, args ...timeline.Detail) {
		track := &timeline.Track{Process: j.streams[rank].Context.Process, Name: "NVTX", Category: timeline.NVTX}
		j.Begin(&timeline.SpanBegin{Track: track, Span: timeline.Span{Name: name, Start: start, Args: args}})
		j.Begin(&timeline.SpanBegin{Track: track, Span: timeline.Span{Name: "inner", Start: start}})
		j.End(&timeline.SpanEnd{Track: track, Time: end - 1})
		j.End(&timeline.SpanEnd{Track: track, Time: end})
	}
	span(0, "step", 1000, 2000)
	span(0, "step", 2000, 3000)
	span(1, "step", 1000, 2050)
	span(1, "step", 2050, 3200)
	span(1, "step 0", 9000, 9900)
	span(0, "step 5", 9000, 9900, timeline.Detail{Name: "unfinished"})
	table := j.Tables()[2]
	var got []string
	for _, row := range table.Rows {
		got = append(got, fmt.Sprintf("%v %v %v %v %v ", row[0], row[table.Column("last_rank")], row[table.Column("late_ns")], row[table.Column("slowest_rank")], row[table.Column("durations_ns")]))
	}
	if want := []string{"step 1 1 200 1 [1000 1150] ", "step 0 <nil> <nil> 1 [1000 1050] "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A kernel is odd where the ranks run the same ones else, and it takes time.
func TestOddKernels(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(4, clock, clock, clock, clock)
	var loads []Load
	for _, s := range j.streams {
		loads = append(loads, Load{Process: j.User(s), Compute: 1e9, Span: 1e9, First: 0, Last: 1e9})
	}
	kernel := func(title string, time uint64, on ...int) Kernel {
		k := Kernel{Title: title, On: new(Set), Count: 1, Time: time}
		for _, i := range on {
			k.On.Add(loads[i].Process)
		}
		return k
	}
	common := []Kernel{kernel("a", 1e9, 0, 1, 2, 3), kernel("b", 1e9, 0, 1, 2, 3), kernel("c", 1e9, 0, 1, 2, 3)}
	stages := []Kernel{kernel("a", 1e9, 0, 1), kernel("b", 1e9, 2, 3), kernel("c", 1e9, 0, 1, 2, 3)}
	for name, c := range map[string]struct {
		kernels []Kernel
		want    string
	}{
		"one has a kernel of its own":     {append(slices.Clone(common), kernel("save", 5e7, 2)), "rank 2"},
		"that takes no time":              {append(slices.Clone(common), kernel("save", 5e6, 2)), ""},
		"two have it":                     {append(slices.Clone(common), kernel("save", 5e7, 2, 3)), ""},
		"ranks that do different things":  {append(slices.Clone(stages), kernel("save", 5e7, 2)), ""},
		"all are different on their rank": {[]Kernel{kernel("a", 1e9, 0), kernel("b", 1e9, 1), kernel("c", 1e9, 2)}, ""},
	} {
		got := ""
		for _, f := range j.Findings(&findings.Defaults, loads, c.kernels, true) {
			got += strings.TrimPrefix(f.Title, "only ")
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

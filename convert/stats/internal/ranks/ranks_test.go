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
	gather    = "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE"
	scatter   = "_Z41ncclDevKernel_ReduceScatter_Sum_f32_RING24ncclDevKernelArgsStorageILm4096EE"
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
	j := &job{Collector: New(make(timeline.KernelNames), func(at uint64) uint64 { return at }, func(*timeline.Process) findings.Interval { return findings.Interval{To: 2e10} })}
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
	j.runSaid(kernel, end, nil, starts...)
}

// runSaid runs a kernel of which NCCL says something on each rank.
func (j *job) runSaid(kernel string, end uint64, said []*timeline.NCCL, starts ...uint64) {
	for i, start := range starts {
		s := j.streams[i]
		w := &timeline.Work{Kind: timeline.KernelWork, Start: start, Dur: end - start, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: kernel}}}
		if said != nil {
			w.NCCL = said[i]
		}
		j.Collective(s, w)
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
	if uint64(len(late.late)) != m.kept || len(m.blame[0].late)+len(m.blame[1].late) != 0 {
		t.Errorf("rank 2 is last in %d of %d", len(late.late), m.kept)
	}
	if text := strings.Join(j.Collectives().Notes, " "); !strings.Contains(text, "one of 16 collectives is compared") {
		t.Errorf("notes %q", text)
	}
	f := j.Findings(findings.New().Worth, nil, nil, noGaps, true)
	if len(f) != 1 || f[0].Kind != "straggling_rank" || f[0].Process != j.streams[2].Context.Process || !strings.Contains(f[0].Evidence, "estimated from one of 16") {
		t.Errorf("%+v", f)
	}
}

// The first of the many collectives of a step waits for a straggler. Chance decides who is last in the others: they are ties, and say nothing.
func TestTies(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	for name, c := range map[string]struct {
		late  func(step uint64) (rank int, by uint64) // at the first collective
		title string
		share []float64 // of the waiting, by rank; nil for any
		last  float64
		ties  uint64
	}{
		"a straggler": {func(uint64) (int, uint64) { return 3, 16e6 },
			"rank 3 is 16.0 ms late, 40 times", []float64{0, 0, 0, 0.999}, 1, 600},
		"it is last in most steps": {func(step uint64) (int, uint64) {
			if step%10 == 0 {
				return 1, 16e6
			}
			return 3, 16e6
		}, "rank 3 is 16.0 ms late, 36 times", []float64{0, 0.1, 0, 0.9}, 0.9, 600},
		"it was late once": {func(step uint64) (int, uint64) {
			if step == 7 {
				return 3, 5e9
			}
			return 0, 0
		}, "", []float64{0, 0, 0, 0.999}, 1, 639},
		"ranks take turns":   {func(step uint64) (int, uint64) { return int(step % 4), 16e6 }, "", []float64{0.25, 0.25, 0.25, 0.25}, 0.25, 600},
		"there are but ties": {func(uint64) (int, uint64) { return 0, 0 }, "", nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(4, clock, clock, clock, clock)
			rnd := rand.New(rand.NewPCG(3, 4))
			at := uint64(1e9)
			for step := range uint64(40) {
				for i := range 16 {
					starts := make([]uint64, 4)
					for r := range starts {
						starts[r] = at + 4*rnd.Uint64N(250) + uint64(r)
					}
					if rank, by := c.late(step); i == 0 {
						starts[rank] += by
					}
					at = slices.Max(starts) + 60e3
					j.run(reduce, at, starts...)
				}
			}
			title := ""
			for _, f := range j.Findings(findings.New().Worth, nil, nil, noGaps, true) {
				title += f.Title
			}
			if title != c.title {
				t.Errorf("findings %q, want %q", title, c.title)
			}
			if c.share == nil {
				return
			}
			for r, s := range j.streams {
				w := j.Waits(j.User(s))
				if share := float64(w.Awaited) / float64(w.All); math.Abs(share-c.share[r]) > 0.002 {
					t.Errorf("%.4f of the waiting is for rank %d, want %.3f", share, r, c.share[r])
				}
			}
			table := j.Collectives()
			row := table.Rows[0]
			of := func(key string) any { return row.Cells[table.Column(key)] }
			if most := slices.Max(c.share); math.Abs(of("waited_for_share").(float64)-most) > 0.002 || of("last_share") != c.last || of("ties") != c.ties || of("uncertain") != uint64(0) {
				t.Errorf("%v of the waiting is for rank %v, last in %v, %v ties, %v uncertain", of("waited_for_share"), of("last_rank"), of("last_share"), of("ties"), of("uncertain"))
			}
		})
	}
}

func noGaps(*timeline.Process) []findings.Idle { return nil }

// said is what NCCL says on some ranks about a kernel: the hash and the bytes, negative where they are not known.
func said(hash uint64, bytes ...int64) (list []*timeline.NCCL) {
	for _, b := range bytes {
		n := &timeline.NCCL{Communicator: hash}
		if b >= 0 {
			n.Bytes, n.HasBytes = uint64(b), true
		}
		list = append(list, n)
	}
	return list
}

// sizeRows are the rows of message_sizes, sorted, without the columns of totals.
func sizeRows(j *job) (rows []string, notes string) {
	t := j.MessageSizes()
	for _, r := range t.Rows {
		row := fmt.Sprintf("%v of %v, %v-%v B: %v, %v B, %v measured, %v ns, %.3v %.3v", r.Cells...)
		rows = append(rows, strings.NewReplacer("%!v(<nil>)", "-", "<nil>", "-").Replace(row))
	}
	slices.Sort(rows)
	return rows, strings.Join(t.Notes, "; ")
}

// A bandwidth is that of the collective from the entering of the last rank on, with nccl-tests' factors for each operation.
func TestBandwidths(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(4, clock, clock, clock, clock)
	run := func(i uint64, kernel string, bytes ...int64) {
		at := 1e9 + i*1e6
		j.runSaid(kernel, at+500e3, said(7, bytes...), at, at+100e3, at+499e3, at+300e3)
	}
	run(0, reduce, 1000, 1000, 1000, 1000)
	run(1, reduce, 1000, -1, -1, -1) // one rank knows
	run(2, reduce, 3000, 3000, 3000, 3000)
	run(3, reduce, 0, 0, 0, 0)
	run(4, reduce, -1, -1, -1, -1)
	run(5, gather, 1000, 1000, 1000, 1000)
	run(6, scatter, 1000, 1000, 1000, 1000)
	run(7, scatter, 5000, 5000, 6000, 5000) // which cannot be
	run(8, broadcast, 1000, 1000, 1000, 1000)
	rows, notes := sizeRows(j)
	want := []string{
		"AllGather of 4, 1000-1000 B: 1, 1000 B, 1 measured, 1000 ns, 4 3",
		"AllReduce of 4, --- B: 1, - B, 0 measured, - ns, - -",
		"AllReduce of 4, 0-0 B: 1, 0 B, 1 measured, 1000 ns, 0 0",
		"AllReduce of 4, 1000-1000 B: 2, 2000 B, 2 measured, 1000 ns, 1 1.5",
		"AllReduce of 4, 3000-3000 B: 1, 3000 B, 1 measured, 1000 ns, 3 4.5",
		"Broadcast of 4, 1000-1000 B: 1, 1000 B, 0 measured, - ns, - -",
		"ReduceScatter of 4, 1000-1000 B: 1, 1000 B, 1 measured, 1000 ns, 4 3",
		"ReduceScatter of 4, 5000-6000 B: 2, 11000 B, 0 measured, - ns, - -",
	}
	if !slices.Equal(rows, want) || notes != "the size of 1 collective is not known (docs/nvtx.md has what NCCL tells)" {
		t.Errorf("%s\n%s", strings.Join(rows, "\n"), notes)
	}
}

// The time is that of the rank that entered last, which may leave after others. A collective of which a part is missing has none.
func TestTimeOfCollective(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(3, clock, clock, clock)
	all := j.streams
	part := func(rank int, start, end uint64) {
		j.streams = all[rank : rank+1]
		j.runSaid(reduce, end, said(7, 3000), start)
	}
	part(0, 1e9, 1e9+51e3)
	part(1, 1e9+48e3, 1e9+50e3) // shorter than that of the last rank
	part(2, 1e9+49e3, 1e9+52e3)
	part(0, 2e9, 2e9+1e3)
	part(1, 2e9, 2e9+1e3)
	j.streams = all
	rows, notes := sizeRows(j)
	if want := "AllReduce of 3, 3000-3000 B: 2, 6000 B, 1 measured, 3000 ns, 1 1.33"; !slices.Equal(rows, []string{want}) || notes != "" {
		t.Errorf("%q, want %q, notes %q", rows, want, notes)
	}
}

// A process with more lanes than are compared may have the part of any communicator.
func TestTooManyLanes(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(3, clock, clock, clock)
	j.runSaid(reduce, 1e9+1e6, said(7, 1000, 1000), 1e9, 1e9+5e5)
	for i := range uint64(maxLanes + 1) {
		s := *j.streams[2]
		s.ID = uint32(i)
		j.Collective(&s, &timeline.Work{Kind: timeline.KernelWork, Start: 1e9 + i, Dur: 1e6, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: gather}}, NCCL: said(100+i, 1000)[0]})
	}
	if _, notes := sizeRows(j); !strings.Contains(notes, "communicator 0x7 has no bandwidths: collectives of rank 2") {
		t.Errorf("notes %q", notes)
	}
}

// A communicator has bandwidths if all of its ranks are certainly there.
func TestPartial(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	for name, c := range map[string]struct {
		hash  uint64 // of ranks 2 and 3, whose kernels are of another shape
		other string
		of    uint32 // ranks of the job
		told  uint32 // ranks of each communicator as NCCL tells them
		want  string
	}{
		"two communicators":                      {8, reduce, 4, 0, ""},
		"parts that cannot be put together":      {7, gather, 4, 0, "communicator 0x7 has no bandwidths: collectives of rank 2"},
		"a communicator that NCCL does not name": {0, gather, 4, 0, "communicator 0x7 has no bandwidths: collectives of rank 2"},
		"other ranks are missing":                {8, reduce, 8, 0, "communicator 0x7 has no bandwidths: 4 of the 8 ranks of the job are not there"},
		"a launcher that tells no ranks":         {8, reduce, 0, 0, "communicator 0x7 is taken to have 2 ranks"},
		"NCCL tells that none is missing":        {8, reduce, 8, 2, ""},
		"NCCL tells that one is missing":         {8, reduce, 4, 3, "communicator 0x7 has no bandwidths: 1 of its 3 ranks is not there; "},
	} {
		j := newJob(4, clock, clock, clock, clock)
		for _, s := range j.streams {
			s.Context.Process.Communicators = map[uint64]uint32{7: c.told, 8: c.told}
			r := &s.Context.Process.Rank
			r.Of, r.Known = c.of, c.of > 0
		}
		first, others := *j, *j
		first.streams, others.streams = j.streams[:2], j.streams[2:]
		first.runSaid(reduce, 1e9+500e3, said(7, 1000, 1000), 1e9, 1e9+100e3)
		others.runSaid(c.other, 1e9+500e3, said(c.hash, 1000, 1000), 1e9, 1e9+100e3)
		_, notes := sizeRows(j)
		measured := j.MessageSizes().Rows[0].Cells[6].(uint64) > 0
		if lacks, said := strings.Contains(c.want, "no bandwidths"), strings.Contains(strings.Join(j.Collectives().Notes, "; "), " may have come last: "); lacks != said {
			t.Errorf("%s: that a rank may be missing is said: %t", name, said)
		}
		if !strings.Contains(notes, c.want) || c.want == "" && notes != "" || measured == strings.Contains(c.want, "no bandwidths") {
			t.Errorf("%s: measured %t, notes %q", name, measured, notes)
		}
	}
}

// Sizes beyond the bound are not told apart.
func TestManySizes(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(2, clock, clock)
	for i := range int64(maxLabels) {
		at := 1e9 + uint64(i)*1e6
		j.runSaid(reduce, at+1e5, said(7, i, i), at, at+5e4)
	}
	_, notes := sizeRows(j)
	if want := "the size of 4,096 collectives is not known (docs/nvtx.md has what NCCL tells); only the first 4,096 sizes are told apart"; notes != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	if n := len(j.Result().communicators[0].kinds); n != 1 {
		t.Errorf("%d kernels", n)
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
	c := j.Collectives()
	if len(c.Rows) != 2 {
		t.Fatalf("%d rows", len(c.Rows))
	}
	for _, row := range c.Rows {
		waited, compared := row.Cells[c.Column("wait_ns")], row.Cells[c.Column("compared")]
		if reduces := strings.Contains(row.Cells[0].(string), "AllReduce"); reduces != (waited != nil) || reduces != (compared == uint64(40)) || row.Cells[c.Column("count")] != uint64(40) {
			t.Errorf("%v", row)
		}
	}
}

// Who came last, as far as the clocks tell, and else by the lengths of the parts.
func TestCompare(t *testing.T) {
	t.Parallel()
	exact, near, far, unknown := new(timeline.Clock), timeline.Shifted(1), timeline.Shifted(2), timeline.Shifted(3)
	exact.Bound(timeline.ClockBound{Error: 0})
	near.Bound(timeline.ClockBound{Error: 10e3})
	far.Bound(timeline.ClockBound{Error: 5e6})
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

// A number that comes again does not count. A step of two hosts whose clocks differ by less than they may be wrong has no last rank. Steps of processes that are no
// ranks are not put together.
func TestSteps(t *testing.T) {
	t.Parallel()
	exact, near := new(timeline.Clock), timeline.Shifted(1)
	exact.Bound(timeline.ClockBound{Error: 0})
	near.Bound(timeline.ClockBound{Error: 100})
	j := newJob(2, exact, near)
	span := func(rank int, number int64, start, end uint64) {
		j.AddStep(j.streams[rank].Context.Process, "step", number, start, end)
	}
	span(0, 1, 2000, 3000)
	span(0, 0, 1000, 2000)
	span(1, 0, 1000, 2050)
	span(1, 1, 2050, 3200)
	span(1, 0, 9000, 9900)
	for _, name := range []string{"a", "b"} {
		j.AddStep(&timeline.Process{Name: name, Clock: exact}, name, 0, 100, 200)
	}
	made := func(of *timeline.Process, from, to uint64) (ns [4]uint64, known bool) {
		return [4]uint64{1, 2, 3, to - from}, from == 2050
	}
	table := j.StepTable(made)
	var got []string
	for _, row := range table.Rows {
		got = append(got, fmt.Sprintf("%v %v %v %v %v %v", row.Cells[0], row.Cells[table.Column("last_rank")], row.Cells[table.Column("late_ns")], row.Cells[table.Column("slowest_rank")], row.Cells[table.Column("durations_ns")], row.Cells[table.Column("compute_ns"):table.Column("pid")]))
	}
	if want := []string{"step 0 <nil> <nil> 1 [1000 1050] [<nil> <nil> <nil> <nil>]", "step 1 1 200 1 [1000 1150] [1 2 3 1150]",
		"a 0 <nil> <nil> <nil> [100] [<nil> <nil> <nil> <nil>]", "b 0 <nil> <nil> <nil> [100] [<nil> <nil> <nil> <nil>]"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Of four ranks the logs of two are given. Rank 1 is always last of these: for certain, if it waits for nobody. What may be waiting for the others does
// not come first.
func TestAbsentRanks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		took    uint64 // ns of the part of rank 1, 50 ms after rank 0
		count   uint64 // such collectives, beside ties
		certain bool
		want    string
	}{
		"it waits for nobody":                   {4e6, 12, true, "; other ranks, whose logs are not given, do not come later: it waits for nobody"},
		"it waits for another":                  {6e6, 20, false, "; other ranks, whose logs are not given, may come later"},
		"so few that it may be one of two that": {6e6, 12, false, ""},
	} {
		clock := new(timeline.Clock)
		j := newJob(2, clock, clock)
		var loads []Load
		for _, s := range j.streams {
			s.Context.Process.Communicators = map[uint64]uint32{7: 4}
			s.Context.Process.Rank.Of = 4
		}
		for i := range c.count + 5 {
			at, late := 1e9+i*1e8, uint64(50e6)
			if i < 5 {
				late = 0
			}
			j.runSaid(reduce, at+late+c.took, said(7, 4, 4), at, at+late)
		}
		for _, s := range j.streams {
			loads = append(loads, Load{RankProcess: j.User(s), Exposed: 9e8, Compute: 1e9, Span: 2e9, Last: 2e9})
		}
		among := j.Findings(findings.New().Worth, loads, nil, noGaps, true)
		kinds := ""
		for i, f := range j.Arrange([]findings.Finding{{Kind: "gaps", Process: j.streams[0].Context.Process, Cost: 1, GPU: new(uint32)}}, among) {
			kinds += f.Kind + " "
			switch f.Kind {
			case "straggling_rank":
				if f.Certain() != c.certain || !strings.HasSuffix(f.Evidence, c.want) || !strings.Contains(f.Evidence, "of 2 of 4 ranks") {
					t.Errorf("%s: certain %t, %q, %q", name, f.Certain(), f.Title, f.Evidence)
				}
				if first := i == 0; first != c.certain {
					t.Errorf("%s: straggling_rank is finding %d", name, i+1)
				}
			case "exposed_communication":
				if f.Certain() || !strings.HasSuffix(f.Evidence, "; the cost includes waiting for other ranks, whose logs are not given") {
					t.Errorf("%s: %q", name, f.Evidence)
				}
			}
		}
		if strings.Contains(kinds, "straggling_rank") != (c.want != "") || !strings.HasSuffix(kinds, "exposed_communication ") && !strings.HasSuffix(kinds, "exposed_communication straggling_rank ") {
			t.Errorf("%s: findings %q", name, kinds)
		}
	}
}

// What chance does, of a coin and of a die.
func TestByChance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		count, of int
		p, want   float64
	}{{15, 15, 0.5, 1.0 / (1 << 15)}, {0, 7, 0.5, 1}, {2, 3, 0.5, 0.5}, {1, 2, 1.0 / 6, 11.0 / 36}} {
		if got := byChance(c.count, c.of, c.p); math.Abs(got/c.want-1) > 1e-9 {
			t.Errorf("%d of %d: %g, want %g", c.count, c.of, got, c.want)
		}
	}
}

// A kernel is odd where the ranks run the same ones else, and it takes time.
func TestOddKernels(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(4, clock, clock, clock, clock)
	var loads []Load
	for _, s := range j.streams {
		loads = append(loads, Load{RankProcess: j.User(s), Compute: 1e9, Span: 1e9, First: 0, Last: 1e9})
	}
	kernel := func(title string, time uint64, on ...int) Kernel {
		k := Kernel{Title: title, Short: "the " + title, On: new(Users), Count: 1, Time: time}
		for _, i := range on {
			k.On.Add(loads[i].RankProcess)
		}
		return k
	}
	common := []Kernel{kernel("a", 1e9, 0, 1, 2, 3), kernel("b", 1e9, 0, 1, 2, 3), kernel("c", 1e9, 0, 1, 2, 3)}
	stages := []Kernel{kernel("a", 1e9, 0, 1), kernel("b", 1e9, 2, 3), kernel("c", 1e9, 0, 1, 2, 3)}
	for name, c := range map[string]struct {
		kernels []Kernel
		want    string
	}{
		"one has a kernel of its own":     {append(slices.Clone(common), kernel("save", 5e7, 2)), "rank 2 runs the kernel the save"},
		"that takes no time":              {append(slices.Clone(common), kernel("save", 5e6, 2)), ""},
		"two have it":                     {append(slices.Clone(common), kernel("save", 5e7, 2, 3)), ""},
		"ranks that do different things":  {append(slices.Clone(stages), kernel("save", 5e7, 2)), ""},
		"all are different on their rank": {[]Kernel{kernel("a", 1e9, 0), kernel("b", 1e9, 1), kernel("c", 1e9, 2)}, ""},
	} {
		got := ""
		for _, f := range j.Findings(findings.New().Worth, loads, c.kernels, noGaps, true) {
			got += strings.TrimPrefix(f.Title, "only ")
		}
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// Ranks that make the same steps are compared as they are: that one waits for the others before the first step makes its
// steady state longer, and its compute no less.
func TestImbalanceOfSteps(t *testing.T) {
	t.Parallel()
	clock := new(timeline.Clock)
	j := newJob(3, clock, clock, clock)
	for _, c := range []struct {
		compute, spans, steps []uint64
		want                  string
	}{
		{[]uint64{80e6, 80e6, 80e6}, []uint64{2e8, 3e8, 3e8}, []uint64{40, 40, 40}, ""},
		{[]uint64{80e6, 120e6, 80e6}, []uint64{2e8, 3e8, 3e8}, []uint64{40, 40, 40}, "rank 1 computes 50 % longer than the median of the ranks"},
		{[]uint64{80e6, 80e6, 60e6}, []uint64{2e8, 2e8, 15e7}, []uint64{40, 41, 30}, ""},
		// Steps of a rank that are something else, and ranks without steps, are no measure.
		{[]uint64{80e6, 80e6, 80e6}, []uint64{2e8, 2e8, 2e8}, []uint64{40, 20, 320}, ""},
		{[]uint64{80e6, 80e6, 120e6}, []uint64{2e8, 2e8, 2e8}, []uint64{40, 40, 0}, "rank 2 computes 50 % longer than the median of the ranks"},
	} {
		var loads []Load
		for i, s := range j.streams {
			loads = append(loads, Load{RankProcess: j.User(s), Compute: c.compute[i], Span: c.spans[i], Last: 1e9, Steps: c.steps[i]})
		}
		got := ""
		for _, f := range j.Findings(findings.New().Worth, loads, nil, noGaps, true) {
			got += f.Title
		}
		if got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
}

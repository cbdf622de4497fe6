package findings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Finding is a habit of a process that costs time.
type Finding struct {
	Kind        string // "pageable_copies"
	Title       string
	Process     *timeline.Process
	GPU         *uint32 // nil where the habit belongs to no single GPU
	Cost        uint64  // ns; 0 where the habit has no cost in time
	Share       float64 // Cost as a share of the steady state of the process; 0 for the start-up itself
	Count       uint64
	First, Last uint64
	At          []uint64 // moments to look at, those that cost most first
	Longest     uint64   // ns that the first of these cost; 0 where that is not known
	Evidence    string
	Try         string
	AtMost      bool // any part of Cost may be due to ranks whose logs are not given

	// Without takes the habit away from a replay, which then says what it costs. It is nil where Cost is 0, or no saving.
	Without func(*critical.Without)
	Guess   bool    // Cost is the time that the habit takes: what its removal would save is not known
	Part    float64 // of the habit's time, what Title names; 0 where that is all of it

	Explains []Explained // idle time of GPUs of which this one is the cause
	Copying  bool        // a copy is what costs the time
	NoMemory bool        // a call found no memory on a GPU

	most       string // of what the launching threads are known to do while a GPU is idle
	allocating bool   // they allocate in the gaps
	elsewhere  bool   // see WithoutTwice

	// Cause is what a thread did for most of the time, as the rows of idle and of critical_path say it; "" where it is
	// not known.
	Cause   string
	Effect  string    // Title without the cause
	Effects []Finding // findings that show the same cause elsewhere: see [Folded]
}

// An Explained is the part of the gaps of a process on a GPU that another finding explains.
type Explained struct {
	Process *timeline.Process
	GPU     uint32
	Time    uint64 // ns
	About   bool   // an estimate
}

// Explanation is what a finding explains of another one, nil for nothing.
func (f *Finding) Explanation(of *Finding) *Explained {
	i := slices.IndexFunc(f.Explains, func(x Explained) bool {
		return (of.Kind == "gaps" || of.Kind == IdleGPU) && of.Process == x.Process && *of.GPU == x.GPU
	})
	if i < 0 {
		return nil
	}
	return &f.Explains[i]
}

// A Kind is a kind of finding.
type Kind struct {
	Name    string
	Likely  bool   // the log shows the habit, but not that the habit is what costs the time
	Ranks   bool   // it compares processes
	Reports string // that show it

	find  func(*report) // looks for it in a process; nil for one that is found elsewhere, or beside another
	whole bool          // only where no records are missing
}

// Kinds are the kinds of finding, in the order in which they are looked for: an idle GPU last, since what explains it has
// it in its evidence.
var Kinds = []Kind{
	{Name: "failing_calls", Reports: "errors", find: (*report).failing},
	{Name: "pytorch_out_of_memory", Reports: "torch_memory", find: (*report).torchMemory},
	{Name: "gaps", Reports: "gaps,idle", find: (*report).gaps, whole: true},
	{Name: "device_waits", Reports: "waits,idle", find: (*report).waits, whole: true},
	{Name: "tiny_kernels", Reports: "launches,idle", find: (*report).tinyKernels, whole: true},
	{Name: "pageable_copies", Reports: "copies,callers", find: (*report).pageable},
	{Name: "small_copies", Reports: "copies,callers", find: (*report).smallCopies},
	{Name: "synchronous_sets", Reports: "sets,callers", find: (*report).sets},
	{Name: "serial_streams", Likely: true, Reports: "streams,idle", find: (*report).serialStreams, whole: true},
	{Name: OnPath, Likely: true, Reports: "critical_path"},
	{Name: "first_use", Reports: "calls,idle", find: (*report).firstUse, whole: true},
	{Name: "allocation_in_loop", Reports: "calls,callers,memory", find: (*report).allocations},
	{Name: "idle_sms", Reports: "metrics,kernel_shapes", find: (*report).metrics}, // and the next four,
	{Name: "unused_tensor_cores", Likely: true, Reports: "metrics,kernels"},
	{Name: "dram_bound", Reports: "metrics,kernels"},
	{Name: "pcie_bound", Reports: "metrics,copies"},
	{Name: "clocks_lowered", Reports: "metrics"},
	{Name: "low_clocks", Ranks: true, Reports: "metrics"},
	{Name: "straggling_rank", Ranks: true, Reports: "collectives,late_collectives,ranks"},
	{Name: "straggling_host", Ranks: true, Reports: "collectives,late_collectives,ranks"},
	{Name: "exposed_communication", Ranks: true, Likely: true, Reports: "ranks,collectives"},
	{Name: "compute_imbalance", Ranks: true, Likely: true, Reports: "ranks,kernels"},
	{Name: "odd_kernel", Ranks: true, Likely: true, Reports: "kernels"},
	{Name: IdleGPU, Reports: "gaps,idle", find: (*report).idle, whole: true},
	{Name: Startup, Likely: true, Reports: "calls,threads"},
}

// KindOf returns the kind of a name.
func KindOf(name string) Kind {
	return Kinds[slices.IndexFunc(Kinds, func(k Kind) bool { return k.Name == name })]
}

// A Span says when logs begin, on the clock of a timeline.
type Span struct {
	First, Last uint64 // the log that begins first, and last; Last is 0 if the logs have several clocks
	Logs        int
}

// Reports are those that show the finding, with commas between.
func (f *Finding) Reports() string {
	if f.NoMemory {
		return KindOf(f.Kind).Reports + ",out_of_memory"
	}
	return KindOf(f.Kind).Reports
}

// Query returns the command that shows the finding of some logs, whose names are words for a shell. Filters take the
// processes and times of each log: of several logs the command has no process, and a time that includes that of the
// finding in each log; none where the logs have several clocks.
func (f *Finding) Query(begin Span, logs string) string {
	k := KindOf(f.Kind)
	since := func(t, start uint64) string { return fmt.Sprintf("%.6fs", float64(t-min(t, start))/1e9) }
	query := "cudatrace stats " + logs + " --report " + f.Reports()
	if !k.Ranks && !f.NoMemory && begin.Logs < 2 { // another process may have held the memory
		query += fmt.Sprintf(" --process %d", f.Process.PID)
	}
	if f.First < f.Last && begin.Last > 0 {
		query += fmt.Sprintf(" --from %s --to %s", since(f.First, begin.Last), since(f.Last+1000, begin.First))
	}
	return query
}

// Certain reports whether the log shows that the habit is what costs the time.
func (f *Finding) Certain() bool { return !KindOf(f.Kind).Likely && !f.AtMost && !f.Guess }

// Startup is the kind of the finding that sums up what comes before the steady state.
const Startup = "startup"

// OnPath is the kind of a finding about critical paths.
const OnPath = "critical_path"

// List returns the findings: what failed first, then those that cost most. With whole false
// records are missing, and nothing is said about gaps between work.
func (c *Collector) List(whole bool, idle SteadyIdles) []Finding {
	var all, startups []Finding
	for _, p := range c.list {
		r := report{collector: c, process: p, steady: c.Steady(p.Process), idleTime: idle}
		for _, k := range Kinds {
			if k.find != nil && (whole || !k.whole) {
				k.find(&r)
			}
		}
		all = append(all, r.list...)
		if f := r.startup(); f != nil {
			startups = append(startups, *f)
		}
	}
	return Sorted(slices.Concat(all, c.lowClocks(), once(startups)))
}

// Steady returns the steady state of a process: the time from the end of its start-up to the end of its GPU work, of
// one without GPU work to that of its calls.
func (c *Collector) Steady(of *timeline.Process) (steady Interval) {
	p := c.processes[of]
	if p == nil || p.first > p.last {
		return Interval{}
	}
	for _, e := range p.worked {
		steady.To = max(steady.To, e.last)
	}
	if steady.To == 0 {
		steady.To = p.last
	}
	steady.From = max(p.stages.Steady(), p.first)
	steady.To = max(steady.To, steady.From)
	return steady
}

// Sorted sorts findings in the order of List.
func Sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.weight(), a.weight()), cmp.Compare(b.Count, a.Count))
	})
	return all
}

// weight is the cost by which findings are sorted. That a GPU is idle is no cause: findings that cost a tenth of it say
// more.
func (f *Finding) weight() uint64 {
	if f.Kind == IdleGPU {
		return f.Cost / 10
	}
	return f.Cost
}

func rank(f *Finding) int {
	switch {
	case f.Kind == "failing_calls", f.Kind == "pytorch_out_of_memory":
		return 0
	case f.Kind == Startup:
		return 3
	case f.AtMost:
		return 2
	}
	return 1
}

// A report makes the findings of a process.
type report struct {
	collector *Collector
	process   *processHabits
	steady    Interval
	idleTime  SteadyIdles
	list      []Finding
}

// gpuName names a GPU, with its rank if the processes that worked there are of one rank: the number of a GPU depends on
// the logs.
func (c *Collector) gpuName(gpu uint32) string {
	name := fmt.Sprintf("GPU %d", gpu)
	rank := timeline.Rank{}
	for _, p := range c.list {
		if _, worked := p.worked[gpu]; !worked {
			continue
		}
		if !p.Rank.Known || rank.Known && rank != p.Rank {
			return name
		}
		rank = p.Rank
	}
	if !rank.Known {
		return name
	}
	return name + " (" + rank.String() + ")"
}

// add adds a finding. No habit costs more than the whole steady state, though several threads may have it at once.
func (r *report) add(kind string, e *evidence, f Finding) {
	cost := min(e.cost, r.steady.length())
	f.Kind, f.Process, f.Cost, f.Count, f.First, f.Last, f.At = kind, r.process.Process, cost, e.count, e.first, e.last,
		e.longest.At()
	f.Longest = e.longest.Longest()
	if cost > 0 {
		f.Share = float64(cost) / float64(r.steady.length())
	}
	r.list = append(r.list, f)
}

// worth reports whether a habit costs enough, often enough.
func (r *report) worth(e *evidence, least uint64) bool {
	return e.count >= least && r.collector.Worth(e.cost, r.steady.length())
}

// total joins all evidence of a tally.
func total[K comparable](t tally[K]) *evidence {
	all := new(evidence)
	for _, e := range t {
		all.join(e)
	}
	return all
}

func self(s string) string { return s }

// parts writes the largest parts of a tally: "cudaMalloc 1.2 ms (30 times), cudaFree ...".
func parts(t tally[string], most int) string {
	return written(t, most, func(e *evidence) string {
		return figures.Duration(e.cost) + " (" + figures.Count(e.count, "time", "times") + ")"
	})
}

// times writes the largest parts of a tally, without counts.
func times(t tally[string], most int) string {
	return written(t, most, func(e *evidence) string { return figures.Duration(e.cost) })
}

func written(t tally[string], most int, figure func(*evidence) string) string {
	var words []string
	for i, k := range largest(t, self) {
		if i == most {
			words = append(words, "others")
			break
		}
		words = append(words, cmp.Or(k, "others")+" "+figure(t[k]))
	}
	return strings.Join(words, ", ")
}

// enoughFrames is the least share of calls with Python frames of which a finding names lines.
const enoughFrames = 0.9

// atLines names the Python lines at which a habit is seen so often; "" where too few of its calls have frames.
func (r *report) atLines(lines *record[*timeline.PythonFrame], intro string, count uint64) string {
	t, known := make(tally[string]), uint64(0)
	for frame, e := range lines.since(r.steady.From) {
		name := ""
		if frame != nil {
			name = r.process.lines.text(frame)
		}
		if t[name] == nil {
			t[name] = new(evidence)
		}
		t[name].join(e)
		known += e.count
	}
	if known == 0 || float64(known) < enoughFrames*float64(count) {
		return ""
	}
	return intro + parts(t, 2)
}

// atLine names the Python line that has most of a habit's time, "" for none.
func (r *report) atLine(lines *record[*timeline.PythonFrame], all *evidence) string {
	for line, e := range lines.since(r.steady.From) {
		if line != nil && e.cost > all.cost/2 {
			return " at " + path.Base(r.process.lines.text(line))
		}
	}
	return ""
}

// sortedKeys returns the GPUs of a map.
func sortedKeys[V any](m map[uint32]V) (keys []uint32) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

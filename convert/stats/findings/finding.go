package findings

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
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
	Evidence    string
	Try         string
	AtMost      bool // any part of Cost may be due to ranks whose logs are not given

	// Without takes the habit away from a replay, which then says what it costs. It is nil where Cost is 0, or no saving.
	Without func(*critical.Without)
	Guess   bool // Cost is the time that the habit takes: what its removal would save is not known

	Explains []Explained // idle time of GPUs of which this one is the cause
	Copying  bool        // a copy is what costs the time

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
}

// Kinds are the kinds of finding.
var Kinds = []Kind{
	{Name: "failing_calls", Reports: "errors"},
	{Name: "gaps", Reports: "gaps,idle"},
	{Name: IdleGPU, Reports: "gaps,idle"},
	{Name: "device_waits", Reports: "waits,idle"},
	{Name: "tiny_kernels", Reports: "launches,launch_rate,idle"},
	{Name: "pageable_copies", Reports: "copies,callers"},
	{Name: "small_copies", Reports: "copies,callers"},
	{Name: "synchronous_sets", Reports: "sets,callers"},
	{Name: "serial_streams", Likely: true, Reports: "streams,idle"},
	{Name: OnPath, Likely: true, Reports: "critical_path"},
	{Name: "first_use", Reports: "calls,idle"},
	{Name: "allocation_in_loop", Reports: "calls,callers,memory"},
	{Name: "idle_sms", Reports: "metrics,kernel_shapes"},
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

// Query returns the command that shows the finding of some logs, whose names are words for a shell. Filters take the
// processes and times of each log: of several logs the command has no process, and a time that includes that of the
// finding in each log; none where the logs have several clocks.
func (f *Finding) Query(begin Span, logs string) string {
	k := KindOf(f.Kind)
	since := func(t, start uint64) string { return fmt.Sprintf("%.6fs", float64(t-min(t, start))/1e9) }
	query := "cudatrace stats " + logs + " --report " + k.Reports
	if !k.Ranks && begin.Logs < 2 {
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

// Remedy is what to try about what a thread did outside of calls; by is what blocked it.
func Remedy(d activity.OwnerKind, by timeline.Blocker) string { return remedies[kindOutside(d, by)] }

// List returns the findings: failing calls first, then those that cost most. With whole false
// records are missing, and nothing is said about gaps between work.
func (c *Collector) List(whole bool, idle SteadyIdles) []Finding {
	var all, startups []Finding
	for _, p := range c.list {
		r := report{collector: c, limits: &c.limits, process: p, steady: c.Steady(p.Process)}
		r.failing()
		r.pageable()
		r.smallCopies()
		r.sets()
		r.allocations()
		r.metrics(c.gpus)
		if whole {
			r.gaps(idle)
			r.waits()
			r.tinyKernels()
			r.serialStreams()
			r.firstUse()
			r.idle(idle)
			r.explain(idle)
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

// Limits are the thresholds.
func (c *Collector) Limits() *Thresholds { return &c.limits }

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
	case f.Kind == "failing_calls":
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
	limits    *Thresholds
	process   *processHabits
	steady    Interval
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
	if cost > 0 {
		f.Share = float64(cost) / float64(r.steady.length())
	}
	r.list = append(r.list, f)
}

// worth reports whether a habit costs enough, often enough.
func (r *report) worth(e *evidence, least uint64) bool {
	return e.count >= least && r.limits.Worth(e.cost, r.steady.length())
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
			name = frame.Text()
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
			return " at " + path.Base(line.Text())
		}
	}
	return ""
}

func (r *report) failing() {
	t := r.process.failures.tally((*timed).all)
	if len(t) == 0 {
		return
	}
	name := func(f failure) string { return f.function + f.error }
	keys := largest(t, name)
	slices.SortStableFunc(keys, func(a, b failure) int { return cmp.Compare(t[a].first, t[b].first) })
	var words []string
	for i, k := range keys {
		if i == MaxMoments {
			words = append(words, figures.Count(len(keys)-i, "other failure", "other failures"))
			break
		}
		words = append(words, fmt.Sprintf("%s returned %s (%s)", cmp.Or(k.function, "other functions"),
			cmp.Or(k.error, "errors"), figures.Count(t[k].count, "time", "times")))
	}
	e := total(t)
	var at []uint64
	for _, k := range keys[:min(len(keys), MaxMoments)] {
		at = append(at, t[k].first)
	}
	r.add("failing_calls", e, Finding{Title: figures.Count(e.count, "call fails", "calls fail"),
		Evidence: strings.Join(words, ", "),
		Try:      "look at the first one: later failures often follow from it; the report errors has the callers"})
	r.list[len(r.list)-1].At = at
}

func (r *report) pageable() {
	t := r.process.pageable.since(r.steady.From)
	e := total(t)
	if !r.worth(e, 1) {
		return
	}
	text := fmt.Sprintf("the calls take %s for %s: %s", figures.Duration(e.cost), figures.Bytes(e.bytes), parts(t, 3))
	if e.async > 0 {
		text += "; " + figures.Count(e.async, "copy was", "copies were") +
			" made by Async functions, which cannot be asynchronous with pageable memory"
	}
	text += r.atLines(&r.process.lines.pageable, "; made at ", e.count)
	r.add("pageable_copies", e, Finding{Without: func(x *critical.Without) { x.Pageable(r.collector.PinnedRate) },
		Title: figures.Count(e.count, "large copy", "large copies") + " of pageable memory" +
			r.atLine(&r.process.lines.pageable, e), Evidence: text,
		Try: "allocate the host memory with cudaMallocHost and copy with cudaMemcpyAsync (PyTorch: pin_memory=True, " +
			"non_blocking=True)"})
}

func (r *report) smallCopies() {
	t := r.process.small.since(r.steady.From)
	e := total(t)
	if e.count < r.limits.Repeats {
		return
	}
	r.add("small_copies", e, Finding{Without: (*critical.Without).SmallCopies, Title: figures.Count(e.count, "small copy",
		"small copies") + " that could be part of another" + r.atLine(&r.process.lines.small, e),
		Evidence: fmt.Sprintf("%s copies of at most %s follow each other %s, with %s in all; the calls of all but the "+
			"first copy: %s",
			figures.Group(e.count+e.runs), figures.Bytes(r.limits.SmallCopy), figures.Count(e.runs, "time", "times"),
			figures.Bytes(e.bytes), parts(t, 3)) + r.atLines(&r.process.lines.small, "; made at ", e.count),
		Try: "put the data into one buffer and copy it at once, or use cudaMemcpyBatchAsync"})
}

func (r *report) sets() {
	t := r.process.sets.since(r.steady.From)
	if e := total(t); r.worth(e, r.limits.Repeats) {
		r.add("synchronous_sets", e, Finding{Without: (*critical.Without).Sets,
			Title: figures.Count(e.count, "synchronous memory set", "synchronous memory sets") +
				r.atLine(&r.process.lines.sets, e),
			Evidence: "the calls: " + parts(t, 3) + r.atLines(&r.process.lines.sets, "; made at ", e.count),
			Try:      "use the Async function (cudaMemsetAsync) on the stream whose work follows"})
	}
}

func (r *report) allocations() {
	t := r.process.allocs.since(r.steady.From)
	if e := total(t); r.worth(e, r.limits.Repeats) {
		r.add("allocation_in_loop", e, Finding{Without: (*critical.Without).Allocations,
			Title: figures.Count(e.count, "allocation or free", "allocations and frees") + " between launches" +
				r.atLine(&r.process.lines.allocs, e),
			Evidence: "the calls: " + parts(t, 3) + "; a call counts if its thread has launched GPU work since it last called " +
				"that function" + r.atLines(&r.process.lines.allocs, "; made at ", e.count),
			Try: "allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync, which take memory from a pool"})
	}
}

// A remedy is what to try about gaps in which the launching threads mostly did one thing.
var remedies = map[doingKind]string{
	outside:   "launch ahead: see what the CPU does %s, and move it to another thread or out of the loop",
	captures:  "capture and instantiate graphs before the loop; cudaGraphExecUpdate changes an instantiated graph",
	allocates: "allocate before the loop, or use cudaMallocAsync and cudaFreeAsync, which take memory from a pool",
	waits:     "launch what can run next before these waits, and wait for the stream or event whose result the CPU needs",
	launches: "look at the launching calls (report calls): one that takes long waits for a full queue, for a lock, or " +
		"for memory that it allocates",
	callsElse: "move these calls out of the loop, or to another thread",
	computes:  "launch ahead: make %s faster, or move it to another thread or out of the loop",
	blocked: "have ready what the thread waits for: read and prepare data ahead in other threads or processes " +
		"(PyTorch: num_workers, prefetch_factor)",
	sleeps: "the program sleeps there by itself: look at that line; where it waits for something, it could wait for " +
		"that in place of a time",
	locked: "look at who has the lock, and hold it for less time; where a thread waits for a queue that another one " +
		"fills, fill it ahead",
	ready: "give the program more processors: it has more threads that run than it may use (taskset, cgroup, Slurm's " +
		"--cpus-per-task), or others use them",
	queued: "look at what the queued work waits for: an event, another stream, another GPU (report idle)",
}

// gaps finds long gaps. At least half of their time must be of one kind: the remedy follows from it.
func (r *report) gaps(idle SteadyIdles) {
	for _, gpu := range sortedKeys(r.process.gaps) {
		g := r.process.gaps[gpu]
		e := g.since(r.steady.From)
		if !r.worth(e, 1) {
			continue
		}
		cause, did := g.mostly(r.steady.From), g.did.since(r.steady.From)
		text := idle.on(r.process, gpu).inAll(r.steady)
		for kind, ns := range meanwhile(did) {
			if remedies[kind] != "" && ns > e.cost/2 {
				title := fmt.Sprintf("%s is idle for %s", r.collector.gpuName(gpu), figures.Duration(e.cost))
				if e.count > 1 {
					title = fmt.Sprintf("%s is idle %s times, for up to %s", r.collector.gpuName(gpu),
						figures.Group(e.count), figures.Duration(e.longest[0].cost))
				}
				r.add("gaps", e, Finding{
					Title: causedBy(titleOf(cause, did), title), Cause: cause, Effect: title, Without: g.without(kind), GPU: &gpu,
					Evidence: text + r.atLines(&g.ends, "; the gaps end with launches at ", e.count),
					Try:      tryFor(kind, did, g.ends.since(r.steady.From)), most: mostOf(did), allocating: kind == allocates,
				})
			}
		}
	}
}

// mostOf names the largest part of what threads did that is known, "" for nothing.
func mostOf(did tally[doing]) string {
	for _, d := range largest(did, func(d doing) string { return d.name }) {
		if isKnown(d.kind) {
			return d.name
		}
	}
	return ""
}

// leastNamed is the least part of some time that a line or code has which a remedy names.
const leastNamed = 0.25

// tryFor returns the remedy of a kind, with the line or code that takes most of the time, or the line that launches
// next.
func tryFor(kind doingKind, did tally[doing], next tally[*timeline.PythonFrame]) string {
	try, all := remedies[kind], float64(total(did).cost)
	code, most := "", uint64(leastNamed*all)
	for _, d := range largest(did, func(d doing) string { return d.name }) {
		named := isKnown(d.kind) && d.kind >= computes && !strings.HasPrefix(d.name, "[") // not [vdso]
		if named && did[d].cost > most && (kind == outside || d.kind == kind) {
			code, most = d.name, did[d].cost
		}
	}
	switch kind {
	case computes:
		return fmt.Sprintf(try, cmp.Or(code, "this code"))
	case outside:
		if float64(kindsOf(did)[outside]) > all/2 {
			try = strings.Replace(try, "see", "record (--sample)", 1)
		}
		at := "at these times"
		for line, e := range next {
			if line != nil && e.cost > total(next).cost/2 {
				at = "before " + path.Base(line.Text())
			}
		}
		if code != "" {
			at = "at these times (most: " + code + ")"
		}
		return fmt.Sprintf(try, at)
	}
	return try
}

// titleOf returns what begins the title of a finding about an idle GPU: the cause, or where the launching threads were.
func titleOf(cause string, did tally[doing]) string {
	if cause == "" || strings.HasPrefix(cause, "[") { // [vdso] says less
		return placeOf(did)
	}
	return cause
}

// placeOf returns where the launching threads were for more than half of the time, "" if nowhere.
func placeOf(did tally[doing]) string {
	kinds, all := kindsOf(did), total(did).cost
	onCPU := kinds[computes] + kinds[computesUnseen]
	blocked := kinds[blocked] + kinds[sleeps] + kinds[locked] + kinds[blockedUnseen]
	switch {
	case onCPU > all/2:
		return "on CPU outside of CUDA calls"
	case blocked > all/2:
		return "blocked outside of CUDA calls"
	case onCPU+blocked+kinds[ready]+kinds[outside] > all/2:
		return "outside of CUDA calls"
	}
	return ""
}

// kindsOf joins what threads did by kind.
func kindsOf(did tally[doing]) map[doingKind]uint64 {
	kinds := make(map[doingKind]uint64)
	for d, e := range did {
		kinds[d.kind] = sum(kinds[d.kind], e.cost)
	}
	return kinds
}

// causedBy is a title with the cause in front.
func causedBy(cause, effect string) string {
	if cause == "" {
		return effect
	}
	return cause + ": " + effect
}

// without takes away what the launching threads did in the gaps, of one kind.
func (g *gaps) without(kind doingKind) func(*critical.Without) {
	roles := map[doingKind][]activity.Role{captures: {activity.Capturing}, allocates: {activity.Allocating},
		waits: {activity.Waits, activity.WaitsAll}, launches: {activity.Launching},
		callsElse: {activity.OtherRole, activity.Ordering, activity.Initialising, activity.Loading}}[kind]
	switch {
	case kind == queued:
		return func(x *critical.Without) { x.Queued(g.kept) }
	case roles != nil:
		return func(x *critical.Without) { x.In(g.kept, roles...) }
	}
	return func(x *critical.Without) { x.Outside(g.kept) }
}

// blocks are the kinds of threads that were blocked by a known thing.
var blocks = []doingKind{blocked, sleeps, locked}

// meanwhile returns what threads did, by kind. Time outside of calls counts as its dominant kind if 90 % of it is
// attributed. All that blocked threads counts together, under the name of its longest part.
func meanwhile(of tally[doing]) map[doingKind]uint64 {
	pool(of, computesUnseen, computes)
	pool(of, blockedUnseen, blocks...)
	kinds := kindsOf(of)
	unknown := kinds[outside] + kinds[computesUnseen] + kinds[blockedUnseen]
	longest, ofBlocks := blocked, uint64(0)
	for _, kind := range blocks {
		ofBlocks += kinds[kind]
		if kinds[kind] > kinds[longest] {
			longest = kind
		}
	}
	all, most := unknown+kinds[computes]+ofBlocks+kinds[ready], outside
	for kind, ns := range map[doingKind]uint64{computes: kinds[computes], longest: ofBlocks, ready: kinds[ready]} {
		if unknown <= all/10 && ns > all/2 {
			most = kind
		}
	}
	for _, kind := range append([]doingKind{outside, computes, computesUnseen, blockedUnseen, ready}, blocks...) {
		delete(kinds, kind)
	}
	kinds[most] = all
	return kinds
}

func (r *report) waits() {
	calls := r.process.waits.since(r.steady.From)
	if e := total(calls); r.worth(e, r.limits.Repeats) {
		place, named := "", make(tally[string])
		for f, of := range calls { // nil for those without room
			if f != nil {
				named.of(f.Title()).join(of)
			}
			if f != nil && f.Place != "" && of.cost > e.cost/2 {
				place = " at " + path.Base(f.Place)
			}
		}
		r.add("device_waits", e, Finding{Without: (*critical.Without).DeviceWaits,
			Title: figures.Count(e.count, "wait", "waits") + " for the whole device" + place + ", with an idle GPU behind " +
				"each",
			Evidence: "idle until the next launch after " + parts(named, 2),
			Try: "wait only where the CPU needs a result, and for its stream or event: work of one stream runs in order " +
				"without waits"})
	}
}

func (r *report) tinyKernels() {
	for _, gpu := range sortedKeys(r.process.tiny) {
		t := r.process.tiny[gpu]
		e := t.since(r.steady.From)
		if !r.worth(e, r.limits.Kernels) {
			continue
		}
		rate := float64(e.count) / (float64(r.steady.length()) / 1e9)
		r.add("tiny_kernels", e, Finding{Without: (*critical.Without).Launches,
			Title: fmt.Sprintf("launch-bound: %s shorter than their launch",
				figures.Count(e.count, "kernel is", "kernels are")), GPU: &gpu,
			Evidence: fmt.Sprintf("%s waits for each of these launches, %s a second; the median kernel takes %s, the call "+
				"that launches it %s", r.collector.gpuName(gpu), figures.Group(uint64(rate)),
				figures.Duration(t.kernels.Percentile(50)), figures.Duration(t.launches.Percentile(50))),
			Try: "launch the part that repeats as a CUDA graph (PyTorch: torch.cuda.graph, torch.compile), or make fewer, " +
				"larger kernels"})
	}
}

func (r *report) serialStreams() {
	if r.process.orders || !r.process.told {
		return // the program makes streams wait for each other, or the log does not tell
	}
	t := make(tally[string])
	all, byDefault := new(evidence), false
	for k, e := range r.process.serial.since(r.steady.From) {
		if k == (pair{}) {
			return // too many streams to tell
		}
		all.join(e)
		byDefault = byDefault || k.earlier.Default || k.later.Default
		name := fmt.Sprintf("stream %d behind stream %d", k.later.ID, k.earlier.ID)
		if t[name] == nil {
			t[name] = new(evidence)
		}
		t[name].join(e)
	}
	if !r.worth(all, r.limits.Repeats) {
		return
	}
	f := Finding{Without: (*critical.Without).TakingTurns,
		Title: "streams take turns though their work fits on the GPU together",
		Evidence: "work that was ready and waited: " + parts(t, 3) +
			"; no call makes a stream wait for another", Try: "look for a hidden order between the streams, such as too few " +
			"hardware queues (CUDA_DEVICE_MAX_CONNECTIONS)"}
	if byDefault {
		f.Try = "if the work is independent, create the streams with cudaStreamNonBlocking: work of the default stream and " +
			"of other streams waits for each other"
	}
	r.add("serial_streams", all, f)
}

func (r *report) firstUse() {
	t := r.collector.named(r.process.loads.since(r.steady.From))
	if e := total(t); r.worth(e, 1) {
		r.add("first_use", e, Finding{Without: func(x *critical.Without) { x.In(r.process.loading) },
			Title:    "the GPU waits while code is loaded at its first use",
			Evidence: "time in calls that load code, while the GPU is idle: " + parts(t, 3),
			Try: "launch these kernels once before the part that matters, or load all code at the start " +
				"(CUDA_MODULE_LOADING=EAGER)"})
	}
}

// slowStarts are what to try about a start-up, by what takes most of it.
var slowStarts = map[string]string{
	loadingCode: "load only the code that is used (CUDA_MODULE_LOADING=LAZY), and keep compiled code in a cache " +
		"(CUDA_CACHE_PATH)",
	capturing:    "capture a graph once for each shape that is used",
	allocating:   "allocate memory once, in few large pieces",
	initialising: "make one context a process, and let it see only the GPUs that it uses (CUDA_VISIBLE_DEVICES)",
	"": "look at what the program does outside of these calls: importing, reading data, compiling, searching " +
		"for algorithms",
}

// startup sums up what comes before the steady state, nil if that is short.
func (r *report) startup() *Finding {
	p := r.process
	e := evidence{
		first: p.first, last: r.steady.From, count: 1, cost: r.steady.From - min(p.first, r.steady.From),
		longest: []moment{{at: p.first}},
	}
	if len(p.worked) == 0 || !r.limits.Worth(e.cost, p.last-p.first) {
		return nil
	}
	t := p.starts.tally(func(x *timed) *evidence { return x.before(r.steady.From) })
	rest := e.cost - min(e.cost, total(t).cost)
	text, most := "from the first call to the end of what is done for the first time: ", ""
	if len(t) > 0 {
		text += times(t, len(t)) + ", "
		if name := largest(t, self)[0]; t[name].cost > rest {
			most = name
		}
	}
	return &Finding{Kind: Startup, Process: p.Process, Title: "start-up of " + figures.Duration(e.cost), Evidence: text +
		"other things " + figures.Duration(rest),
		Cost: e.cost, Count: 1, First: e.first, Last: e.last, At: e.longest.At(), Try: slowStarts[most]}
}

// once tells of several processes that start up the one that takes longest.
func once(startups []Finding) []Finding {
	if len(startups) < 2 {
		return startups
	}
	all := uint64(0)
	for i := range startups {
		all = sum(all, startups[i].Cost)
	}
	f := Sorted(startups)[0]
	f.Evidence += fmt.Sprintf("; %s, %s together", figures.Count(len(startups), "process starts up",
		"processes start up"), figures.Duration(all))
	f.Count = uint64(len(startups))
	return []Finding{f}
}

// sortedKeys returns the GPUs of a map.
func sortedKeys[V any](m map[uint32]V) (keys []uint32) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

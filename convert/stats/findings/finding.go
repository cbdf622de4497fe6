package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/wording"
)

// A Finding is a habit of a process that costs time.
type Finding struct {
	Kind        string // "pageable_copies"
	Title       string
	Process     *timeline.Process
	GPU         *uint32 // nil where the habit belongs to no single GPU
	Cost        uint64  // ns; 0 where the habit has no cost in time
	Share       float64 // Cost as a share of the time of the process
	Count       uint64
	First, Last uint64
	At          []uint64 // moments to look at, those that cost most first
	Evidence    string
	Try         string

	Explains []Explained // other findings of which this one is the cause
}

// An Explained is the part of the gaps of a process on a GPU that another finding explains.
type Explained struct {
	Process *timeline.Process
	GPU     uint32
	Time    uint64 // ns
	About   bool   // an estimate
}

// Kinds are the kinds of finding.
var Kinds = []string{
	"failing_calls", "gaps", "device_waits", "tiny_kernels", "pageable_copies", "small_copies", "synchronous_sets",
	"serial_streams", "first_use", "allocation_in_loop",
	"idle_sms", "unused_tensor_cores", "dram_bound", "pcie_bound", "clocks_lowered", "low_clocks",
	"straggling_rank", "straggling_host", "exposed_communication", "compute_imbalance", "odd_kernel",
}

// List returns the findings: failing calls first, then those that cost most. With whole false
// records are missing, and nothing is said about gaps between work.
func (c *Collector) List(whole bool) []Finding {
	var all []Finding
	for _, p := range c.list {
		r := report{limits: &c.limits, process: p, span: p.last - min(p.first, p.last)}
		r.failing()
		r.pageable()
		r.smallCopies()
		r.sets()
		r.allocations()
		r.metrics(c.gpus)
		if whole {
			r.gaps()
			r.waits()
			r.tinyKernels()
			r.serialStreams()
			r.firstUse()
		}
		all = append(all, r.list...)
	}
	return Sorted(append(all, c.lowClocks()...))
}

// Limits are the thresholds.
func (c *Collector) Limits() *Thresholds { return &c.limits }

// Sorted sorts findings in the order of List.
func Sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Cost, a.Cost), cmp.Compare(b.Count, a.Count))
	})
	return all
}

func rank(f *Finding) int {
	if f.Kind == "failing_calls" {
		return 0
	}
	return 1
}

// A report makes the findings of a process.
type report struct {
	limits  *Thresholds
	process *process
	span    uint64 // ns from the first call or work of the process to its last
	list    []Finding
}

// add adds a finding.
func (r *report) add(kind string, e *evidence, f Finding) {
	f.Kind, f.Process, f.Cost, f.Count, f.First, f.Last, f.At = kind, r.process.Process, e.cost, e.count, e.first, e.last, e.moments()
	if r.span > 0 {
		f.Share = float64(e.cost) / float64(r.span)
	}
	r.list = append(r.list, f)
}

// worth says whether a habit costs enough, often enough.
func (r *report) worth(e *evidence, least uint64) bool {
	return e.count >= least && e.cost > 0 && float64(e.cost) >= r.limits.Cost*float64(r.span)
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

func (r *report) failing() {
	t := r.process.failures
	if len(t) == 0 {
		return
	}
	name := func(f failure) string { return f.function + f.error }
	keys := largest(t, name)
	slices.SortStableFunc(keys, func(a, b failure) int { return cmp.Compare(t[a].first, t[b].first) })
	var words []string
	for i, k := range keys {
		if i == maxMoments {
			words = append(words, figures.Count(len(keys)-i, "other failure", "other failures"))
			break
		}
		words = append(words, fmt.Sprintf("%s returned %s (%s)", cmp.Or(k.function, "other functions"), cmp.Or(k.error, "errors"), figures.Count(t[k].count, "time", "times")))
	}
	e := total(t)
	var at []uint64
	for _, k := range keys[:min(len(keys), maxMoments)] {
		at = append(at, t[k].first)
	}
	r.add("failing_calls", e, Finding{Title: figures.Count(e.count, "call fails", "calls fail"), Evidence: strings.Join(words, ", "),
		Try: "look at the first one: later failures often follow from it; " + wording.ErrorsReport.String()})
	r.list[len(r.list)-1].At = at
}

func (r *report) pageable() {
	c := &r.process.pageable
	e := total(c.tally)
	if !r.worth(e, 1) {
		return
	}
	text := fmt.Sprintf("the calls take %s for %s: %s", figures.Duration(e.cost), figures.Bytes(c.bytes), parts(c.tally, 3))
	if c.async > 0 {
		text += "; " + figures.Count(c.async, "copy was", "copies were") + " made by Async functions, which cannot be asynchronous with pageable memory"
	}
	r.add("pageable_copies", e, Finding{Title: figures.Count(e.count, "large copy", "large copies") + " of pageable memory", Evidence: text,
		Try: "allocate the host memory with cudaMallocHost and copy with cudaMemcpyAsync (PyTorch: pin_memory=True, non_blocking=True)"})
}

func (r *report) smallCopies() {
	c := &r.process.small
	e := total(c.tally)
	if !r.worth(e, r.limits.Repeats) {
		return
	}
	r.add("small_copies", e, Finding{Title: figures.Count(e.count, "small copy", "small copies") + " that could be part of another",
		Evidence: fmt.Sprintf("%s copies of at most %s follow each other %s, with %s in all; the calls of all but the first copy: %s",
			figures.Group(e.count+r.process.runs), figures.Bytes(r.limits.SmallCopy), figures.Count(r.process.runs, "time", "times"), figures.Bytes(c.bytes), parts(c.tally, 3)),
		Try: "put the data into one buffer and copy it at once, or use cudaMemcpyBatchAsync"})
}

func (r *report) sets() {
	if e := total(r.process.sets); r.worth(e, r.limits.Repeats) {
		r.add("synchronous_sets", e, Finding{Title: figures.Count(e.count, "synchronous memory set", "synchronous memory sets"),
			Evidence: "the calls: " + parts(r.process.sets, 3), Try: "use the Async function (cudaMemsetAsync) on the stream whose work follows"})
	}
}

func (r *report) allocations() {
	if e := total(r.process.allocs); r.worth(e, r.limits.Repeats) {
		r.add("allocation_in_loop", e, Finding{Title: figures.Count(e.count, "allocation or free", "allocations and frees") + " between launches",
			Evidence: "the calls: " + parts(r.process.allocs, 3) + "; a call counts if its thread has launched GPU work since it last called that function",
			Try:      "allocate once before the loop, or use cudaMallocAsync and cudaFreeAsync, which take memory from a pool"})
	}
}

func (r *report) gaps() {
	for _, gpu := range sortedKeys(r.process.gaps) {
		g := r.process.gaps[gpu]
		if !r.worth(&g.evidence, 1) {
			continue
		}
		r.add("gaps", &g.evidence, Finding{Title: fmt.Sprintf("GPU %d is idle in %s of %s or more", gpu, figures.Count(g.count, "gap", "gaps"), figures.Duration(r.limits.Gap)),
			GPU: &gpu, Evidence: "what the launching threads did meanwhile: " + times(g.did, 4),
			Try: "launch ahead: see what the CPU does at these times, and move it to another thread or out of the loop"})
	}
}

func (r *report) waits() {
	t := r.process.waits
	if e := total(t); r.worth(e, r.limits.Repeats) {
		r.add("device_waits", e, Finding{Title: figures.Count(e.count, "wait", "waits") + " for the whole device, with an idle GPU behind each",
			Evidence: "idle until the next launch after " + parts(t, 2),
			Try:      "wait only where the CPU needs a result, and for its stream or event: work of one stream runs in order without waits"})
	}
}

func (r *report) tinyKernels() {
	for _, gpu := range sortedKeys(r.process.tiny) {
		if e := r.process.tiny[gpu]; r.worth(e, r.limits.Kernels) {
			r.add("tiny_kernels", e, Finding{Title: figures.Count(e.count, "kernel", "kernels") + " shorter than their launch", GPU: &gpu,
				Evidence: fmt.Sprintf("GPU %d waits for the launching call before each of them", gpu),
				Try:      "launch the part that repeats as a CUDA graph (PyTorch: torch.cuda.graph, torch.compile), or merge kernels"})
		}
	}
}

func (r *report) serialStreams() {
	if r.process.orders || !r.process.told {
		return // the program makes streams wait for each other, or the log does not tell
	}
	t := make(tally[string])
	all, byDefault := new(evidence), false
	for k, e := range r.process.serial {
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
	f := Finding{Title: "streams take turns though their work fits on the GPU together", Evidence: "work that was ready and waited: " + parts(t, 3) +
		"; no call makes a stream wait for another", Try: "look for a hidden order between the streams, such as too few hardware queues (CUDA_DEVICE_MAX_CONNECTIONS)"}
	if byDefault {
		f.Try = "if the work is independent, create the streams with cudaStreamNonBlocking: work of the default stream and of other streams waits for each other"
	}
	r.add("serial_streams", all, f)
}

func (r *report) firstUse() {
	if e := total(r.process.loads); r.worth(e, 1) {
		r.add("first_use", e, Finding{Title: "the GPU waits while code is loaded at its first use", Evidence: "time in calls that load code, while the GPU is idle: " + parts(r.process.loads, 3),
			Try: "run each kernel once before the part that matters, or load all code at the start (CUDA_MODULE_LOADING=EAGER)"})
	}
}

// sortedKeys returns the GPUs of a map.
func sortedKeys[V any](m map[uint32]V) (keys []uint32) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

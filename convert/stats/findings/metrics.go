package findings

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
)

// Limits of what sampled metrics say of a GPU.
const (
	leastPhases  = 0.1  // least share of the time of GPU work that a finding is about
	leastLowered = 0.05 // likewise, for lowered clocks
	kernelRuns   = 80   // % of a sample with a kernel, from which the GPU is active
	fewSMs       = 30   // % of SMs active, up to which they are idle
	noTensor     = 1    // % of tensor pipes active, up to which they are unused
	bound        = 0.75 // share of a peak rate from which a sample is bound by it
)

// A gpu has the habits of a GPU that samples show.
type gpu struct {
	timeline.GPU
	users   []timeline.Device
	work    timeline.Extent
	shared  bool // other processes used it
	few     phases
	dram    phases
	pcie    phases
	tensor  phases // SMs active, tensor pipes not
	lowered map[metric.Reason]*evidence
	clock   [2]meanOf // SM clock without and with limits
	reasons map[*timeline.MetricSet]*timeline.Coverage
	half    map[*timeline.Process]*evidence // matrix kernels of half precision
	kernels map[*timeline.Process]uint64    // ns of all kernels
	product map[*timeline.Shape]bool        // see isHalfProduct; a full table is emptied
}

// maxProducts bounds gpu.product.
const maxProducts = 1 << 12

// A meanOf is a mean over time.
type meanOf struct {
	sum float64
	ns  uint64
}

func (m *meanOf) add(v float64, ns uint64) { m.sum, m.ns = m.sum+v*float64(ns), m.ns+ns }

func (m *meanOf) mean() float64 { return m.sum / float64(max(m.ns, 1)) }

// Phases are stretches of time in which samples that follow each other have a habit.
type phases struct {
	evidence
	from, to uint64
	value    meanOf
}

// sample takes a sample that has the habit or not.
func (p *phases) sample(from, to uint64, has bool, value float64) {
	if p.to > p.from && (!has || from > p.to) {
		p.end()
	}
	if !has {
		return
	}
	if p.to <= p.from {
		p.from = from
	}
	p.to = to
	p.value.add(value, to-from)
}

func (p *phases) end() {
	if p.to > p.from {
		p.add(p.from, p.to-p.from)
	}
	p.from, p.to = 0, 0
}

// Know takes the GPUs.
func (c *Collector) Know(list []timeline.GPU) {
	for _, g := range list {
		c.gpu(g.Index).GPU = g
	}
}

func (c *Collector) gpu(index uint32) *gpu {
	g := c.gpus[index]
	if g == nil {
		g = &gpu{lowered: make(map[metric.Reason]*evidence), reasons: make(map[*timeline.MetricSet]*timeline.Coverage),
			half: make(map[*timeline.Process]*evidence), kernels: make(map[*timeline.Process]uint64),
			product: make(map[*timeline.Shape]bool)}
		if c.gpus == nil {
			c.gpus = make(map[uint32]*gpu)
		}
		c.gpus[index] = g
	}
	return g
}

// User takes a process outside the recording: no finding rests on the samples of its GPU.
func (c *Collector) User(u *timeline.GPUUser) { c.gpu(u.GPU).shared = true }

// Samples takes samples of a GPU.
func (c *Collector) Samples(e *timeline.Samples) {
	if e.Set.Process != nil {
		return
	}
	g := c.gpu(e.Set.GPU)
	g.users, g.work = e.Set.Users, e.Work
	k := g.reasons[e.Set]
	if k == nil {
		k = &timeline.Coverage{Least: e.Work.Start}
		g.reasons[e.Set] = k
	}
	for i := range e.List {
		from, _ := k.Add(e.Set, &e.List[i])
		if from, to := max(from, e.Work.Start), min(e.List[i].End, e.Work.End); from < to {
			g.sample(e.Set, &e.List[i], from, to)
		}
	}
}

// valueOf is the value of a metric in a sample, NaN without one.
func valueOf(set *timeline.MetricSet, s *timeline.Sample, name string) float64 {
	for i := range set.Metrics {
		if set.Metrics[i].Name == name {
			return s.Values[i]
		}
	}
	return math.NaN()
}

// sample takes a sample of the time of GPU work. A NaN compares as neither more nor less.
func (g *gpu) sample(set *timeline.MetricSet, s *timeline.Sample, from, to uint64) {
	switch set.Source {
	case metric.PM:
		compute, sm, tensor := valueOf(set, s, metric.NameComputeActive), valueOf(set, s, metric.NameSMActive),
			valueOf(set, s, metric.NameTensor)
		g.few.sample(from, to, compute >= kernelRuns && sm <= fewSMs, sm)
		g.tensor.sample(from, to, sm > fewSMs && tensor <= noTensor, tensor)
		dram := valueOf(set, s, metric.NameDRAMRead) + valueOf(set, s, metric.NameDRAMWrite)
		g.dram.sample(from, to, g.Bandwidth > 0 && dram >= bound*1000*float64(g.Bandwidth), dram)
		pcie := max(valueOf(set, s, metric.NamePCIeRead), valueOf(set, s, metric.NamePCIeWrite))
		g.pcie.sample(from, to, g.Link.Rate() > 0 && pcie >= bound*g.Link.Rate(), pcie)
	case metric.NVML:
		g.clocks(set, s, from, to)
	}
}

// clocks takes a sample of the clocks and of what lowered them.
func (g *gpu) clocks(set *timeline.MetricSet, s *timeline.Sample, from, to uint64) {
	v := valueOf(set, s, metric.NameReasons)
	if math.IsNaN(v) {
		return
	}
	reasons, lowered := metric.Reason(v)&metric.Throttling, 0
	for _, r := range reasons.List() {
		if g.lowered[r] == nil {
			g.lowered[r] = new(evidence)
		}
		g.lowered[r].add(from, to-from)
		lowered = 1
	}
	if clock := valueOf(set, s, metric.NameSMClock); !math.IsNaN(clock) {
		g.clock[lowered].add(clock, to-from)
	}
}

// kernel takes a kernel: is it a matrix product of half precision?
func (g *gpu) kernel(p *timeline.Process, w *timeline.Work) {
	g.kernels[p] = sketch.Sum(g.kernels[p], w.Dur)
	product, known := g.product[w.Shape]
	if !known {
		if len(g.product) >= maxProducts {
			clear(g.product)
		}
		product = isHalfProduct(w.Shape.Kernel.Name)
		g.product[w.Shape] = product
	}
	if product {
		if g.half[p] == nil {
			g.half[p] = new(evidence)
		}
		g.half[p].add(w.Start, w.Dur)
	}
}

// isHalfProduct reports whether the name of a kernel is that of a matrix product of half precision.
func isHalfProduct(name string) bool {
	name = strings.ToLower(name)
	product := strings.Contains(name, "gemm") || strings.Contains(name, "matmul") || strings.Contains(name, "_mm_")
	if !product {
		return false
	}
	for _, half := range []string{"hgemm", "h884", "h1688", "h16816", "fp16", "f16", "bf16", "half", "bfloat16"} {
		if strings.Contains(name, half) {
			return true
		}
	}
	return false
}

// metrics adds the findings of samples of the GPUs of a process. A GPU that other processes used has
// none; that of several processes of the recording is the first one's.
func (r *report) metrics() {
	for _, index := range sortedKeys(r.collector.gpus) {
		g := r.collector.gpus[index]
		if g.shared || len(g.users) == 0 || g.users[0].Process != r.process.Process || g.work.End <= g.work.Start {
			continue
		}
		for _, p := range []*phases{&g.few, &g.dram, &g.pcie, &g.tensor} {
			p.end()
		}
		at := g.Index
		r.fewSMs(g, &at)
		r.tensors(g, &at)
		r.bounds(g, &at)
		r.clocks(g, &at)
	}
}

// enough reports whether evidence takes a share of the time of GPU work.
func (g *gpu) enough(e *evidence, least float64) bool {
	return e.cost > 0 && float64(e.cost) >= least*float64(g.work.End-g.work.Start)
}

// sampled adds a finding that rests on samples: it says where something is so, not what that costs.
func (r *report) sampled(kind string, e *evidence, f Finding) {
	r.add(kind, e, f)
	last := &r.list[len(r.list)-1]
	last.Cost, last.Share = 0, 0
}

func (r *report) fewSMs(g *gpu, at *uint32) {
	if e := &g.few.evidence; g.enough(e, leastPhases) {
		r.sampled("idle_sms", e, Finding{GPU: at, Title: "kernels run on few SMs",
			Evidence: fmt.Sprintf("a kernel runs at least %d %% of the time and on average %.0f %% of the SMs are active, for %s", kernelRuns, g.few.value.mean(), figures.Duration(e.cost)),
			Try: "give the kernels more blocks, run independent kernels on several streams, or process more data at once; " +
				"the report kernel_shapes has the grids"})
	}
}

func (r *report) tensors(g *gpu, at *uint32) {
	half := g.half[r.process.Process]
	if half == nil || !g.enough(&g.tensor.evidence, leastPhases) ||
		float64(half.cost) < leastPhases*float64(g.kernels[r.process.Process]) {
		return
	}
	// Phases of other kernels do not count: at least half of the time of the products must lie in the phases.
	others := g.kernels[r.process.Process] - min(half.cost, g.kernels[r.process.Process])
	if g.tensor.cost < others+half.cost/2 {
		return
	}
	r.sampled("unused_tensor_cores", half,
		Finding{GPU: at, Title: "matrix products of half precision without tensor cores",
			Evidence: fmt.Sprintf("%s take %s, while the tensor cores are active for at most %d %% during %s",
				figures.Count(half.count, "such kernel", "such kernels"), figures.Duration(half.cost), noTensor,
				figures.Duration(g.tensor.cost)),
			Try: "make the sizes of the matrices multiples of 8, and look at the math mode of the library (cublasSetMathMode, " +
				"torch.backends.cuda)"})
}

func (r *report) bounds(g *gpu, at *uint32) {
	if e := &g.dram.evidence; g.enough(e, leastPhases) {
		r.sampled("dram_bound", e, Finding{GPU: at, Title: "the GPU's memory is the limit",
			Evidence: fmt.Sprintf("reads and writes of DRAM have %s/s on average, of %s/s that the memory can do, for %s",
				figures.Bytes(uint64(g.dram.value.mean())), figures.Bytes(1000*g.Bandwidth), figures.Duration(e.cost)),
			Try: "fuse kernels that pass data on through memory, use smaller types, or reuse data in caches and shared memory"})
	}
	if e := &g.pcie.evidence; g.enough(e, leastPhases) {
		r.sampled("pcie_bound", e, Finding{GPU: at, Title: "the PCIe link is the limit",
			Evidence: fmt.Sprintf("one direction of the link has %s/s on average, of %s/s that it can do, for %s",
				figures.Bytes(uint64(g.pcie.value.mean())), figures.Bytes(uint64(g.Link.Rate())), figures.Duration(e.cost)),
			Try: "copy less, or copy while kernels run; keep data on the GPU between steps"})
	}
}

func (r *report) clocks(g *gpu, at *uint32) {
	all, words := new(evidence), []string{}
	var reasons []metric.Reason
	for reason := range g.lowered {
		reasons = append(reasons, reason)
	}
	slices.SortFunc(reasons, func(a, b metric.Reason) int {
		return cmp.Or(cmp.Compare(g.lowered[b].cost, g.lowered[a].cost), cmp.Compare(a, b))
	})
	for i, reason := range reasons {
		if words = append(words, reason.String()+" for "+figures.Duration(g.lowered[reason].cost)); i == 0 {
			all = g.lowered[reason]
		}
	}
	if !g.enough(all, leastLowered) {
		return
	}
	text := strings.Join(words, ", ")
	if g.clock[1].ns > 0 {
		text += fmt.Sprintf("; the SM clock was %.0f MHz meanwhile", g.clock[1].mean()/1e6)
	}
	if g.clock[0].ns > 0 {
		text += fmt.Sprintf(", %.0f MHz else", g.clock[0].mean()/1e6)
	}
	r.sampled("clocks_lowered", all, Finding{GPU: at, Title: "clocks were lowered by power or heat", Evidence: text,
		Try: "compare runs only at equal clocks (nvidia-smi --lock-gpu-clocks), and look at the cooling and the power limit"})
}

// lessClock is the part by which the SM clock of a GPU is lower than that of its peers, from which that is a finding.
const lessClock = 0.05

// meanClock is the mean SM clock during GPU work, in Hz; 0 where there is none, or other processes used the GPU.
func (g *gpu) meanClock() float64 {
	all := meanOf{g.clock[0].sum + g.clock[1].sum, g.clock[0].ns + g.clock[1].ns}
	if g.shared || len(g.users) == 0 {
		return 0
	}
	return all.mean()
}

// lowClocks finds GPUs whose SM clock is lower than the median of the GPUs of the same name.
func (c *Collector) lowClocks() (all []Finding) {
	peers := make(map[string][]float64)
	for _, g := range c.gpus {
		if clock := g.meanClock(); clock > 0 {
			peers[g.Name] = append(peers[g.Name], clock)
		}
	}
	for _, index := range sortedKeys(c.gpus) {
		g := c.gpus[index]
		list, clock := peers[g.Name], g.meanClock()
		if clock == 0 || len(list) < 2 {
			continue
		}
		slices.Sort(list)
		usual := list[len(list)/2]
		if clock > (1-lessClock)*usual {
			continue
		}
		at := g.Index
		all = append(all, Finding{Kind: "low_clocks", Title: c.gpuName(at) + " runs with lower clocks than its peers",
			Process: g.users[0].Process, GPU: &at, Count: 1,
			First: g.work.Start, Last: g.work.End, At: []uint64{g.work.Start},
			Evidence: fmt.Sprintf("the SM clock is %.0f MHz on average during GPU work, %.0f MHz in the median of %d such GPUs",
				clock/1e6, usual/1e6, len(list)),
			Try: "look at its temperature, power limit and application clocks (nvidia-smi -q -d CLOCK,POWER,PERFORMANCE), and " +
				"at its place in the rack"})
	}
	return all
}

package sampled

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Name names a part of the time of a GPU: an NVTX range.
type Name struct{ Name, Domain string }

// Ranges describe the samples of GPUs in named parts of time. Parts and samples may come in any order to
// each other: samples wait until memory is short, then the oldest of them are counted.
type Ranges struct {
	gpus   map[uint32]*gpuRanges
	names  map[nameOnGPU]*Part
	parts  []*Part
	limits limits
	held   limits
	projections
	Late uint64 // samples and pieces of parts that came after the samples of their time were counted
}

// Limits bound what waits: values of samples, and pieces of parts.
type limits struct{ values, pieces int }

var defaults = limits{1 << 22, 1 << 18}

// maxParts bounds the parts. Further names of a GPU are one part, Others.
const maxParts = 128

// Others is the name of the parts beyond the first maxParts.
var Others = Name{Name: "other"}

type nameOnGPU struct {
	Name
	gpu uint32
}

// A Part is the time of a name on a GPU.
type Part struct {
	Name
	Time uint64 // ns that it takes
	Sets []*Set // by source

	gpu    *gpuRanges
	pieces []piece // disjoint, by time; those of counted samples are gone
}

type piece struct{ from, to uint64 }

// gpuRanges are the parts and the samples of a GPU.
type gpuRanges struct {
	parts   []*Part
	sets    []*waiting
	counted uint64 // samples up to here are counted
}

// waiting are the samples of a set that are not counted yet, by time.
type waiting struct {
	*timeline.MetricSet
	coverage timeline.Coverage
	times    []piece
	values   []float64
}

// NewRanges returns ranges without parts and samples.
func NewRanges() Ranges {
	return Ranges{gpus: make(map[uint32]*gpuRanges), names: make(map[nameOnGPU]*Part), limits: defaults,
		projections: projections{ranges: make(map[rangeOnGPU]*projection), stacks: make(map[stackOnGPU][]*projection)}}
}

func (r *Ranges) gpu(index uint32) *gpuRanges {
	g := r.gpus[index]
	if g == nil {
		g = new(gpuRanges)
		r.gpus[index] = g
	}
	return g
}

// Part returns the part of a name on a GPU.
func (r *Ranges) Part(gpu uint32, name Name) *Part {
	p := r.names[nameOnGPU{name, gpu}]
	if p == nil && len(r.parts) >= maxParts {
		name = Others
		p = r.names[nameOnGPU{name, gpu}]
	}
	if p == nil {
		g := r.gpu(gpu)
		p = &Part{Name: name, gpu: g}
		r.names[nameOnGPU{name, gpu}] = p
		g.parts, r.parts = append(g.parts, p), append(r.parts, p)
	}
	return p
}

// Add adds time to a part.
func (r *Ranges) Add(p *Part, from, to uint64) {
	if to <= p.gpu.counted && p.gpu.counted > 0 {
		r.Late++
	}
	if from = max(from, p.gpu.counted); from >= to {
		return
	}
	r.held.pieces += p.cover(from, to)
	r.relieve()
}

// cover adds a piece and returns by how much the number of pieces grows.
func (p *Part) cover(from, to uint64) (more int) {
	first := sort.Search(len(p.pieces), func(i int) bool { return p.pieces[i].to >= from })
	last := first
	p.Time += to - from
	for whole := (piece{from, to}); last < len(p.pieces) && p.pieces[last].from <= to; last++ {
		old := p.pieces[last]
		p.Time -= min(old.to, whole.to) - max(old.from, whole.from)
		from, to = min(from, old.from), max(to, old.to)
	}
	p.pieces = slices.Replace(p.pieces, first, last, piece{from, to})
	return 1 - (last - first)
}

// Take takes samples of a GPU. start is the start of the recording.
func (r *Ranges) Take(e *timeline.Samples, start uint64) {
	g := r.gpu(e.Set.GPU)
	i := slices.IndexFunc(g.sets, func(w *waiting) bool { return w.MetricSet == e.Set })
	if i < 0 {
		if len(e.List) > 0 && e.List[0].End <= g.counted { // the samples of another log
			r.count(g, timeline.Never, 0)
			g.counted = 0
		}
		i, g.sets = len(g.sets), append(g.sets, &waiting{MetricSet: e.Set, coverage: timeline.Coverage{Least: start}})
	}
	w := g.sets[i]
	for i := range e.List {
		s := &e.List[i]
		from, _ := w.coverage.Add(e.Set, s)
		from, to := max(from, e.Work.Start), min(s.End, e.Work.End)
		switch {
		case from >= to:
		case to <= g.counted:
			r.Late++
		default:
			w.times, w.values = append(w.times, piece{from, to}), append(w.values, s.Values...)
			r.held.values += len(s.Values)
		}
	}
	r.relieve()
}

// relieve counts old samples when memory is short: of each GPU the older half of the time.
func (r *Ranges) relieve() {
	if r.held.values <= r.limits.values && r.held.pieces <= r.limits.pieces {
		return
	}
	for range 8 {
		for _, g := range r.gpus {
			if oldest, newest := g.extent(); oldest < newest {
				r.count(g, oldest+(newest-oldest)/2, g.slack())
			}
		}
		if r.held.values <= r.limits.values/2 && r.held.pieces <= r.limits.pieces/2 {
			return
		}
	}
	for _, g := range r.gpus {
		_, newest := g.extent()
		r.count(g, max(newest, g.counted), 0)
	}
}

// extent is the time of what waits.
func (g *gpuRanges) extent() (oldest, newest uint64) {
	oldest = timeline.Never
	see := func(list []piece) {
		if n := len(list); n > 0 {
			oldest, newest = min(oldest, list[0].from), max(newest, list[n-1].to)
		}
	}
	for _, w := range g.sets {
		see(w.times)
	}
	for _, p := range g.parts {
		see(p.pieces)
	}
	return max(oldest, g.counted), newest
}

// slack is the length of the samples that may follow those which are counted.
func (g *gpuRanges) slack() (longest uint64) {
	for _, w := range g.sets {
		longest = max(longest, min(w.Interval, maxSlack))
	}
	return 2 * longest
}

// maxSlack bounds the interval of a hostile log: 10 s.
const maxSlack = 10_000_000_000

// count counts the samples that end by a time, and drops the pieces that end a slack before.
func (r *Ranges) count(g *gpuRanges, until, slack uint64) {
	for _, w := range g.sets {
		n, metrics := ended(w.times, until), len(w.Metrics)
		for _, p := range g.parts {
			p.count(w, n)
		}
		w.times, w.values = append(w.times[:0], w.times[n:]...), append(w.values[:0], w.values[n*metrics:]...)
		r.held.values -= n * metrics
	}
	for _, p := range g.parts {
		n := ended(p.pieces, until-min(until, slack))
		p.pieces = append(p.pieces[:0], p.pieces[n:]...)
		r.held.pieces -= n
	}
	g.counted = max(g.counted, until)
}

// ended is the number of pieces that end by a time.
func ended(list []piece, by uint64) int {
	return sort.Search(len(list), func(i int) bool { return list[i].to > by })
}

// count counts the first n samples of a set, those of which at least half lies in the part.
func (p *Part) count(w *waiting, n int) {
	metrics := len(w.Metrics)
	for i, k := 0, 0; i < n && k < len(p.pieces); i++ {
		i += sort.Search(n-i, func(m int) bool { return w.times[i+m].to > p.pieces[k].from })
		if i == n {
			return
		}
		x, within := w.times[i], uint64(0)
		for ; k < len(p.pieces) && p.pieces[k].from < x.to; k++ {
			if from, to := max(x.from, p.pieces[k].from), min(x.to, p.pieces[k].to); from < to {
				within += to - from
			}
			if p.pieces[k].to > x.to {
				break
			}
		}
		if within >= (x.to-x.from+1)/2 {
			p.set(w.MetricSet).Add(w.values[i*metrics:(i+1)*metrics], within)
		}
	}
}

// set returns the values of a set in the part.
func (p *Part) set(of *timeline.MetricSet) *Set {
	for _, s := range p.Sets {
		if s.MetricSet == of {
			return s
		}
	}
	s := New(of)
	p.Sets = append(p.Sets, s)
	return s
}

// All counts what waits and returns the parts with values, those with most time first.
func (r *Ranges) All() (all []*Part) {
	for _, g := range r.gpus {
		r.count(g, timeline.Never, 0)
	}
	for _, p := range r.parts {
		if len(p.Sets) > 0 {
			slices.SortStableFunc(p.Sets, (*Set).Compare)
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b *Part) int { return cmp.Compare(b.Time, a.Time) })
	return all
}

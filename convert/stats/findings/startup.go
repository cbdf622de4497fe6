package findings

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A process starts up until it has launched its kernels and graphs once: before a first launch it loads code, captures,
// allocates, searches for algorithms. What it does after that is its steady state. What comes for the first time much
// later, such as the kernels of an evaluation after many steps, is part of the steady state. A process that is known
// from its middle on has no start-up.
//
// Launches come in order, and before the calls that lie between them: what is known of the start-up when a call or a
// gap comes is final.
const (
	// start-up has one of so many pieces of GPU work, or of kernels, at most: libraries set and copy much when they start
	mostEarly = 4
	fewPieces = 1_024 // of GPU work between two first times of one start-up, or
	manyTimes = 8     // times as many as came before the earlier one
	oneStage  = 16    // pieces
)

// Stages are the moments at which the start-up of a process may have ended.
type Stages struct {
	none            bool // the process had started up before: it has no stages
	list            []stage
	pieces, kernels uint64 // of GPU work so far
}

// A stage begins when something has been done for the first time.
type stage struct{ from, before, kernels uint64 } // pieces of work until then

// first notes that something was done for the first time, up to a moment.
func (p *Stages) first(at uint64) {
	if p.none {
		return
	}
	if n := len(p.list); n > 0 {
		last := &p.list[n-1]
		if at <= last.from {
			return
		}
		if p.pieces <= 2*last.before+oneStage {
			*last = stage{at, p.pieces, p.kernels}
			return
		}
	}
	p.list = append(p.list, stage{at, p.pieces, p.kernels})
}

// Steady returns when the steady state begins, 0 if nothing was done for the first time.
func (p *Stages) Steady() uint64 {
	if len(p.list) == 0 {
		return 0
	}
	found := p.list[0]
	for _, next := range p.list[1:] {
		if next.before > manyTimes*found.before+fewPieces || !p.early(next) {
			break
		}
		found = next
	}
	return found.from
}

// Settled reports whether nothing that may still come changes when the steady state begins.
func (p *Stages) Settled() bool {
	if p.none {
		return true
	}
	steady, before := p.Steady(), p.pieces // of a new stage
	for i, found := range p.list {
		if found.from != steady {
			continue
		}
		if i+1 < len(p.list) {
			before = p.list[i+1].before
		}
		return before > manyTimes*found.before+fewPieces
	}
	return false
}

// Next returns when the stage behind that of a moment begins, as far as is known; timeline.Never for the last one.
func (p *Stages) Next(at uint64) uint64 {
	for i := range p.list {
		if at < p.list[i].from {
			return p.list[i].from
		}
	}
	return timeline.Never
}

// early reports whether a small part of the work came before a stage.
func (p *Stages) early(s stage) bool {
	return s.before*mostEarly <= p.pieces || p.kernels > 0 && s.kernels*mostEarly <= p.kernels
}

// Begun returns when the stage of a moment began, as far as is known, 0 for the first one.
func (p *Stages) Begun(at uint64) uint64 {
	for i := len(p.list) - 1; i >= 0; i-- {
		if at >= p.list[i].from {
			return p.list[i].from
		}
	}
	return 0
}

// A timed is evidence by stage.
type timed struct {
	stages *Stages
	parts  []part // the earliest first
}

type part struct {
	from uint64
	evidence
}

// at returns the evidence of the stage of a moment.
func (t *timed) at(at uint64) *evidence {
	from := t.stages.Begun(at)
	i := len(t.parts)
	for i > 0 && t.parts[i-1].from > from {
		i--
	}
	if i == 0 || t.parts[i-1].from != from {
		if len(t.parts) > 2*len(t.stages.list)+oneStage {
			t.compact()
			return t.at(at)
		}
		t.parts = slices.Insert(t.parts, i, part{from: from})
		i++
	}
	return &t.parts[i-1].evidence
}

// compact joins the parts of stages whose beginning has moved on.
func (t *timed) compact() {
	kept := t.parts[:1]
	for i := range t.parts[1:] {
		p := t.parts[i+1]
		if last := &kept[len(kept)-1]; t.stages.Begun(p.from) == t.stages.Begun(last.from) {
			last.join(&p.evidence)
			continue
		}
		kept = append(kept, p)
	}
	t.parts = kept
}

func (t *timed) add(at, cost uint64) { t.at(at).add(at, cost) }

// since returns the evidence from the beginning of a stage on.
func (t *timed) since(from uint64) *evidence {
	all := new(evidence)
	for i := range t.parts {
		if t.parts[i].from >= from || t.stages.none {
			all.join(&t.parts[i].evidence)
		}
	}
	return all
}

// all returns the evidence of all stages.
func (t *timed) all() *evidence { return t.since(0) }

// before returns the evidence up to the beginning of a stage.
func (t *timed) before(from uint64) *evidence {
	all := new(evidence)
	for i := range t.parts {
		if t.parts[i].from < from {
			all.join(&t.parts[i].evidence)
		}
	}
	return all
}

// A record is evidence by key and stage. Beyond maxKeys keys, the rest is counted together under the zero key.
type record[K comparable] struct {
	stages *Stages
	by     map[K]*timed
}

const maxKeys = 64

func (r *record[K]) of(key K) *timed {
	t := r.by[key]
	if t != nil {
		return t
	}
	if r.by == nil {
		r.by = make(map[K]*timed)
	}
	if len(r.by) >= maxKeys {
		var rest K
		key = rest
		if t = r.by[key]; t != nil {
			return t
		}
	}
	t = &timed{stages: r.stages}
	r.by[key] = t
	return t
}

// tally returns the evidence that a function takes of each key, without that of which there is none.
func (r *record[K]) tally(of func(*timed) *evidence) tally[K] {
	all := make(tally[K])
	for k, t := range r.by {
		if e := of(t); e.count > 0 {
			all[k] = e
		}
	}
	return all
}

// since returns the evidence from the beginning of a stage on.
func (r *record[K]) since(from uint64) tally[K] {
	return r.tally(func(t *timed) *evidence { return t.since(from) })
}

// What a start-up is made of.
const (
	loadingCode  = "loading code"
	capturing    = "capturing graphs"
	allocating   = "allocating"
	initialising = "making contexts"
)

// startsUp returns what a call does that belongs to a start-up, "" for what a loop does.
func startsUp(f *activity.Function) string {
	switch {
	case f.Loads():
		return loadingCode
	case f.Role == activity.Initialising:
		return initialising
	case f.Role == activity.Allocating:
		return allocating
	case f.Role == activity.Capturing:
		return capturing
	}
	return ""
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
	if len(p.worked) == 0 || !r.collector.Worth(e.cost, p.last-p.first) {
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
		Cost: e.cost, Count: 1, First: e.first, Last: e.last, At: e.longest.At(), Longest: e.longest.Longest(),
		Try: slowStarts[most]}
}

// once tells of several processes that start up the one that takes longest.
func once(startups []Finding) []Finding {
	if len(startups) < 2 {
		return startups
	}
	all := uint64(0)
	for i := range startups {
		all = sketch.Sum(all, startups[i].Cost)
	}
	f := Sorted(startups)[0]
	f.Evidence += fmt.Sprintf("; %s, %s together", figures.Count(len(startups), "process starts up",
		"processes start up"), figures.Duration(all))
	f.Count = uint64(len(startups))
	return []Finding{f}
}

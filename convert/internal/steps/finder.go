package steps

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/pattern"
)

const (
	Least = 3       // ranges of a kind that are steps
	Most  = 1 << 16 // steps of a kind that are kept
)

// Limits of the steps.
const (
	mostKinds = 1 << 8 // names of ranges that may be steps, those that come first: a program has its steps from the start
	stepDepth = 3      // ranges within more others are no steps
	covering  = 0.5    // part of the time that ranges without a number cover, if they are steps
)

// A Finder finds the steps of a timeline.
type Finder struct {
	named  bool // a person has said which ranges are steps
	mark   func(*timeline.Process, uint64)
	kinds  map[key]*Kind
	list   []*Kind
	within map[level][]*Kind // whose first range lies in the next one that ends on a level
	on     map[*timeline.Process]*profiled
	room   int // pieces of work that may still be searched for periods
	worked []*Stream
}

type key struct {
	Process      *timeline.Process
	Name, domain string
}

// A level is the ranges of a track that lie in equally many others.
type level struct {
	track *timeline.Track
	depth int32
}

// A Kind is steps of one kind of a process.
type Kind struct {
	key
	Source   string
	sure     float64 // part of the steps that are as long as most, in launches; 1 for ranges
	numbered bool
	recorded bool             // the recording was limited to them
	within   *Kind            // the kind of the range around the first one
	Stream   *timeline.Stream // of launches that repeat; nil for others
	Covers   float64          // of launches that repeat: part of the GPU work of the process that began in the steps
	NoLines  bool             // of launches that repeat: no Python line tells whether they lie within one call
	Parts    []Step           // by start
	More     uint64           // steps that are not kept
}

// A Step is one step.
type Step struct {
	Number     int64
	Start, End uint64
	On         *timeline.Thread // nil for launches
}

// Length is the time that the step took.
func (s *Step) Length() uint64 { return s.End - s.Start }

// Whole returns a kind of step of a process that nothing was found of.
func Whole(of *timeline.Process) *Kind { return &Kind{key: key{Process: of}} }

// A profiled is what lies between the calls that start and stop profilers.
type profiled struct {
	Kind
	since uint64 // the return of the call that started them; 0 while they are off
}

// New returns a finder without events. It calls mark at the borders of what may be a step of a process.
func New(mark func(*timeline.Process, uint64)) *Finder {
	return &Finder{mark: mark, kinds: make(map[key]*Kind), within: make(map[level][]*Kind),
		on: make(map[*timeline.Process]*profiled), room: allSearched}
}

// Name notes that a person has said which NVTX ranges are steps: those that the timeline calls steps, and no others.
func (s *Finder) Name() { s.named = true }

// Named reports whether a person has said which ranges are steps.
func (s *Finder) Named() bool { return s.named }

// Begin takes the beginning of a range. It is marked now: when the range ends, the work of its beginning has passed.
func (s *Finder) Begin(e *timeline.SpanBegin) {
	if k, _ := s.find(e.Track, &e.Span); k != nil && len(k.Parts) < Most {
		s.mark(k.Process, e.Start)
	}
}

// End takes a range.
func (s *Finder) End(e *timeline.SpanEnd) {
	k, number := s.find(e.Track, &e.Span)
	at := level{e.Track, e.Depth}
	for _, o := range s.within[at] {
		o.within = k
	}
	delete(s.within, at)
	switch {
	case k == nil || e.End <= e.Start:
	case len(k.Parts) >= Most:
		k.More++
	default:
		k.Parts = append(k.Parts, Step{number, e.Start, e.End, e.Ranges.Thread})
		s.mark(k.Process, e.End)
	}
}

// find returns the kind and the number of a range; the kind is nil for one that cannot be a step.
func (s *Finder) find(t *timeline.Track, sp *timeline.Span) (k *Kind, number int64) {
	if t.Category != timeline.NVTX || sp.Flags&(timeline.Unfinished|timeline.CutBefore) != 0 {
		return nil, 0
	}
	name, number := pattern.Stem(sp.Name)
	bears := number != pattern.Counted
	switch domain := sp.Ranges.Domain; {
	case sp.Ranges.Step != nil:
		number, bears = sp.Ranges.Step.Number, true
	case s.named:
		return nil, 0
	case sp.Depth >= stepDepth || domain == timeline.NCCLDomain || !bears && domain != "":
		return nil, 0
	}
	key := key{t.Process, name, sp.Ranges.Domain}
	if k = s.kinds[key]; k == nil && len(s.list) < mostKinds {
		k = &Kind{key: key, Source: "NVTX", sure: 1, numbered: bears, recorded: sp.Ranges.Step != nil}
		s.kinds[key] = k
		if outer := (level{t, sp.Depth - 1}); sp.Depth > 0 {
			s.within[outer] = append(s.within[outer], k)
		}
		s.list = append(s.list, k)
	}
	return k, number
}

// Call takes a call that lies in no other one, which may start or stop profilers.
func (s *Finder) Call(on *timeline.Thread, sl *timeline.Slice) {
	if sl.Range == cudaapi.NoRange {
		return
	}
	of := on.Process
	p := s.on[of]
	if p == nil {
		p = &profiled{Kind: Kind{key: key{Process: of, Name: "profiled"}, Source: "cudaProfilerStart", sure: 1,
			numbered: true}}
		s.on[of] = p
	}
	switch {
	case sl.Range == cudaapi.RangeStart && p.since == 0:
		p.since = sl.End
		s.mark(of, p.since)
	case sl.Range == cudaapi.RangeStop && p.since > 0 && sl.Start > p.since && len(p.Parts) >= Most:
		p.since = 0
		p.More++
	case sl.Range == cudaapi.RangeStop && p.since > 0 && sl.Start > p.since:
		p.Parts = append(p.Parts, Step{int64(len(p.Parts)), p.since, sl.Start, on})
		p.since = 0
		s.mark(of, sl.Start)
	}
}

// A Stream takes the work of a stream.
type Stream struct {
	*timeline.Stream
	finder *Finder
	period period
	work   history
}

// Stream returns a stream without work.
func (s *Finder) Stream(of *timeline.Stream) *Stream {
	r := &Stream{Stream: of, finder: s}
	s.worked = append(s.worked, r)
	return r
}

// Work takes a piece of work.
func (r *Stream) Work(w *timeline.Work) {
	if !w.Untimed {
		r.work.add(w.Start, w.Dur)
	}
	r.period.advance(w, &r.finder.room, r.mark)
}

// Over reports whether the search for a period has ended, without one.
func (r *Stream) Over() bool { return r.period.over }

func (r *Stream) mark(at uint64) { r.finder.mark(r.Context.Process, at) }

// Finish ends the search for periods. The times at the marks are not read yet.
func (s *Finder) Finish() {
	for _, r := range s.worked {
		if p := &r.period; p.anchor == nil && !p.over {
			p.find(r.mark)
		}
	}
}

// Hope reports whether a process has what may be steps, or is still searched for a period.
func (s *Finder) Hope(of *timeline.Process) bool {
	return s.on[of] != nil || slices.ContainsFunc(s.list, func(k *Kind) bool { return k.Process == of }) ||
		slices.ContainsFunc(s.worked, func(r *Stream) bool { return r.Context.Process == of && !r.period.over })
}

// Found returns the kinds of step, those of a process by their time.
func (s *Finder) Found() (all []*Kind) {
	ranged := make(map[*timeline.Process]bool)
	for _, k := range s.list {
		if k.steps(s.named) {
			k.count()
			all, ranged[k.Process] = append(all, k), true
		}
	}
	if s.named {
		return all
	}
	for _, r := range s.worked {
		if p := s.on[r.Context.Process]; p != nil && !ranged[p.Process] && p.steps(false) {
			all, ranged[p.Process] = append(all, &p.Kind), true
		}
	}
	for _, r := range s.repeating(ranged) {
		covers, why := r.doubt()
		if why != "" {
			continue
		}
		k := &Kind{key: key{Process: r.Context.Process, Name: "step"}, Covers: covers, NoLines: len(r.period.origins.in) == 0,
			Source: fmt.Sprintf("launches on stream %d%s", r.ID, r.Qualifier()), sure: r.period.sure(), Stream: r.Stream}
		for i, at := range r.period.bounds[1:] {
			k.Parts = append(k.Parts, Step{int64(i), r.period.bounds[i], at, nil})
		}
		all = append(all, k)
	}
	return all
}

// repeating returns of each process without ranges the stream with most work, if its launches repeat.
func (s *Finder) repeating(ranged map[*timeline.Process]bool) (list []*Stream) {
	busiest := make(map[*timeline.Process]*Stream)
	for _, r := range s.worked {
		if o := busiest[r.Context.Process]; !ranged[r.Context.Process] && (o == nil || r.work.total > o.work.total) {
			busiest[r.Context.Process] = r
		}
	}
	for _, r := range s.worked {
		if r == busiest[r.Context.Process] && len(r.period.bounds) > leastPeriods && r.period.sure() >= regular {
			list = append(list, r)
		}
	}
	return list
}

// doubt returns the part of the GPU work of the process that began in the periods, and why these are not its steps; ""
// if they are.
func (r *Stream) doubt() (covers float64, why string) {
	b := r.period.bounds
	var in, all uint64
	for _, o := range r.finder.worked {
		if o.Context.Process == r.Context.Process {
			in, all = in+o.work.until(b[len(b)-1])-o.work.until(b[0]), all+o.work.total
		}
	}
	covers = float64(in) / float64(max(all, 1))
	if f := r.period.origins.within(); f != nil {
		return covers, fmt.Sprintf("they lie within one call at %s", f.Text())
	}
	if covers < covering {
		return covers, fmt.Sprintf("they have %.0f %% of the GPU work", 100*covers)
	}
	return covers, ""
}

// Unclaimed says which launches repeat and are no steps, and why, a text for each process without steps.
func (s *Finder) Unclaimed() (texts []string) {
	if s.named {
		return nil
	}
	found := make(map[*timeline.Process]bool)
	for _, k := range s.Found() {
		found[k.Process] = true
	}
	for _, r := range s.repeating(found) {
		if _, why := r.doubt(); why != "" {
			texts = append(texts, fmt.Sprintf("%d repetitions of the launches on stream %d%s of process %d are no steps: %s",
				len(r.period.bounds)-1, r.ID, r.Qualifier(), r.Context.Process.PID, why))
		}
	}
	return texts
}

// steps reports whether ranges are steps: there are some, they do not lie within others that are, and they bear numbers
// or come one after the other.
func (k *Kind) steps(named bool) bool {
	if named || k.recorded {
		return len(k.Parts) > 0
	}
	for o := k.within; o != nil; o = o.within {
		if o != k && o.steps(false) {
			return false
		}
	}
	if len(k.Parts) < Least {
		return false
	}
	first, last, in := timeline.Never, uint64(0), activity.Cover{}
	slices.SortFunc(k.Parts, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
	for _, p := range k.Parts {
		first, last = min(first, p.Start), max(last, p.End)
		in.Add(p.Start, p.End)
	}
	return k.numbered || float64(in.Total) >= covering*float64(last-first)
}

// count numbers the steps from 0 where their names do not.
func (k *Kind) count() {
	slices.SortFunc(k.Parts, func(a, b Step) int { return cmp.Compare(a.Start, b.Start) })
	seen := make(map[int64]bool)
	for _, p := range k.Parts {
		seen[p.Number] = true
	}
	if k.numbered && len(seen) == len(k.Parts) {
		return
	}
	for i := range k.Parts {
		k.Parts[i].Number = int64(i)
	}
}

// Certain reports whether what the steps are is known for certain.
func (k *Kind) Certain() bool { return k.Stream == nil }

// Main returns of each process the kind of step with most time.
func (s *Finder) Main() (list []*Kind) {
	main := make(map[*timeline.Process]*Kind)
	kinds := s.Found()
	for _, k := range kinds {
		if o := main[k.Process]; o == nil || k.Time() > o.Time() {
			main[k.Process] = k
		}
	}
	return slices.DeleteFunc(kinds, func(k *Kind) bool { return main[k.Process] != k })
}

// Time is the time in steps, ns.
func (k *Kind) Time() (ns uint64) {
	for _, p := range k.Parts {
		ns += p.End - p.Start
	}
	return ns
}

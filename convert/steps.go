package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Steps names the NVTX ranges that are steps. It may choose some of them by number.
type Steps struct {
	pattern.Ranges
	Chosen      bool // only the time from the beginning of step First to the end of step Last is shown
	First, Last int64
}

// A NoStepError is the error of logs that have no ranges that are steps, or none of the chosen steps.
type NoStepError struct {
	Steps
	Found     int   // steps that the logs have
	Low, High int64 // their numbers
	// of the ranges that there are without the numbers at their ends, sorted, each once, those of NCCL last; if Found is 0
	Names   []string
	nccl    []string // of these
	matched bool     // there are steps; some are chosen
}

func (e *NoStepError) Error() string {
	if e.Found == 0 {
		return fmt.Sprintf("no NVTX range matches %q", e.Ranges)
	}
	return fmt.Sprintf("there are no steps %d to %d: the steps %s are %d to %d", e.First, e.Last, e.Ranges, e.Low, e.High)
}

// errFound ends a search.
var errFound = errors.New("found")

// mostNames bounds NoStepError.Names.
const mostNames = 1000

// look looks for a range that is a step in a log: in all of it, unless some steps are chosen. Without one it notes the
// names of the others.
func (s *Steps) look(l *log, none *NoStepError) error {
	var f tracelog.Filter
	if l.filter != nil && s.Chosen {
		f = *l.filter
	}
	known := make(map[string]bool)
	err := l.markers(f, func(m *tracelog.Marker) error {
		if m.Flags&tracelog.MarkerStart == 0 {
			return nil
		}
		if s.Match(m.Name, m.Domain) {
			return errFound
		}
		if name, _ := pattern.Stem(m.Name); !known[name] && len(known) < mostNames {
			known[name] = true
			if m.Domain == timeline.NCCLDomain {
				none.nccl = append(none.nccl, name)
			} else {
				none.Names = append(none.Names, name)
			}
		}
		return nil
	})
	if errors.Is(err, errFound) {
		none.matched = true
		return nil
	}
	return err
}

// checked returns the error itself if there are no steps, or none of the chosen ones, else nil.
func (e *NoStepError) checked() error {
	if e.None() || e.matched {
		return nil
	}
	for _, names := range []*[]string{&e.Names, &e.nccl} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	e.Names = append(e.Names, e.nccl...)
	return e
}

// mostSteps bounds the steps of a log that are looked at.
const mostSteps = 1 << 20

// A stepRange is a range that is a step.
type stepRange struct {
	stepKey
	number int64
	start  uint64
}

// A stepKey identifies a range in a log while it is open.
type stepKey struct{ pid, id uint32 }

// limit limits a log's filter to the time of the chosen steps, from the beginning of the first one in any process to
// the end of the last one. Of a log without such steps it leaves nothing. none gathers the steps that there are.
func (s *Steps) limit(l *log, f *tracelog.Filter, none *NoStepError) error {
	all, err := s.ranges(l, *f)
	if err != nil {
		return err
	}
	chosen := make(map[stepKey]stepRange)
	from := uint64(1)
	for i, r := range all {
		if none.Found == 0 {
			none.Low, none.High = r.number, r.number
		}
		none.Found, none.Low, none.High = none.Found+1, min(none.Low, r.number), max(none.High, r.number)
		again := i > 0 && all[i-1].pid == r.pid && all[i-1].number == r.number // as in each epoch
		if r.number < s.First || r.number > s.Last || again {
			continue
		}
		if len(chosen) == 0 || r.start < from {
			from = r.start
		}
		chosen[r.stepKey] = r
	}
	to := uint64(1)
	open := len(chosen)
	none.matched = none.matched || open > 0
	err = l.markers(*f, func(m *tracelog.Marker) error {
		key := stepKey{m.PID, m.ID}
		if r, is := chosen[key]; is && m.Flags&tracelog.MarkerEnd != 0 && m.Time >= r.start {
			to, open = max(to, m.Time), open-1
			delete(chosen, key)
		}
		return nil
	})
	f.From = max(f.From, from)
	if open == 0 && (f.To == 0 || to < f.To) { // a step that has not ended goes on to the end of the recording
		f.To = to
	}
	return err
}

// ranges returns the ranges of a log that are steps, by process and number, those of one number in the order in which
// they begin.
func (s *Steps) ranges(l *log, f tracelog.Filter) (all []stepRange, err error) {
	err = l.markers(f, func(m *tracelog.Marker) error {
		switch {
		case m.Flags&(tracelog.MarkerStart|tracelog.MarkerBefore) != tracelog.MarkerStart || !s.Match(m.Name, m.Domain):
			return nil
		case len(all) == mostSteps:
			return fmt.Errorf("%s has more than %s ranges that are steps", l.Name, figures.Group(mostSteps))
		}
		_, n := pattern.Stem(m.Name)
		all = append(all, stepRange{stepKey{m.PID, m.ID}, n, m.Time})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b stepRange) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.start, b.start), cmp.Compare(a.id, b.id))
	})
	first, err := s.first(l)
	counted := first
	for i := range all {
		if i > 0 && all[i].pid != all[i-1].pid {
			counted = first
		}
		if all[i].number == pattern.Counted {
			all[i].number = counted
			counted++
		}
	}
	slices.SortStableFunc(all, func(a, b stepRange) int {
		return cmp.Or(cmp.Compare(a.pid, b.pid), cmp.Compare(a.number, b.number))
	})
	return all, err
}

// first returns the number of a log's first step without a number in its name: a recording may have been limited to some.
func (s *Steps) first(l *log) (int64, error) {
	options := &log{Log: l.Log, filter: &tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindMeta}}}
	if err := options.read(func(float64) {}); err != nil {
		return 0, err
	}
	if recorded, first := recordedSteps(options.catalog.Meta); recorded == s.Ranges {
		return first, nil
	}
	return 0, nil
}

// recordedSteps returns the ranges that a recording was limited to by their numbers, and the number of the first.
func recordedSteps(meta map[string]string) (pattern.Ranges, int64) {
	text, first := tracelog.RecordedSteps(meta)
	ranges, err := pattern.ParseRanges(text)
	if err != nil {
		return pattern.Ranges{}, 0
	}
	return ranges, first
}

// markers calls take for each marker of a log that a filter selects, whatever its time.
func (l *log) markers(f tracelog.Filter, take func(*tracelog.Marker) error) error {
	r, err := l.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	f.From, f.To, f.Kinds = 0, 0, []tracelog.Kind{tracelog.KindMarker}
	if err := r.Select(f); err != nil {
		return err
	}
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			var m tracelog.Marker
			if b.Kind != tracelog.KindMarker || !f.Match(b, i) {
				continue
			}
			m.Read(b, i)
			if err := take(&m); err != nil {
				return err
			}
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

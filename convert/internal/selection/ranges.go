package selection

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Ranges are the NVTX ranges of a program, by a pattern that selects some of them. Without a pattern there
// is no choice among ranges.
type Ranges struct {
	Pattern pattern.Ranges
	Matched uint64   // ranges that the pattern matches
	First   uint64   // start of the first of them
	Names   []string // of the ranges that the pattern does not match, mostNames at most

	matches map[rangeName]bool
	latest  *timeline.RangeStack // the stack of the latest question, and its answer
	answer  bool
}

// A rangeName is a range's name, which many ranges have.
type rangeName struct{ name, domain string }

const (
	// mostNames bounds Names.
	mostNames = 1000

	// mostMatches bounds the names for which the answer of the pattern is kept.
	mostMatches = 1 << 16
)

func newRanges(p pattern.Ranges) Ranges {
	return Ranges{Pattern: p, matches: make(map[rangeName]bool)}
}

// within reports whether a range of a stack is selected.
func (r *Ranges) within(stack *timeline.RangeStack) bool {
	if r.Pattern.None() || r.latest == stack && stack != nil {
		return r.Pattern.None() || r.answer
	}
	found := false
	for s := stack; s != nil && !found; s = s.Outer {
		found = r.match(s.Range)
	}
	r.latest, r.answer = stack, found
	return found
}

// match reports whether the pattern matches a range.
func (r *Ranges) match(of *timeline.Range) bool {
	key := rangeName{of.Name, of.Domain}
	matched, known := r.matches[key]
	if known {
		return matched
	}
	matched = r.Pattern.Match(of.Name, of.Domain)
	if len(r.matches) < mostMatches {
		r.matches[key] = matched
		if !matched && len(r.Names) < mostNames {
			r.Names = append(r.Names, of.Name)
		}
	}
	return matched
}

// Saw takes a range of a thread, whether it is shown or not.
func (r *Ranges) Saw(sp *timeline.Span) {
	if r.Pattern.None() || !r.match(sp.Ranges.Range) {
		return
	}
	if r.Matched++; r.First == 0 || sp.Start < r.First {
		r.First = sp.Start
	}
}

// Package selection selects the part of a timeline to show, by name, duration, caller, Python frame and NVTX range.
//
// Input: slices, GPU work and spans, one at a time. Output: whether to show each of them. The
// slices and pieces of GPU work that are not shown are counted; spans are not counted.
package selection

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Options say what is selected. The zero Options select all.
type Options struct {
	Name     string         // a glob that names must match; "" for every name
	Caller   string         // a glob that the callers of calls must match; "" for every caller
	Python   string         // a glob that one of the Python frames above a call must match; "" for every call
	NVTX     pattern.Ranges // only what is in matching NVTX ranges, and these ranges; the zero value for everything
	Shortest uint64         // ns
}

// A Selection selects slices, spans and work. Nil selects all.
type Selection struct {
	Options
	LeftOut uint64 // slices and pieces of work that were not selected
	Ranges  Ranges // with Options.NVTX
	names   timeline.KernelNames
	callers map[*timeline.Caller]bool // whether Caller matches them
	pythons map[*timeline.Python]bool // whether Python matches them, or a frame further out
}

// New returns a selection, nil for one that selects all.
func New(o Options) *Selection {
	if o == (Options{}) {
		return nil
	}
	return &Selection{
		Options: o, Ranges: newRanges(o.NVTX), names: make(timeline.KernelNames), callers: make(map[*timeline.Caller]bool),
		pythons: make(map[*timeline.Python]bool),
	}
}

// OfCalls reports whether work is selected by its call: work without a call is not selected.
func (s *Selection) OfCalls() bool {
	return s != nil && (s.Caller != "" || s.Python != "" || !s.NVTX.None())
}

// Slice reports whether a call is shown, and counts it if not.
func (s *Selection) Slice(sl *timeline.Slice) bool {
	return s == nil || s.count(s.matches(sl.Name) && s.Causes(sl) && sl.End-sl.Start >= s.Shortest)
}

// Causes reports whether the work of a call may be selected, by the call's caller, Python frames and NVTX ranges.
func (s *Selection) Causes(sl *timeline.Slice) bool {
	return s == nil || s.CalledFrom(sl.Caller) && s.below(sl.Python) && s.Ranges.within(sl.Ranges)
}

// below reports whether calls of a Python frame are selected; nil is no frame.
func (s *Selection) below(p *timeline.Python) bool {
	if s.Python == "" || p == nil {
		return s.Python == ""
	}
	chosen, known := s.pythons[p]
	if !known {
		chosen = MatchPython(s.Python, p)
		s.pythons[p] = chosen
	}
	return chosen
}

// MatchPython reports whether a glob matches a Python frame, or one that called it: its file with or without folders,
// with or without the line, its function, or its whole text.
func MatchPython(glob string, p *timeline.Python) bool {
	for f := range p.Frames() {
		names := []string{f.File, path.Base(f.File), f.Function, f.Text()}
		if f.Line != 0 {
			line := fmt.Sprintf(":%d", f.Line)
			names = append(names, f.File+line, path.Base(f.File)+line)
		}
		if slices.ContainsFunc(names, func(name string) bool { return pattern.Match(glob, name) }) {
			return true
		}
	}
	return false
}

// CalledFrom reports whether calls of a caller are selected; nil is the unknown caller.
func (s *Selection) CalledFrom(c *timeline.Caller) bool {
	if s == nil || s.Caller == "" || c == nil {
		return s == nil || s.Caller == ""
	}
	chosen, known := s.callers[c]
	if !known {
		chosen = matchCaller(s.Caller, c)
		s.callers[c] = chosen
	}
	return chosen
}

// matchCaller reports whether a glob matches a caller: its file's name, its function with or without
// parameters, both, or its whole text.
func matchCaller(glob string, c *timeline.Caller) bool {
	names := []string{c.File(), c.Text()}
	if f := c.Function(); f != "" {
		short := strings.TrimSuffix(strings.TrimSuffix(f, "(...)"), "()")
		names = append(names, f, short, c.File()+": "+f, c.File()+": "+short)
	}
	return slices.ContainsFunc(names, func(name string) bool { return pattern.Match(glob, name) })
}

// Work reports whether GPU work is shown, and counts it if not.
func (s *Selection) Work(w *timeline.Work) bool {
	return s == nil || s.count(s.matches(s.names.Title(w)) && s.Ranges.within(w.Call.Ranges) && w.Dur >= s.Shortest)
}

// Span reports whether a span is shown. A span that has not ended counts as long enough.
func (s *Selection) Span(sp *timeline.Span) bool {
	return s == nil || s.matches(sp.Name) && s.Ranges.within(sp.Ranges) && (sp.Open || sp.End-sp.Start >= s.Shortest)
}

func (s *Selection) count(taken bool) bool {
	if !taken {
		s.LeftOut++
	}
	return taken
}

func (s *Selection) matches(name string) bool {
	return s.Name == "" || pattern.Match(s.Name, name)
}

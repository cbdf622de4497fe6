// Package selection selects the part of a timeline to show, by name and duration.
// Slices, GPU work and spans go in; out comes whether each is shown, and how many are not.
package selection

import (
	"path"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Selection selects slices, spans and work. Nil selects all.
type Selection struct {
	Name     string // a glob that names must match; "" for every name
	Shortest uint64 // ns
	LeftOut  uint64 // slices and pieces of work that were not selected
	names    timeline.KernelNames
}

// New returns a selection, nil for one that selects all.
func New(name string, shortest uint64) *Selection {
	if name == "" && shortest == 0 {
		return nil
	}
	return &Selection{Name: name, Shortest: shortest, names: make(timeline.KernelNames)}
}

// Slice says whether a call is shown, and counts it if not.
func (s *Selection) Slice(sl *timeline.Slice) bool {
	return s == nil || s.count(s.takes(sl.Name, sl.End-sl.Start))
}

// Work says whether GPU work is shown, and counts it if not.
func (s *Selection) Work(w *timeline.Work) bool {
	return s == nil || s.count(s.takes(s.names.Title(w), w.Dur))
}

// Span says whether a span is shown. A span that has not ended counts as long enough.
func (s *Selection) Span(sp *timeline.Span) bool {
	return s == nil || s.matches(sp.Name) && (sp.Open || sp.End-sp.Start >= s.Shortest)
}

func (s *Selection) count(taken bool) bool {
	if !taken {
		s.LeftOut++
	}
	return taken
}

func (s *Selection) takes(name string, dur uint64) bool {
	return dur >= s.Shortest && s.matches(name)
}

// noSlash makes a glob's * match the slashes of a name too, since a name is not a path.
var noSlash = strings.NewReplacer("/", "\x00")

func (s *Selection) matches(name string) bool {
	if s.Name == "" {
		return true
	}
	ok, err := path.Match(noSlash.Replace(s.Name), noSlash.Replace(name))
	return ok && err == nil
}

package cudaapi

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// setNames are the sets as a person chooses them.
var setNames = [...]struct {
	name string
	set  Set
}{{"default", Default}, {"minimal", Minimal}, {"all", All}}

// maxNear is how many similar names an error shows.
const maxNear = 5

// Select returns the functions of a set, "default", "minimal" or "all", with those
// that match a glob of probe added and then those that match one of noProbe removed,
// in table order. A glob has *, ? and [a-z], is case sensitive, and matches a function
// by its name with or without _ptsz or _ptds.
//
// A function that probe names is traced whether the process has a runtime or not.
// The errors are for people: an unknown set, a glob that can't be read, one that
// matches nothing, a choice of nothing.
func Select(set string, probe, noProbe []string) ([]*Function, error) {
	start, err := parseSet(set)
	if err != nil {
		return nil, err
	}
	chosen := make([]*Function, len(functions))
	for i := range functions {
		if functions[i].Sets&start != 0 {
			chosen[i] = &functions[i]
		}
	}
	add := func(f *Function) { chosen[f.ID] = always(f) }
	remove := func(f *Function) { chosen[f.ID] = nil }
	if err := errors.Join(eachMatch(probe, add), eachMatch(noProbe, remove)); err != nil {
		return nil, err
	}
	chosen = slices.DeleteFunc(chosen, func(f *Function) bool { return f == nil })
	if len(chosen) == 0 {
		return nil, errors.New("no function is left to record")
	}
	return chosen, nil
}

// always is the function without the condition that there is no runtime.
func always(f *Function) *Function {
	if !f.Fallback {
		return f
	}
	own := *f
	own.Fallback = false
	return &own
}

func parseSet(name string) (Set, error) {
	var known []string
	for _, s := range setNames {
		if s.name == name {
			return s.set, nil
		}
		known = append(known, s.name)
	}
	return 0, fmt.Errorf("%q is no set of functions (use one of %s)", name, strings.Join(known, ", "))
}

// eachMatch hands on the functions that match one of the globs. All globs that match
// nothing are in the error.
func eachMatch(globs []string, take func(*Function)) error {
	var errs []error
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, fmt.Errorf("%q is no pattern: a [ or a \\ in it is not complete", glob))
			continue
		}
		found := false
		for i := range functions {
			if f := &functions[i]; f.matches(glob) {
				take(f)
				found = true
			}
		}
		if !found {
			errs = append(errs, noMatch(glob))
		}
	}
	return errors.Join(errs...)
}

func (f *Function) matches(glob string) bool {
	full, _ := path.Match(glob, f.Name)
	base, _ := path.Match(glob, f.Base())
	return full || base
}

// Base is the name without _ptsz or _ptds.
func (f *Function) Base() string {
	return strings.TrimSuffix(strings.TrimSuffix(f.Name, "_ptsz"), "_ptds")
}

func noMatch(glob string) error {
	near := nearest(glob)
	if len(near) == 0 {
		return fmt.Errorf("no function matches %q", glob)
	}
	return fmt.Errorf("no function matches %q; near: %s", glob, strings.Join(near, ", "))
}

// nearest lists names that the glob would match with few changes of letters, those
// with fewest first, then shorter ones.
func nearest(glob string) []string {
	type candidate struct {
		name    string
		changes int
	}
	var found []candidate
	limit := max(2, len(strings.Trim(glob, "*"))/4)
	for i := range functions {
		f := &functions[i]
		if f.Name != f.Base() {
			continue
		}
		if n := changes(strings.ToLower(glob), strings.ToLower(f.Name)); n <= limit {
			found = append(found, candidate{f.Name, n})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.changes, b.changes), cmp.Compare(len(a.name), len(b.name)))
	})
	var names []string
	for _, c := range found[:min(len(found), maxNear)] {
		names = append(names, c.name)
	}
	return names
}

// changes counts the letters to insert, delete or replace in a glob until it matches
// the name: the edit distance, in which * and ? match what they match for nothing.
func changes(glob, name string) int {
	row := make([]int, len(name)+1) // the glob so far against each beginning of the name
	for j := range row {
		row[j] = j
	}
	for i := range len(glob) {
		star, before := glob[i] == '*', row[0]
		if !star {
			row[0]++
		}
		for j := 1; j <= len(name); j++ {
			above := row[j]
			switch {
			case star:
				row[j] = min(above, row[j-1])
			case glob[i] == name[j-1] || glob[i] == '?':
				row[j] = before
			default:
				row[j] = 1 + min(before, above, row[j-1])
			}
			before = above
		}
	}
	return row[len(name)]
}

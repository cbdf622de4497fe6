package cudaapi

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/pattern"
)

// setNames are the names of the sets on the command line.
var setNames = [...]struct {
	name string
	set  Set
}{{"minimal", Minimal}, {"default", Default}, {"all", All}}

// Select returns the functions of a set, "default", "minimal" or "all". It adds those that
// match a glob of probe, and then removes those that match a glob of noProbe. They come in
// table order. A glob has *, ? and [a-z], is case sensitive, and matches a function by its name
// with or without _ptsz or _ptds.
//
// A function that probe names is recorded whether the process has a runtime or not. An error is
// for a person: the set is unknown, a glob cannot be read or matches nothing, or no function is
// left.
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
		return nil, ErrNoFunction
	}
	return chosen, nil
}

// ErrNoFunction says that the globs leave nothing to record.
var ErrNoFunction = errors.New("no function is left to record")

// CheckGlob returns an error for a person if a glob cannot be read or matches no function.
func CheckGlob(glob string) error { return eachMatch([]string{glob}, func(*Function) {}) }

// always is a function without the condition that the process has no runtime.
func always(f *Function) *Function {
	if !f.Fallback {
		return f
	}
	own := *f
	own.Fallback = false
	return &own
}

func parseSet(name string) (Set, error) {
	known := make([]string, 0, len(setNames))
	for _, s := range setNames {
		if s.name == name {
			return s.set, nil
		}
		known = append(known, s.name)
	}
	last := len(known) - 1
	return 0, fmt.Errorf("must be %s or %s, not %q", strings.Join(known[:last], ", "), known[last], name)
}

// eachMatch calls take with the functions that match one of the globs. The error names every
// glob that matches nothing.
func eachMatch(globs []string, take func(*Function)) error {
	var errs []error
	for _, glob := range globs {
		if _, err := path.Match(glob, ""); err != nil {
			errs = append(errs, fmt.Errorf("%q is not a pattern: a [ lacks its ], or nothing follows a \\", glob))
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
	var names []string
	for i := range functions {
		if f := &functions[i]; f.Name == f.Base() {
			names = append(names, f.Name)
		}
	}
	if near := pattern.Nearest(strings.Trim(glob, "*"), names); near != "" {
		return fmt.Errorf("no function matches %q; did you mean %s?", glob, near)
	}
	return fmt.Errorf("no function matches %q", glob)
}

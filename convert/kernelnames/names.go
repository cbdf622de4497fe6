// Package kernelnames names kernels for people: "elementwise add<float>" in place of 150 characters of C++.
//
// Input: the demangled names of all kernels of a log, or of a table. Output: a name for each that no other one has, of
// at most [Width] columns. They are for display alone: files for machines, and what a person writes on a command line,
// have the full names.
package kernelnames

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Width is the number of columns of the longest name.
const Width = 40

// Names have the names of kernels for people.
type Names struct {
	short map[string]string // by the name with parameters and by the one without
}

// New names kernels. The order in which they come does not matter.
func New(kernels []timeline.KernelName) *Names {
	of := make(map[string]*kernel)
	plain := make(map[string]int)
	for _, k := range kernels {
		if key := cmp.Or(k.Full, k.Short); of[key] == nil {
			of[key] = &kernel{plain: k.Short, full: key, base: shorten(k.Short)}
			plain[k.Short]++
		}
	}
	list := make([]*kernel, 0, len(of))
	alike := make(map[string][]*kernel)
	for _, key := range slices.Sorted(maps.Keys(of)) {
		k := of[key]
		cut := figures.Cut(k.base, Width)
		list, alike[cut] = append(list, k), append(alike[cut], k)
	}
	for _, group := range alike {
		tellApart(group)
	}
	n := &Names{make(map[string]string, 2*len(list))}
	used := make(map[string]int)
	for _, k := range list {
		short := k.numbered(used)
		n.short[k.full] = short
		if plain[k.plain] == 1 {
			n.short[k.plain] = short
		}
	}
	return n
}

// Known returns the name for people of a kernel that [New] was given, by its name with or without parameters; "" of
// another one, and of several that have one name without parameters.
func (n *Names) Known(name string) string { return n.short[name] }

// Of returns the name for people of any kernel. That of a kernel that is not known may be another one's, too.
func (n *Names) Of(name string) string {
	if n != nil && n.short[name] != "" {
		return n.short[name]
	}
	return figures.Cut(shorten(name), Width)
}

// A kernel is a kernel that gets a name.
type kernel struct {
	plain, full string
	base        string   // what its rule makes of it
	suffix      []string // what tells it apart from others with this base
}

// longestSuffix is the number of columns of the longest suffix.
const longestSuffix = 24

// add adds to what tells a kernel apart.
func (k *kernel) add(word string) {
	if word != "" {
		k.suffix = append(k.suffix, figures.Clean(word))
	}
}

// with is the name with a suffix: what all have in common is cut, and not the suffix.
func (k *kernel) with(suffix string) string {
	return figures.Cut(k.base, Width-utf8.RuneCountInString(suffix)) + suffix
}

// numbered is the name with its suffix, and with a number where another kernel has that.
func (k *kernel) numbered(used map[string]int) string {
	suffix := ""
	if len(k.suffix) > 0 {
		suffix = " " + figures.Cut(strings.Join(k.suffix, " "), longestSuffix)
	}
	first := k.with(suffix)
	short := first
	for used[short] > 0 {
		used[first]++
		short = k.with(fmt.Sprintf("%s #%d", suffix, used[first]))
	}
	used[short]++
	return short
}

// tellApart gives kernels with one name suffixes, first of what their rules say, then of words of their full names.
func tellApart(group []*kernel) {
	if len(group) < 2 {
		return
	}
	said := make(map[*kernel][]string, len(group))
	levels := 0
	for _, k := range group {
		said[k] = apart(k.plain)
		levels = max(levels, len(said[k]))
	}
	groups := [][]*kernel{group}
	for i := range levels {
		groups = split(groups, func(k *kernel) string { return at(said[k], i) })
	}
	for range mostWords {
		var next [][]*kernel
		for _, g := range groups {
			words, room := make(map[*kernel][]string, len(g)), mostCompared/len(g)
			for _, k := range g {
				words[k] = tokens(k.full[:min(len(k.full), room)])
			}
			place := firstDifference(g, words)
			next = append(next, split([][]*kernel{g}, func(k *kernel) string { return number(at(words[k], place)) })...)
		}
		groups = next
	}
}

// at is a word of several, "" where there are not so many.
func at(words []string, i int) string {
	if i < len(words) {
		return words[i]
	}
	return ""
}

// Bounds of what is compared of full names.
const (
	mostWords    = 3       // that tell a kernel apart
	mostCompared = 1 << 24 // bytes of all names that are to be told apart
)

// split divides groups by a word, and adds the word where it differs. Groups of one kernel are done.
func split(groups [][]*kernel, word func(*kernel) string) (rest [][]*kernel) {
	for _, g := range groups {
		by := make(map[string][]*kernel)
		for _, k := range g {
			by[word(k)] = append(by[word(k)], k)
		}
		for _, w := range slices.Sorted(maps.Keys(by)) {
			if len(by) > 1 {
				for _, k := range by[w] {
					k.add(w)
				}
			}
			if len(by[w]) > 1 {
				rest = append(rest, by[w])
			}
		}
	}
	return rest
}

// firstDifference is the first place at which all words differ, else the first one at which any do.
func firstDifference(group []*kernel, words map[*kernel][]string) int {
	first, longest := -1, 0
	for _, k := range group {
		longest = max(longest, len(words[k]))
	}
	seen := make(map[string]bool)
	for i := range longest {
		clear(seen)
		for _, k := range group {
			seen[at(words[k], i)] = true
		}
		if len(seen) == len(group) {
			return i
		}
		if len(seen) > 1 && first < 0 {
			first = i
		}
	}
	return max(first, 0)
}

// Package ranklist is lists of ranks as people write them: 0,8-15,last. In: a text. Out: whether a rank of
// a distributed program is in the list.
package ranklist

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A List is a list of ranks. The zero List is empty.
type List struct {
	text   string
	ranges []span
}

// A span is the ranks from first to end, both included.
type span struct{ first, end bound }

// A bound is a number, or the last rank of the program.
type bound struct {
	number uint32
	last   bool
}

// Syntax is what a list consists of, for messages.
const Syntax = "ranks, ranges and \"last\", separated by commas, as in 0,8-15,last"

// Parse reads a list: numbers, ranges (8-15, 8-last) and last, separated by commas.
func Parse(text string) (List, error) {
	l := List{text: text}
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return List{}, fmt.Errorf("%q is no list of ranks: %w", text, err)
		}
		l.ranges = append(l.ranges, s)
	}
	return l, nil
}

func parseSpan(text string) (s span, err error) {
	first, end, isRange := strings.Cut(text, "-")
	if s.first, err = parseBound(first); err != nil {
		return s, err
	}
	if s.end = s.first; isRange {
		if s.end, err = parseBound(end); err != nil {
			return s, err
		}
		if s.first.last || !s.end.last && s.end.number < s.first.number {
			return s, fmt.Errorf("the range %s ends before it begins", text)
		}
	}
	return s, nil
}

func parseBound(text string) (bound, error) {
	if text == "last" {
		return bound{last: true}, nil
	}
	if text == "" {
		return bound{}, errors.New("a number is missing")
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || text[0] == '+' {
		return bound{}, fmt.Errorf("%q is no rank", text)
	}
	return bound{number: uint32(n)}, nil
}

// String is the text that was parsed.
func (l List) String() string { return l.text }

// Empty says whether the list has no entry.
func (l List) Empty() bool { return len(l.ranges) == 0 }

// NeedsWorld says whether the list depends on the number of ranks.
func (l List) NeedsWorld() bool {
	return slices.ContainsFunc(l.ranges, func(s span) bool { return s.first.last || s.end.last })
}

// Reaches says whether the list has a rank of a program with so many ranks.
func (l List) Reaches(world uint32) bool {
	return slices.ContainsFunc(l.ranges, func(s span) bool { return s.first.last || s.first.number < world })
}

// Contains says whether a rank is in the list. World is the number of ranks of the program, 0 where it is
// not known: then "last" is no rank, and the range 8-last has no end.
func (l List) Contains(rank, world uint32) bool {
	return slices.ContainsFunc(l.ranges, func(s span) bool { return s.contains(rank, world) })
}

func (s span) contains(rank, world uint32) bool {
	if s.first.last {
		return world > 0 && rank == world-1
	}
	if s.end.last {
		return rank >= s.first.number && (world == 0 || rank < world)
	}
	return rank >= s.first.number && rank <= s.end.number
}

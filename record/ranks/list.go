package ranks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A List chooses ranks of a distributed program, as people write them: 0,8-15,last. The zero List
// is empty, and chooses all.
type List struct {
	text  string
	spans []span
}

// A span is the ranks from first to end, both included.
type span struct{ first, end bound }

// A bound is a number, or the last rank of the program.
type bound struct {
	number uint32
	last   bool
}

// ParseList reads a list: numbers, ranges (8-15, 8-last) and last, separated by commas.
func ParseList(text string) (List, error) {
	l := List{text: text}
	for part := range strings.SplitSeq(text, ",") {
		s, err := parseSpan(strings.TrimSpace(part))
		if err != nil {
			return List{}, fmt.Errorf("%q is no list of ranks: %w: write ranks, ranges and \"last\", separated by commas, as "+
				"in 0,8-15,last", text, err)
		}
		l.spans = append(l.spans, s)
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

// String returns the text that was parsed.
func (l List) String() string { return l.text }

// Empty reports whether the list has no entry.
func (l List) Empty() bool { return len(l.spans) == 0 }

// NeedsWorld reports whether the list depends on the number of ranks.
func (l List) NeedsWorld() bool {
	return slices.ContainsFunc(l.spans, func(s span) bool { return s.first.last || s.end.last })
}

// Reaches reports whether the list has a rank of a program with so many ranks.
func (l List) Reaches(world uint32) bool {
	return slices.ContainsFunc(l.spans, func(s span) bool { return s.first.last || s.first.number < world })
}

// Contains reports whether a rank is in the list. World is the number of ranks of the program, 0 where it is
// not known: then "last" is no rank, and the range 8-last has no end.
func (l List) Contains(rank, world uint32) bool {
	return slices.ContainsFunc(l.spans, func(s span) bool { return s.contains(rank, world) })
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

// Has reports whether a process is recorded: one of the ranks in the list, or one without a rank.
func (l *List) Has(r Rank) bool { return l.Empty() || !r.Known || l.Contains(r.Number, r.Of) }

// Doubt returns why the list may choose nothing of the program that a rank belongs to; "" if it chooses something.
func (l *List) Doubt(r Rank) string {
	switch {
	case l.Empty() || !r.Known:
		return ""
	case r.Of == 0 && l.NeedsWorld():
		return "nothing says how many ranks there are, so 'last' by itself chooses none"
	case r.Of == 0 || l.Reaches(r.Of):
		return ""
	}
	return fmt.Sprintf("the ranks are %s", rangeWords(0, r.Of-1))
}

// Named lists ranks that are in order: "rank 3", "ranks 0-3, 8".
func Named(numbers []uint32) string {
	if len(numbers) == 1 {
		return "rank " + Words(numbers)
	}
	return "ranks " + Words(numbers)
}

// Words lists numbers that are in order: "0-3, 8".
func Words(numbers []uint32) string {
	var words []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		words = append(words, rangeWords(numbers[first], numbers[i-1]))
	}
	return strings.Join(words, ", ")
}

func rangeWords(first, last uint32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

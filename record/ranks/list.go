package ranks

import (
	"fmt"
	"strings"
)

// A List chooses ranks. The zero List chooses all.
type List struct {
	spans []struct{ first, last uint32 }
	last  bool // the last rank
	text  string
}

// lastRank is the word for the last rank.
const lastRank = "last"

// ParseList reads a list: 0,8-15,last.
func ParseList(text string) (List, error) {
	l := List{text: strings.ReplaceAll(text, " ", "")}
	for item := range strings.SplitSeq(l.text, ",") {
		if item == lastRank {
			l.last = true
			continue
		}
		from, to, isSpan := strings.Cut(item, "-")
		if !isSpan {
			to = from
		}
		first, ok1 := parseNumber(from)
		last, ok2 := parseNumber(to)
		if !ok1 || !ok2 || last < first {
			return List{}, fmt.Errorf("%q is not a list of ranks: write numbers, ranges and last: 0,8-15,last", text)
		}
		l.spans = append(l.spans, struct{ first, last uint32 }{first, last})
	}
	return l, nil
}

// All says whether the list chooses all ranks.
func (l *List) All() bool { return l.text == "" }

// String is the list as a person wrote it.
func (l *List) String() string { return l.text }

// Has says whether a process is recorded: one of the ranks in the list, or one without a rank.
func (l *List) Has(r Rank) bool {
	if l.All() || !r.Known || l.last && r.Of != 0 && r.Number == r.Of-1 {
		return true
	}
	for _, s := range l.spans {
		if s.first <= r.Number && r.Number <= s.last {
			return true
		}
	}
	return false
}

// Doubt says why the list may choose nothing of a program that a rank belongs to; "" if there is no doubt.
func (l *List) Doubt(r Rank) string {
	switch {
	case l.All() || !r.Known:
		return ""
	case r.Of == 0 && l.last:
		return "nothing says how many ranks there are, so 'last' chooses none"
	case r.Of == 0 || l.last:
		return ""
	}
	for _, s := range l.spans {
		if s.first < r.Of {
			return ""
		}
	}
	return fmt.Sprintf("the ranks are %s", span(0, r.Of-1))
}

// Words lists numbers that are in order: "0-3, 8".
func Words(numbers []uint32) string {
	var words []string
	for i := 0; i < len(numbers); {
		first := i
		for i++; i < len(numbers) && numbers[i] == numbers[i-1]+1; i++ {
		}
		words = append(words, span(numbers[first], numbers[i-1]))
	}
	return strings.Join(words, ", ")
}

func span(first, last uint32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

package ranks

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/ranklist"
)

// A List chooses ranks. The zero List chooses all.
type List struct{ ranklist.List }

// ParseList reads a list: 0,8-15,last.
func ParseList(text string) (List, error) {
	l, err := ranklist.Parse(text)
	if err != nil {
		return List{}, fmt.Errorf("%w: write %s", err, ranklist.Syntax)
	}
	return List{l}, nil
}

// Has says whether a process is recorded: one of the ranks in the list, or one without a rank.
func (l *List) Has(r Rank) bool { return l.Empty() || !r.Known || l.Contains(r.Number, r.Of) }

// Doubt says why the list may choose nothing of a program that a rank belongs to; "" if there is no doubt.
func (l *List) Doubt(r Rank) string {
	switch {
	case l.Empty() || !r.Known:
		return ""
	case r.Of == 0 && l.NeedsWorld():
		return "nothing says how many ranks there are, so 'last' by itself chooses none"
	case r.Of == 0 || l.Reaches(r.Of):
		return ""
	}
	return fmt.Sprintf("the ranks are %s", span(0, r.Of-1))
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

package diff

import (
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// Words are the figures that conditions may name.
type Words struct {
	Figures map[string]table.Unit            // overall: kernel_time
	Reports map[string]map[string]table.Unit // the columns of a report: kernels has median_ns
}

// A Condition compares a figure with a value.
type Condition struct {
	Text   string // as it was written
	Figure string // an overall figure, "" for a figure of a report's rows
	Report string
	Name   string // a glob for the names of rows
	Column string
	Unit   table.Unit
	Op     string // ">", ">=", "<" or "<="
	// Value is in the unit of the figure. With Change it is the difference to BASE, with
	// Percent a part of BASE's figure: 0.05 for +5%.
	Value           float64
	Change, Percent bool
}

// holds compares a value, or a change, with that of the condition.
func (c *Condition) holds(v float64) bool {
	switch c.Op {
	case ">":
		return v > c.Value
	case ">=":
		return v >= c.Value
	case "<":
		return v < c.Value
	}
	return v <= c.Value
}

// rises reports whether the condition is about too large a value.
func (c *Condition) rises() bool { return c.Op[0] == '>' }

// An SyntaxError says where the text of a condition is wrong.
type SyntaxError struct {
	Text    string
	At, Len int // bytes of Text
	Message string
	Word    string   // an unknown word,
	Choices []string // and what it could have been
}

func (e *SyntaxError) Error() string {
	if len(e.Choices) == 0 {
		return e.Message
	}
	return e.Message + "; there are " + strings.Join(e.Choices, ", ")
}

// sortedKeys lists the names of a map.
func sortedKeys[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

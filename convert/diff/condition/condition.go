// Package condition reads conditions on figures: "kernel_time > +5%".
//
// Input: the text of a condition, and the figures that there are. Output: a [Condition], or an
// [Error] that says where the text is wrong.
package condition

import (
	"slices"
	"strings"
)

// A Unit is the unit of a figure.
type Unit uint8

// The units, with that of a Condition's value.
const (
	Number Unit = iota
	Time        // ns
	Bytes
	Share // 1 is all
	Rate  // GB/s
)

// A Vocabulary has the figures that conditions may name.
type Vocabulary struct {
	Figures map[string]Unit            // overall: kernel_time
	Reports map[string]map[string]Unit // the columns of a report: kernels has median_ns
}

// A Condition compares a figure with a value.
type Condition struct {
	Text   string // as it was written
	Figure string // an overall figure, "" for a figure of a report's rows
	Report string
	Name   string // a glob for the names of rows
	Column string
	Unit   Unit
	Op     string // ">", ">=", "<" or "<="
	// Value is in the unit of the figure. With Change it is the difference to BASE, with
	// Percent a part of BASE's figure: 0.05 for +5%.
	Value           float64
	Change, Percent bool
}

// Holds compares a value, or a change, with that of the condition.
func (c *Condition) Holds(v float64) bool {
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

// Rises says whether the condition is about too large a value.
func (c *Condition) Rises() bool { return c.Op[0] == '>' }

// An Error says where the text of a condition is wrong.
type Error struct {
	Text    string
	At, Len int // bytes of Text
	Message string
	Word    string   // an unknown word,
	Choices []string // and what it could have been
}

func (e *Error) Error() string {
	if len(e.Choices) == 0 {
		return e.Message
	}
	return e.Message + "; there are " + strings.Join(e.Choices, ", ")
}

// sorted lists the names of a map.
func sorted[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

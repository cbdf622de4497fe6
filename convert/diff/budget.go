package diff

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of a budget, which may come through a pipe that has no end.
const (
	maxLine  = 64 << 10 // bytes of a line
	maxLines = 10_000   // conditions
)

// A BudgetLine is a condition of a budget.
type BudgetLine struct {
	Number int
	Text   string
}

// ReadBudget reads the lines of a budget: a condition each. Empty lines, and what stands behind a #
// at the beginning of a line or after a space, say nothing.
func ReadBudget(from io.Reader) (lines []BudgetLine, err error) {
	in := bufio.NewScanner(from)
	in.Buffer(nil, maxLine)
	for n := 1; in.Scan(); n++ {
		text := strings.TrimPrefix(in.Text(), "\ufeff")
		if text = strings.TrimSpace(withoutComment(text)); text != "" {
			lines = append(lines, BudgetLine{n, text})
		}
		if len(lines) > maxLines {
			return nil, fmt.Errorf("it has more than %d conditions", maxLines)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("a line is longer than %d bytes", maxLine)
	}
	return lines, in.Err()
}

// withoutComment cuts a line at its comment. Between quotes a # is part of a name.
func withoutComment(text string) string {
	quoted := false
	for i, c := range text {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '#' && !quoted && (i == 0 || text[i-1] == ' ' || text[i-1] == '\t'):
			return text[:i]
		}
	}
	return text
}

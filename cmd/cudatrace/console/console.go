// Package console is the program's only way to standard output and standard error. Texts go in,
// from logs, traced programs, file names and command lines, none of them trusted; lines that are
// safe on a terminal come out. A control character or a mark that changes the direction of writing
// comes out escaped, as in JSON: \u001b. A long line, or cell of a table, is cut in its middle.
package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/cudatrace/cudatrace/record/errno"
)

// A Console has the two outputs of a command. Several goroutines may use it.
type Console struct {
	mu     sync.Mutex
	out    *output
	err    *output
	status bool // a status line stands on the terminal
}

// New returns a console that writes to two files.
func New(stdout, stderr io.Writer) *Console {
	return &Console{out: newOutput(stdout), err: newOutput(stderr)}
}

// Say writes a line about what the program does to standard error. It stays one line, whatever
// is in the text.
func (c *Console) Say(text string) { c.errorLine("cudatrace:", " "+text, "  ") }

// Sayf formats a line and says it.
func (c *Console) Sayf(format string, args ...any) { c.Say(fmt.Sprintf(format, args...)) }

// Error says what failed. The texts of joined errors stand in one line.
func (c *Console) Error(err error) {
	c.errorLine(c.err.styled(Bad, "cudatrace:"), " "+strings.ReplaceAll(err.Error(), "\n", "; "), "")
}

// SayJSON writes an object as one line of JSON to standard error.
func (c *Console) SayJSON(object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.err.text(Escape(string(text)) + "\n")
	return nil
}

// Conclude says what came of something: a text, and behind it the verdict.
func (c *Console) Conclude(text, verdict string, good bool) {
	style := Good
	if !good {
		style = Bad
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.err.lines("", "cudatrace: "+line(text), style, line(verdict), "  ")
}

// Item writes a detail with a label.
func (c *Console) Item(label, text string) {
	c.errorLine("  "+c.err.styled(Bold, Escape(label)+":"), " "+text, "    ")
}

// Detail writes a line that belongs to the one said before.
func (c *Console) Detail(format string, args ...any) {
	c.errorLine("  ", fmt.Sprintf(format, args...), "    ")
}

// errorLine writes a line: a beginning that is safe, and a text. On a terminal it becomes several where it is too long,
// which begin with an indent.
func (c *Console) errorLine(begin, text, indent string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.err.lines(begin, line(text), "", "", indent)
}

// Details writes a table of details to standard error.
func (c *Console) Details(rows [][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.err.text(table(rows, "  ", 3))
}

// Print writes a line of results to standard output.
func (c *Console) Print(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.text(line(fmt.Sprintf(format, args...)) + "\n")
}

// Headline writes a line of results in a style.
func (c *Console) Headline(text string, style Style) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.text(c.out.styled(style, line(text)) + "\n")
}

// Table writes a table of results to standard output.
func (c *Console) Table(rows [][]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.text(table(rows, "", 2))
}

// A Row is a row of a table, with the styles of its first and its last cell. Of a single cell, Last is the style.
type Row struct {
	Cells       []string
	First, Last Style
}

// Rows writes a table of results to standard output, with styles. On a terminal its last column keeps to the width.
func (c *Console) Rows(rows []Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.text(c.out.styledTable(rows, c.out.columns()))
}

// Text returns standard output for a text of many lines, whose lines the caller ends. It escapes
// everything else. Escapes are right within a string of JSON, too.
func (c *Console) Text() io.Writer { return textWriter{c} }

// Binary returns standard output as it is. ok is false for a terminal, which would take bytes for
// commands.
func (c *Console) Binary() (w io.Writer, ok bool) {
	if IsTerminal(c.out.w) {
		return nil, false
	}
	return c.out, true
}

// Status shows a line on a terminal that the next one replaces. Without a terminal it does nothing.
func (c *Console) Status(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !IsTerminal(c.err.w) {
		return
	}
	c.status = true
	c.err.text(clearLine + line(text))
}

// ClearStatus removes the status line.
func (c *Console) ClearStatus() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// clearLine goes to the beginning of a terminal's line and clears it.
const clearLine = "\r\x1b[K"

func (c *Console) clear() {
	if c.status {
		c.status = false
		c.err.text(clearLine)
	}
}

// Failure is the error of a command: err, unless writing to standard output failed first. Not every
// caller can check its own write.
func (c *Console) Failure(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := c.out.flush()
	if failed == nil || err != nil && !errors.Is(err, failed) {
		return err
	}
	return fmt.Errorf("standard output cannot be written: %s", errno.Words(failed))
}

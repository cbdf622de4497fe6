package console

import (
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// An output is a file that the program writes to. It keeps the first error.
type output struct {
	w    io.Writer
	half []byte // the beginning of a character whose other bytes are not there yet
	err  error

	color bool // styles are shown
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// text writes a text that is safe already.
func (o *output) text(s string) { io.WriteString(o, s) } // the error is kept

// flush writes what stands half, and returns the first error.
func (o *output) flush() error {
	if len(o.half) > 0 {
		o.text(escape(string(o.half), false))
		o.half = nil
	}
	return o.err
}

// A textWriter escapes a text on its way to standard output.
type textWriter struct{ c *Console }

func (t textWriter) Write(b []byte) (int, error) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	o := t.c.out
	all := b
	if len(o.half) > 0 {
		all = append(o.half, b...)
	}
	whole := len(all) - incomplete(all)
	o.half = append([]byte(nil), all[whole:]...)
	if isPlain(all[:whole]) {
		if _, err := o.Write(all[:whole]); err != nil {
			return 0, err
		}
		return len(b), nil
	}
	if _, err := io.WriteString(o, escape(string(all[:whole]), true)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// incomplete is the number of bytes at the end of a text that may begin a character.
func incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// table formats rows of cells that are not safe yet. Its last column is as wide as it needs.
func table(rows [][]string, indent string, gap int) string {
	var b strings.Builder
	tab := tabwriter.NewWriter(&b, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		text := indent
		for i, cell := range row {
			if i > 0 {
				text += "\t"
			}
			text += line(cell)
		}
		io.WriteString(tab, text+"\n") // a strings.Builder takes all
	}
	tab.Flush()
	return b.String()
}

// IsTerminalAt reports whether a path is that of a terminal.
func IsTerminalAt(path string) bool {
	if info, err := os.Stat(path); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	return IsTerminal(f)
}

// IsTerminal reports whether what is written to w, or read from it, is on a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Width is the number of characters in a line: COLUMNS in the environment, else that of the terminal that standard
// output is, 80 without one.
func (c *Console) Width() int {
	const usual, least = 80, 40
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return max(n, least)
	}
	if n := c.out.columns(); n > 0 {
		return max(n, least)
	}
	return usual
}

package console

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/figures"
)

// styled returns a safe text in a style, where the output shows styles.
func (o *output) styled(s Style, text string) string {
	if !o.color || s == Plain || text == "" {
		return text
	}
	return string(s) + text + noStyle
}

// styledTable formats a table. Styles come after columns have their widths, to which they would count. Last cells that
// are too long for a line of width characters go on below their beginning; 0 is no limit.
func (o *output) styledTable(rows []Row, width int) string {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = r.Cells
	}
	plain := table(cells, "", 2)
	if !o.color && width == 0 {
		return plain
	}
	var b strings.Builder
	i := 0
	for text := range strings.Lines(plain) {
		r := rows[i]
		i++
		first, last := "", line(r.Cells[len(r.Cells)-1])
		if len(r.Cells) > 1 {
			first = line(r.Cells[0])
		}
		middle := strings.TrimSuffix(strings.TrimPrefix(text, first), last+"\n")
		b.WriteString(o.styled(r.First, first) + middle)
		at := utf8.RuneCountInString(first + middle)
		for k, part := range broken(last, width-at) {
			if k > 0 {
				b.WriteString("\n" + strings.Repeat(" ", at))
			}
			b.WriteString(o.styled(r.Last, part))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// leastCell is the width of the narrowest cell that is broken into lines.
const leastCell = 20

// broken breaks a text between words into lines of a width. A word that is longer stays whole.
func broken(text string, width int) (lines []string) {
	if width < leastCell {
		return []string{text}
	}
	used := 0
	for i, word := range figures.Breakable(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0 || used+1+n > width:
			lines, used = append(lines, word), n
		default:
			lines[len(lines)-1] += " " + word
			used += 1 + n
		}
	}
	return lines
}

// newOutput returns the output to a file, with styles where it is a terminal that a person wants colour on.
func newOutput(w io.Writer) *output {
	return &output{w: w, color: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Color switches styles on or off: "auto", "always" or "never".
func (c *Console) Color(when string) error {
	switch when {
	case "auto":
	case "always", "never":
		c.out.color, c.err.color = when == "always", when == "always"
	default:
		return fmt.Errorf("--color must be auto, always or never, not %q", when)
	}
	return nil
}

// columns is the width of the terminal that the output is; 0 without one.
func (o *output) columns() int {
	f, ok := o.w.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// lines writes a safe text, and one in a style behind it. On a terminal, lines end between words where there is no more
// room, and further ones begin with an indent.
func (o *output) lines(begin, text string, style Style, more, indent string) {
	width := o.columns()
	if width < leastWidth {
		o.text(begin + text + o.styled(style, more) + "\n")
		return
	}
	var b strings.Builder
	b.WriteString(begin)
	used := utf8.RuneCountInString(begin)
	if i := strings.Index(begin, "\x1b["); i >= 0 {
		used -= len(o.styled(Bold, "x")) - 1
	}
	put := func(words string) {
		for i, word := range figures.Breakable(words) {
			n := utf8.RuneCountInString(word)
			switch {
			case i == 0:
			case used+1+n > width && used > len(indent):
				b.WriteString("\n" + indent)
				used = len(indent)
			default:
				b.WriteByte(' ')
				used++
			}
			b.WriteString(word)
			used += n
		}
	}
	put(text)
	begun := b.Len()
	put(more)
	all := b.String()
	o.text(all[:begun] + o.styled(style, all[begun:]) + "\n")
}

// leastWidth is the width of the narrowest terminal whose lines are broken between words.
const leastWidth = 40

// Bold writes a line of a text of many lines, as [Console.Text] returns it, in bold.
func (t textWriter) Bold(line string) error { return t.write(Bold, line) }

// Faint writes a line faintly.
func (t textWriter) Faint(line string) error { return t.write(Faint, line) }

func (t textWriter) write(s Style, line string) error {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	_, err := io.WriteString(t.c.out, t.c.out.styled(s, Escape(line))+"\n")
	return err
}

package table

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/figures"
)

const (
	leastName = 30 // the first column is not narrower, unless all its texts are
	leastText = 36 // no other text column is narrower, unless all its texts are
	between   = 2  // spaces between two columns
)

// Wide is a width that has room for everything.
const Wide = 1 << 20

// A layout has the columns of a table that people see, and their cells.
type layout struct {
	columns []Column
	cells   [][]string // of each column, the title first
	widths  []int
}

// newLayout chooses the columns of a table that fit a width.
func newLayout(t *Table, width int) *layout {
	var all layout
	if t.Whole {
		width = Wide
	}
	for i, c := range t.Columns {
		if c.Title != "" {
			all.addColumn(t, i, c, width < Wide-between)
		}
	}
	for all.least() > width && all.drop() {
	}
	all.shrink(width)
	for i, c := range all.columns {
		if c.Unit == Text {
			cutApart(all.cells[i], all.widths[i])
		}
	}
	return &all
}

// addColumn adds a column of a table, perhaps with short texts.
func (l *layout) addColumn(t *Table, i int, c Column, short bool) {
	cells := []string{c.Title}
	if short && c.Short != nil {
		cells = append(cells, t.Texts(i)...)
	} else {
		for _, row := range t.Rows {
			cells = append(cells, t.Words(row, i))
		}
	}
	wide := 0
	for _, s := range cells {
		wide = max(wide, utf8.RuneCountInString(s))
	}
	if c.Unit == ID && c.Rank > 0 {
		c.Rank = rankOfID(c.Rank, cells[1:], t.LeftOut > 0)
	}
	l.columns, l.cells, l.widths = append(l.columns, c), append(l.cells, cells), append(l.widths, wide)
}

// rankOfID is the rank of a column of numbers that name something: one that tells rows apart is the last to go, one
// that does not is the first, unless there are more rows.
func rankOfID(rank int, texts []string, more bool) int {
	for _, s := range texts {
		if s != texts[0] {
			return 1
		}
	}
	if more {
		return rank
	}
	return sameID
}

const sameID = 1 << 10

// Texts returns what people read in a column: the short text of a row, if it has one and no other text reads like it.
func (t *Table) Texts(column int) []string {
	short := t.Columns[column].Short
	of := make(map[string]map[string]bool) // the texts of a short one
	texts, shorts := make([]string, len(t.Rows)), make([]string, len(t.Rows))
	for i, row := range t.Rows {
		texts[i] = t.Words(row, column)
		shorts[i] = texts[i]
		if short != nil {
			shorts[i] = cmp.Or(figures.Clean(short(row)), texts[i])
		}
		if of[shorts[i]] == nil {
			of[shorts[i]] = make(map[string]bool)
		}
		of[shorts[i]][texts[i]] = true
	}
	for i := range texts {
		if len(of[shorts[i]]) == 1 {
			texts[i] = shorts[i]
		}
	}
	return texts
}

// least returns the smallest width of all columns together.
func (l *layout) least() int {
	sum := -between
	for i, c := range l.columns {
		sum += between
		sum += l.leastOf(i, c)
	}
	return sum
}

// leastOf returns the smallest width of a column.
func (l *layout) leastOf(i int, c Column) int {
	switch {
	case c.Unit != Text:
		return l.widths[i]
	case i == 0:
		return min(l.widths[i], leastName)
	}
	return min(l.widths[i], leastText)
}

// drop leaves out the column with the highest rank, of several one that names nothing, the last of these. Columns of
// rank 0 stay: they tell rows apart.
func (l *layout) drop() bool {
	worst := 0
	for i, c := range l.columns {
		w := l.columns[worst]
		if c.Rank > w.Rank || c.Rank == w.Rank && (c.Unit != ID || w.Unit == ID) {
			worst = i
		}
	}
	if l.columns[worst].Rank == 0 {
		return false
	}
	l.columns = slices.Delete(l.columns, worst, worst+1)
	l.cells = slices.Delete(l.cells, worst, worst+1)
	l.widths = slices.Delete(l.widths, worst, worst+1)
	return true
}

// shrink makes the widest text columns narrower until all columns fit.
func (l *layout) shrink(width int) {
	sum := -between
	for _, w := range l.widths {
		sum += w + between
	}
	for ; sum > width; sum-- {
		widest := -1
		for i, c := range l.columns {
			if c.Unit == Text && l.widths[i] > 1 && (widest < 0 || l.widths[i] > l.widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		l.widths[widest]--
	}
}

// cutApart cuts texts in the middle. Those that would read alike are cut so that what tells them apart is left.
func cutApart(texts []string, width int) {
	same := make(map[string][]int) // places of each text
	for i, s := range texts {
		same[s] = append(same[s], i)
	}
	alike := make(map[string][]string)
	for s := range same {
		cut := figures.Cut(s, width)
		alike[cut] = append(alike[cut], s)
	}
	for cut, of := range alike {
		common := []rune(of[0])
		for _, s := range of[1:] {
			common = commonStart(common, []rune(s))
		}
		for _, s := range of {
			for _, i := range same[s] {
				if texts[i] = cut; len(of) > 1 {
					texts[i] = cutAt([]rune(s), len(common), width)
				}
			}
		}
	}
}

func commonStart(a, b []rune) []rune {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return a[:n]
}

// cutAt leaves the beginning of a text and what stands at a place.
func cutAt(s []rune, at, width int) string {
	head := width / 3
	from := max(at-(width-head)/4, head)
	rest := s[min(from, len(s)):]
	room := max(width-head-2, 0)
	return figures.Cut(string(s[:min(head, len(s))])+"…"+string(rest[:min(len(rest), room)])+more(len(rest) > room), width)
}

func more(is bool) string {
	if is {
		return "…"
	}
	return ""
}

// line returns a row, without spaces at its end; row 0 has the titles.
func (l *layout) line(row int) string {
	var b strings.Builder
	for i, c := range l.columns {
		text := figures.Cut(l.cells[i][row], l.widths[i])
		pad := strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(text))
		if i > 0 {
			b.WriteString(strings.Repeat(" ", between))
		}
		if c.Unit == Text || c.Unit == Plain {
			b.WriteString(text + pad)
		} else {
			b.WriteString(pad + text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// WriteText writes tables for a terminal of a width in characters. Columns that have no room are
// left out, names are cut in the middle. Tables without rows are named at the end, with the
// reason.
func WriteText(w io.Writer, tables []*Table, width int) error {
	var b titled
	var empty strings.Builder
	for i, t := range tables {
		if reason := fmt.Sprintf("%s: %s\n", t.Name, figures.Clean(t.Reason)); len(t.Rows) == 0 {
			if i == 0 && len(tables) > 1 {
				b.WriteString(reason + "\n")
			} else {
				empty.WriteString(reason)
			}
			continue
		}
		b.bold(fmt.Sprintf("%s: %s", t.Name, t.Title))
		if t.Prose != nil {
			proseText(&b.Builder, t, width)
			remarks(&b.Builder, t, "  ", width)
			b.WriteString("\n")
			continue
		}
		l := newLayout(t, width-between)
		b.faint("  " + l.line(0))
		for row := range len(t.Rows) {
			b.WriteString("  " + l.line(row+1) + "\n")
		}
		remarks(&b.Builder, t, "  ", width)
		b.WriteString("\n")
	}
	b.WriteString(empty.String())
	return b.flush(w)
}

// WriteParagraph writes a text in lines of a width.
func WriteParagraph(w io.Writer, text string, width int) error {
	var b strings.Builder
	wrapped(&b, "", "  ", text, width)
	_, err := io.WriteString(w, b.String())
	return err
}

// A titled text is one with lines that stand out, where it is written to a [Styler].
type titled struct {
	strings.Builder
	lines []titleLine
}

type titleLine struct {
	from, to int // bytes of the text, its end included
	faint    bool
}

// A Styler writes lines in bold, and faintly.
type Styler interface {
	io.Writer
	Bold(line string) error
	Faint(line string) error
}

func (b *titled) bold(line string)  { b.styled(line, false) }
func (b *titled) faint(line string) { b.styled(line, true) }

func (b *titled) styled(line string, faint bool) {
	from := b.Len()
	b.WriteString(line + "\n")
	b.lines = append(b.lines, titleLine{from, b.Len(), faint})
}

// flush writes the text, without empty lines at its end.
func (b *titled) flush(w io.Writer) error {
	text, done := strings.TrimRight(b.String(), "\n")+"\n", 0
	styler, styles := w.(Styler)
	if !styles {
		_, err := io.WriteString(w, text)
		return err
	}
	for _, l := range b.lines {
		if _, err := io.WriteString(w, text[done:l.from]); err != nil {
			return err
		}
		write := styler.Bold
		if l.faint {
			write = styler.Faint
		}
		if err := write(text[l.from : min(l.to, len(text))-1]); err != nil {
			return err
		}
		done = min(l.to, len(text))
	}
	_, err := io.WriteString(w, text[done:])
	return err
}

// remarks writes how many rows are missing, and notes, in lines of a width.
func remarks(b *strings.Builder, t *Table, indent string, width int) {
	if t.LeftOut > 0 {
		fmt.Fprintf(b, "%s%s not shown\n", indent, figures.Count(t.LeftOut, "more row is", "more rows are"))
	}
	for _, n := range t.Notes {
		wrapped(b, indent, indent+"  ", figures.Clean(n), width-between) // the others are longer
	}
}

// markdownWidth is the number of characters in a row of Markdown, without its bars.
const markdownWidth = 140

// WriteMarkdown writes tables for a pull request or a job summary.
func WriteMarkdown(w io.Writer, tables []*Table) error {
	var b strings.Builder
	for _, t := range tables {
		fmt.Fprintf(&b, "### %s: %s\n\n", t.Name, t.Title)
		if len(t.Rows) == 0 {
			fmt.Fprintf(&b, "%s\n\n", figures.Clean(t.Reason))
			continue
		}
		if t.Prose != nil {
			proseMarkdown(&b, t)
			remarks(&b, t, "", math.MaxInt)
			b.WriteString("\n")
			continue
		}
		l := newLayout(t, markdownWidth)
		for row := range len(t.Rows) + 1 {
			b.WriteString("|")
			for i, width := range l.widths {
				fmt.Fprintf(&b, " %s |", markdownCell(figures.Cut(l.cells[i][row], width), l.columns[i].Unit, row))
			}
			b.WriteString("\n")
			if row == 0 {
				b.WriteString(ruler(l.columns))
			}
		}
		b.WriteString("\n")
		if t.LeftOut > 0 || len(t.Notes) > 0 {
			remarks(&b, t, "", math.MaxInt)
			b.WriteString("\n")
		}
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// markdownCell keeps the characters of a name from being markup.
func markdownCell(s string, u Unit, row int) string {
	if u != Text || row == 0 || s == unknown || s == "" {
		return s
	}
	return MarkdownName(s)
}

// MarkdownName writes a name so that none of its characters are markup, in a table too.
func MarkdownName(s string) string {
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(figures.Clean(s)) + "`"
}

// ruler is the line below the titles. Numbers stand at the right.
func ruler(columns []Column) string {
	s := "|"
	for _, c := range columns {
		if c.Unit == Text || c.Unit == Plain {
			s += "---|"
		} else {
			s += "---:|"
		}
	}
	return s + "\n"
}

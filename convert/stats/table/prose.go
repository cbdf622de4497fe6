package table

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/figures"
)

// proseText writes the rows of a table as paragraphs. Labels have one width.
func proseText(b *strings.Builder, t *Table, width int) {
	label := 0
	for _, row := range t.Rows {
		for _, i := range t.Prose(row).Items {
			label = max(label, utf8.RuneCountInString(i.Label))
		}
	}
	for n, row := range t.Rows {
		p := t.Prose(row)
		indent := "  "
		if p.Head != "" {
			number := fmt.Sprintf("%d. ", n+1)
			wrapped(b, "  "+number, strings.Repeat(" ", 2+len(number)), figures.Clean(p.Head), width)
			indent = "     "
		}
		for _, i := range p.Items {
			first := indent + i.Label + strings.Repeat(" ", label-utf8.RuneCountInString(i.Label)+between)
			wrapped(b, first, strings.Repeat(" ", utf8.RuneCountInString(first)), figures.Clean(i.Text), width)
		}
	}
}

// Glue is a space of Prose at which a line does not end.
const Glue = "\u00a0"

// unitGap is the space between a number and its unit.
var unitGap = regexp.MustCompile(`([0-9]) (%|[nµm]?s\b|[KMGT]?i?B\b)`)

// wrapped writes a text in lines of a width, with a prefix before the first one and another before the others. A word
// that is longer than a line is cut in its middle. A command stays whole, so that it can be pasted.
func wrapped(b *strings.Builder, first, others, text string, width int) {
	room := max(width-utf8.RuneCountInString(first), 1)
	line := ""
	prefix := first
	for _, word := range figures.Breakable(unitGap.ReplaceAllString(text, "$1"+Glue+"$2")) {
		command := strings.Contains(word, " ")
		if word = strings.ReplaceAll(word, Glue, " "); !command {
			word = figures.Cut(word, room)
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			b.WriteString(prefix + line + "\n")
			line, prefix, room = "", others, max(width-utf8.RuneCountInString(others), 1)
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	b.WriteString(strings.TrimRight(prefix+line, " ") + "\n")
}

// proseMarkdown writes the rows of a table as lists.
func proseMarkdown(b *strings.Builder, t *Table) {
	for n, row := range t.Rows {
		p := t.Prose(row)
		indent := ""
		if p.Head != "" {
			fmt.Fprintf(b, "%d. **%s**\n", n+1, markdownText(p.Head))
			indent = "   "
		}
		for _, i := range p.Items {
			text := markdownText(i.Text)
			if strings.HasPrefix(i.Text, "cudatrace ") {
				text = MarkdownName(i.Text)
			}
			fmt.Fprintf(b, "%s- %s: %s\n", indent, i.Label, text)
		}
	}
	b.WriteString("\n")
}

// markup are the characters that would be markup in Markdown.
const markup = "\\`*_{}[]<>|#&~"

// markdownText keeps the characters of a text from being markup.
func markdownText(s string) string {
	var b strings.Builder
	for _, r := range strings.ReplaceAll(figures.Clean(s), Glue, " ") {
		if strings.ContainsRune(markup, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

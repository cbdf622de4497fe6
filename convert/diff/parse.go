package diff

import (
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// A parser reads a condition from left to right.
type parser struct {
	text  string
	at    int
	words Words
	c     Condition
}

// ParseCondition reads a condition:
//
//	CONDITION = FIGURE OPERATOR VALUE
//	FIGURE    = overall figure | REPORT ":" NAME [":" COLUMN]
//	NAME      = glob | '"' glob '"'
//	OPERATOR  = ">" | ">=" | "<" | "<="
//	VALUE     = ["+" | "-"] number [unit | "%"]
//
// The error is an *Error.
func ParseCondition(text string, words Words) (*Condition, error) {
	p := &parser{text: text, words: words, c: Condition{Text: strings.TrimSpace(text)}}
	for _, step := range []func() error{p.figure, p.operator, p.value, p.end} {
		p.space()
		if err := step(); err != nil {
			return nil, err
		}
	}
	return &p.c, nil
}

func (p *parser) space() {
	p.at += len(p.rest()) - len(strings.TrimLeft(p.rest(), " \t"))
}

func (p *parser) rest() string { return p.text[p.at:] }

// fail is an error about n bytes from a place on. It marks one character at least, in the text.
func (p *parser) fail(at, n int, format string, args ...any) *SyntaxError {
	if at < len(p.text) && n == 0 {
		_, n = utf8.DecodeRuneInString(p.text[at:])
	}
	return &SyntaxError{Text: p.text, At: at, Len: n, Message: fmt.Sprintf(format, args...)}
}

// take takes bytes as long as they are of a set.
func (p *parser) take(of func(byte) bool) string {
	from := p.at
	for p.at < len(p.text) && of(p.text[p.at]) {
		p.at++
	}
	return p.text[from:p.at]
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

func (p *parser) figure() error {
	from := p.at
	word := p.take(isWord)
	if word == "" {
		return p.fail(from, 0, "a figure is missing: write kernel_time or kernel:NAME:median")
	}
	if strings.HasPrefix(p.rest(), ":") {
		return p.rows(from, word)
	}
	unit, known := p.words.Figures[word]
	if !known && p.report(word) != "" {
		return p.fail(p.at, 0, "which of the %s? write %s:NAME", p.report(word), word)
	}
	if !known {
		return p.unknown(from, word, "figure", sortedKeys(p.words.Figures))
	}
	p.c.Figure, p.c.Unit = word, unit
	return nil
}

func (p *parser) unknown(at int, word, what string, choices []string) error {
	e := p.fail(at, len(word), "no %s %q", what, word)
	e.Word, e.Choices = word, choices
	return e
}

// report is the report of a name, which may be in the singular; "" if there is none.
func (p *parser) report(word string) string {
	for _, name := range sortedKeys(p.words.Reports) {
		if word == name || word+"s" == name || strings.HasSuffix(name, "ies") && word == strings.TrimSuffix(name, "ies")+"y" {
			return name
		}
	}
	return ""
}

// rows reads what stands behind the name of a report.
func (p *parser) rows(from int, word string) error {
	p.c.Report = p.report(word)
	if p.c.Report == "" {
		return p.unknown(from, word, "report", sortedKeys(p.words.Reports))
	}
	p.at++ // the colon
	at := p.at
	column, err := p.name()
	if err != nil {
		return err
	}
	if p.c.Name == "" {
		return p.fail(at, 0, "a name is missing: write %s:NAME", word)
	}
	if _, err := path.Match(p.c.Name, ""); err != nil {
		return p.fail(at, len(p.c.Name), `%q is no pattern: a [ lacks its ], or nothing follows a \`, p.c.Name)
	}
	return p.column(column)
}

// name reads the glob of a name. It returns the column that stands behind it, "" without one.
func (p *parser) name() (column string, err error) {
	if strings.HasPrefix(p.rest(), `"`) {
		from := p.at
		end := strings.IndexByte(p.rest()[1:], '"')
		if end < 0 {
			return "", p.fail(from, len(p.rest()), "a closing quote is missing")
		}
		p.c.Name = p.rest()[1 : 1+end]
		p.at += end + 2
		if !strings.HasPrefix(p.rest(), ":") {
			return "", nil
		}
		p.at++
		return p.needColumn()
	}
	from := p.at
	p.c.Name = p.take(func(c byte) bool { return !strings.ContainsRune(" \t<>=\"", rune(c)) })
	i := strings.LastIndexByte(p.c.Name, ':')
	if i < 0 || i > 0 && p.c.Name[i-1] == ':' { // at::native
		return "", nil
	}
	p.at = from + i + 1
	p.c.Name = p.c.Name[:i]
	return p.needColumn()
}

func (p *parser) needColumn() (string, error) {
	from := p.at
	if column := p.take(isWord); column != "" {
		return column, nil
	}
	return "", p.fail(from, 0, "a column is missing behind the colon; a name with a colon, a space, < or > stands "+
		"between quotes")
}

// column finds the column that a word means, count if there is none: median means median_ns.
func (p *parser) column(word string) error {
	columns := p.words.Reports[p.c.Report]
	from := p.at - len(word)
	if word == "" {
		word = "count"
	}
	for _, key := range []string{word, word + "_ns", word + "_bytes"} {
		if unit, known := columns[key]; known {
			p.c.Column, p.c.Unit = key, unit
			return nil
		}
	}
	if from == p.at {
		return p.fail(from, 0, "%s have no count: name a column, such as %s", p.c.Report,
			strings.Join(sortedKeys(columns), ", "))
	}
	return p.unknown(from, word, "column", sortedKeys(columns))
}

func (p *parser) operator() error {
	from := p.at
	p.c.Op = p.take(func(c byte) bool { return c == '<' || c == '>' || c == '=' || c == '!' })
	switch p.c.Op {
	case ">", ">=", "<", "<=":
		return nil
	case "":
		return p.fail(from, 0, "a comparison is missing: > or <")
	}
	return p.fail(from, p.at-from, "no comparison %q: write >, >=, < or <=", p.c.Op)
}

func (p *parser) end() error {
	if rest := p.rest(); rest != "" {
		return p.fail(p.at, len(strings.TrimRight(rest, " \t\r\n")), "nothing may follow the value")
	}
	return nil
}

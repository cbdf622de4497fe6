package main

import (
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
)

func helpCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      helpName,
		Aliases:   []string{"h"},
		Usage:     "list the commands, or explain one",
		ArgsUsage: "[COMMAND]",
		UsageText: "cudatrace help [COMMAND]\n\nExample: cudatrace help record",
		Action: func(c *cli.Context) error {
			name := c.Args().First()
			switch {
			case c.NArg() > 1:
				return usagef("", "help: takes one command")
			case name == "":
				return printHelp(con, appHelp(c.App))
			case c.App.Command(name) == nil:
				return noHelp(c.App, name)
			}
			return printHelp(con, commandHelp(c.App.Command(name)))
		},
	}
}

func printHelp(con *console.Console, text string) error {
	_, err := con.Text().Write([]byte(text))
	return err
}

// A helpPage is the text of a help.
type helpPage struct {
	strings.Builder
	width int
}

// newPage begins a page as wide as COLUMNS says, or 80 columns.
func newPage() *helpPage {
	width, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || width <= 0 {
		width = 80
	}
	return &helpPage{width: max(width, 40)}
}

// appHelp is the help of the program: its commands.
func appHelp(app *cli.App) string {
	p := newPage()
	p.paragraph("cudatrace: " + app.Usage)
	p.usage(app.UsageText)
	p.text(app.Description)
	p.heading("Commands")
	for _, c := range app.Commands {
		p.item(c.Name, c.Usage, 12)
	}
	p.WriteByte('\n')
	p.paragraph("'cudatrace help COMMAND', or COMMAND --help, explains a command and lists its options.")
	return p.String()
}

// commandHelp is the help of a command: its options in groups.
func commandHelp(c *cli.Command) string {
	p := newPage()
	p.paragraph("cudatrace " + c.Name + ": " + c.Usage)
	p.usage(c.UsageText)
	p.text(c.Description)
	group := ""
	for i, o := range visibleOptions(c) {
		if i == 0 || o.Group != group {
			if i > 0 {
				p.WriteByte('\n')
			}
			p.heading(o.Group)
			group = o.Group
		}
		p.item(o.Names(), o.Text, optionColumn)
	}
	return strings.TrimRight(p.String(), "\n") + "\n"
}

// optionColumn is the column of the explanations of options.
const optionColumn = 22

func (p *helpPage) heading(text string) { p.WriteString(text + ":\n") }

// item writes a name and, in a column of its own, what it means.
func (p *helpPage) item(name, text string, column int) {
	line := "  " + name
	if room := column + 2 - utf8.RuneCountInString(line); room >= 2 {
		line += strings.Repeat(" ", room)
	} else {
		p.WriteString(line + "\n")
		line = strings.Repeat(" ", column+2)
	}
	p.wrap(line, text, strings.Repeat(" ", column+2))
}

// usage writes command lines and, behind an empty line, examples. They are not wrapped: a person
// copies them.
func (p *helpPage) usage(text string) {
	lines, examples, _ := strings.Cut(text, "\n\n")
	p.heading("Usage")
	for line := range strings.SplitSeq(lines, "\n") {
		p.WriteString("  " + line + "\n")
	}
	p.WriteByte('\n')
	if examples == "" {
		return
	}
	for line := range strings.SplitSeq(examples, "\n") {
		p.WriteString(line + "\n")
	}
	p.WriteByte('\n')
}

// text writes paragraphs, a line each.
func (p *helpPage) text(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			p.wrap("", line, "")
		}
	}
	if text != "" {
		p.WriteByte('\n')
	}
}

func (p *helpPage) paragraph(text string) {
	p.wrap("", text, "")
	p.WriteByte('\n')
}

// wrap writes a text within the page's width. Its first line begins with first, the others with
// indent.
func (p *helpPage) wrap(first, text, indent string) {
	line, empty := first, true
	for word := range strings.FieldsSeq(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > p.width {
			p.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	p.WriteString(strings.TrimRight(line, " ") + "\n")
}

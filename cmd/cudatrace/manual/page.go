package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/option"
)

// appPage is the page of the program.
func appPage(app *cli.App) string {
	var p page
	p.head(app, app.Name, app.Usage)
	p.synopsis(app.UsageText)
	p.description(app.Description)
	p.section("COMMANDS")
	for _, c := range app.VisibleCommands() {
		p.item(bold(title(app, c)), c.Usage)
	}
	p.section("SEE ALSO")
	var names []string
	for _, c := range app.VisibleCommands() {
		names = append(names, bold(title(app, c))+"(1)")
	}
	p.line(strings.Join(names, ",\n"))
	return p.String()
}

// commandPage is the page of a command.
func commandPage(app *cli.App, c *cli.Command) string {
	var p page
	p.head(app, title(app, c), c.Usage)
	examples := p.synopsis(c.UsageText)
	p.description(c.Description)
	if options := option.Visible(c); len(options) > 0 {
		p.options(options)
	}
	if examples != "" {
		p.section("EXAMPLES")
		for example := range strings.SplitSeq(examples, "\n") {
			p.command(strings.TrimPrefix(example, "Example: "))
		}
	}
	p.section("SEE ALSO")
	p.line(bold(app.Name) + "(1)")
	return p.String()
}

// title is the name of a command's page: cudatrace-record.
func title(app *cli.App, c *cli.Command) string { return app.Name + "-" + c.Name }

// A page is the text of a page, in the language of man.
type page struct{ strings.Builder }

func (p *page) line(text string) { p.WriteString(text + "\n") }

func (p *page) head(app *cli.App, name, usage string) {
	p.line(fmt.Sprintf(`.TH "%s" "1" "" "%s" "User Commands"`, escape(strings.ToUpper(name)), escape(app.Name+" "+app.Version)))
	p.line(".nh\n.ad l") // names of files stay whole
	p.section("NAME")
	p.line(escape(name) + ` \- ` + escape(usage))
}

func (p *page) section(name string) { p.line(".SH " + name) }

// synopsis writes the command lines of a usage, and returns the examples behind them.
func (p *page) synopsis(usage string) (examples string) {
	lines, examples, _ := strings.Cut(usage, "\n\n")
	p.section("SYNOPSIS")
	for line := range strings.SplitSeq(lines, "\n") {
		p.command(line)
	}
	return examples
}

// command writes a command line, which is not wrapped.
func (p *page) command(line string) {
	p.line(".nf\n" + escape(line) + "\n.fi")
}

// description writes paragraphs, a line each.
func (p *page) description(text string) {
	if text == "" {
		return
	}
	p.section("DESCRIPTION")
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			p.line(".PP")
		}
		p.line(escape(line))
	}
}

func (p *page) options(options []option.Option) {
	p.section("OPTIONS")
	group := ""
	for _, o := range options {
		if o.Group != group && o.Group != "Options" {
			p.line(".SS " + escape(o.Group))
		}
		group = o.Group
		names, _ := strings.CutSuffix(o.Names(), " "+o.Value)
		names = bold(names)
		if o.Value != "" {
			names += ` \fI` + escape(o.Value) + `\fR`
		}
		p.item(names, o.Text)
	}
}

// item writes a name, which is escaped, and what it means.
func (p *page) item(name, text string) {
	p.line(".TP\n" + name)
	p.line(escape(text))
}

func bold(text string) string { return `\fB` + escape(text) + `\fR` }

// escapes are characters that man would take for its own, or replace by those of typography.
var escapes = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, `"`, `\(dq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`)

// escape keeps a text of one line as it is. A line that begins with a dot would be a request.
func escape(text string) string {
	text = escapes.Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

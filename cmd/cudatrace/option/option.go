// Package option describes the options of commands. Input: an option as the command-line library has it.
// Output: its names, its value and its explanation, which the help, the manual pages and the completion of
// shells show.
package option

import (
	"strings"

	"github.com/urfave/cli/v2"
)

// An Option is an option as people see it.
type Option struct {
	Group string // the heading over it
	Long  string // output
	Short string // o, or ""
	Value string // NAME, or a list of words: auto|uprobe; "" for an option without a value
	Text  string // the explanation, with the default where it says something
}

// Of describes an option. The name of the value stands between backquotes in the option's usage; values that are
// listed there have a text behind a colon. A default is shown where the usage has none and it says something.
func Of(f cli.Flag) Option {
	doc := f.(cli.DocGenerationFlag) // each of the library's flags is one
	o := Option{Group: group(f), Long: f.Names()[0]}
	if len(f.Names()) > 1 && len(f.Names()[1]) == 1 {
		o.Short = f.Names()[1]
	}
	before, rest, named := strings.Cut(doc.GetUsage(), "`")
	o.Text = before
	if value, after, ok := strings.Cut(rest, "`"); named && ok {
		o.Value = value
		o.Text = before + value + after
		if strings.Contains(value, "|") {
			o.Text = strings.TrimPrefix(o.Text, value+": ")
		}
	}
	if s, ok := f.(*cli.StringFlag); ok && s.Value != "" && s.Value != "none" && s.Value != "default" && !strings.Contains(o.Text, "(default") {
		o.Text += " (default: " + s.Value + ")"
	}
	return o
}

func group(f cli.Flag) string {
	if f, ok := f.(cli.CategorizableFlag); ok && f.GetCategory() != "" {
		return f.GetCategory()
	}
	return "Options"
}

// Visible are the options of a command that its help shows.
func Visible(c *cli.Command) (all []Option) {
	for _, f := range c.VisibleFlags() {
		all = append(all, Of(f))
	}
	return all
}

// Names are the names of an option and of its value: -o, --output NAME.
func (o Option) Names() string {
	names := "--" + o.Long
	if o.Short != "" {
		names = "-" + o.Short + ", " + names
	}
	if o.Value != "" {
		names += " " + o.Value
	}
	return names
}

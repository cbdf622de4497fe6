package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// An option is an option as people see it.
type option struct {
	Group string // the heading over it
	Long  string // output
	Short string // o, or ""
	Value string // NAME, or a list of words: auto|uprobe; "" for an option without a value
	Text  string // the explanation, with the default where it says something
}

// optionOf describes an option. The name of the value stands between backquotes in the option's usage; values that are
// listed there have a text behind a colon. A default is shown where the usage has none and it says something.
func optionOf(f cli.Flag) option {
	doc := f.(cli.DocGenerationFlag) // each of the library's flags is one
	o := option{Group: group(f), Long: f.Names()[0]}
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
	if s, ok := f.(*cli.StringFlag); ok && s.Value != "" && s.Value != "none" && s.Value != "default" &&
		!strings.Contains(o.Text, "(default") {
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

// visibleOptions returns the options that the help, the manual page and the completion of a command show.
func visibleOptions(c *cli.Command) (all []option) {
	for _, f := range c.VisibleFlags() {
		all = append(all, optionOf(f))
	}
	return all
}

// Flags are the names of an option: -o, --output.
func (o option) Flags() string {
	if o.Short != "" {
		return "-" + o.Short + ", --" + o.Long
	}
	return "--" + o.Long
}

// Names are the names of an option and of its value: -o, --output NAME.
func (o option) Names() string { return strings.TrimSpace(o.Flags() + " " + o.Value) }

// Options that other commands mention.
const (
	callBufferFlag = "call-buffer"
	gpuMetricsFlag = "gpu-metrics" // may stand without a value
)

// outputGroup is the group of options about what is written, in the help of each command.
const outputGroup = "Output"

func isSet(c *cli.Context, flags ...string) bool {
	return slices.ContainsFunc(flags, c.IsSet)
}

package main

import (
	"embed"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

const completionName = "completion"

// wordsCommand completes a command line for the scripts: its words follow, without the program's name. The library's
// own completion runs a command line that has "--", so that Tab would start the program that is to be recorded; its
// script for bash evaluates what was typed; and it knows no values, no files and no option behind an argument.
const wordsCommand = "complete-words"

var shells = []string{"bash", "zsh", "fish"}

//go:embed completion/cudatrace.*
var completionScripts embed.FS

func completionCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      completionName,
		Usage:     "print the script by which a shell completes command lines",
		ArgsUsage: "SHELL",
		UsageText: "cudatrace completion " + strings.Join(shells, "|") + "\n\n" +
			"Example: source <(cudatrace completion bash)\n" +
			"Example: cudatrace completion zsh >~/.zfunc/_cudatrace\n" +
			"Example: cudatrace completion fish >~/.config/fish/completions/cudatrace.fish",
		Description: "Completes commands, options, their values, and the files that a command takes. In zsh, the folder of " +
			"the script must be in fpath before compinit. 'make install' and the packages install the scripts.",
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(completionName, "completion: name one shell: %s", strings.Join(shells, ", "))
			}
			script, err := completionScripts.ReadFile("completion/cudatrace." + c.Args().First())
			if err != nil {
				return usagef(completionName, "completion: no shell %q; the shells are %s", c.Args().First(),
					strings.Join(shells, ", "))
			}
			_, err = con.Text().Write(script)
			return err
		},
	}
}

// What a shell offers beside words: files (the endings of their names follow, none for all files), folders, and what
// completes a program's own command line (the number of its first word follows).
const (
	offerWords   = "words"
	offerFiles   = "files"
	offerFolders = "folders"
	offerProgram = "program"
)

// placeholders are what a shell offers for arguments and for the values of options.
var placeholders = map[string]string{
	"FILE": offerFiles, "OUT": offerFiles, "FOLDER": offerFolders,
	"LOG": offerFiles + " cudatrace", "TRACE": offerFiles + " pftrace", "TRACE|LOG": offerFiles + " pftrace cudatrace",
	"BASE": offerFiles + " cudatrace json", "NEW": offerFiles + " cudatrace json",
}

// A completion is what a shell offers for the last word of a command line.
type completion struct {
	app   *cli.App
	raw   []string // the words as the shell has them, at least one
	words []string // the words as arguments reads them
	offer string
	found []string // for each word that the last one may become: the word, a tab, its meaning
}

// complete completes the last of some words, which stand behind the program's name. It returns what the shell is to
// offer, and a line for each word.
func complete(app *cli.App, words []string) (lines []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	c := completion{app: app, raw: words, words: joined(words), offer: offerWords}
	if len(c.words) == 1 {
		c.commands("--help\tlist the commands", "--version\tprint the version")
	} else if cmd := app.Command(c.words[0]); cmd != nil {
		c.inCommand(cmd)
	}
	return append([]string{c.offer}, c.found...)
}

// joined joins what bash takes apart at signs of equality: --format = json.
func joined(words []string) (all []string) {
	for i, w := range words {
		n := len(all)
		switch {
		case w == "=" && n > 0 && isLong(all[n-1]) && !strings.Contains(all[n-1], "="),
			i > 0 && words[i-1] == "=" && n > 0 && strings.HasSuffix(all[n-1], "=") && isLong(all[n-1]):
			all[n-1] += w
		default:
			all = append(all, w)
		}
	}
	return all
}

func isLong(word string) bool { return strings.HasPrefix(word, "--") && len(word) > 2 }

// last is the word to complete.
func (c *completion) last() string { return c.words[len(c.words)-1] }

// choice offers those of some lines that begin as the last word does behind a prefix.
func (c *completion) choice(prefix string, lines ...string) {
	for _, line := range lines {
		if !strings.Contains(line, "\t") {
			line += "\t"
		}
		if line = prefix + line; strings.HasPrefix(line, c.last()) {
			c.found = append(c.found, line)
		}
	}
}

func (c *completion) commands(more ...string) {
	var all []string
	for _, cmd := range c.app.VisibleCommands() {
		all = append(all, cmd.Name+"\t"+cmd.Usage)
	}
	c.choice("", append(all, more...)...)
}

// inCommand completes a word behind a command.
func (c *completion) inCommand(cmd *cli.Command) {
	l := commandLine{cmd: cmd}
	before := c.words[1 : len(c.words)-1]
	l.read(before)
	name, _, hasValue := strings.Cut(strings.TrimLeft(c.last(), "-"), "=")
	first := len(c.words) - 1 - len(l.rest) // of the arguments
	switch f := l.flag(name); {
	case l.waiting != nil:
		c.value(optionOf(l.waiting), "")
	case strings.Contains(cmd.UsageText, "PROGRAM [ARG...]") && (l.dashes || l.takesProgram() && len(l.rest) > 0):
		c.program(first)
	case l.dashes:
		c.argument(cmd)
	case hasValue && f != nil && isLong(c.last()):
		c.value(optionOf(f), "--"+name+"=")
	case strings.HasPrefix(c.last(), "-"):
		c.options(cmd)
	default:
		c.argument(cmd)
	}
}

// program offers what completes a program's command line, from one of the words on.
func (c *completion) program(first int) {
	n := 0
	for len(joined(c.raw[:n+1])) <= first {
		n++
	}
	c.offer = fmt.Sprint(offerProgram, " ", n)
}

func (c *completion) options(cmd *cli.Command) {
	var all []string
	for _, o := range visibleOptions(cmd) {
		all = append(all, "--"+o.Long+"\t"+o.Text)
	}
	c.choice("", append(all, "--help\texplain the command")...)
}

// value offers the values of an option, behind a prefix of the word: --format=.
func (c *completion) value(o option, prefix string) {
	lists := map[string]func() []string{"REPORTS": stats.Names, "KINDS": logtext.KindNames}
	switch offer := placeholders[o.Value]; {
	case lists[o.Value] != nil:
		written := strings.TrimPrefix(c.last(), prefix)
		if comma := strings.LastIndexByte(written, ','); comma >= 0 {
			prefix += written[:comma+1]
		}
		c.choice(prefix, lists[o.Value]()...)
	case offer != "":
		c.offer = offer
	case o.Long == "output":
		c.offer = offerFiles
	default:
		for v := range strings.SplitSeq(o.Value, "|") {
			if v != strings.ToUpper(v) { // TIME stands for other words; nvtx:RANGES begins with a word of its own
				v, _, _ = strings.Cut(v, "RANGES")
				c.choice(prefix, v)
			}
		}
	}
}

// argument offers the arguments of a command.
func (c *completion) argument(cmd *cli.Command) {
	for kind := range strings.FieldsSeq(strings.NewReplacer("[", "", "]", "", "...", "").Replace(cmd.ArgsUsage)) {
		switch {
		case kind == "PROGRAM":
			c.program(len(c.words) - 1)
		case kind == "COMMAND":
			c.commands()
		case kind == "SHELL":
			c.choice("", shells...)
		case placeholders[kind] != "":
			c.offer = placeholders[kind]
		default:
			continue
		}
		return
	}
}

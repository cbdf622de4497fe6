package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/top"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// arguments brings a command line into the form that the library reads: each option is one word,
// --output=NAME, and stands in front of the arguments. A request for help anywhere becomes the help
// command. The options behind the program of record and of run are the program's.
func arguments(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	if strings.HasPrefix(args[1], "-") {
		return withoutCommand(app, args)
	}
	cmd := app.Command(args[1])
	if cmd == nil {
		return nil, noCommand(app, args[1:])
	}
	l := commandLine{cmd: cmd}
	l.read(args[2:])
	switch {
	case l.help && cmd.Name == helpName:
		return []string{args[0], helpName}, nil
	case l.help:
		return []string{args[0], helpName, cmd.Name}, nil
	}
	return slices.Concat(args[:1], []string{cmd.Name}, l.options, []string{"--"}, l.rest), l.err
}

// withoutCommand reads a command line that begins with an option.
func withoutCommand(app *cli.App, args []string) ([]string, error) {
	switch word := args[1]; {
	case isHelp(word) && len(args) > 2 && app.Command(args[2]) != nil:
		return []string{args[0], helpName, args[2]}, nil
	case isHelp(word):
		return []string{args[0], helpName}, nil
	case word == "-v" || word == "--version" || word == "-version":
		return []string{args[0], "version"}, nil
	case word == "--" || word == "-":
		return nil, usagef("", "no command given")
	default:
		l := commandLine{cmd: app.Command(recordName)}
		switch l.read(args[1:]); {
		case l.foreign != "":
			return nil, l.err
		case l.err == nil:
			return nil, writef(append([]string{recordName}, l.typed...), "%s is an option of record", word)
		}
		return nil, usagef("", "unknown option %s", word)
	}
}

func isHelp(word string) bool { return word == "-h" || word == "--help" || word == "-help" }

// A commandLine is what stands behind a command.
type commandLine struct {
	cmd           *cli.Command
	options, rest []string
	help          bool
	dashes        bool     // "--" stands in it
	waiting       cli.Flag // the option whose value is missing at the end
	err           error    // the first
	typed         []string // the words, with ours in place of another profiler's
	foreign       string   // why the first of those was replaced
}

// read takes the words apart.
func (l *commandLine) read(words []string) {
	for len(words) > 0 && !l.help {
		if h, instead, n := habitOf(l.cmd.Name, words); h != nil {
			l.foreign = cmp.Or(l.foreign, l.whyNot(words[0], h.why))
			l.typed, words = append(l.typed, instead...), words[n:]
			continue
		}
		rest := l.word(words[0], words[1:])
		l.typed = append(l.typed, words[:len(words)-len(rest)]...)
		words = rest
	}
	if l.foreign != "" && l.err == nil {
		l.err = writef(append([]string{l.cmd.Name}, l.typed...), "%s: %s", l.cmd.Name, l.foreign)
	}
}

// whyNot says what is wrong with an option that another profiler has.
func (l *commandLine) whyNot(word, why string) string {
	switch name, _, _ := strings.Cut(word, "="); {
	case l.flag(strings.TrimLeft(name, "-")) != nil:
		return why
	case why != "":
		return "unknown option " + name + " (" + why + ")"
	default:
		return "unknown option " + name
	}
}

// word reads a word, and its value from the words behind it. It returns the other words.
func (l *commandLine) word(word string, next []string) []string {
	switch {
	case word == "--":
		l.dashes = true
		if f := l.flag(top.ProgramFlag); f != nil && len(l.rest) == 0 {
			l.pass(f, "", false)
		}
		l.rest = append(l.rest, next...)
		return nil
	case isHelp(word):
		l.help = true
	case len(word) > 1 && word[0] == '-':
		return l.option(word, next)
	case l.takesProgram():
		l.rest = append([]string{word}, next...)
		return nil
	default:
		l.rest = append(l.rest, word)
	}
	return next
}

// takesProgram reports whether the first argument begins the command line of a program.
func (l *commandLine) takesProgram() bool {
	return strings.HasPrefix(l.cmd.ArgsUsage, "PROGRAM [ARG...]")
}

// option reads an option, and its value from the words behind it. It returns the other words.
func (l *commandLine) option(word string, next []string) []string {
	name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f := l.flag(name)
	switch {
	case f == nil && word[1] != '-':
		return l.letters(word, next)
	case f == nil:
		l.fail("unknown option --%s%s", name, l.similar(name))
		return next
	case hasValue:
		l.pass(f, value, true)
		return next
	default:
		return l.valueBehind(word, f, next)
	}
}

// valueBehind reads an option whose value is the next word.
func (l *commandLine) valueBehind(word string, f cli.Flag, next []string) []string {
	if takesValue(f) && len(next) == 0 {
		l.waiting = f
	}
	switch {
	case !takesValue(f):
		l.pass(f, "", false)
		return next
	case f.Names()[0] == gpuMetricsFlag && (len(next) == 0 || !gpuMetricsValue(next[0])):
		l.pass(f, strconv.Itoa(record.GPUMetricsRate), true)
		return next
	case len(next) == 0:
		l.fail("%s needs a value", word)
		return nil
	case isHelp(next[0]):
		l.help = true
		return nil
	}
	l.pass(f, next[0], true)
	return next[1:]
}

// gpuMetricsValue reports whether a word behind --gpu-metrics is its value. Everything else may be the program.
func gpuMetricsValue(word string) bool {
	_, err := strconv.Atoi(word)
	return err == nil || word == "on" || word == "off"
}

// letters reads options of one letter in one word. The value may stand in the word: -d5s, -qo NAME.
func (l *commandLine) letters(word string, next []string) []string {
	if near := l.similar(word[1:]); near != "" { // a long option with one dash, and a slip
		l.fail("unknown option %s%s", word, near)
		return next
	}
	for rest := word[1:]; rest != ""; {
		f := l.flag(rest[:1])
		if f == nil {
			l.fail("unknown option %s", word)
			return next
		}
		rest = rest[1:]
		switch {
		case !takesValue(f):
			l.pass(f, "", false)
		case rest == "":
			return l.valueBehind("-"+f.Names()[1], f, next)
		default:
			l.pass(f, strings.TrimPrefix(rest, "="), true)
			return next
		}
	}
	return next
}

// pass passes an option on, in the library's form.
func (l *commandLine) pass(f cli.Flag, value string, hasValue bool) {
	option := "--" + f.Names()[0]
	switch {
	case option == "--output" && value == "": // -o "$NAME" of a script
		l.fail("-o needs a name")
		return
	case takesValue(f):
		option += "=" + value
	case hasValue && value != "true" && value != "false":
		l.fail("%s takes no value", option)
		return
	case hasValue:
		option += "=" + value
	}
	l.options = append(l.options, option)
}

func (l *commandLine) fail(format string, args ...any) {
	if l.err == nil {
		l.err = usagef(l.cmd.Name, l.cmd.Name+": "+format, args...)
	}
}

// flag is the command's option of a name.
func (l *commandLine) flag(name string) cli.Flag {
	for _, f := range l.cmd.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// similar offers the command's option that is most like a name.
func (l *commandLine) similar(name string) string {
	var names []string
	for _, f := range l.cmd.VisibleFlags() {
		names = append(names, f.Names()[0])
	}
	if near := pattern.Nearest(name, names); near != "" {
		return " (did you mean --" + near + "?)"
	}
	return ""
}

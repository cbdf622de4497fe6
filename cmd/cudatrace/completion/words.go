package completion

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/option"
)

// An answer is what a shell offers for the last word of a command line.
type answer struct {
	offer string // one of those below, with what they need behind it
	words []word
}

// What a shell offers.
const (
	offerWords   = "words"   // the answer's words alone
	offerFiles   = "files"   // files; the endings of their names follow, none for all files
	offerFolders = "folders" // folders
	offerProgram = "program" // a command line of its own; the number of its first word follows
)

// A word is what the last word may become.
type word struct{ text, meaning string }

// placeholders say what a shell offers for the values of options and for arguments.
var placeholders = map[string]string{
	"FILE": offerFiles, "OUT": offerFiles, "FOLDER": offerFolders,
	"LOG": offerFiles + " cudatrace", "TRACE": offerFiles + " pftrace", "TRACE|LOG": offerFiles + " pftrace cudatrace",
	"BASE": offerFiles + " cudatrace json", "NEW": offerFiles + " cudatrace json",
}

// A line is the beginning of a command line.
type line struct {
	app   *cli.App
	lists map[string][]string // by placeholder: the words of a list that commas separate
	words []string            // the last one is the one to complete
}

// complete completes the last of some words, of which there is one at least.
func complete(app *cli.App, lists map[string][]string, words []string) answer {
	l := line{app, lists, joined(words)}
	if len(l.words) == 1 {
		return l.choice("", append(commands(app), word{"--help", "list the commands"}, word{"--version", "print the version"}))
	}
	c := app.Command(l.words[0])
	if c == nil {
		return answer{offer: offerWords}
	}
	return l.inCommand(c)
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

func commands(app *cli.App) (all []word) {
	for _, c := range app.VisibleCommands() {
		all = append(all, word{c.Name, c.Usage})
	}
	return all
}

// last is the word to complete.
func (l line) last() string { return l.words[len(l.words)-1] }

// choice offers those of some words that begin as the last word does behind a prefix.
func (l line) choice(prefix string, all []word) answer {
	a := answer{offer: offerWords}
	for _, w := range all {
		if w.text = prefix + w.text; strings.HasPrefix(w.text, l.last()) {
			a.words = append(a.words, w)
		}
	}
	return a
}

// inCommand completes a word behind a command.
func (l line) inCommand(c *cli.Command) answer {
	options := option.Visible(c)
	takesProgram := strings.Contains(c.UsageText, "PROGRAM [ARG...]")
	for i := 1; i < len(l.words)-1; i++ {
		w := l.words[i]
		switch o := beforeValue(options, w); {
		case w == "--" && takesProgram:
			return program(i + 1)
		case w == "--":
			return l.argument(c)
		case o != nil:
			if i++; i == len(l.words)-1 {
				return l.value(*o, "")
			}
		case takesProgram && !strings.HasPrefix(w, "-") && strings.HasPrefix(c.ArgsUsage, "PROGRAM"):
			return program(i)
		}
	}
	name, _, hasValue := strings.Cut(l.last(), "=")
	if o := find(options, name); hasValue && o != nil && isLong(name) {
		return l.value(*o, name+"=")
	}
	if strings.HasPrefix(l.last(), "-") {
		return l.options(options)
	}
	return l.argument(c)
}

func program(first int) answer { return answer{offer: fmt.Sprint(offerProgram, " ", first)} }

// find returns the option that a word is, without a value in the word; nil if it is none.
func find(options []option.Option, word string) *option.Option {
	for i, o := range options {
		if word == "--"+o.Long || word == "-"+o.Long || o.Short != "" && word == "-"+o.Short {
			return &options[i]
		}
	}
	return nil
}

// beforeValue returns the option whose value is the word behind a word: --output, -o, -qo; nil if there is none.
func beforeValue(options []option.Option, word string) *option.Option {
	if o := find(options, word); o != nil && o.Value != "" {
		return o
	}
	if isLong(word) || !strings.HasPrefix(word, "-") || find(options, word) != nil {
		return nil
	}
	for i, letter := range word[1:] {
		switch o := find(options, "-"+string(letter)); {
		case o == nil:
			return nil
		case o.Value != "" && i == len(word)-2:
			return o
		case o.Value != "":
			return nil // the value is in the word: -d5s
		}
	}
	return nil
}

// options offers the options of a command.
func (l line) options(options []option.Option) answer {
	var all []word
	for _, o := range options {
		all = append(all, word{"--" + o.Long, o.Text})
	}
	return l.choice("", append(all, word{"--help", "explain the command"}))
}

// value offers the values of an option, behind a prefix of the word: --format=.
func (l line) value(o option.Option, prefix string) answer {
	if list := l.lists[o.Value]; list != nil {
		written := strings.TrimPrefix(l.last(), prefix)
		if comma := strings.LastIndexByte(written, ','); comma >= 0 {
			prefix += written[:comma+1]
		}
		return l.choice(prefix, plain(list))
	}
	if offer := placeholders[o.Value]; offer != "" {
		return answer{offer: offer}
	}
	if o.Long == "output" {
		return answer{offer: offerFiles}
	}
	values := slices.DeleteFunc(strings.Split(o.Value, "|"), isPlaceholder)
	return l.choice(prefix, plain(values))
}

// isPlaceholder says whether a word stands for others: TIME, not json. A value may begin with a word of its own: nvtx:NAME.
func isPlaceholder(value string) bool { return value == strings.ToUpper(value) }

func plain(values []string) (all []word) {
	for _, v := range values {
		name, _, _ := strings.Cut(v, "NAME")
		all = append(all, word{name, ""})
	}
	return all
}

// argument offers the arguments of a command.
func (l line) argument(c *cli.Command) answer {
	for kind := range strings.FieldsSeq(strings.NewReplacer("[", "", "]", "", "...", "").Replace(c.ArgsUsage)) {
		switch {
		case kind == "PROGRAM":
			return program(len(l.words) - 1)
		case kind == "COMMAND":
			return l.choice("", commands(l.app))
		case kind == "SHELL":
			return l.choice("", plain(shells))
		case placeholders[kind] != "":
			return answer{offer: placeholders[kind]}
		}
	}
	return answer{offer: offerWords}
}

package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// permute moves options in front of the arguments, so that options may follow them: "convert LOG
// -o OUT". The command line of record stays as it is: the options behind the program are the
// program's.
func permute(app *cli.App, args []string) []string {
	if len(args) < 3 {
		return args
	}
	cmd := app.Command(args[1])
	if cmd == nil || cmd.SkipFlagParsing || cmd.Name == recordName {
		return args
	}
	var options, rest []string
	for in := args[2:]; len(in) > 0; {
		word := in[0]
		switch {
		case word == "--":
			rest = append(rest, in[1:]...)
			in = nil
		case len(word) > 1 && word[0] == '-' && takesValue(cmd, word) && len(in) > 1:
			options = append(options, in[:2]...)
			in = in[2:]
		case len(word) > 1 && word[0] == '-':
			options = append(options, word)
			in = in[1:]
		default:
			rest = append(rest, word)
			in = in[1:]
		}
	}
	return slices.Concat(args[:2], options, []string{"--"}, rest)
}

// takesValue says whether an option's value is the next word.
func takesValue(cmd *cli.Command, word string) bool {
	name := strings.TrimLeft(word, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			d, ok := f.(cli.DocGenerationFlag)
			return ok && d.TakesValue()
		}
	}
	return false
}

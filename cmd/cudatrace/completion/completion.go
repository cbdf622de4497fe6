// Package completion completes command lines in shells. Input: the words of a command line, and the program's commands
// as their help has them. Output: the words that the last one may become, or what the shell is to offer. The scripts for
// the shells ask the program by a command that nobody types.
package completion

import (
	"embed"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
)

// Name is the name of the command that prints a script.
const Name = "completion"

// WordsCommand is the command that completes a command line: its words follow, but for the program's name.
const WordsCommand = "complete-words"

var shells = []string{"bash", "zsh", "fish"}

//go:embed scripts
var scripts embed.FS

// Command is the command that prints a script. Usage makes the error for a wrong command line.
func Command(con *console.Console, usage func(format string, args ...any) error) *cli.Command {
	return &cli.Command{
		Name:      Name,
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
				return usage("completion: name one shell: %s", strings.Join(shells, ", "))
			}
			script, err := scripts.ReadFile("scripts/cudatrace." + c.Args().First())
			if err != nil {
				return usage("completion: no shell %q; the shells are %s", c.Args().First(), strings.Join(shells, ", "))
			}
			_, err = con.Text().Write(script)
			return err
		},
	}
}

// Print completes a command line for the scripts: a line that says what the shell is to offer, then a line for each
// word, with a tab and its meaning.
func Print(con *console.Console, app *cli.App, lists map[string][]string, words []string) error {
	if len(words) == 0 {
		words = []string{""}
	}
	a := complete(app, lists, words)
	var b strings.Builder
	b.WriteString(a.offer + "\n")
	for _, w := range a.words {
		b.WriteString(w.text + "\t" + w.meaning + "\n")
	}
	_, err := con.Text().Write([]byte(b.String()))
	return err
}

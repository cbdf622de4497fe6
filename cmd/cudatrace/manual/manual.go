// Package manual writes the manual pages. Input: the program's commands, as their help has them. Output: pages for man,
// to standard output or to a folder.
package manual

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/invoker"
)

// Name is the name of the command.
const Name = "man"

// Command is the command. Usage makes the error for a wrong command line.
func Command(con *console.Console, usage func(format string, args ...any) error) *cli.Command {
	return &cli.Command{
		Name:      Name,
		Usage:     "print a manual page, or write all of them",
		ArgsUsage: "[COMMAND]",
		UsageText: "cudatrace man [COMMAND]\n" +
			"cudatrace man -o FOLDER\n\n" +
			"Example: cudatrace man record | man -l -\n" +
			"Example: cudatrace man -o ~/.local/share/man/man1",
		Description: "The pages say what 'cudatrace help' says. 'make install' and the packages install them.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write cudatrace.1 and a page for each command to `FOLDER`"},
		},
		Action: func(c *cli.Context) error {
			switch {
			case c.NArg() > 1:
				return usage("man: takes one command")
			case c.IsSet("output") && c.NArg() > 0:
				return usage("man: -o writes all pages, not that of %s alone", c.Args().First())
			case c.IsSet("output"):
				return invoker.Find().Do(func() error { return write(c.App, c.String("output")) })
			}
			return printPage(con, c, usage)
		},
	}
}

func printPage(con *console.Console, c *cli.Context, usage func(format string, args ...any) error) error {
	text := appPage(c.App)
	if name := c.Args().First(); name != "" {
		command := c.App.Command(name)
		if command == nil {
			return usage("man: unknown command %q", name)
		}
		text = commandPage(c.App, command)
	}
	_, err := con.Text().Write([]byte(text))
	return err
}

// write writes all pages to a folder.
func write(app *cli.App, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("the folder %s cannot be made: %s", folder, errno.Words(err))
	}
	pages := map[string]string{app.Name: appPage(app)}
	for _, c := range app.VisibleCommands() {
		pages[title(app, c)] = commandPage(app, c)
	}
	for name, text := range pages {
		path := filepath.Join(folder, name+".1")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return errno.Writing(path, err)
		}
	}
	return nil
}

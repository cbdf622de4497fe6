package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/invoker"
)

const manName = "man"

func manCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      manName,
		Usage:     "print a manual page, or write all of them",
		ArgsUsage: "[COMMAND]",
		UsageText: "cudatrace man [COMMAND]\n" +
			"cudatrace man -o FOLDER\n\n" +
			"Example: cudatrace man record | man -l -\n" +
			"Example: cudatrace man -o ~/.local/share/man/man1",
		Description: "The pages say what 'cudatrace help' says. 'make install' and the packages install them.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, Usage: "write cudatrace.1 and a page for each command to `FOLDER`",
			},
		},
		Action: func(c *cli.Context) error {
			switch name := c.Args().First(); {
			case c.NArg() > 1:
				return usagef(manName, "man: takes one command")
			case c.IsSet("output") && c.NArg() > 0:
				return usagef(manName, "man: -o writes all pages, not that of %s alone", name)
			case c.IsSet("output"):
				return invoker.Find().Do(func() error { return writeManual(c.App, c.String("output")) })
			case name != "" && c.App.Command(name) == nil:
				return usagef(manName, "man: unknown command %q", name)
			default:
				page, err := manualPage(c.App, c.App.Command(name))
				if err == nil {
					_, err = con.Text().Write([]byte(page))
				}
				return err
			}
		},
	}
}

// writeManual writes all pages to a folder.
func writeManual(app *cli.App, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("the folder %s cannot be made: %s", folder, errno.Words(err))
	}
	for _, c := range append([]*cli.Command{nil}, app.VisibleCommands()...) {
		path := filepath.Join(folder, pageName(app, c)+".1")
		page, err := manualPage(app, c)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			return errno.Writing(path, err)
		}
	}
	return nil
}

// pageName is the name of a command's page, or of the program's for nil: cudatrace-record, cudatrace.
func pageName(app *cli.App, c *cli.Command) string {
	if c == nil {
		return app.Name
	}
	return app.Name + "-" + c.Name
}

// manualPage returns the page of a command, or of the program for nil. The library makes one page of a whole program,
// without descriptions and groups of options; so each command is a program of its own to it, and the template is ours.
func manualPage(app *cli.App, c *cli.Command) (string, error) {
	usage, usageText, description := app.Usage, app.UsageText, app.Description
	var options []option
	var commands []*cli.Command
	if c != nil {
		usage, usageText, description, options = c.Usage, c.UsageText, c.Description, visibleOptions(c)
	} else {
		commands = app.VisibleCommands()
	}
	synopsis, examples, _ := strings.Cut(usageText, "\n\n")
	cli.MarkdownDocTemplate = pageTemplate
	page := &cli.App{
		Name: pageName(app, c), Usage: usage, UsageText: synopsis, Version: app.Name + " " + app.Version,
		Description: strings.ReplaceAll(description, "\n", "\n\n"),
		Metadata: map[string]any{
			"title": strings.ToUpper(pageName(app, c)), "program": app.Name, "commands": commands, "options": options,
			"plain":    plainMarkdown.Replace,
			"examples": strings.ReplaceAll(strings.TrimPrefix(examples, "Example: "), "\nExample: ", "\n"),
		},
	}
	text, err := page.ToManWithSection(1)
	return strings.Replace(text, "\n.SH", ".nh\n.ad l\n.SH", 1), err // names of files stay whole
}

// plainMarkdown keeps Markdown from taking characters of a text for its own.
var plainMarkdown = strings.NewReplacer(`\`, `\\`, "`", "\\`", `*`, `\*`, `_`, `\_`, `[`, `\[`, `]`, `\]`, `<`, `\<`,
	`>`, `\>`,
	`&`, `\&`, `#`, `\#`, `~`, `\~`, `|`, `\|`, `-`, `\-`)

// pageTemplate is the Markdown of a manual page.
const pageTemplate = `{{$plain := .App.Metadata.plain}}{{$program := .App.Metadata.program}}% "{{.App.Metadata.title}}" "1" "" "{{.App.Version}}" "User Commands"

# NAME
{{.App.Name}} - {{call $plain .App.Usage}}

# SYNOPSIS
~~~
{{.App.UsageText}}
~~~
{{with .App.Description}}
# DESCRIPTION
{{call $plain .}}
{{end}}{{with .App.Metadata.commands}}
# COMMANDS
{{range .}}
**{{call $plain $program}}\-{{.Name}}**
: {{call $plain .Usage}}
{{end}}{{end}}{{if .App.Metadata.options}}
# OPTIONS
{{$group := "Options"}}{{range .App.Metadata.options}}{{if ne .Group $group}}
### {{.Group}}
{{$group = .Group}}{{end}}
**{{call $plain .Flags}}**{{with .Value}} *{{call $plain .}}*{{end}}
: {{call $plain .Text}}
{{end}}{{end}}{{with .App.Metadata.examples}}
# EXAMPLES
~~~
{{.}}
~~~
{{end}}
# SEE ALSO
{{range .App.Metadata.commands}}**{{call $plain $program}}\-{{.Name}}**(1)
{{else}}**{{call $plain $program}}**(1)
{{end}}`

// Command cudatrace records CUDA programs and makes Perfetto traces. Input: a command line.
// Output: a log, a trace or text, and an exit code. Each command has a file of its own here, which
// reads its arguments and calls one package.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/cmd/cudatrace/top"
)

// Exit codes of our own; record ends with the program's.
const (
	exitFailure = 1
	exitUsage   = 2
)

// softMemory is the size of the heap, in bytes, from which on the garbage collector works harder.
// A conversion holds at most about 140 MiB; without this limit it could take twice that.
const softMemory = 200 << 20

// reportMemory is softMemory where reports are made. Those of 20 million launches hold 190 MiB, so that with softMemory
// the collector would work all the time.
const reportMemory = 280 << 20

func main() {
	limitMemory(softMemory)
	collectLate()
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// limitMemory sets the soft limit of the heap, in bytes, unless the user has set one.
func limitMemory(limit int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
}

// collectLate lets the heap grow to 16 MiB, not 4, before the garbage collector first runs, unless the user has set
// when. Most commands end before that, and a recording starts with work whose memory is soon garbage.
func collectLate() {
	if os.Getenv("GOGC") != "" {
		return
	}
	usual := debug.SetGCPercent(400)
	runtime.AddCleanup(new(*int), func(usual int) { debug.SetGCPercent(usual) }, usual) // by the first run
}

// run is the whole program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 1 && args[1] == conversionCommand {
		if runConversion(args[2:], stdout) != nil {
			return exitFailure
		}
		return 0
	}
	con := console.New(stdout, stderr)
	if len(args) > 2 && args[1] == top.WatchCommand {
		return top.Watch(con, args[2:])
	}
	app := newApp(con)
	err := con.Failure(runCommand(con, app, args))
	if err == nil {
		return 0
	}
	return fail(con, err, wantsJSON(app, args))
}

func runCommand(con *console.Console, app *cli.App, args []string) error {
	if len(args) > 1 && args[1] == wordsCommand {
		_, err := con.Text().Write([]byte(strings.Join(complete(app, args[2:]), "\n") + "\n"))
		return err
	}
	args, err := arguments(app, args)
	if err != nil {
		return err
	}
	return app.Run(args)
}

// exitCode ends the program with a code and nothing more to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// coloured are the commands whose output has bold and colour on a terminal.
var coloured = []string{recordName, statsName, diffName, infoName, "doctor"}

func newApp(con *console.Console) *cli.App {
	app := &cli.App{
		Name:  "cudatrace",
		Usage: "show where the time of a CUDA program goes",
		UsageText: "cudatrace COMMAND [OPTION...] [ARG...]\n\n" +
			"Example: cudatrace record ./app           # writes app.cudatrace, app.pftrace\n" +
			"Example: cudatrace stats app.cudatrace    # tables, and what to look at first\n" +
			"Example: cudatrace open app.pftrace       # calls and kernels, in the browser\n" +
			"Example: cudatrace doctor ./app           # what a recording would lack here",
		Description: "Records the calls that a program makes to CUDA, and its kernels and copies, without a change to " +
			"the program.",
		Version:     version(),
		HideHelp:    true, // arguments makes the help command of each request
		HideVersion: true,
		Writer:      con.Text(),
		ErrWriter:   io.Discard, // run says what is wrong
		Commands: []*cli.Command{
			recordCommand(con), armedCommand(con), watchCommand(con), topCommand(con), stuckCommand(con), openCommand(con), convertCommand(con),
			statsCommand(con), reportCommand(con), diffCommand(con),
			infoCommand(con),
			dumpCommand(con), repairCommand(con), probesCommand(con), doctorCommand(con),
			completionCommand(con), manCommand(con), versionCommand(con), helpCommand(con),
		},
		ExitErrHandler: func(*cli.Context, error) {}, // run decides
		Action:         func(c *cli.Context) error { return printHelp(con, appHelp(c.App)) },
	}
	for _, c := range app.Commands {
		name := c.Name
		if slices.Contains(coloured, name) {
			c.Flags = append(c.Flags, &cli.StringFlag{
				Name: "color", Value: "auto", Usage: "`auto|always|never`: bold and colour (default: on a terminal, unless " +
					"NO_COLOR is set)",
			})
			c.Before = func(c *cli.Context) error {
				if err := con.Color(c.String("color")); err != nil {
					return usagef(name, "%s: %v", name, err)
				}
				return nil
			}
		}
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef(name, "%s: %v", name, err) }
		c.HideHelp = true
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef("", "%v", err) }
	return app
}

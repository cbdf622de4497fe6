// Command cudatrace records CUDA programs and makes Perfetto traces. Input: a command line.
// Output: a log, a trace or text, and an exit code. Each command has a file of its own here, which
// reads its arguments and calls one package.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
)

// Exit codes of our own; record ends with the program's.
const (
	exitFailure = 1
	exitUsage   = 2
)

// softMemory is the size of the heap, in bytes, from which on the garbage collector works harder.
// A conversion holds at most about 140 MiB; without this limit it could take twice that.
const softMemory = 200 << 20

func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softMemory)
	}
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

// run is the whole program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	out := &stdoutWriter{w: stdout}
	app := newApp(out, stderr)
	err := out.failure(app.Run(permute(app, args)))
	if err == nil {
		return 0
	}
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	fmt.Fprintf(stderr, "cudatrace: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// exitCode ends the program with a code and nothing more to say.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// usageError is a wrong command line.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(command, format string, args ...any) error {
	help := strings.TrimSpace("cudatrace help " + command)
	return usageError{plain(fmt.Sprintf(format, args...)) + fmt.Sprintf("; see '%s'", help)}
}

// plain cuts the words of Go's own parsers off a message about a value.
func plain(msg string) string {
	for _, tail := range []string{": strconv.", ": parse error", ": time: "} {
		if i := strings.Index(msg, tail); i > 0 {
			return msg[:i]
		}
	}
	return msg
}

func newApp(stdout, stderr io.Writer) *cli.App {
	cli.FlagStringer = flagLine
	app := &cli.App{
		Name:      "cudatrace",
		Usage:     "record what a CUDA program does and view it in Perfetto",
		UsageText: "cudatrace record ./app\ncudatrace COMMAND [OPTION...] [ARG...]",
		Description: "Shows every CUDA call on its thread, every kernel and copy on its stream, and an arrow from\n" +
			"the call to the work that it caused. Open the trace in https://ui.perfetto.dev.",
		Version:   version(),
		Writer:    stdout,
		ErrWriter: stderr,
		Flags:     []cli.Flag{cli.HelpFlag}, // the library adds it with its own help command only
		Commands: []*cli.Command{
			recordCommand(stderr), convertCommand(stdout, stderr), statsCommand(stdout, stderr), infoCommand(stdout, stderr),
			dumpCommand(stdout, stderr), repairCommand(stdout, stderr), probesCommand(stdout), versionCommand(stdout),
			helpCommand(),
		},
		ExitErrHandler: func(*cli.Context, error) {}, // run decides
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return noCommand(name)
			}
			return cli.ShowAppHelp(c)
		},
		CommandNotFound: nil,
	}
	for _, c := range app.Commands {
		name := c.Name
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef(name, "%s: %v", name, err) }
		c.HideHelpCommand = true
	}
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return usagef("", "%v", err) }
	return app
}

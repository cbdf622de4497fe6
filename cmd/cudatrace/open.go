package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/browser"
	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func openCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      openName,
		Usage:     "open a trace or a log in Perfetto's UI",
		ArgsUsage: "TRACE|LOG",
		UsageText: "cudatrace open TRACE|LOG [OPTION...]\n\n" +
			"Example: cudatrace open app.pftrace\n" +
			"Example: cudatrace open app.cudatrace --from 'last 5s'",
		Description: "Serves that one file on 127.0.0.1, to a browser that knows the address, until the browser has " +
			"the trace. The trace stays in the browser. The UI begins with the first GPU work. A log is " +
			"converted first, into a file without a name. Without a display here, the ssh line that is printed " +
			"lets the browser of another machine open the address.",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{
				Name: "direct", Usage: "no page in between: the UI fetches the trace itself, which it may from port 9001 only; " +
					"some browsers ask for permission",
			},
			&cli.StringFlag{Name: "ui", Value: browser.DefaultUI, Usage: "open the trace in the copy of the UI at `URL`"},
			&cli.IntFlag{Name: "port", Usage: "serve on port `N` (default: any that is free)"},
			&cli.StringFlag{Name: "timeout", Value: "10m", Usage: "end when nobody has come for the trace for `TIME`"},
			&cli.BoolFlag{Name: "no-browser", Usage: "start no browser, only print the address"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error { return runOpen(c, con) },
	}
}

// An openedTrace is a trace to hand over.
type openedTrace struct {
	file    *os.File
	size    int64
	name    string // for people
	verdict error  // of the log that was converted
}

func runOpen(c *cli.Context, con *console.Console) error {
	o, filter, err := openOptions(c)
	if err != nil {
		return err
	}
	env, err := invoker.Find().Become(os.Environ())
	if err != nil {
		return fmt.Errorf("cannot go on as the user who called sudo: %s", errno.Words(err))
	}
	stop := watchStop()
	t, err := traceToOpen(stop, c, con, filter)
	if errors.Is(err, convert.ErrNothing) {
		return fmt.Errorf("nothing in %s matches %s; there is nothing to open", c.Args().First(), chosen(c, filterFlags()))
	}
	if none := unmatched(c.Args().Slice(), err); none != nil {
		return none
	}
	if err != nil {
		return err
	}
	defer t.file.Close()
	if c.Bool("no-browser") {
		env = nil
	}
	if err := handOver(stop, con, t, o, con.Print, env); err != nil {
		return err
	}
	return t.verdict
}

// handOver serves a trace until a browser has it. Its address is printed, and opened in a browser with an environment,
// unless that is nil.
func handOver(stop *stopped, con *console.Console, t openedTrace, o browser.Options, tell func(string, ...any),
	env []string) (err error) {
	o.Name = t.name
	if o.View, err = firstView(t); err != nil {
		return err
	}
	s, err := browser.Listen(t.file, t.size, o)
	if err != nil {
		return portError(o, err)
	}
	con.Sayf("%s (%s) waits for a browser, at most %v", t.name, figures.Bytes(t.size), o.Patience)
	tell("%s", s.Address())
	launched := false
	if env != nil {
		if launched, err = s.Launch(env); err != nil {
			con.Sayf("no browser is started: the page for it cannot be written to %s: %s", os.TempDir(), errno.Words(err))
		}
	}
	if !launched {
		con.Detail("for the browser of another machine, there: %s", browser.Tunnel(s.Port()))
	}
	switch err := s.Run(stop); {
	case err == nil:
		con.Say("the browser has the trace")
		return nil
	case errors.Is(err, browser.ErrNobody):
		return fmt.Errorf("%w for %v", err, o.Patience)
	case stop.Err() != nil:
		return stop.code()
	default:
		return err
	}
}

// openRecorded opens the trace of a recording. The recorder has done its work, so that it can give up
// its rights. What is printed goes to standard error: standard output is the program's.
func openRecorded(con *console.Console, path string) error {
	env, err := invoker.Find().Become(os.Environ())
	if err != nil {
		return fmt.Errorf("cannot go on as the user who called sudo: %s", errno.Words(err))
	}
	ui, err := browser.ParseUI(browser.DefaultUI)
	if err != nil {
		return err
	}
	t, _, err := openTrace(path)
	if err != nil {
		return err
	}
	defer t.file.Close()
	return handOver(watchStop(), con, t, browser.Options{UI: ui, Patience: openPatience}, con.Detail, env)
}

// openPatience is the time for which a trace waits for a browser.
const openPatience = 10 * time.Minute

// openOptions reads the command line.
func openOptions(c *cli.Context) (o browser.Options, filter convert.Filter, err error) {
	switch {
	case c.NArg() == 0:
		return o, filter, usagef(openName, "open: no trace and no log given")
	case c.NArg() > 1:
		return o, filter, usagef(openName, "open: takes one trace or log")
	case c.Bool("direct") && c.IsSet("port"):
		return o, filter, usagef(openName, "open: --direct needs port %d: --port does not apply", browser.DirectPort)
	case c.Int("port") < 0 || c.Int("port") > 65535 || c.IsSet("port") && c.Int("port") == 0:
		return o, filter, usagef(openName, "open: --port must be between 1 and 65535")
	}
	if o.Direct, o.Port = c.Bool("direct"), c.Int("port"); o.Direct {
		o.Port = browser.DirectPort
	}
	if o.UI, err = browser.ParseUI(c.String("ui")); err != nil {
		return o, filter, usagef(openName, "open: --ui %s: %v", c.String("ui"), err)
	}
	if o.Patience, err = optionTime(c, "timeout", timeExamples); err != nil {
		return o, filter, usagef(openName, "open: %v", err)
	}
	if o.Patience == 0 {
		return o, filter, usagef(openName, "open: --timeout must be longer than 0")
	}
	filter, err = filterOptions(c)
	return o, filter, err
}

// A stopped is a context that ends when a signal is to end the program.
type stopped struct {
	context.Context
	by syscall.Signal
}

func watchStop() *stopped {
	ctx, end := context.WithCancel(context.Background())
	s, signals := &stopped{Context: ctx}, interrupts()
	go func() {
		s.by, _ = (<-signals).(syscall.Signal)
		end()
	}()
	return s
}

// code is the exit code, once the context has ended.
func (s *stopped) code() exitCode { return exitCode(128 + int(s.by)) }

// portError says why nothing can be served.
func portError(o browser.Options, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE) && o.Direct:
		return fmt.Errorf("port %d is in use, and the UI fetches traces from no other: end the program that uses it (a "+
			"trace processor, another 'cudatrace open --direct'), or leave out --direct", browser.DirectPort)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("port %d is in use: choose another with --port, or leave it out", o.Port)
	}
	return fmt.Errorf("nothing can be served on 127.0.0.1: %s", errno.Words(err))
}

// traceToOpen opens a trace, or converts a log.
func traceToOpen(stop *stopped, c *cli.Context, con *console.Console, filter convert.Filter) (openedTrace, error) {
	name := c.Args().First()
	if name != stdio {
		t, isLog, err := openTrace(name)
		switch {
		case err != nil:
			return t, err
		case !isLog && chosen(c, filterFlags()) != "":
			t.file.Close()
			return t, usagef(openName, "open: %s is a trace, and %s selects a part of a log", name, chosen(c, filterFlags()))
		case !isLog:
			return t, nil
		}
	}
	log, err := namedLog(openName, name)
	if err != nil {
		return openedTrace{}, err
	}
	return convertToOpen(stop, con, log, convert.TraceOptions{Options: convert.Options{Filter: filter}})
}

// traceBeginnings are the first bytes of traces that the UI reads: gzip, Perfetto's own form, JSON.
var traceBeginnings = []string{"\x1f\x8b", "\x0a", "{", "["}

// openTrace opens a trace. It is not opened if it is a log.
func openTrace(path string) (t openedTrace, isLog bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return t, false, fmt.Errorf("%s cannot be opened: %s%s", path, errno.Words(err),
			cmp.Or(offer(path, record.TraceSuffix), unfinished(path)))
	case info.IsDir():
		return t, false, fmt.Errorf("%s is a folder: name one of the traces in it", path)
	case !info.Mode().IsRegular():
		return t, false, fmt.Errorf("%s is not a regular file", path)
	}
	r, err := tracelog.Open(path)
	if err == nil {
		return t, true, r.Close()
	} else if !errors.Is(err, tracelog.ErrNotLog) {
		return t, false, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return t, false, fmt.Errorf("%s cannot be opened: %s", path, errno.Words(err))
	}
	begin := make([]byte, 2)
	n, err := f.ReadAt(begin, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return t, false, fmt.Errorf("%s cannot be read: %s", path, errno.Words(err))
	}
	for _, b := range traceBeginnings {
		if strings.HasPrefix(string(begin[:n]), b) {
			return openedTrace{file: f, size: info.Size(), name: filepath.Base(path)}, false, nil
		}
	}
	f.Close()
	return t, false, fmt.Errorf("%s is neither a cudatrace log nor a trace", path)
}

// convertToOpen makes a trace without a name. A signal ends the program, and the trace is gone.
func convertToOpen(stop *stopped, con *console.Console, log convert.Log, o convert.TraceOptions) (t openedTrace,
	err error) {
	t.name = strings.TrimSuffix(filepath.Base(log.Name), ".cudatrace") + ".pftrace"
	if t.file, err = nameless(); err != nil {
		return t, fmt.Errorf("the trace cannot be kept in %s: %s; set TMPDIR to another folder", os.TempDir(),
			errno.Words(err))
	}
	bar := con.Progress()
	o.Progress = bar.Show
	over := context.AfterFunc(stop, func() { os.Exit(int(stop.code())) })
	all, err := convert.FilesTo([]convert.Log{log}, t.file, o)
	over()
	bar.Done()
	if err == nil {
		t.size, err = t.file.Seek(0, io.SeekEnd)
	}
	if err == nil {
		if words := tooLarge(all[0].Slices, log.Name); words != "" {
			con.Say(words)
		}
		aboutLogs(con, []convert.Log{log}, all, convert.Formats[0])
		t.verdict = verdicts(con, []convert.Log{log}, all)
	}
	return t, err
}

// firstView is the time of the first GPU work, with some room around it.
func firstView(t openedTrace) (browser.View, error) {
	s, ok, err := browser.FirstWork(io.NewSectionReader(t.file, 0, t.size))
	if err != nil {
		return browser.View{}, fmt.Errorf("%s cannot be read: %s", t.name, errno.Words(err))
	}
	if !ok {
		return browser.View{}, nil
	}
	room := max((s.To-s.From)/20, uint64(time.Microsecond))
	return browser.View{From: s.From - min(s.From, room), To: s.To + min(room, ^s.To)}, nil
}

package main

import (
	"bytes"
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
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
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
			"Example: cudatrace open app.cudatrace --finding 2\n" +
			"Example: cudatrace open app.cudatrace --from 'last 5s'",
		Description: "Serves that one file on 127.0.0.1, to a browser that knows the address, until the browser has " +
			"the trace. The trace stays in the browser. The UI begins at the median step, or at the busiest " +
			"second, with the tracks that tell the story on top. A log is converted first, into a file without a name. " +
			"Without a display here, the ssh line that is printed lets the browser of another machine open the address.",
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "finding", Usage: "begin at finding `N` of the log, as 'cudatrace stats' numbers them"},
			&cli.StringFlag{Name: "at", Usage: "begin at `TIME` in the recording: 1.5s"},
			&cli.BoolFlag{
				Name: "offline", Usage: "show the page that 'cudatrace report' makes of the log, which needs no network",
			},
			&cli.StringFlag{
				Name: "ui", Value: browser.DefaultUI, Usage: "open the trace in the copy of the UI at `URL`, or in a " +
					"folder, which is served too",
			},
			&cli.IntFlag{Name: "port", Usage: "serve on port `N` (default: any that is free)"},
			&cli.StringFlag{Name: "timeout", Value: "10m", Usage: "end when nobody has come for the trace for `TIME`"},
			&cli.BoolFlag{Name: "no-browser", Usage: "start no browser, only print the address"},
		}, filterFlags()...),
		Action: func(c *cli.Context) error { return runOpen(c, con) },
	}
}

// openPage shows the page of a log, in the place of a trace in the UI.
func openPage(stop *stopped, con *console.Console, name string, o browser.Options, env []string) error {
	if name != stdio {
		t, isLog, err := openTrace(name)
		switch {
		case err != nil:
			return err
		case !isLog:
			t.file.Close()
			return usagef(openName, "open: %s is a trace, and --offline needs the log", name)
		}
	}
	logs, err := namedLogs(openName, []string{name})
	if err != nil {
		return err
	}
	limitMemory(reportMemory)
	over := context.AfterFunc(stop, func() { os.Exit(int(stop.code())) })
	r, all, err := readReport(con, logs, pageOptions{bytes: usualPage})
	over()
	if err != nil {
		return err
	}
	content, err := reportContent(r, "", usualPage)
	if err != nil {
		return err
	}
	t := openedTrace{page: content, size: int64(len(content)),
		name: strings.TrimSuffix(filepath.Base(logs[0].Name), record.LogSuffix) + ".html"}
	aboutLogs(con, logs, all, convert.Formats[0])
	t.verdict = verdicts(con, logs, all)
	if err := handOver(stop, con, t, o, con.Print, env); err != nil {
		return err
	}
	return t.verdict
}

// An openedTrace is a trace to hand over, or a page.
type openedTrace struct {
	file    *os.File
	page    []byte
	size    int64
	name    string       // for people
	log     *convert.Log // that was converted as a whole, nil for none
	verdict error        // of the log that was converted
}

// A beginning is where the UI is to begin.
type beginning struct {
	finding int            // its number, 0 for none
	moment  *time.Duration // since the start of the recording, nil for none
}

func runOpen(c *cli.Context, con *console.Console) error {
	o, filter, at, err := openOptions(c)
	if err != nil {
		return err
	}
	env, err := invoker.Find().Become(os.Environ())
	if err != nil {
		return fmt.Errorf("cannot go on as the user who called sudo: %s", errno.Words(err))
	}
	stop := watchStop()
	if c.Bool("no-browser") {
		env = nil
	}
	if o.Page {
		return openPage(stop, con, c.Args().First(), o, env)
	}
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
	if o.View, err = t.firstView(con, at); err != nil {
		return err
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
	o.Name, o.Answer = t.name, uiAnswers
	log := "LOG"
	if t.log != nil && t.log.Name != inputName {
		log = figures.Shell(t.log.Name)
	}
	o.Offline = "Without a network: 'cudatrace open " + log + " --offline' shows a page that needs none, --ui URL of 'cudatrace " +
		"open' takes a copy of the UI, in a folder or at an address."
	o.Delivered = func() {
		con.Sayf("the browser has the trace; the UI is served until Ctrl-C, or unused for %v", o.Patience)
	}
	o.Unreached = func() { con.Sayf("the browser does not reach %s. %s", o.UI.Origin, o.Offline) }
	var content io.ReaderAt = t.file
	what := "trace"
	if o.Page {
		content, what = bytes.NewReader(t.page), "page"
	}
	s, err := browser.Listen(content, t.size, o)
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
		if o.UI.Folder == "" {
			con.Say("the browser has the " + what)
		}
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
	view, err := t.firstView(con, beginning{})
	if err != nil {
		return err
	}
	o := browser.Options{UI: ui, View: view, Patience: openPatience}
	return handOver(watchStop(), con, t, o, con.Detail, env)
}

// uiAnswers is the time in which the UI answers where there is a network.
const uiAnswers = 10 * time.Second

// openPatience is the time for which a trace waits for a browser.
const openPatience = 10 * time.Minute

// openOptions reads the command line.
func openOptions(c *cli.Context) (o browser.Options, filter convert.Filter, at beginning, err error) {
	switch {
	case c.NArg() == 0:
		return o, filter, at, usagef(openName, "open: no trace and no log given")
	case c.NArg() > 1:
		return o, filter, at, usagef(openName, "open: takes one trace or log")
	case c.Int("port") < 0 || c.Int("port") > 65535 || c.IsSet("port") && c.Int("port") == 0:
		return o, filter, at, usagef(openName, "open: --port must be between 1 and 65535")
	case c.IsSet("finding") && c.IsSet("at"):
		return o, filter, at, usagef(openName, "open: give --finding or --at, not both")
	case c.IsSet("finding") && c.Int("finding") < 1:
		return o, filter, at, usagef(openName, "open: --finding must be 1 or larger, a number that 'cudatrace stats' prints")
	}
	if o.Page = c.Bool("offline"); o.Page {
		for _, other := range []string{"ui", "finding", "at"} {
			if c.IsSet(other) {
				return o, filter, at, usagef(openName, "open: --offline shows a page, and no UI: --%s does not apply", other)
			}
		}
		if with := chosen(c, filterFlags()); with != "" {
			return o, filter, at, usagef(openName, "open: --offline shows a whole log: leave out %s", with)
		}
	}
	if at.finding = c.Int("finding"); at.finding > 0 && chosen(c, filterFlags()) != "" {
		return o, filter, at, usagef(openName, "open: findings are those of a whole log: --finding and %s do not go together",
			chosen(c, filterFlags()))
	}
	if c.IsSet("at") {
		moment, err := optionTime(c, "at", timeExamples)
		if err != nil {
			return o, filter, at, usagef(openName, "open: %v", err)
		}
		at.moment = &moment
	}
	o.Port = c.Int("port")
	if o.UI, err = browser.FindUI(c.String("ui")); err != nil {
		return o, filter, at, usagef(openName, "open: --ui %s: %v", c.String("ui"), err)
	}
	if o.Patience, err = optionTime(c, "timeout", timeExamples); err != nil {
		return o, filter, at, usagef(openName, "open: %v", err)
	}
	if o.Patience == 0 {
		return o, filter, at, usagef(openName, "open: --timeout must be longer than 0")
	}
	filter, err = filterOptions(c)
	return o, filter, at, err
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
	if errors.Is(err, unix.EADDRINUSE) {
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
		case !isLog && c.IsSet("finding"):
			t.file.Close()
			return t, usagef(openName, "open: %s is a trace, and --finding needs the log", name)
		case !isLog:
			return t, nil
		}
	}
	log, err := namedLog(openName, name)
	if err != nil {
		return openedTrace{}, err
	}
	t, err := convertToOpen(stop, con, log, convert.TraceOptions{Options: convert.Options{Filter: filter}})
	if chosen(c, filterFlags()) == "" {
		t.log = &log // findings are those of a whole log
	}
	return t, err
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
		if words := tooLarge(all, o.Filter, log.Name); words != "" {
			con.Say(words)
		}
		aboutLogs(con, []convert.Log{log}, all, convert.Formats[0])
		t.verdict = verdicts(con, []convert.Log{log}, all)
	}
	return t, err
}

// firstView is where the UI begins: at the finding or the moment that was asked for, else where the trace says.
func (t *openedTrace) firstView(con *console.Console, at beginning) (v browser.View, err error) {
	v, err = browser.FirstView(io.NewSectionReader(t.file, 0, t.size))
	if err != nil {
		return v, fmt.Errorf("%s cannot be read: %s", t.name, errno.Words(err))
	}
	if at.moment != nil {
		if v.Start == 0 {
			return v, fmt.Errorf("%s does not have the start of its recording, from which --at counts", t.name)
		}
		v = v.Around(v.Start+uint64(*at.moment), "--at "+at.moment.String())
	}
	if t.log == nil {
		return v, nil
	}
	list, err := t.findings(con)
	if err != nil || at.finding == 0 && len(list) == 0 {
		return v, err
	}
	if at.finding > len(list) {
		return v, fmt.Errorf("%s has %s: there is no finding %d", t.log.Name, figures.Count(len(list), "finding", "findings"),
			at.finding)
	}
	n := max(at.finding, 1)
	f := &list[n-1]
	when, note := f.First, fmt.Sprintf("finding %d\n%s", n, f.Title)
	if len(f.At) > 0 {
		when = f.At[0]
	}
	if at.finding > 0 {
		return v.Around(when, note), nil
	}
	v.Notes = append(v.Notes, browser.Note{At: when, Text: note})
	return v, nil
}

// findings are the findings of the log, in the order in which stats prints them.
func (t *openedTrace) findings(con *console.Console) ([]findings.Finding, error) {
	bar := con.Progress()
	defer bar.Done()
	sink, logs := stats.New(), []convert.Log{*t.log}
	all, err := convert.SomeTimeline(logs, convert.Options{Collectives: true, Progress: bar.Show}, sink)
	if err != nil {
		return nil, err
	}
	list, _ := sink.Findings(statsFacts(logs, all).Incomplete)
	return list, nil
}

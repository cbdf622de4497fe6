package top

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Name is the name of the command.
const Name = "top"

// ProgramFlag is an option that nobody types: it says that the arguments stand behind --, and are a program.
const ProgramFlag = "program"

// A Host is what the command takes from the commands beside it.
type Host struct {
	Usage   func(format string, args ...any) error                      // a wrong command line
	Write   func(line []string, format string, args ...any) error       // one in whose place a line is right
	Exit    func(code int) error                                        // an exit code with nothing more to say
	Flags   []cli.Flag                                                  // of a recording
	Options func(c *cli.Context) (record.Options, error)                // of a recording, from these flags
	Nothing func(say func(string), o record.Options, res record.Result) // says why nothing was recorded
}

// Command is the command.
func Command(con *console.Console, h Host) *cli.Command {
	return &cli.Command{
		Name:      Name,
		Usage:     "show what a program does, every second, while it is recorded",
		ArgsUsage: "LOG",
		UsageText: "cudatrace top LOG [--format text|json]\n" +
			"cudatrace top [OPTION...] -p PID\n" +
			"cudatrace top [OPTION...] -- PROGRAM [ARG...]\n\n" +
			"Example: cudatrace top run1.cudatrace\n" +
			"Example: cudatrace top -- python3 train.py",
		Description: "Follows LOG, which a recording is writing now (NAME.cudatrace also finds the log of a " +
			"recording that has " +
			"not ended), or records PID or PROGRAM into a temporary log. Shows launches, calls, the busiest kernels, " +
			"functions and Python lines, GPUs, copies, errors and lost records. On a terminal it is a screen with keys (h " +
			"lists them); " +
			"what PROGRAM prints comes after it, or is in NAME.out with -o NAME. Else it is a line every second. The exit code " +
			"is that of PROGRAM. docs/top.md explains the figures.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: "`text|json|ndjson`: a screen or lines " +
				"for people, or, for json and ndjson, an object of JSON every second, a line each"},
			&cli.BoolFlag{Name: ProgramFlag, Hidden: true},
		}, h.Flags...),
		Action: func(c *cli.Context) error { return h.run(c, con) },
	}
}

func (h *Host) run(c *cli.Context, con *console.Console) error {
	format, pids, args := c.String("format"), c.StringSlice("pid"), c.Args().Slice()
	program, lines := c.Bool(ProgramFlag), format == "json" || format == "ndjson"
	switch {
	case format != "text" && !lines:
		return h.Usage("top: --format must be text, json or ndjson, not %q", format)
	case program && len(args) == 0:
		return h.Usage("top: no program given behind --")
	case len(pids) > 0 && len(args) > 0:
		return h.Usage("top: give one of LOG, -p PID and -- PROGRAM")
	case len(pids) > 1:
		return h.Usage("top: --pid names one process")
	case program || len(pids) > 0:
		return h.record(c, con, lines)
	case len(args) == 0:
		return h.Usage("top: no log, no -p PID and no -- PROGRAM given")
	case len(args) > 1:
		return h.Write(append([]string{Name, "--"}, args...), "top: takes one log, and a program behind --")
	case args[0] == "-":
		return h.Usage("top: a log that grows is a file, not standard input")
	}
	if i := slices.IndexFunc(h.Flags, func(f cli.Flag) bool { return c.IsSet(f.Names()[0]) }); i >= 0 {
		return h.Usage("top: --%s is for a recording, and LOG is recorded already", h.Flags[i].Names()[0])
	}
	return h.follow(con, args[0], lines)
}

// follow shows a log.
func (h *Host) follow(con *console.Console, name string, ndjson bool) error {
	path, err := findLog(name)
	if err != nil {
		return err
	}
	log, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%s cannot be opened: %s", path, errno.Words(err))
	}
	defer log.Close()
	w := &watch{con: con, form: formLines, name: path, log: log}
	switch tty := con.Terminal(); {
	case ndjson:
		w.form = formNDJSON
	case tty != nil:
		w.form, w.tty, w.keys = formScreen, tty, true
	}
	err = w.run()
	var ended exitError
	if quit := errors.Is(err, errQuit) || errors.As(err, &ended); quit && w.view.latest != nil {
		con.Sayf("%s so far: %s; its recording goes on", path, totalText(w.view.latest))
	}
	switch {
	case errors.Is(err, errQuit):
		return nil
	case errors.As(err, &ended):
		return h.Exit(128 + int(ended.signal))
	case tracelog.IsDamage(err):
		return fmt.Errorf("%s is not complete: %w", path, err)
	case err != nil:
		return err
	case w.view.latest == nil:
		con.Sayf("%s has ended without a CUDA call", path)
	default:
		more := figures.Shell("cudatrace", "stats", path)
		con.Sayf("%s has ended: %s; to see more: %s", path, totalText(w.view.latest), more)
	}
	return nil
}

// findLog finds a log by its name, or by the name that it gets when its recording ends.
func findLog(name string) (string, error) {
	path := name
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		found, err := filepath.Glob(escapeGlob(tracelog.PartialName(name, "")) + "*")
		if err != nil {
			return "", err
		}
		switch len(found) {
		case 0:
		case 1:
			path = found[0]
		default:
			return "", fmt.Errorf("%s is being written by several recordings: name one of %s", name, strings.Join(found, ", "))
		}
	}
	r, err := tracelog.Open(path)
	if err == nil {
		return path, r.Close()
	}
	if errors.Is(err, tracelog.ErrNotLog) && unix.Access(path, unix.X_OK) == nil {
		return "", fmt.Errorf("%w; to run a program, write: %s", err, figures.Shell("cudatrace", "top", "--", name))
	}
	return "", err
}

// escapeGlob makes a pattern that matches a name alone.
func escapeGlob(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// record records a program, or a process, and shows it meanwhile.
func (h *Host) record(c *cli.Context, con *console.Console, ndjson bool) error {
	o, err := h.Options(c)
	if err != nil {
		return err
	}
	kept, folder, name := c.IsSet("output"), "", o.Output
	if !kept {
		if folder, err = temporary(); err != nil {
			return err
		}
		defer removeTemporary(folder)
		o.Output, o.OutputNamed = filepath.Join(folder, filepath.Base(o.Output)), true
	}
	pid := 0
	if len(o.PIDs) > 0 {
		pid = o.PIDs[0]
	}
	beside := NewBeside(con, filepath.Base(o.Program), pid, ndjson, !kept, true)
	prints := ""
	if pid == 0 && beside.Screen() && con.OnTerminal() {
		if kept {
			o.Prints, prints, err = programFile(name)
		} else {
			err = invoker.Find().Do(func() (err error) {
				o.Prints, err = os.CreateTemp(folder, "printed-")
				return err
			})
		}
		if err != nil {
			return err
		}
		defer o.Prints.Close()
	}
	o.Say, o.Opened, o.Stop = beside.Say, beside.Start, beside.Stop
	var res record.Result
	if pid != 0 {
		res, err = record.Attach(o)
	} else {
		res, err = record.Run(o)
	}
	beside.Finish()
	var printed *replay
	switch {
	case prints != "":
		con.Sayf("what %s printed is in %s", filepath.Base(o.Program), prints)
	case o.Prints != nil:
		printed = &replay{from: o.Prints, con: con}
		printed.show()
	}
	if err == nil {
		err = h.close(con, o, res, kept)
	}
	var start *record.StartError
	switch {
	case errors.As(err, &start):
		con.Say(start.Error())
		return h.Exit(start.Code)
	case err != nil:
		return err
	}
	return h.await(con, o, &res, folder, printed)
}

// A replay shows what a program prints while a view has its terminal, when that is over.
type replay struct {
	from *os.File
	con  *console.Console
	at   int64 // bytes that were shown
	err  error
}

// show shows what is new. That it cannot is said once.
func (p *replay) show() {
	if p == nil || p.err != nil {
		return
	}
	out, other := p.con.Outputs()
	if !console.IsTerminal(out) {
		out = other
	}
	n, err := io.Copy(out, io.NewSectionReader(p.from, p.at, math.MaxInt64-p.at))
	if p.at, p.err = p.at+n, err; err != nil {
		p.con.Sayf("what the program printed cannot be shown: %v", err)
	}
}

// until shows what is printed until something is over.
func (p *replay) until(over <-chan struct{}) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.show()
		case <-over:
			p.show()
			return
		}
	}
}

// programFile makes the file that a program prints to while the view has its terminal, in the working folder: NAME.out,
// with a number if that is taken.
func programFile(name string) (*os.File, string, error) {
	target, err := outfile.At(name+".out", outfile.Options{})
	if err != nil {
		return nil, "", err
	}
	defer target.Close()
	f, err := target.Create()
	if err != nil {
		return nil, "", err
	}
	done, err := f.Commit()
	if err != nil {
		return nil, "", errors.Join(err, f.Discard())
	}
	return f.File, done.Path, nil
}

// await waits for the end of a program that runs on without being recorded, and shows what it prints. The temporary
// folder, if there is one, goes before.
func (h *Host) await(con *console.Console, o record.Options, res *record.Result, folder string, p *replay) error {
	if res.Runs() {
		con.Sayf("the recording has ended; %s runs on", filepath.Base(o.Program))
		if folder != "" {
			removeTemporary(folder)
		}
	}
	over := make(chan struct{})
	go func() {
		res.Wait()
		close(over)
	}()
	p.until(over)
	if res.ExitCode != 0 {
		return h.Exit(res.ExitCode)
	}
	return nil
}

// close says what became of a recording.
func (h *Host) close(con *console.Console, o record.Options, res record.Result, kept bool) error {
	if res.File != nil {
		defer res.File.Close()
	}
	switch {
	case res.Lost: // it was said
	case res.Log == "":
		h.Nothing(con.Say, o, res)
	case kept:
		con.Sayf("the log is %s; to make a trace of it: %s", res.Log, figures.Shell("cudatrace", "convert", res.Log))
	default:
		con.Say("nothing was kept: -o NAME keeps the log")
	}
	return nil
}

// temporary makes a folder for a temporary log, with the rights of the user who called sudo.
func temporary() (folder string, err error) {
	err = invoker.Find().Do(func() (err error) {
		folder, err = os.MkdirTemp("", "cudatrace-top-")
		return err
	})
	if err != nil {
		return "", fmt.Errorf("the temporary log cannot be made in %s: %s; set TMPDIR, or name a log with -o", os.TempDir(),
			errno.Words(err))
	}
	return folder, nil
}

// removeTemporary removes that folder. What stays does no harm: it is in the folder for temporary files.
func removeTemporary(folder string) {
	_ = invoker.Find().Do(func() error { return os.RemoveAll(folder) })
}

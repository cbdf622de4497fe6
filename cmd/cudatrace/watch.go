package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/cmd/cudatrace/watch"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/gpumetrics"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/stuck"
)

const watchName = "watch"

func watchCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      watchName,
		Usage:     "record the programs that 'cudatrace run --armed' started for some seconds, again and again",
		ArgsUsage: " ",
		UsageText: "cudatrace watch [OPTION...] -o FOLDER\n\n" +
			"Example: cudatrace watch -o /var/log/cudatrace --prometheus cudatrace.prom\n" +
			"Example: cudatrace watch -p 4711 --every 5m --convert pprof -o windows",
		Description: "Each window is a recording by itself, JOB-HOST-TIME.cudatrace, of all processes of one job at the same " +
			"moment, on all hosts that watch it with the same --every. Jobs take turns. Where the program calls " +
			"cudatrace.step(), its steps tell what a window costs, and windows come as often as --budget allows; else they " +
			"take no more than --budget of the time. Runs until a signal comes. docs/on-demand.md has the rest.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{
				Category: whatGroup, Name: "pid", Aliases: []string{"p"},
				Usage: "only the process `PID`, until it ends (repeatable; default: every armed process)",
			},
			&cli.StringFlag{
				Category: whatGroup, Name: "calls", Value: string(record.CallsNone),
				Usage: "`none|auto|uprobe`: as for record; none keeps only the calls that create GPU work, which puts nothing " +
					"into programs and needs no rights",
			},
			&cli.StringFlag{
				Category: whenGroup, Name: "every", Value: "1m", Usage: "the shortest `TIME` from one window to the next",
			},
			&cli.StringFlag{Category: whenGroup, Name: "for", Value: "2s", Usage: "the `TIME` of a window"},
			&cli.BoolFlag{
				Category: whenGroup, Name: "detach",
				Usage: "take CUPTI out of the programs behind each window, as record --detach does: they have their own speed between",
			},
			&cli.StringFlag{
				Category: limitGroup, Name: "budget", Value: "1%",
				Usage: "the largest `SHARE` of a job's time that recording may cost",
			},
			&cli.StringFlag{
				Category: limitGroup, Name: "disk-limit", Value: "1G",
				Usage: "keep at most `BYTES` of windows, the newest, 1M or more",
			},
			&cli.IntFlag{Category: limitGroup, Name: "keep", Usage: "keep at most `N` windows, the newest"},
			&cli.IntFlag{Category: limitGroup, Name: "windows", Usage: "end after `N` windows"},
			&cli.StringFlag{
				Category: outputGroup, Name: "output", Aliases: []string{"o"}, Usage: "write windows to `FOLDER`, which is made",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "convert", Usage: "convert each window to `FORMAT,...`: " +
					either(formatNames(convert.Formats)),
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "prometheus",
				Usage: "write figures of the latest windows to `FILE`, for the textfile collector",
			},
			&cli.BoolFlag{Category: outputGroup, Name: "quiet", Aliases: []string{"q"}, Usage: "print problems only"},
		},
		Action: func(c *cli.Context) error { return runWatch(c, con) },
	}
}

func runWatch(c *cli.Context, con *console.Console) error {
	o, m, err := watchOptions(c, con)
	if err != nil {
		return err
	}
	if err := makeFolder(o.Folder); err != nil {
		return err
	}
	alone, err := claimFolder(o.Folder)
	if err != nil {
		return err
	}
	defer alone.Close()
	armed, err := m.Armed()
	for _, pid := range o.PIDs {
		if err == nil && !slices.ContainsFunc(armed, func(p record.ArmedProcess) bool { return p.PID == pid }) {
			err = unarmed(pid)
		}
	}
	if err != nil {
		return err
	}
	defer m.end()
	return watch.Run(o, m)
}

// unarmed is the error for a process that cannot be watched.
func unarmed(pid int) error {
	if _, err := procfs.Environment(pid); err != nil && !errors.Is(err, procfs.ErrCut) {
		return err
	}
	return fmt.Errorf("process %d is not armed, or has not started CUDA yet: start it with 'cudatrace run --armed'", pid)
}

// makeFolder makes the folder of the windows, with the rights of the user who called sudo.
func makeFolder(path string) error {
	return invoker.Find().Do(func() error { return os.MkdirAll(path, 0o777) })
}

// claimFolder keeps a second watch of this host out of the folder: windows of a job would have the same names. Those of
// other hosts may share the folder. So this is no lock of a file, which some file systems share, too.
func claimFolder(path string) (io.Closer, error) {
	var s syscall.Stat_t
	if err := syscall.Stat(path, &s); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	alone, err := net.Listen("unix", fmt.Sprintf("@cudatrace-watch-%x-%x", s.Dev, s.Ino))
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("another 'cudatrace watch' writes to %s: name another folder with -o", path)
	}
	return alone, err
}

// Bounds of the options.
const (
	leastEvery   = time.Second
	mostEvery    = 24 * time.Hour
	leastFor     = 10 * time.Millisecond
	leastWindows = 1 << 20 // bytes
)

// watchOptions reads the command line.
func watchOptions(c *cli.Context, con *console.Console) (o watch.Options, m *watched, err error) {
	wrong := func(format string, args ...any) error { return usagef(watchName, "watch: "+format, args...) }
	name, _ := os.Hostname() // "" if the host has no name
	o = watch.Options{
		Folder: c.String("output"), Host: name, Keep: c.Int("keep"), Windows: c.Int("windows"), Quiet: c.Bool("quiet"),
	}
	var errs [4]error
	o.PIDs, errs[0] = pids(c)
	o.Every, errs[1] = optionTime(c, "every", timeExamples)
	o.For, errs[2] = optionTime(c, "for", timeExamples)
	bytes, err := parseSize("disk-limit", c.String("disk-limit"), leastWindows, 1<<50)
	o.DiskLimit, errs[3] = int64(bytes), err
	for _, err := range errs {
		if err != nil {
			return o, nil, wrong("%v", err)
		}
	}
	share, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(c.String("budget"), "%")), 64)
	o.Budget = share / 100
	m = &watched{
		con: con, length: o.For, calls: c.String("calls"), detach: c.Bool("detach"), metrics: c.String("prometheus"),
		signals: interrupts(), quiet: o.Quiet, stays: map[string]bool{},
	}
	switch {
	case c.Args().Present():
		return o, nil, wrong("takes no arguments, but %q: it records programs that 'cudatrace run --armed' started",
			c.Args().First())
	case o.Folder == "":
		return o, nil, wrong("name a folder for the windows: -o FOLDER")
	case o.Folder == "-" || m.metrics == "-":
		return o, nil, wrong("-o names a folder and --prometheus a file: neither is written to standard output")
	case err != nil || !(share >= 0.01 && share <= 100):
		return o, nil, wrong("--budget %q is no share: write 1%%, from 0.01%% to 100%%", c.String("budget"))
	case o.Every < leastEvery || o.Every > mostEvery:
		return o, nil, wrong("--every must be between 1s and 24h")
	case o.For < leastFor || o.For > o.Every/2:
		return o, nil, wrong("--for must be between 10ms and half of --every")
	case !slices.Contains([]string{"none", "auto", "uprobe"}, m.calls):
		return o, nil, wrong("--calls must be none, auto or uprobe, not %q", m.calls)
	case o.Keep < 0 || o.Windows < 0:
		return o, nil, wrong("--keep and --windows take numbers from 1 on")
	}
	for _, name := range words(c.String("convert")) {
		f := convert.FormatNamed(name)
		if f == nil {
			return o, nil, wrong("--convert must be of %s, not %q", either(formatNames(convert.Formats)), name)
		}
		m.formats = append(m.formats, f)
	}
	return o, m, nil
}

// A watched is the machine that is watched. Recordings and conversions are processes of their own: none that is killed,
// or that runs out of memory, ends the service, and what programs have written is read with the rights of the user who
// called sudo.
type watched struct {
	con     *console.Console
	length  time.Duration
	calls   string // their source
	detach  bool
	formats []*convert.Format
	metrics string // path of the file of metrics; "" without one
	signals chan os.Signal
	over    bool
	monitor *gpumetrics.Monitor // nil before the first look
	unknown string              // why nothing is known of GPUs, as was said
	quiet   bool
	stays   map[string]bool // lines about processes that CUPTI stays in, which each window has
}

func (m *watched) Now() time.Time                        { return time.Now().Round(0) }
func (m *watched) Monotonic() uint64                     { return host.Monotonic() }
func (m *watched) Armed() ([]record.ArmedProcess, error) { return record.ArmedProcesses() }
func (m *watched) Steps(pid int) (record.Steps, bool)    { return record.StepsOf(pid) }
func (m *watched) Say(line string)                       { m.con.Say(line) }

// GPUs returns how much GPUs were in use, by a process of NVML that runs as long as the service does.
func (m *watched) GPUs() (list []watch.GPU) {
	if m.monitor == nil {
		m.monitor = gpumetrics.StartMonitor(invoker.Find())
	}
	uses, why := m.monitor.Look()
	if why != "" && why != m.unknown && !m.quiet {
		m.con.Say("how busy GPUs are between windows is not known: " + why)
	}
	m.unknown = why
	for _, u := range uses {
		list = append(list, watch.GPU{UUID: u.UUID, Busy: u.Busy, PIDs: u.PIDs, Unseen: u.Unseen})
	}
	return list
}

// mostThreads bounds the threads of a process whose states are read at each look.
const mostThreads = 256

// Threads counts the threads of a process by state.
func (m *watched) Threads(pid int) map[string]int {
	states, n := make(map[string]int), 0
	for tid := range procfs.Threads(uint32(pid)) {
		if stat, ok := procfs.StatOfThread(uint32(pid), tid); ok {
			states[stat.StateName()]++
		}
		if n++; n == mostThreads {
			break
		}
	}
	return states
}

// Stuck looks at processes as 'cudatrace stuck' does.
func (m *watched) Stuck(pids []int) map[int]string {
	pids = slices.DeleteFunc(pids, func(pid int) bool {
		_, running := procfs.StatOf(pid)
		return !running
	})
	if len(pids) == 0 {
		return nil
	}
	args := []string{stuckName, "--format", formatJSON}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	var text bytes.Buffer
	_, failed := m.run(nil, &text, args...)
	var report stuck.Report
	if err := json.Unmarshal(text.Bytes(), &report); err != nil {
		if !m.quiet && !m.over { // one has ended meanwhile, as a rule: the others are looked at again
			m.con.Say(fmt.Sprintf("why processes stand still is not known: %v", cmp.Or(failed, err)))
		}
		return nil
	}
	why := make(map[int]string)
	for _, p := range report.Processes {
		if p.Verdict.Outcome == stuck.Stuck {
			why[p.PID] = p.Verdict.Text
		}
	}
	return why
}

// Await waits, unless a signal comes or has come.
func (m *watched) Await(until time.Time) (over bool) {
	if !m.over {
		select {
		case <-time.After(time.Until(until)):
			m.over = len(m.signals) > 0 // of two that are ready, select takes any
		case <-m.signals:
			m.over = true
		}
	}
	return m.over
}

func (m *watched) end() {
	if m.monitor != nil {
		m.monitor.End()
	}
}

// slack is the time that a recording and a conversion may take beside the window.
const slack = 2 * time.Minute

// Record records processes once. It returns what the recording lacks.
func (m *watched) Record(pids []int, base string) (lacks string, err error) {
	args := []string{recordName, "--format", formatJSON, "--no-convert", "--calls", m.calls, "-d", m.length.String(),
		"-o", strings.ReplaceAll(base, "%", "%%")}
	if m.detach {
		args = append(args, "--detach")
	}
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	said, err := m.run(nil, io.Discard, args...)
	var made recordedJSON
	var failed failedJSON
	switch {
	case err != nil && json.Unmarshal([]byte(said), &failed) == nil && failed.Error != "":
		return "", errors.New(failed.Error)
	case err != nil:
		return "", err
	case json.Unmarshal([]byte(said), &made) != nil: // there is no log, or no summary of it
		if _, err := os.Lstat(base + record.LogSuffix); err != nil {
			return "", errors.New(said)
		}
		if !m.over { // else we have interrupted it
			m.con.Say(said)
		}
		return "", nil
	case made.Nothing != "" || made.Info == nil:
		return "", errors.New(cmp.Or(made.Nothing, said))
	case made.Log != base+record.LogSuffix: // the disk was full when it was to get its name
		return "", fmt.Errorf("the recording is not whole: %s", made.Log)
	case !made.Info.Complete && len(made.Info.Reasons) > 0:
		lacks = made.Info.Reasons[0]
	}
	return lacks, nil
}

// Convert makes of a window what is wanted of it.
func (m *watched) Convert(base string) (metrics string, err error) {
	log, user := base+record.LogSuffix, invoker.Find()
	for _, f := range m.formats {
		out := base + f.Suffix(output.Gzip)
		_, failed := m.run(user, io.Discard, convertName, log, "--format", f.Name, "-o", out)
		err = joinOnce(err, failed)
	}
	if m.metrics == "" {
		return "", err
	}
	var text bytes.Buffer
	_, failed := m.run(user, &text, statsName, log, "--format", "prom")
	return text.String(), joinOnce(err, failed)
}

// joinOnce joins an error with a further one, unless that says the same: what is wrong with a log, each command says.
func joinOnce(err, further error) error {
	if err != nil && further != nil && strings.Contains(err.Error(), further.Error()) {
		return err
	}
	return errors.Join(err, further)
}

// run runs a command of ours to its end, as a user. It returns the last line that it said.
func (m *watched) run(as *invoker.Invoker, stdout io.Writer, args ...string) (said string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.length+slack)
	defer cancel()
	var complaint lastLines
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Args[0] = "cudatrace"
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, &complaint, 10*time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// A Ctrl-C at the terminal is for us alone: a second signal would leave a recording unfinished.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true, Credential: as.Credential()}
	runtime.LockOSThread() // whose end the signal would come with
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
		m.over = m.over || len(m.signals) > 0 // which may have ended it, too
	case <-m.signals: // it ends, too, and what was recorded stays
		m.over = true
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		err = <-ended
	}
	for line := range strings.Lines(string(complaint.text)) {
		if strings.Contains(line, record.Stays) && !m.stays[line] && !m.quiet {
			m.con.Say(strings.TrimPrefix(strings.TrimSpace(line), "cudatrace: "))
			if len(m.stays) == mostStays {
				clear(m.stays)
			}
			m.stays[line] = true
		}
	}
	said = complaint.last()
	if ctx.Err() != nil {
		return said, fmt.Errorf("%s took longer than %s", args[0], m.length+slack)
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return said, fmt.Errorf("%s was killed (%s)", args[0], status.Signal())
	}
	if err != nil && said != "" {
		err = errors.New(said)
	}
	return said, err
}

// mostStays bounds the lines that are kept of processes, which come and go.
const mostStays = 1000

// lastLines keeps the end of a text.
type lastLines struct{ text []byte }

// mostSaid bounds it, in bytes: the summary of a recording is a line.
const mostSaid = 4 << 20

func (l *lastLines) Write(b []byte) (int, error) {
	l.text = append(l.text, b...)
	if len(l.text) > 2*mostSaid {
		l.text = slices.Clone(l.text[len(l.text)-mostSaid:])
	}
	return len(b), nil
}

// last is the last line, without our name.
func (l *lastLines) last() string {
	text := strings.TrimSpace(string(l.text))
	return strings.TrimPrefix(text[strings.LastIndexByte(text, '\n')+1:], "cudatrace: ")
}

// Export writes the metrics: the file is whole at any time.
func (m *watched) Export(metrics *prometheus.Metrics) error {
	if m.metrics == "" {
		return nil
	}
	target, err := outfile.At(m.metrics, outfile.Options{Named: true})
	if err != nil {
		return err
	}
	defer target.Close()
	_, err = output.File(target, metrics.Write)
	return err
}

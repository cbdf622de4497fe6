package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// A recording is converted by a process of its own, for two reasons. When memory runs out and that process is killed,
// the recorder still ends with the program's exit code and says what to do. Under sudo, what recorded processes have
// sent is read with the user's rights. The process gets open files and makes none: the recorder gives the trace its
// name.

// conversionCommand is the command of that process. Nobody types it.
const conversionCommand = "convert-recording"

// Descriptors of that process.
const (
	logFile   = 3
	traceFile = 4
)

// A conversionResult is what that process says, as JSON on its standard output.
type conversionResult struct {
	Summary convert.Summary
	First   firstLook
	Error   string
}

// runConversion is that process. Its argument reports whether there is a trace to write.
func runConversion(args []string, stdout io.Writer) error {
	log := os.NewFile(logFile, "log")
	var trace *os.File
	if len(args) > 0 && args[0] == "trace" {
		trace = os.NewFile(traceFile, "trace")
	}
	return json.NewEncoder(stdout).Encode(convertFiles(log, trace))
}

// A firstLook is what the reports of a recording say first; "" for nothing.
type firstLook struct {
	Busy, Finding, Try string
	Share              *float64 // Busy
}

// firstOf takes it from the reports.
func firstOf(tables []*table.Table) (f firstLook) {
	if _, profile := table.Find[stats.ProfileCells](tables); len(profile) > 0 && profile[0].BusyShare != nil {
		f.Share = profile[0].BusyShare
		f.Busy = table.Words(*f.Share, table.Share)
	}
	if _, findings := table.Find[stats.FindingCells](tables); len(findings) > 0 {
		x := findings[0]
		f.Finding, f.Try = figures.Clean(x.Title), figures.Clean(x.Try)
		if x.Cost != nil {
			f.Finding += "; " + x.Costs() + " " + figures.Duration(*x.Cost)
		}
		if x.Share != nil {
			f.Finding += ", " + table.Words(*x.Share, table.Share) + " of the time after start-up"
		}
	}
	return f
}

// convertFiles converts an open log; without a trace it only makes the summary. Both read the whole
// log once, and make the reports meanwhile.
func convertFiles(log, trace *os.File) (r conversionResult) {
	defer runtime.KeepAlive(log) // else it is closed when nothing refers to it
	var err error
	path := fmt.Sprintf("/proc/self/fd/%d", log.Fd())
	limitMemory(reportMemory)
	reports, logs := stats.New(), []convert.Log{convert.Path(path)}
	var all []convert.Summary
	if trace == nil {
		all, err = convert.Timeline(logs, convert.Options{Collectives: true}, reports)
	} else {
		all, err = convert.FilesTo(logs, trace, convert.TraceOptions{Compress: "gzip", Beside: reports})
	}
	if err == nil {
		r.Summary, r.First = all[0], firstOf(reports.Tables(statsFacts(logs, all)))
	}
	if err != nil {
		r.Error = strings.ReplaceAll(err.Error(), path, "the log")
	}
	return r
}

// errInterrupted says that a person did not want to wait for a conversion.
var errInterrupted = errors.New("the conversion was interrupted")

// interrupts returns the signals by which a person ends a conversion. It leaves out those that
// are ignored: a program that is recorded inherits that.
func interrupts() chan os.Signal {
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// convertRecording converts the log of a recording, unless a signal comes first. Without a trace it
// only makes the summary.
func convertRecording(log *os.File, trace *outfile.File, signals <-chan os.Signal) (conversionResult, error) {
	runtime.LockOSThread() // the process ends when this thread does
	defer runtime.UnlockOSThread()
	select {
	case <-signals: // one that ended the recording
	default:
	}
	var out *os.File
	if trace != nil {
		out = trace.File
	}
	var said, complaint strings.Builder
	cmd := conversionProcess(log, out)
	cmd.Stdout, cmd.Stderr = &said, &complaint
	r := conversionResult{}
	if err := cmd.Start(); err != nil {
		r = convertFiles(log, out) // here, then
	} else if r, err = awaitConversion(cmd, &said, &complaint, signals); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, conversionFailure(r.Error)
	}
	return r, nil
}

// A Failure says why a log could not be read, or why a trace could not be written.
type conversionFailure string

func (f conversionFailure) Error() string { return string(f) }

// conversionProcess prepares the process.
func conversionProcess(log, trace *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe", conversionCommand)
	cmd.Args[0] = "cudatrace"
	cmd.ExtraFiles = []*os.File{log}
	if trace != nil {
		cmd.Args = append(cmd.Args, "trace")
		cmd.ExtraFiles = append(cmd.ExtraFiles, trace)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: invoker.Find().Credential()}
	return cmd
}

// awaitConversion waits for the process, or ends it when a signal comes.
func awaitConversion(cmd *exec.Cmd, said, complaint fmt.Stringer, signals <-chan os.Signal) (r conversionResult,
	err error) {
	// When memory runs out, this process is the one to go. That it cannot be said does no harm.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-signals:
		_ = cmd.Process.Kill()
		<-ended
		return r, errInterrupted
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return r, errors.New("the conversion was killed, probably because memory ran out")
	case status.Signaled() && status.Signal() == syscall.SIGINT, status.Signaled() && status.Signal() == syscall.SIGQUIT:
		return r, errInterrupted // Ctrl-C reaches every process of the terminal
	case err != nil:
		first, _, _ := strings.Cut(complaint.String(), "\n") // of a crash
		return r, fmt.Errorf("the conversion failed: %w %s", err, first)
	}
	if err := json.Unmarshal([]byte(said.String()), &r); err != nil {
		return r, fmt.Errorf("the conversion said nothing: %w", err)
	}
	return r, nil
}

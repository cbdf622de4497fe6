package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An ending is one way in which a program ends, and what recording it gives.
type ending struct {
	mode     string
	code     int // the program's, 128+N after signal N
	reason   string
	open     uint64 // calls that had not returned
	running  uint64 // kernels that had not ended
	notWhole bool
	program  bool // also looked at as that of the program itself
}

// endings are the ways of `exits`, run with -c 7. What the recorder itself does at an end is the same for all signals.
var endings = []ending{
	{mode: "return", code: 7, reason: "exit", program: true},
	{mode: "exit", code: 7, reason: "exit"},
	{mode: "_exit", code: 7, reason: "_exit", program: true},
	{mode: "quick-exit", code: 7},
	{mode: "abort", code: 134, reason: "signal 6 (SIGABRT)"},
	{mode: "segv", code: 139, reason: "signal 11 (SIGSEGV)", program: true},
	{mode: "int", code: 130, reason: "signal 2 (SIGINT)"},
	{mode: "term", code: 143, reason: "signal 15 (SIGTERM)"},
	{mode: "hup", code: 129, reason: "signal 1 (SIGHUP)"},
	{mode: "kill", code: 137, reason: "signal 9 (SIGKILL)", notWhole: true, program: true},
	{mode: "exception", code: 134, reason: "signal 6 (SIGABRT)"},
	{mode: "exec", code: 7, reason: "exec", program: true},
	{mode: "thread-exit", code: 7, reason: "exit"},
	{mode: "fork-child", code: 7, reason: "exit", program: true},
	{mode: "daemon", code: 0, reason: "exit", program: true}, // the first process's code, the daemon has 7
	{mode: "device-reset", code: 7, reason: "exit"},
}

// recordExit records a program that may end in any way, in a process group of its own.
func recordExit(t *testing.T, code int, args ...string) recording {
	t.Helper()
	r := recording{base: filepath.Join(t.TempDir(), "run")}
	cmd := exec.Command("cudatrace", append([]string{"record", smallBuffer, "--no-convert", "-o", r.base}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	must.Do(t, cmd.Start())
	cmd.Wait() // the exit code says it
	r.stdout, r.stderr = stdout.String(), stderr.String()
	if got := exitStatusOf(cmd.ProcessState); got != code {
		t.Fatalf("exit code %d, want %d\n%s%s", got, code, r.stdout, r.stderr)
	}
	r.read(t, r.base+".cudatrace")
	return r
}

func exitStatusOf(s *os.ProcessState) int {
	if w := s.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// read takes the summary of a log, damaged or not.
func (r *recording) read(t *testing.T, log string) {
	t.Helper()
	out, _ := infoJSON(log) // the object says what is wrong
	if err := json.Unmarshal(out, &r.Summary); err != nil {
		t.Fatalf("info %s: %v\n%s", log, err, r.stderr)
	}
}

// check holds a recording against the way in which its program ended.
func (e *ending) check(t *testing.T, r *recording, n uint64) {
	t.Helper()
	if r.Launches != n {
		t.Errorf("%d launches, want %d", r.Launches, n)
	}
	if !e.notWhole && r.Kernels != n {
		t.Errorf("%d kernels, want %d", r.Kernels, n)
	}
	if r.Unmatched != 0 && !e.notWhole || r.Early != 0 || r.Damaged {
		t.Errorf("unmatched %d, early %d, damaged %t", r.Unmatched, r.Early, r.Damaged)
	}
	if r.Unfinished != e.open {
		t.Errorf("%d calls had not returned, want %d", r.Unfinished, e.open)
	}
	if want := !e.notWhole && e.running == 0; r.Complete != want {
		t.Errorf("complete %t, want %t: %q", r.Complete, want, r.Reasons)
	}
	if e.notWhole && !strings.Contains(strings.Join(r.Reasons, "\n"), e.reason) {
		t.Errorf("%q does not say %s", r.Reasons, e.reason)
	}
	if e.running != r.Lost["cupti_unfinished"] {
		t.Errorf("lost %v", r.Lost)
	}
	ended, said := fmt.Sprintf("exit code %d", e.code), fmt.Sprintf("exited with %d; ", e.code)
	if e.code > 128 {
		_, name, _ := strings.Cut(strings.TrimSuffix(e.reason, ")"), "(")
		ended, said = e.reason, "ended by "+name
	} else if e.code == 0 {
		said = ""
	}
	if !strings.HasPrefix(r.Ended, ended) || r.ExitStatus != e.code || !strings.Contains(r.stderr, "cudatrace: "+said) {
		t.Errorf("it ended by %q, status %d; the first line does not say %q", r.Ended, r.ExitStatus, said)
	}
	if t.Failed() {
		t.Log(r.stdout + r.stderr)
	}
}

// TestExits launches kernels, the last just before the program ends, in every way in which a program ends: ways that
// are the program's alone, and the others one after another in one recording.
func TestExits(t *testing.T) {
	t.Parallel()
	const n = 1000
	var script, codes strings.Builder
	var children []ending
	for _, e := range endings {
		if !e.program {
			children = append(children, e)
			fmt.Fprintf(&script, "%s %s -n %d -c 7 >&2; echo $?\n", sim("exits"), e.mode, n)
			fmt.Fprintln(&codes, e.code)
			continue
		}
		t.Run(e.mode, func(t *testing.T) {
			t.Parallel()
			r := recordExit(t, e.code, sim("exits"), e.mode, "-n", fmt.Sprint(n), "-c", "7")
			e.check(t, &r, n)
		})
	}
	t.Run("children", func(t *testing.T) {
		t.Parallel()
		r := recordExit(t, 0, "sh", "-c", script.String())
		all := uint64(n * len(children))
		if r.Launches != all || r.Kernels != all || r.Unmatched+r.Unfinished != 0 || !r.Complete {
			t.Errorf("%d launches, %d kernels of %d, %d unmatched, complete %t %q", r.Launches, r.Kernels, all, r.Unmatched,
				r.Complete, r.Reasons)
		}
		if r.stdout != codes.String() {
			t.Errorf("exit codes\n%s", r.stdout)
		}
		for i, e := range children {
			ended := fmt.Sprintf("exit code %d", e.code)
			if e.code > 128 {
				ended = e.reason
			}
			if i >= len(r.ProcessList) || !strings.HasPrefix(r.ProcessList[i].Ended, ended) {
				t.Fatalf("process %d did not end by %s: %+v", i, e.mode, r.ProcessList)
			}
		}
	})
}

// TestDeaths records processes that signals end: the program's own end is in the first line of the summary, the others have a line
// each.
func TestDeaths(t *testing.T) {
	t.Parallel()
	script := strings.ReplaceAll("EXITS segv; EXITS return; for i in 1 2 3 4 5 6; do EXITS kill; done; kill -HUP $$", "EXITS", sim("exits")+" -n 10")
	script = strings.ReplaceAll(script, " -n 10 ", " ")
	r := recordExit(t, 129, "sh", "-c", script)
	_, summary, _ := strings.Cut(r.stderr, "cudatrace: ended by SIGHUP; ")
	lines := strings.Split(summary, "\n")
	died := func(name string) string { return `^  process \d+ \(exits\) ended by ` + name + `$` }
	for i, want := range []string{"calls", died("SIGSEGV(, core dumped)?"), died("SIGKILL"), died("SIGKILL"), died("SIGKILL"), died("SIGKILL"), "^  a signal ended 2 more processes$"} {
		if i >= len(lines) || !regexp.MustCompile(want).MatchString(lines[i]) {
			t.Fatalf("line %d is not %s:\n%s", i, want, r.stderr)
		}
	}
	if r.Ended != "signal 1 (SIGHUP)" || r.ExitStatus != 129 || r.ProcessList[0].Main || !strings.HasPrefix(r.ProcessList[0].Ended, "signal 11 (SIGSEGV)") || r.ProcessList[1].Ended != "exit code 0" {
		t.Errorf("ended by %q, status %d; processes %+v", r.Ended, r.ExitStatus, r.ProcessList)
	}
}

// TestAttachedDeath records a process that is attached to, until a signal ends it.
func TestAttachedDeath(t *testing.T) {
	t.Parallel()
	program := exec.Command(sim("longrun"), long)
	must.Do(t, program.Start())
	b := startInBackground(t, "--flush-interval", "50ms", "-p", fmt.Sprint(program.Process.Pid))
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "Ctrl-C stops") })
	program.Process.Kill()
	_ = program.Wait()
	got := b.end(t)
	b.read(t, b.base+".cudatrace")
	if got != 0 || !strings.Contains(b.recording.stderr, "cudatrace: ended by SIGKILL; ") || b.Ended != "signal 9 (SIGKILL)" {
		t.Errorf("exit code %d, ended by %q\n%s", got, b.Ended, b.recording.stderr)
	}
	lacks := fmt.Sprintf("only calls are recorded of longrun (%d), which 'cudatrace run --armed' did not start", program.Process.Pid)
	before, _, _ := strings.Cut(b.recording.stderr, "Ctrl-C stops")
	again := "start it anew: cudatrace run --armed " + program.Path + " " + long + "\n"
	if !strings.Contains(before, lacks) || !strings.Contains(before, again) ||
		strings.Contains(b.recording.stderr, "every kernel") || strings.Contains(b.recording.stderr, "findings") {
		t.Errorf("what it lacks is not said before, or offered afterwards:\n%s", b.recording.stderr)
	}
}

// TestExitsWithoutProbes ends programs where calls come from CUPTI. The ways that the injected library sees by itself
// are those of record/internal/cupti's TestExits.
func TestExitsWithoutProbes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"_exit", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := recordExit(t, 7, "--calls", "cupti", sim("exits"), mode, "-n", "1000", "-c", "7")
			checkUnasked(t, &r, mode)
		})
	}
}

// checkUnasked holds a recording against a program that could not be asked for its last records: its log is not complete, and says why
// and what to do.
func checkUnasked(t *testing.T, r *recording, by string) {
	t.Helper()
	want := regexp.MustCompile(`^process \d+ ended before its last records were handed over, by ` + by + `(: GPU work of its last \S+ may be missing)?` +
		` \(the default --calls, with the rights for probes, has _exit and exec wait for them\)$`)
	if r.Complete || len(r.Reasons) != 1 || !want.MatchString(r.Reasons[0]) || !strings.Contains(r.stderr, r.Reasons[0]) {
		t.Errorf("complete %t, because %q\n%s", r.Complete, r.Reasons, r.stderr)
	}
	if dump := r.dump(t); !regexp.MustCompile(`(?m)^note .* by ` + by).MatchString(dump) {
		t.Errorf("no note for the trace:\n%s", dump)
	}
}

// TestExitsByHandler ends programs through handlers of their own, installed before CUDA's start or after it, which
// call _exit. record/internal/cupti's TestOwnHandlers has the other signals.
func TestExitsByHandler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, when string
		code       int
	}{{"int", "--handlers", 102}, {"segv", "--handlers-late", 111}} {
		t.Run(c.mode+c.when, func(t *testing.T) {
			t.Parallel()
			r := recordExit(t, c.code, sim("exits"), c.mode, "-n", "1000", c.when)
			e := ending{mode: c.mode, code: c.code, reason: "_exit"}
			e.check(t, &r, 1000)
			if !strings.Contains(r.stdout, "handled\n") {
				t.Errorf("the program's handler did not run:\n%s", r.stdout)
			}
		})
	}
}

// TestExitsOfGroup has the signal go to the recorder as well, as Ctrl-C does.
func TestExitsOfGroup(t *testing.T) {
	t.Parallel()
	e := ending{mode: "int", code: 130, reason: "signal 2 (SIGINT)"}
	r := recordExit(t, e.code, sim("exits"), e.mode, "-n", "1000", "--group")
	e.check(t, &r, 1000)
}

// A background is a recording under way.
type background struct {
	recording
	cmd            *exec.Cmd
	stdout, stderr string // files
}

// recordInBackground starts a recording and returns when the program has printed
// something.
func recordInBackground(t *testing.T, args ...string) *background {
	t.Helper()
	b := startInBackground(t, args...)
	b.until(t, func() bool { return b.out(t) != "" })
	return b
}

func startInBackground(t *testing.T, args ...string) *background {
	t.Helper()
	return startRecorder(t, nil, args...)
}

// startRecorder starts a recording with further environment variables.
func startRecorder(t *testing.T, env []string, args ...string) *background {
	t.Helper()
	b := prepareInBackground(t, args...)
	b.cmd.Env = append(os.Environ(), env...)
	must.Do(t, b.cmd.Start())
	return b
}

// prepareInBackground prepares a recording.
func prepareInBackground(t *testing.T, args ...string) *background {
	t.Helper()
	dir := t.TempDir()
	b := &background{recording: recording{base: filepath.Join(dir, "run")}, stdout: filepath.Join(dir, "out"), stderr: filepath.Join(dir, "err")}
	out, err1 := os.Create(b.stdout)
	errs, err2 := os.Create(b.stderr)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	t.Cleanup(func() { out.Close(); errs.Close() })
	b.cmd = exec.Command("cudatrace", append([]string{"record", smallBuffer, "--no-convert", "-o", b.base}, args...)...)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	b.cmd.Stdout, b.cmd.Stderr = out, errs
	t.Cleanup(func() {
		if b.cmd.Process != nil {
			syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
			b.cmd.Wait()
		}
	})
	return b
}

func (b *background) out(t *testing.T) string { return contents(t, b.stdout) }

func contents(t *testing.T, path string) string {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return string(data)
}

// until waits for something that has to happen.
func (b *background) until(t *testing.T, happened func() bool) {
	t.Helper()
	must.Wait(t, happened, func() string { return "it did not happen\n" + b.out(t) + contents(t, b.stderr) })
}

// onDisk waits until what of the log is on disk holds something.
func (b *background) onDisk(t *testing.T, holds func(convert.Summary) bool) {
	t.Helper()
	b.until(t, func() bool {
		logs, err := filepath.Glob(b.base + ".cudatrace.partial-*")
		if err != nil || len(logs) != 1 {
			return false
		}
		out, _ := infoJSON(logs[0]) // a log that grows is not complete
		var s convert.Summary
		return json.Unmarshal(out, &s) == nil && holds(s)
	})
}

// isSampler reports whether a child of the recorder is the process that samples GPUs, or will be.
func (b *background) isSampler(pid int) bool {
	file := procfs.Describe(pid).Executable
	return strings.Contains(file, "memfd:cudatrace-gpu") || file == procfs.Describe(b.cmd.Process.Pid).Executable
}

// program is the PID of the program that the recorder has started. The recorder has one more child
// while it measures the cost of a probed call.
func (b *background) program(t *testing.T) int {
	t.Helper()
	var pids []int
	b.until(t, func() bool {
		pids = slices.DeleteFunc(children(t, b.cmd.Process.Pid), func(pid int) bool { return b.isSampler(pid) })
		return len(pids) == 1
	})
	return pids[0]
}

// end waits for the recorder and gives its exit code.
func (b *background) end(t *testing.T) int {
	t.Helper()
	b.cmd.Wait() // the exit code says it
	b.recording.stdout, b.recording.stderr = b.out(t), contents(t, b.stderr)
	return exitStatusOf(b.cmd.ProcessState)
}

// TestHang ends a program that hangs in a call, by Ctrl-C or by SIGKILL: the call is in the log, and so is every
// kernel, the one that never ends among them. Until then stuck says what it waits for.
func TestHang(t *testing.T) {
	t.Parallel()
	for source, signal := range map[string]syscall.Signal{"uprobe": syscall.SIGINT, "cupti": syscall.SIGKILL} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			checkHang(t, source, signal)
		})
	}
}

func checkHang(t *testing.T, source string, code syscall.Signal) {
	const n = 1000
	b := recordInBackground(t, "--calls", source, "--flush-interval", "100ms", sim("exits"), "hang", "-n", fmt.Sprint(n))
	// All but the hanging kernel are handed over, and behind the last launch there is only
	// the call that hangs.
	b.onDisk(t, func(s convert.Summary) bool { return s.Kernels == n-1 && s.Launches == n })
	program := b.program(t)
	b.until(t, hangs(t, program))
	// The log has the call before it returns, and at the end once.
	b.onDisk(t, func(s convert.Summary) bool { return s.Unfinished == 1 && len(s.Hangs) == 1 })
	checkStuckKernel(t, source, program)
	if code == syscall.SIGINT {
		syscall.Kill(-b.cmd.Process.Pid, code)
	} else {
		syscall.Kill(program, code)
	}
	if got := b.end(t); got != 128+int(code) {
		t.Errorf("exit code %d\n%s", got, b.recording.stderr)
	}
	b.read(t, b.base+".cudatrace")
	e := ending{mode: "hang", code: 130, reason: "signal 2 (SIGINT)", open: 1, running: 1}
	if code == syscall.SIGKILL {
		e = ending{mode: "hang", code: 137, reason: "signal 9 (SIGKILL)", open: 1, notWhole: true}
		if b.Kernels != n-1 {
			t.Errorf("%d kernels, want all but the last of %d", b.Kernels, n)
		}
	}
	e.check(t, &b.recording, n)
	kernel := "kernel last"
	if source == "cupti" && code == syscall.SIGKILL {
		kernel = "a kernel" // its name comes with its record
	}
	if said := b.recording.stderr; !strings.Contains(said, "hang: "+kernel+" has run for ") || !strings.Contains(said, " has been in cudaStreamSynchronize for ") {
		t.Errorf("the hang is not described:\n%s", said)
	}
	if dump := b.dump(t); !strings.Contains(dump, "cudaStreamSynchronize") {
		t.Error("the call that hangs is not in the log")
	}
}

// TestHangOfGraph kills a program that hangs while it launches a graph. Only the entries of these launches are probed: each is
// one call, with its arguments, whether CUPTI has its record or not, and the one that hangs is known.
func TestHangOfGraph(t *testing.T) {
	t.Parallel()
	b := startRecorder(t, []string{"CUDASIM_HANG_AFTER=100"}, "--no-convert", "--flush-interval", "100ms", sim("graphs"), "-n", "300000")
	b.onDisk(t, func(s convert.Summary) bool { return s.Unfinished == 1 && len(s.Hangs) == 1 })
	syscall.Kill(b.program(t), syscall.SIGKILL)
	b.end(t)
	b.read(t, b.base+".cudatrace")
	var entries, others uint64
	for line := range strings.Lines(b.dump(t)) {
		switch {
		case !strings.HasPrefix(line, "call ") || !strings.Contains(line, " func=cuGraphLaunch "):
		case strings.Contains(line, " flags=0x4 ") && strings.Contains(line, " graphExec=0x"):
			entries++
		default:
			others++
		}
	}
	if launches := b.Functions["cudaGraphLaunch"]; launches < 100 || entries != launches || others != 0 || b.Unfinished != 1 {
		t.Errorf("%d launches of graphs, %d unfinished; %d entries and %d other calls", launches, b.Unfinished, entries, others)
	}
	if said := b.recording.stderr; !strings.Contains(said, "hang: kernel tick has run for ") || !strings.Contains(said, " has been in cudaGraphLaunch for ") {
		t.Errorf("the hang is not described:\n%s", said)
	}
}

// hangs returns a function that reports whether a process has slept on through ten looks: a thread that launches may sleep for a moment.
func hangs(t *testing.T, pid int) func() bool {
	switches, looks := 0, 0
	return func() bool {
		if n := sleepsSoFar(t, pid); !sleeps(t, pid) || n != switches {
			switches, looks = n, 0
			return false
		}
		looks++
		return looks >= 10
	}
}

func (r *recording) dump(t *testing.T) string {
	t.Helper()
	out := must.Get(exec.Command("cudatrace", "dump", r.base+".cudatrace").Output())(t)
	return string(out)
}

// sleeps reports whether the first thread of a process waits for something.
func sleeps(t *testing.T, pid int) bool {
	t.Helper()
	stat := contents(t, fmt.Sprintf("/proc/%d/stat", pid))
	return strings.HasPrefix(stat[strings.LastIndexByte(stat, ')'):], ") S")
}

// children lists the processes that a recorder has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil || len(lists) == 0 {
		t.Fatalf("the children of %d are not known: %v", pid, err)
	}
	for _, list := range lists {
		for _, f := range strings.Fields(contents(t, list)) {
			child := must.Get(strconv.Atoi(f))(t)
			pids = append(pids, child)
		}
	}
	return pids
}

// TestSecondInterrupt ends a program at once that hangs while its last records are
// handed over.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	b := recordInBackground(t, sim("exits"), "hang", "-n", "1000")
	began := time.Now()
	for range 3 {
		for _, pid := range children(t, b.cmd.Process.Pid) {
			syscall.Kill(pid, syscall.SIGINT)
		}
	}
	if got := b.end(t); got != 130 {
		t.Errorf("exit code %d\n%s", got, b.recording.stderr)
	}
	t.Logf("ended after %v", time.Since(began))
}

// TestPIDAgain records programs that get each other's PID, one after the other: each has its own end and its own work.
func TestPIDAgain(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	const script = `for how in segv exit term _exit abort; do echo 5000 >/proc/sys/kernel/ns_last_pid; "$0" $how -n 200 & wait $!; done; exit 0`
	base := filepath.Join(t.TempDir(), "run")
	var s convert.Summary
	var out []byte
	again := false
	for try := 0; try < 10 && !again; try++ { // the recorder's own threads may get the number
		var err error
		out, err = exec.Command("unshare", "--pid", "--fork", "--mount-proc", "cudatrace", "record", "--no-convert", "-o", base, "sh", "-c", script, sim("exits")).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if s, err = summarize(base + ".cudatrace"); err != nil {
			t.Fatal(err)
		}
		again = !slices.ContainsFunc(s.ProcessList, func(p convert.ProcessInfo) bool { return p.PID != 5001 })
	}
	if !again {
		t.Skip("no program got the PID of the one before")
	}
	// Of one that exits the status is not known: the kernel told it when the PID had its next program.
	want := []string{"signal 11 (SIGSEGV)", "", "signal 15 (SIGTERM)", "", "signal 6 (SIGABRT)"}
	for i, p := range s.ProcessList {
		if i < len(want) && p.Ended != want[i] && (want[i] != "" || !strings.HasPrefix(p.Ended, "exit code")) {
			t.Errorf("program %d ended by %q, want %q", i, p.Ended, want[i])
		}
	}
	if len(s.ProcessList) != len(want) || s.Kernels < 800 || strings.Contains(string(out), "not recorded") {
		t.Errorf("%d programs with %d kernels\n%s", len(s.ProcessList), s.Kernels, out)
	}
}

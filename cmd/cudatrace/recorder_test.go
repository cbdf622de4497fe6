package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/must"
)

// long is more seconds than any of these tests takes: the program runs until it is told to end.
const long = "600"

// endProgram has a program that has outlived its recorder go on for a while and end by itself,
// and returns how many kernels it has launched in all.
func (b *background) endProgram(t *testing.T) (kernels uint64) {
	t.Helper()
	pid := longrunPID(t, b.out(t))
	b.goesOn(t, pid)
	syscall.Kill(pid, syscall.SIGTERM)
	b.until(t, func() bool { return strings.Contains(b.out(t), "counts ") })
	kernels, _, _ = counts(t, b.out(t))
	return kernels
}

// goesOn waits until longrun has launched a few kernels more: it sleeps after each.
func (b *background) goesOn(t *testing.T, pid int) {
	t.Helper()
	before := sleepsSoFar(t, pid)
	b.until(t, func() bool { return sleepsSoFar(t, pid) >= before+5 })
}

// sleepsSoFar is how often the first thread of a process has waited for something.
func sleepsSoFar(t *testing.T, pid int) int {
	t.Helper()
	var n int
	_, line, _ := strings.Cut(contents(t, fmt.Sprintf("/proc/%d/status", pid)), "\nvoluntary_ctxt_switches:")
	must.Get(fmt.Sscan(line, &n))(t)
	return n
}

// longrunPID is the PID that longrun printed.
func longrunPID(t *testing.T, printed string) (pid int) {
	t.Helper()
	must.Get(fmt.Sscanf(printed, "longrun: pid %d", &pid))(t)
	return pid
}

// some reports whether a log holds the work of some time.
func some(s convert.Summary) bool { return s.Kernels >= 100 }

// TestRecorderIsStopped ends the recorder by a signal: log and trace are completed, and
// the program lives on.
func TestRecorderIsStopped(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			b := recordInBackground(t, "--flush-interval", "50ms", sim("longrun"), long)
			b.onDisk(t, some)
			b.cmd.Process.Signal(signal)
			if got := b.end(t); got != 128+int(signal) {
				t.Errorf("exit code %d", got)
			}
			b.read(t, b.base+".cudatrace")
			if b.Kernels == 0 || b.Unmatched != 0 || b.Damaged || lostWork(&b.Summary) != 0 {
				t.Errorf("%d kernels, unmatched %d, damaged %t, lost %v\n%s", b.Kernels, b.Unmatched, b.Damaged, b.Lost, b.recording.stderr)
			}
			if kernels := b.endProgram(t); kernels <= b.Kernels {
				t.Errorf("%d kernels of %d: the program did not go on", b.Kernels, kernels)
			}
		})
	}
}

// TestRecorderIsKilled kills the recorder: the program goes on to its end, what reached
// the disk converts, a recorder that is started at once works, and it removes what the
// first left behind.
func TestRecorderIsKilled(t *testing.T) {
	t.Parallel()
	b := recordInBackground(t, "--flush-interval", "50ms", sim("longrun"), long)
	b.onDisk(t, some)
	b.cmd.Process.Kill()
	b.end(t)
	left := libraryFolder(t, b.out(t))
	again := recordProgram(t, "--no-convert", sim("vectoradd"))
	again.whole(t)
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s, of the recorder that was killed, is still there", left)
	}
	partial, err := filepath.Glob(b.base + ".cudatrace.partial-*")
	if err != nil || len(partial) != 1 {
		t.Fatalf("partial logs %v, %v", partial, err)
	}
	b.read(t, partial[0])
	if b.Kernels < 100 || b.Complete || !b.Damaged || !strings.Contains(strings.Join(b.Reasons, " "), "complete up to") {
		t.Errorf("%d kernels, complete %t %q, damaged %t", b.Kernels, b.Complete, b.Reasons, b.Damaged)
	}
	if b.CompleteUntil == 0 || b.CompleteUntil > b.DurationNS {
		t.Errorf("complete until %d ns of %d", b.CompleteUntil, b.DurationNS)
	}
	if err := exec.Command("cudatrace", "convert", partial[0], "-o", b.base+".pftrace").Run(); err == nil {
		t.Error("converting a log that was not finished succeeds without a word")
	}
	if _, err := os.Stat(b.base + ".pftrace"); err != nil {
		t.Errorf("what reached the disk does not convert: %v", err)
	}
	b.endProgram(t)
}

// libraryFolder is where the injected library of a running program is.
func libraryFolder(t *testing.T, printed string) string {
	t.Helper()
	environ := contents(t, fmt.Sprintf("/proc/%d/environ", longrunPID(t, printed)))
	for _, e := range strings.Split(environ, "\x00") {
		if path, ok := strings.CutPrefix(e, "CUDA_INJECTION64_PATH="); ok {
			return filepath.Dir(path)
		}
	}
	t.Fatal("the library is not in the program's environment")
	return ""
}

// TestRecorderIsSuspended stops the recorder while a program launches more than the
// buffers hold: what had to go is counted, call by call and record by record.
func TestRecorderIsSuspended(t *testing.T) {
	t.Parallel()
	b := recordTold(t, "", "--calls", "uprobe", "--flush-interval", "10ms", "--call-buffer", "64K", "--memory-limit", "1M")
	b.tell(t, "launch 1")
	b.cmd.Process.Signal(syscall.SIGSTOP)
	b.tell(t, "launch 30000")
	b.cmd.Process.Signal(syscall.SIGCONT)
	b.finish(t)
	b.read(t, b.base+".cudatrace")
	whole := recordProgram(t, "--no-convert", "--calls", "uprobe",
		"sh", "-c", "(echo launch 1; echo launch 30000) | "+sim("told"))
	if lost := b.Lost["ring_buffer"]; lost == 0 || b.Pairs+lost != whole.Pairs {
		t.Errorf("%d calls and %d lost are not %d", b.Pairs, lost, whole.Pairs)
	}
	lost := lostWork(&b.Summary) - b.Lost["ring_buffer"]
	if missing := whole.Kernels + whole.APIRecords - b.Kernels - b.APIRecords; lost < missing || missing > 0 && lost == 0 {
		t.Errorf("of %d missing GPU and API records %d are said to be lost: %v", missing, lost, b.Lost)
	}
	if b.Complete || !strings.Contains(b.recording.stderr, "--call-buffer") || strings.Contains(b.recording.stderr, "another CUPTI client") {
		t.Errorf("complete %t; the option that avoids it is not named, or a CUPTI client that there is not:\n%s", b.Complete, b.recording.stderr)
	}
}

// TestVanishedFolder removes the folder of the log while recording: the program ends
// by itself and the loss is said.
func TestVanishedFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "here")
	must.Do(t, os.Mkdir(dir, 0o700))
	b := recordInBackground(t, "-o", filepath.Join(dir, "run"), sim("longrun"), long)
	must.Do(t, os.RemoveAll(dir))
	b.goesOn(t, b.program(t))
	syscall.Kill(b.program(t), syscall.SIGTERM)
	want := "cudatrace: the log is lost: its folder " + dir + " was removed while recording\n"
	if got := b.end(t); got != 0 || !strings.Contains(b.recording.stderr, want) {
		t.Errorf("exit code %d\n%s", got, b.recording.stderr)
	}
	counts(t, b.out(t)) // it ended by itself
}

// TestFullDisk records onto a disk that is too small: the program runs to its end, what
// did not fit is said and counted, and what did is readable.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("unshare is not installed")
	}
	for name, c := range map[string]struct {
		limit, options string
		launches       uint64 // more for a limit of files: shared memory keeps to it, too, so it cannot be as small as a disk
		soon           bool   // it is full long before the recording ends
	}{
		"full": {limit: `mount -t tmpfs -o size=32k tmpfs "$1"`, options: "--flush-interval 10ms",
			launches: 100_000, soon: true},
		"full, last": {limit: `mount -t tmpfs -o size=100k tmpfs "$1"`, options: "--last 1h --no-convert",
			launches: 40_000},
		"file limit, last": {limit: `ulimit -f 800`, options: "--last 1h --no-convert", launches: 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := recordOnFullDisk(t, c.limit, c.options, c.launches)
			if c.soon && !strings.Contains(said, "cannot write ") {
				t.Errorf("nothing is said while recording:\n%s", said)
			}
		})
	}
}

// recordOnFullDisk records where a command of the shell leaves too little room. The summary and the log say how much is missing.
// It returns what is said.
func recordOnFullDisk(t *testing.T, limit, options string, launches uint64) (said string) {
	t.Helper()
	dir, disk := t.TempDir(), t.TempDir()
	script := limit + ` && cudatrace record ` + options + ` -o "$1/run" "$2" -n "$4"; echo "code $?"; cp "$1"/run.cudatrace "$3/full"`
	cmd := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", disk, sim("launchloop"), dir, fmt.Sprint(launches))
	out := must.Run(t, cmd)
	var r recording
	r.read(t, filepath.Join(dir, "full"))
	if lost := r.Lost["log_write"]; r.Damaged || r.Complete || lost < launches-r.Kernels {
		t.Errorf("%d kernels of %d, %d records lost, complete %t, damaged %t", r.Kernels, launches, lost, r.Complete, r.Damaged)
	}
	said = string(out)
	for _, want := range []string{"code 0\n", figures.Group(r.Lost["log_write"]) + " log_write", "remedy: the log could not be written: free space"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said", want)
		}
	}
	if strings.Contains(said, "whole") || t.Failed() {
		t.Errorf("said\n%s", said)
	}
	return said
}

// TestClosedPipe records with nobody reading what is said.
func TestClosedPipe(t *testing.T) {
	t.Parallel()
	base := filepath.Join(t.TempDir(), "run")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cudatrace", "record", "-o", base, sim("vectoradd"))
	cmd.Stderr = write
	read.Close()
	if err := cmd.Run(); err != nil {
		t.Errorf("the program's exit code is not kept: %v", err)
	}
	write.Close()
	r := recording{base: base}
	r.read(t, base+".cudatrace")
	r.whole(t)
}

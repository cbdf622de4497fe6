package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// stopConversion waits until a process converts its recording, and stops the conversion, so that it is
// not ready before the test ends it. It returns the conversion's PID, 0 if the process ended first.
func stopConversion(recorder int) int {
	for {
		all, _ := filepath.Glob("/proc/[0-9]*")
		for _, dir := range all {
			pid := conversionPID(filepath.Base(dir))
			if _, parent, ok := processState(pid); ok && parent == recorder && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				return pid
			}
		}
		if state, _, ok := processState(recorder); !ok || state == 'Z' {
			return 0
		}
	}
}

// conversionPID is the number of a process if it converts a recording, else 0.
func conversionPID(pid string) (n int) {
	line, err := os.ReadFile("/proc/" + pid + "/cmdline")
	if args := strings.Split(string(line), "\x00"); err != nil || len(args) < 2 || args[1] != conversionCommand {
		return 0
	}
	if _, err := fmt.Sscan(pid, &n); err != nil {
		return 0
	}
	return n
}

// processState is the state of a process, and its parent.
func processState(pid int) (state byte, parent int, ok bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	_, err = fmt.Sscanf(rest, "%c %d", &state, &parent)
	return state, parent, err == nil
}

// TestConversionIsEnded ends the conversion at the end of a recording: no part of the trace is left, one
// line says that the log is whole and how to convert it, and the exit code is the program's.
func TestConversionIsEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		signal      syscall.Signal
		toRecorder  bool
		withoutName bool
		why         string
	}{
		"interrupted":      {syscall.SIGINT, true, false, "the conversion was interrupted"},
		"terminated":       {syscall.SIGTERM, true, false, "the conversion was interrupted"},
		"killed":           {syscall.SIGKILL, false, false, "the conversion was killed, probably because memory ran out"},
		"killed, no trace": {syscall.SIGKILL, false, true, "the conversion was killed, probably because memory ran out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for !endConversion(t, c.signal, c.toRecorder, c.withoutName, c.why) { // it was ready before we came
			}
		})
	}
}

// endConversion records a program and ends the conversion. It returns false if the conversion was ready
// before.
func endConversion(t *testing.T, signal syscall.Signal, toRecorder, summaryOnly bool, why string) bool {
	t.Helper()
	dir := t.TempDir()
	args := []string{"record", "-o", "run", "sh", "-c", sim("launchloop") + " -n 3000; exit 7"}
	if summaryOnly {
		args = slices.Insert(args, 1, "--no-convert")
	}
	cmd := exec.Command("cudatrace", args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := stopConversion(cmd.Process.Pid)
	if pid > 0 && toRecorder {
		cmd.Process.Signal(signal)
	} else if pid > 0 {
		syscall.Kill(pid, signal)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d\n%s", got, &stderr)
	}
	if pid == 0 {
		return false
	}
	remedy := "'cudatrace convert run.cudatrace' makes the trace"
	if summaryOnly {
		remedy = "'cudatrace info run.cudatrace' summarizes it"
	}
	if want := "cudatrace: " + why + "; the log is whole: run.cudatrace; " + remedy + "\n"; stderr.String() != want {
		t.Errorf("said %q, want %q", &stderr, want)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	var r recording
	r.read(t, filepath.Join(dir, "run.cudatrace"))
	if r.Kernels != 3000 || !r.Complete {
		t.Errorf("%d kernels, complete %t %q", r.Kernels, r.Complete, r.Reasons)
	}
	return true
}

// TestConvertIsInterrupted interrupts convert while it reads the log: nothing of the trace is left.
func TestConvertIsInterrupted(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"perfetto", "chrome"} {
		for !interruptConvert(t, format) { // it was ready before we came
		}
	}
}

// interruptConvert interrupts convert. It returns false if the trace was ready before.
func interruptConvert(t *testing.T, format string) bool {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(root, "testdata/gpu/logs/train.cudatrace")
	cmd := exec.Command("cudatrace", "convert", log, "-o", "x.pftrace", "--format", format)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for state := byte('R'); state != 'Z' && !hasOpen(cmd.Process.Pid, log); state, _, _ = processState(cmd.Process.Pid) {
	}
	cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(dir, "x.pftrace")); err == nil {
		return false
	}
	if code := cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	if want := "cudatrace: the conversion was interrupted and wrote nothing; the log is as it was: " + log + "\n"; stderr.String() != want {
		t.Errorf("said %q, want %q", &stderr, want)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	return true
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, path string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && to == path
	})
}

// TestSudoConversion looks at the process that converts a recording under sudo: it runs as the user.
func TestSudoConversion(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	for !lookAtConversion(t) { // it was ready before we came
	}
}

// lookAtConversion records under sudo and looks at the conversion. It returns false if the conversion
// was ready before.
func lookAtConversion(t *testing.T) bool {
	t.Helper()
	dir, err := os.MkdirTemp("", "cudatrace-sudo-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cudatrace", "record", "-o", filepath.Join(dir, "run"), sim("launchloop"), "-n", "3000")
	cmd.Env = append(os.Environ(), sudoByNobody...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := stopConversion(cmd.Process.Pid)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	if pid == 0 {
		return false
	}
	if !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") {
		t.Errorf("the conversion runs as another user:\n%s", status)
	}
	for _, suffix := range []string{".cudatrace", ".pftrace"} {
		var s syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, "run"+suffix), &s); err != nil || s.Uid != 65534 {
			t.Errorf("%s belongs to user %d, %v\n%s", suffix, s.Uid, err, &stderr)
		}
	}
	return true
}

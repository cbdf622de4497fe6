package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// A convertedRecording is a recorder of a program that begins once it is told to.
type convertedRecording struct {
	*exec.Cmd
	stderr strings.Builder
}

// startConverted starts a recording of 3,000 launches by a copy of cudatrace and stops its conversion before that has
// done anything: the kernel asks here before the copy is run. It returns the conversion's PID.
func startConverted(t *testing.T, dir string, env []string, options ...string) (r *convertedRecording, conversion int) {
	t.Helper()
	found := must.Get(exec.LookPath("cudatrace"))(t)
	of := filepath.Join(t.TempDir(), "cudatrace")
	copyProgram(t, found, of)
	program := []string{"sh", "-c", "read line; " + sim("launchloop") + " -n 3000; exit 7"}
	r = &convertedRecording{Cmd: exec.Command(of, slices.Concat([]string{"record", "-o", "run"}, options, program)...)}
	r.Dir, r.Stderr, r.Env = dir, &r.stderr, append(os.Environ(), env...)
	in, err := r.StdinPipe()
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_CONTENT|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		t.Fatalf("fanotify: %v", err)
	}
	fan := os.NewFile(uintptr(fd), "fanotify")
	defer fan.Close() // what waits may run then
	if err := unix.FanotifyMark(fd, unix.FAN_MARK_ADD, unix.FAN_OPEN_EXEC_PERM, unix.AT_FDCWD, of); err != nil {
		t.Fatalf("fanotify: %v", err)
	}
	in.Close()
	for {
		pid := stopAtExec(t, fan)
		if conversionPID(fmt.Sprint(pid)) == pid {
			return r, pid
		}
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}

// stopAtExec lets the next process run the file that fan asks about, and returns its PID once it is stopped there.
func stopAtExec(t *testing.T, fan *os.File) int {
	t.Helper()
	var e unix.FanotifyEventMetadata
	asked := make([]byte, unsafe.Sizeof(e))
	must.Do(t, fan.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := io.ReadFull(fan, asked); err != nil {
		t.Fatalf("no conversion is run: %v", err)
	}
	must.Do(t, binary.Read(bytes.NewReader(asked), binary.NativeEndian, &e))
	defer unix.Close(int(e.Fd))
	pid := int(e.Pid)
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	must.Do(t, binary.Write(fan, binary.NativeEndian, unix.FanotifyResponse{Fd: e.Fd, Response: unix.FAN_ALLOW}))
	for state, ok := byte(0), true; ok && state != 'T'; state, _, ok = processState(pid) {
		time.Sleep(time.Millisecond)
	}
	return pid
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
		"killed":           {syscall.SIGKILL, false, false, "the conversion was killed, probably because memory ran out"},
		"killed, no trace": {syscall.SIGKILL, false, true, "the conversion was killed, probably because memory ran out"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endConversion(t, c.signal, c.toRecorder, c.withoutName, c.why)
		})
	}
}

// endConversion records a program and ends the conversion.
func endConversion(t *testing.T, signal syscall.Signal, toRecorder, summaryOnly bool, why string) {
	t.Helper()
	dir := t.TempDir()
	var options []string
	if summaryOnly {
		options = []string{"--no-convert"}
	}
	cmd, pid := startConverted(t, dir, nil, options...)
	if toRecorder {
		pid = cmd.Process.Pid
	}
	if err := syscall.Kill(pid, signal); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("exit code %d\n%s", got, &cmd.stderr)
	}
	remedy := "to make the trace: cudatrace convert run.cudatrace"
	if summaryOnly {
		remedy = "to summarize it: cudatrace info run.cudatrace"
	}
	if want := "cudatrace: " + why + "; the log is whole: run.cudatrace; " + remedy + "\n"; cmd.stderr.String() != want {
		t.Errorf("said %q, want %q", &cmd.stderr, want)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
	var r recording
	r.read(t, filepath.Join(dir, "run.cudatrace"))
	if r.Kernels != 3000 || !r.Complete {
		t.Errorf("%d kernels, complete %t %q", r.Kernels, r.Complete, r.Reasons)
	}
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
	must.Do(t, cmd.Start())
	for state := byte('R'); state != 'Z' && !hasOpen(cmd.Process.Pid, log); state, _, _ = processState(cmd.Process.Pid) {
		time.Sleep(100 * time.Microsecond)
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
	must.BeRoot(t)
	dir := must.Get(os.MkdirTemp("", "cudatrace-sudo-"))(t)
	defer os.RemoveAll(dir)
	must.Do(t, os.Chown(dir, 65534, 65534))
	cmd, pid := startConverted(t, dir, sudoByNobody)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_ = syscall.Kill(pid, syscall.SIGCONT)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d\n%s", code, &cmd.stderr)
	}
	if !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") {
		t.Errorf("the conversion runs as another user:\n%s", status)
	}
	for _, suffix := range []string{".cudatrace", ".pftrace"} {
		var s syscall.Stat_t
		if err := syscall.Stat(filepath.Join(dir, "run"+suffix), &s); err != nil || s.Uid != 65534 {
			t.Errorf("%s belongs to user %d, %v\n%s", suffix, s.Uid, err, &cmd.stderr)
		}
	}
}

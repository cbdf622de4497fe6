package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A terminalRun is a command on a terminal of its own.
type terminalRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File // the command's side
	person *os.File // the other side
	modes  unix.Termios
	mu     sync.Mutex
	shown  bytes.Buffer // all that the terminal got
	ended  chan struct{}
}

// onTerminal starts cudatrace in a folder, in the foreground of a new terminal of 80 columns and 24 lines. out is
// its standard output and error; nil is the terminal. Temporary files go to the folder.
func onTerminal(t *testing.T, folder string, out *os.File, args ...string) *terminalRun {
	t.Helper()
	tty, other := openTerminal(t)
	r := &terminalRun{t: t, tty: tty, person: other, ended: make(chan struct{})}
	must.Do(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	modes := must.Get(unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS))(t)
	r.modes = *modes
	r.cmd = exec.Command("cudatrace", args...)
	r.cmd.Dir, r.cmd.Env = folder, append(os.Environ(), "TMPDIR="+folder)
	r.cmd.Stdout, r.cmd.Stderr = tty, tty
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	r.cmd.ExtraFiles = []*os.File{tty}
	if out == nil {
		r.cmd.Stdin = tty
	} else {
		r.cmd.Stdout, r.cmd.Stderr = out, out
	}
	must.Do(t, r.cmd.Start())
	go r.read(other)
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // its exit code is looked at
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
	return r
}

func (r *terminalRun) read(from *os.File) {
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.shown.Write(b[:n])
		r.mu.Unlock()
	}
}

func (r *terminalRun) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shown.String()
}

var escapes = regexp.MustCompile(`\x1b\[[?0-9;]*[a-zA-Z]`)

// screens are the texts of all frames.
func (r *terminalRun) screens() (all []string) {
	frames := strings.Split(r.all(), "\x1b[H")
	for _, frame := range frames[1:] {
		lines := strings.Split(escapes.ReplaceAllString(frame, ""), "\r\n")
		for i := range lines {
			lines[i] = strings.TrimRight(lines[i], " \r")
		}
		all = append(all, strings.Join(lines, "\n"))
	}
	return all
}

// until waits until something holds.
func (r *terminalRun) until(what string, holds func() bool) {
	r.t.Helper()
	must.Wait(r.t, holds, func() string { return fmt.Sprintf("%s: the terminal got %.6000q", what, r.all()) })
}

// shows waits until a frame has a text.
func (r *terminalRun) shows(text string) {
	r.t.Helper()
	r.until("no "+text, func() bool {
		return slices.ContainsFunc(r.screens(), func(screen string) bool { return strings.Contains(screen, text) })
	})
}

// first waits for a frame that has a text and not another one.
func (r *terminalRun) first(text, without string) (screen string) {
	r.t.Helper()
	r.until("no "+text, func() bool {
		for _, screen = range r.screens() {
			if strings.Contains(screen, text) && !strings.Contains(screen, without) {
				return true
			}
		}
		return false
	})
	return screen
}

func (r *terminalRun) press(keys string) {
	r.t.Helper()
	must.Get(r.person.WriteString(keys))(r.t)
}

// restored waits for the command's end, and checks that the terminal is as it was.
func (r *terminalRun) restored(code int) {
	r.t.Helper()
	<-r.ended
	if got := r.cmd.ProcessState.ExitCode(); got != code {
		r.t.Errorf("exit code %d, want %d: %.2000q", got, code, r.all())
	}
	const mark = "(behind all that it wrote)"
	must.Get(r.tty.WriteString(mark))(r.t)
	r.until("not all was read", func() bool { return strings.Contains(r.all(), mark) })
	if !strings.Contains(r.all(), "\x1b[?25h\x1b[?1049l") {
		r.t.Errorf("the screen is not left: %.6000q", r.all())
	}
	modes := must.Get(unix.IoctlGetTermios(int(r.tty.Fd()), unix.TCGETS))(r.t)
	if *modes != r.modes {
		r.t.Errorf("the terminal's modes are %+v, were %+v", *modes, r.modes)
	}
}

// trainLog is the log of a PyTorch loop on a GPU.
var trainLog = filepath.Join(filepath.Dir(gpuLog), "train.cudatrace")

// growingLog makes run.cudatrace in a new folder, with the first bytes of a log. rest writes the others. The
// file stays open for writing.
func growingLog(t *testing.T, bytes int) (folder string, rest func()) {
	t.Helper()
	data := must.Get(os.ReadFile(trainLog))(t)
	folder = t.TempDir()
	f := must.Get(os.Create(filepath.Join(folder, "run.cudatrace")))(t)
	t.Cleanup(func() { f.Close() })
	write := func(b []byte) {
		if _, err := f.Write(b); err != nil {
			t.Error(err)
		}
	}
	write(data[:bytes])
	return folder, func() { write(data[bytes:]) }
}

// mostOfTrain is the number of bytes of trainLog up to which its sixth second is known.
const mostOfTrain = 468_000

// The live view of a log in a terminal: it follows the log, obeys keys, and ends with the log.
func TestTopScreen(t *testing.T) {
	t.Parallel()
	folder, rest := growingLog(t, mostOfTrain)
	r := onTerminal(t, folder, nil, "top", "run.cudatrace")
	r.shows("q quit")
	goldentest.Hold(t, "testdata/top-screen.golden", r.first("kernels", "reading what is there")+"\n")
	r.press("s")
	r.shows("sort: count")
	r.press("fgemm")
	r.shows("filter: gemm_")
	r.press("\n")
	r.shows("filter: gemm  (ESC: all rows)")
	must.Do(t, unix.IoctlSetWinsize(int(r.tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 60}))
	r.until("not resized", func() bool {
		all := r.screens()
		return strings.Count(all[len(all)-1], "\n") == 9
	})
	rest()
	r.restored(0)
	if !strings.Contains(r.all(), "run.cudatrace has ended: 45,300 launches, ") {
		t.Errorf("the end was not said: %q", r.all())
	}
}

// However the view of a log ends, the terminal is as it was.
func TestTopRestores(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		end  func(*terminalRun)
		code int
	}{
		"q":                 {func(r *terminalRun) { r.press("q") }, 0},
		"Ctrl-C":            {func(r *terminalRun) { r.press("\x03") }, 130},
		"SIGTERM":           {func(r *terminalRun) { _ = r.cmd.Process.Signal(unix.SIGTERM) }, 143},
		"SIGHUP":            {func(r *terminalRun) { _ = r.cmd.Process.Signal(unix.SIGHUP) }, 129},
		"a log that is cut": {func(r *terminalRun) { _ = os.Truncate(filepath.Join(r.cmd.Dir, "run.cudatrace"), 100) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, _ := growingLog(t, 30_000)
			r := onTerminal(t, folder, nil, "top", "run.cudatrace")
			r.shows("q quit")
			test.end(r)
			r.restored(test.code)
		})
	}
}

// outFile is a file for what a program prints.
func outFile(t *testing.T) *os.File {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "out")))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// A program that writes elsewhere leaves the terminal to the view. It is killed in the middle: its exit code
// is handed on, the terminal is as it was, and no log stays.
func TestTopProgramKilled(t *testing.T) {
	t.Parallel()
	out, temporary := outFile(t), t.TempDir()
	r := onTerminal(t, temporary, out, "top", "--", sim("longrun"), "60", "-i", "100")
	r.shows("tick")
	pid := longrunPID(t, contents(t, out.Name()))
	if left := temporaryLogs(t, temporary); len(left) != 1 {
		t.Errorf("the temporary logs are %q, want one", left)
	}
	must.Do(t, unix.Kill(pid, unix.SIGKILL))
	r.restored(137)
	if left := temporaryLogs(t, temporary); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	if said := contents(t, out.Name()); !strings.Contains(said, "cudatrace: longrun: ") || strings.Contains(said, "launches/") {
		t.Errorf("standard output and error are\n%s", said)
	}
}

// A program as a person types it leaves nothing behind, also when Ctrl-C ends it. What it printed comes when the view has
// ended.
func TestTopLeavesNothing(t *testing.T) {
	t.Parallel()
	for end, test := range map[string]struct {
		seconds, press, said string
	}{
		"its own": {"3", "", "counts kernels="},
		"Ctrl-C":  {"600", "\x03", "counts kernels="}, // longrun ends in order
	} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			program := "echo first; exec " + sim("longrun") + " " + test.seconds + " -i 100"
			r := onTerminal(t, folder, nil, "top", "--", "sh", "-c", program)
			r.shows("tick")
			r.shows("Ctrl-C ends the program and this view")
			r.press(test.press)
			r.restored(0)
			all := r.all()
			for _, want := range []string{" launches, ", "nothing was kept: -o NAME keeps the log", "first", test.said} {
				if !strings.Contains(all, want) {
					t.Errorf("%q was not said: %q", want, all[max(len(all)-900, 0):])
				}
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// With -o, what the program prints is in a file of its own beside the log, and the totals stay.
func TestTopProgram(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(folder, "longrun.out"), []byte("mine"), 0o600))
	r := onTerminal(t, folder, nil, "top", "-o", "longrun", "--", sim("longrun"), "3", "-i", "100")
	r.shows("tick")
	r.restored(0)
	all := r.all()
	for _, want := range []string{"cudatrace: longrun: ", " launches, ", "what longrun printed is in longrun-2.out"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q was not said: %q", want, all[max(len(all)-600, 0):])
		}
	}
	if strings.Contains(all, "counts kernels=") {
		t.Error("the program printed to the terminal")
	}
	if printed := contents(t, filepath.Join(folder, "longrun-2.out")); !strings.Contains(printed, "counts kernels=") {
		t.Errorf("the program printed %q", printed)
	}
	if mine := contents(t, filepath.Join(folder, "longrun.out")); mine != "mine" {
		t.Errorf("a file that was there is %q", mine)
	}
}

func temporaryLogs(t *testing.T, folder string) []string {
	t.Helper()
	found := must.Get(filepath.Glob(filepath.Join(folder, "cudatrace-top-*")))(t)
	return found
}

// A view that is killed takes nothing with it: the recorder gives the terminal back, and the program and its
// recording go on.
func TestTopViewKilled(t *testing.T) {
	t.Parallel()
	out := outFile(t)
	r := onTerminal(t, t.TempDir(), out, "record", "--live", "--no-convert", "--sample", "off", "-o", "run", sim("longrun"), "3", "-i", "1000")
	r.shows("tick")
	must.Do(t, unix.Kill(viewPID(t, r.cmd.Process.Pid), unix.SIGKILL))
	r.restored(0)
	for _, want := range []string{"cudatrace: the live view was ended: killed; recording goes on", "counts kernels=", "nothing lost"} {
		if said := contents(t, out.Name()); !strings.Contains(said, want) {
			t.Errorf("%q was not said:\n%s", want, said)
		}
	}
}

// viewPID is the PID of the view beside a recorder.
func viewPID(t *testing.T, recorder int) int {
	t.Helper()
	tasks := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", recorder)))(t)
	for _, path := range tasks {
		children, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(children)) {
			line, err := os.ReadFile("/proc/" + word + "/cmdline")
			if pid, wrong := strconv.Atoi(word); err == nil && wrong == nil && bytes.Contains(line, []byte("watch-recording")) {
				return pid
			}
		}
	}
	t.Fatal("there is no view")
	return 0
}

// Calls of a running process are shown on standard output until Ctrl-C; the process lives on.
func TestTopProcess(t *testing.T) {
	t.Parallel()
	program := startLongrun(t, "600", "-i", "100")
	out := outFile(t)
	cmd := exec.Command("cudatrace", "top", "--format", "ndjson", "-p", fmt.Sprint(program.Pid))
	cmd.Stdout = out
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	launches := regexp.MustCompile(`"now":\{[^}]*"launches":[1-9]`)
	must.Wait(t, func() bool { return launches.MatchString(contents(t, out.Name())) }, func() string {
		return fmt.Sprintf("no launches are shown: %.2000s", contents(t, out.Name()))
	})
	must.Do(t, cmd.Process.Signal(unix.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := program.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program did not live on: %v", err)
	}
}

// The person quits: the recording ends, and the program runs on to its own end.
func TestTopQuit(t *testing.T) {
	t.Parallel()
	out := outFile(t)
	r := onTerminal(t, t.TempDir(), out, "top", "--", "sh", "-c", sim("longrun")+" 60 --until off; exit 3")
	r.shows("tick")
	r.press("q")
	r.restored(3)
	if said := contents(t, out.Name()); !strings.Contains(said, "counts kernels=") {
		t.Errorf("the program said\n%s", said)
	}
}

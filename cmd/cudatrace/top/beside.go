package top

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/invoker"
)

// WatchCommand is the command of the process that watches beside a recording. Nobody types it.
//
// It is a process of its own for the reasons of a conversion: what goes wrong with it does not touch the
// recording, and under sudo what recorded processes have sent is read with the user's rights.
const WatchCommand = "watch-recording"

// Descriptors of that process.
const (
	logFile  = 3
	overFile = 4 // its end says that the recording is over
	ttyFile  = 5
)

// quitCode is the exit code of that process where the person quits.
const quitCode = 10

// An Assignment says what that process shows.
type Assignment struct {
	Form    form
	Name    string
	Keys    bool // are read from the terminal
	Discard bool // the log is a temporary one
}

// Watch is that process. Its argument is the assignment. It returns the exit code.
func Watch(con *console.Console, args []string) int {
	var a Assignment
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &a) != nil {
		return 1
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = os.NewFile(overFile, "over").Read(make([]byte, 1)) // until the recorder closes it, or is gone
	}()
	w := &watch{
		con: con, form: a.Form, name: a.Name, keys: a.Keys, discard: a.Discard, over: over, log: os.NewFile(logFile, "log"),
	}
	if a.Form == formScreen {
		w.tty = os.NewFile(ttyFile, "terminal")
	}
	err := w.run()
	if r := w.view.latest; r != nil && (err == nil || errors.Is(err, errQuit)) {
		con.Say(a.Name + ": " + totalText(r))
	}
	var ended exitError
	switch {
	case errors.Is(err, errQuit):
		return quitCode
	case errors.As(err, &ended):
		return 128 + int(ended.signal)
	case err != nil:
		con.Sayf("the live view ends: %v", err)
		return 1
	}
	return 0
}

// A Beside is a live view beside a recording.
type Beside struct {
	con        *console.Console
	assignment Assignment
	tty        *os.File // of formScreen
	ofProgram  bool     // standard output is a program's
	restore    func() error
	over       *os.File      // closed when the recording is over
	ended      chan struct{} // closed when the process has ended; nil before it is started
	quit       sync.Once

	Stop chan struct{} // closed when the person quits
	held []string      // lines for after the screen
	mu   sync.Mutex
}

// NewBeside returns a view beside the recording of a program, or of a process with a PID. Beside a program
// its lines go to standard error, since standard output is the program's. It takes the whole terminal where the program
// writes elsewhere, or can be made to.
func NewBeside(con *console.Console, name string, pid int, ndjson, discard, movable bool) *Beside {
	b := &Beside{
		con: con, assignment: Assignment{Form: formSaid, Name: name, Discard: discard}, ofProgram: pid == 0,
		Stop: make(chan struct{}),
	}
	switch {
	case ndjson:
		b.assignment.Form = formNDJSON
	case pid == 0 && (movable || !con.OnTerminal()), pid != 0 && con.Terminal() != nil && !isOn(pid, con.Terminal()):
		b.takeTerminal(pid != 0)
	}
	if pid != 0 && b.assignment.Form == formSaid {
		b.assignment.Form = formLines
	}
	return b
}

// Screen reports whether the view has a whole terminal.
func (b *Beside) Screen() bool { return b.assignment.Form == formScreen }

// isOn reports whether a process may write to a terminal, or read from it.
func isOn(pid int, tty *os.File) bool {
	own, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", tty.Fd()))
	if err != nil {
		return true
	}
	for fd := range 3 {
		its, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if errors.Is(err, os.ErrNotExist) {
			continue // it is closed
		}
		if err != nil || its == own || its == "/dev/tty" {
			return true
		}
	}
	return false
}

// takeTerminal makes the view a screen, if there is a terminal in whose foreground we run. A program that
// may read from the terminal gets all its keys.
func (b *Beside) takeTerminal(keys bool) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return
	}
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	if err == nil && group == unix.Getpgrp() {
		b.restore, err = console.Guard(tty)
	}
	if err != nil || b.restore == nil {
		tty.Close()
		return
	}
	b.tty, b.assignment.Form = tty, formScreen
	b.assignment.Keys = keys || !console.IsTerminalAt("/proc/self/fd/0")
}

// Say says a line: on a screen, when it is over.
func (b *Beside) Say(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.assignment.Form == formScreen && b.ended != nil && b.con.OnTerminal() {
		b.held = append(b.held, text)
		return
	}
	b.con.Say(text)
}

// Start starts the view. log is the log of the recording, open.
func (b *Beside) Start(log *os.File) {
	err := b.start(log)
	if err != nil {
		b.con.Sayf("there is no live view: %v; recording goes on", err)
	}
}

func (b *Beside) start(log *os.File) error {
	text, err := json.Marshal(b.assignment)
	if err != nil {
		return err
	}
	over, ours, err := os.Pipe()
	if err != nil {
		return err
	}
	defer over.Close()
	cmd := exec.Command("/proc/self/exe", WatchCommand, string(text))
	cmd.Args[0] = "cudatrace"
	cmd.ExtraFiles = []*os.File{log, over}
	if b.tty != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, b.tty)
	}
	cmd.Stdout, cmd.Stderr = b.con.Outputs()
	if b.assignment.Form == formNDJSON && b.ofProgram {
		cmd.Stdout = cmd.Stderr
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Credential: invoker.Find().Credential()}
	ended, started := make(chan struct{}), make(chan error)
	go b.attend(cmd, started, ended)
	if err := <-started; err != nil {
		ours.Close()
		return err
	}
	b.mu.Lock()
	b.over, b.ended = ours, ended
	b.mu.Unlock()
	return nil
}

// attend starts the process and waits for its end.
func (b *Beside) attend(cmd *exec.Cmd, started chan<- error, ended chan<- struct{}) {
	runtime.LockOSThread() // the process ends when this thread does
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(ended)
	// When memory runs out, this process is the one to go. That it cannot be said does no harm.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("1000"), 0)
	err = cmd.Wait()
	switch code := cmd.ProcessState.ExitCode(); {
	case code == quitCode:
		b.quit.Do(func() { close(b.Stop) })
	case code < 0: // a signal
		if b.restore != nil {
			_ = b.restore()
		}
		b.con.Sayf("the live view was ended: %s; recording goes on", strings.TrimPrefix(err.Error(), "signal: "))
	}
}

// Finish says that the recording is over, and waits for the view's end.
func (b *Beside) Finish() {
	b.mu.Lock()
	ended := b.ended
	b.mu.Unlock()
	if ended == nil {
		return
	}
	b.over.Close()
	<-ended
	b.mu.Lock()
	held := b.held
	b.ended, b.held = nil, nil
	b.mu.Unlock()
	for _, text := range held {
		b.con.Say(text)
	}
	if b.tty != nil {
		b.tty.Close()
	}
}

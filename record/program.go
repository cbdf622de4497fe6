package record

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Exit codes of a shell for a program that can't be started.
const (
	ExitNotExecutable = 126
	ExitNotFound      = 127
)

// A StartError says why the program could not be started. Code is the exit code that a shell
// would have.
type StartError struct {
	Code int
	msg  string
}

func (e *StartError) Error() string { return e.msg }

// LookProgram finds a program as a shell does: by its path if the name has a slash, else in PATH. The
// error is a *StartError.
func LookProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, checkExecutable(name)
	}
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // PATH may name the current folder
		return filepath.Abs(path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", &StartError{ExitNotExecutable, fmt.Sprintf("%s: found in PATH but not executable", name)}
	}
	msg := fmt.Sprintf("%s: no such program in PATH", name)
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		start := "./"
		if strings.HasSuffix(name, ".py") {
			start = "python3 "
		}
		msg += fmt.Sprintf("; did you mean %s%s?", start, name)
	}
	return "", &StartError{ExitNotFound, msg}
}

func checkExecutable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &StartError{ExitNotFound, path + ": no such file"}
	case errors.Is(err, fs.ErrPermission):
		return &StartError{ExitNotExecutable, path + ": permission denied"}
	case err != nil:
		return &StartError{ExitNotExecutable, fmt.Sprintf("%s: cannot be read: %s", path, errno.Words(err))}
	case info.IsDir():
		return &StartError{ExitNotExecutable, path + ": is a directory, not a program"}
	case info.Mode()&0o111 == 0:
		return &StartError{ExitNotExecutable, fmt.Sprintf("%s: not executable (chmod +x %s)", path, path)}
	}
	return nil
}

// startError says why exec failed.
func startError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &StartError{ExitNotFound, path + ": the interpreter that it names, or the file itself, does not exist"}
	case errors.Is(err, syscall.ENOEXEC):
		return &StartError{ExitNotExecutable, path + ": not a program for this machine (a script needs a #! line)"}
	case errors.Is(err, fs.ErrPermission):
		return &StartError{ExitNotExecutable, path + ": permission denied"}
	}
	return &StartError{ExitNotExecutable, fmt.Sprintf("%s: cannot be started: %s", path, errno.Words(err))}
}

// RunArmed runs a program in our place. The program and what it starts wait for [Attach], which then records their GPU
// work. Under sudo it runs as the user who called sudo. RunArmed returns only if the program cannot be started: a
// *StartError.
func RunArmed(program string, args []string, say func(string)) error {
	path, err := LookProgram(program)
	if err != nil {
		return err
	}
	env, err := invoker.Find().Become(os.Environ())
	if err != nil {
		return &StartError{
			ExitNotExecutable, fmt.Sprintf("%s: cannot be started as the user who called sudo: %s", path, errno.Words(err)),
		}
	}
	library, err := arm(path, env)
	switch {
	case err != nil:
		say(fmt.Sprintf("%s runs unarmed: %v", filepath.Base(program), err))
	case library != "":
		env = cupti.ArmedEnviron(env, library)
	}
	err = startError(program, syscall.Exec(path, append([]string{program}, args...), env))
	if library != "" {
		cupti.Disarm(library)
	}
	return err
}

// arm makes what an armed program needs, and returns the library that CUDA is to load: "" if env has one.
func arm(path string, env []string) (library string, err error) {
	if other := cupti.Conflict(env); other != "" {
		return "", errors.New(other + " is set: another tool (nsys, ncu, compute-sanitizer), or 'cudatrace record', is " +
			"recording already")
	}
	if cupti.IsArmed(env) {
		return "", nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if ok && (info.Mode()&os.ModeSetuid != 0 && int(s.Uid) != os.Geteuid() || info.Mode()&os.ModeSetgid != 0 &&
		int(s.Gid) != os.Getegid()) {
		return "", errors.New("it runs with raised rights (setuid or setgid), where CUDA loads no library of ours")
	}
	own := uint32(os.Getpid())
	return cupti.Arm(procfs.Filters(own, own))
}

// A program is a child process: the program that is recorded.
type program struct {
	name  string // as a person names it
	path  string
	cmd   *exec.Cmd
	owner uint32           // the user it runs as
	since procfs.StartTime // of its start, or a moment earlier
	until time.Time        // its end
	ended chan struct{}    // closed when the program has ended
}

// startProgram starts the program at a path. The program has our input and output, or prints to a file, and runs as
// the user who called sudo.
func startProgram(path string, o Options, env []string, as *invoker.Invoker) (*program, error) {
	cmd := exec.Command(path, o.Args...)
	cmd.Args[0] = o.Program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if o.Prints != nil {
		cmd.Stdout, cmd.Stderr = o.Prints, o.Prints
	}
	cmd.Env = env
	as.Apply(cmd)
	p := &program{name: o.Program, path: path, cmd: cmd, owner: as.User(), since: procfs.Now(), ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, startError(o.Program, err)
	}
	return p, nil
}

// wait waits for the program's end, and closes ended.
func (p *program) wait() {
	// The error says that the program failed, which its exit code says too.
	_ = p.cmd.Wait()
	p.until = time.Now()
	close(p.ended)
}

// pass passes a signal on to the program, unless it has ended.
func (p *program) pass(n syscall.Signal) { _ = p.cmd.Process.Signal(n) }

func (p *program) pid() int { return p.cmd.Process.Pid }

// exitStatus is the value of a shell's $? after the program's end: 128+N after signal N.
func (p *program) exitStatus() int {
	if e, ok := p.exit(); ok {
		return int(e.Status)
	}
	return p.cmd.ProcessState.ExitCode()
}

// exit says how the program ended; ok is false while it runs.
func (p *program) exit() (e probe.Exit, ok bool) {
	if !isClosed(p.ended) {
		return e, false
	}
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return probe.ExitOf(unix.WaitStatus(status)), ok
}

package door

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// livesProgram is testdata/lives.c, built once.
var livesProgram struct {
	once sync.Once
	path string
	dir  string
}

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(livesProgram.dir)
	os.Exit(code)
}

// A life is a running testdata/lives.c.
type life struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	pid int
}

func startLife(t *testing.T, mode ...string) *life {
	t.Helper()
	must.BeRoot(t)
	p := &livesProgram
	p.once.Do(func() {
		source := must.Get(os.ReadFile("testdata/lives.c"))(t)
		p.dir = must.Get(os.MkdirTemp("", "lives"))(t)
		p.path = buildWithCUDA(t, p.dir, string(source))
	})
	cmd := exec.Command(p.path, mode...)
	cmd.Stderr = os.Stderr
	in, out := pipetest.Start(t, cmd)
	l := &life{cmd, in, bufio.NewReader(out), cmd.Process.Pid}
	if line, err := l.out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return l
}

// launches is how many launches the program has made.
func (l *life) launches(t *testing.T) int {
	t.Helper()
	_, err := io.WriteString(l.in, "?")
	line, failed := l.out.ReadString('\n')
	n, wrong := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, failed, wrong); err != nil {
		t.Fatal(err)
	}
	return n
}

// end ends the program, which does what it does alone.
func (l *life) end(t *testing.T) {
	t.Helper()
	l.in.Close()
	rest, _ := io.ReadAll(l.out)
	if err := l.cmd.Wait(); string(rest) != "wrong 0, alarms 1, children 1\n" || l.cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("the program said %q and ended with %v", rest, err)
	}
}

// lives checks that the program goes on: no thread is traced or stopped, and calls of CUDA return.
func (l *life) lives(t *testing.T) {
	t.Helper()
	for tid := range procfs.Threads(uint32(l.pid)) {
		must.Wait(t, func() bool { return !l.stopped(tid) }, func() string {
			return fmt.Sprintf("thread %d of %d is traced or stopped", tid, l.pid)
		})
	}
	before := l.launches(t)
	must.Wait(t, func() bool { return l.launches(t) != before }, func() string { return "it launches no more" })
}

func (l *life) stopped(tid uint32) bool {
	s, ok := procfs.StatOfThread(uint32(l.pid), tid)
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", l.pid, tid))
	return ok && (s.State == 't' || s.State == 'T') || len(status) > 0 && !strings.Contains(string(status), "TracerPid:\t0\n")
}

// rounds is how often a test does what it does: ROUNDS, or a few.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil {
		return n
	}
	return few
}

func pause(most time.Duration) { time.Sleep(rand.N(most)) }

// TestLives stops a program again and again that forks, waits, takes signals and is stopped and continued by others:
// nothing of it goes wrong.
func TestLives(t *testing.T) {
	t.Parallel()
	l := startLife(t)
	shut := 0
	for i := 0; i < rounds(40) || shut == 0 && i < 4000; i++ { // with busy processors threads are often inside
		if i%8 == 7 {
			must.Do(t, unix.Kill(l.pid, unix.SIGSTOP))
		}
		err := Shut(l.pid, func() error { shut++; pause(time.Millisecond); return nil })
		if i%8 == 7 {
			must.Wait(t, func() bool { return l.state('R')+l.state('S')+l.state('t') == 0 }, func() string {
				return "the program is not stopped any more"
			})
			must.Do(t, unix.Kill(l.pid, unix.SIGCONT))
		}
		if err != nil && !errors.Is(err, ErrInside) {
			t.Fatal(err)
		}
		pause(2 * time.Millisecond)
	}
	if shut == 0 {
		t.Error("the door was never shut")
	}
	l.lives(t)
	l.end(t)
}

// TestLivesVfork gives up at once while a thread waits for the child of vfork, which nothing interrupts.
func TestLivesVfork(t *testing.T) {
	t.Parallel()
	l := startLife(t, "vfork")
	shut := make(chan error, 1)
	go func() { shut <- Shut(l.pid, func() error { return errors.New("shut") }) }()
	select {
	case err := <-shut:
		if !errors.Is(err, ErrInside) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for the child")
	}
	l.lives(t)
	for range rounds(30) { // the kernel has let go of that thread
		if err := Shut(l.pid, func() error { return nil }); err != nil && !errors.Is(err, ErrInside) {
			t.Fatal(err)
		}
	}
	l.lives(t)
	l.end(t)
}

// state counts the program's threads in a state.
func (l *life) state(want byte) (n int) {
	for tid := range procfs.Threads(uint32(l.pid)) {
		if s, ok := procfs.StatOfThread(uint32(l.pid), tid); ok && s.State == want {
			n++
		}
	}
	return n
}

// TestLivesTerminated sends a program SIGTERM at any moment of a stop: it ends as without.
func TestLivesTerminated(t *testing.T) {
	t.Parallel()
	for i := range rounds(12) {
		mode := []string{"term", ""}[i%2]
		l := startLife(t, mode)
		end := l.shutOften(t)
		pause(10 * time.Millisecond)
		must.Do(t, unix.Kill(l.pid, unix.SIGTERM))
		rest, _ := io.ReadAll(l.out)
		l.cmd.Wait()
		end()
		status := l.cmd.ProcessState.Sys().(syscall.WaitStatus)
		handled := string(rest) == "term\n" && status.ExitStatus() == 5
		killed := len(rest) == 0 && status.Signaled() && status.Signal() == syscall.SIGTERM
		if mode == "term" && !handled || mode == "" && !killed {
			t.Fatalf("%q: it said %q and ended with %v", mode, rest, l.cmd.ProcessState)
		}
	}
}

// shutOften starts who stops the program again and again, and is no parent of it. end kills it, and returns how it
// ended.
func (l *life) shutOften(t *testing.T) (end func() string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestShutter$")
	cmd.Env = []string{"SHUT=" + strconv.Itoa(l.pid)}
	cmd.Stderr = os.Stderr
	_, output := pipetest.Start(t, cmd)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	return func() string {
		cmd.Process.Kill()
		cmd.Wait()
		return cmd.ProcessState.String()
	}
}

// TestLivesRecorderKilled kills who stops a program at any moment: the program goes on.
func TestLivesRecorderKilled(t *testing.T) {
	t.Parallel()
	l := startLife(t)
	for range rounds(20) {
		kill := l.shutOften(t)
		pause(15 * time.Millisecond)
		if ended := kill(); ended != "signal: killed" {
			t.Fatalf("who stops it ended with %q", ended)
		}
		l.lives(t)
	}
	l.end(t)
}

// TestLivesRecorderStopped sends who stops a program the signal of Ctrl-Z while it does, which has no effect: it would be
// stopped, and the program with it. Not in parallel: a program that starts while a door is shut ignores the signal.
func TestLivesRecorderStopped(t *testing.T) {
	l := startLife(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStoppedShutter$")
	cmd.Env = []string{"SHUT=" + strconv.Itoa(l.pid)}
	_, output := pipetest.Start(t, cmd)
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "shut, the signal is not ignored\n" {
		t.Errorf("who stops it said %q, %v", line, err)
	}
	cmd.Process.Kill()
	l.lives(t)
	l.end(t)
}

// TestStoppedShutter is who gets the signal.
func TestStoppedShutter(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv("SHUT"))
	if err != nil {
		return
	}
	for err = ErrInside; errors.Is(err, ErrInside); {
		err = Shut(pid, func() error { return unix.Kill(unix.Getpid(), unix.SIGTSTP) })
	}
	must.Do(t, err)
	status := must.Get(os.ReadFile("/proc/self/status"))(t)
	var ignored uint64
	_, behind, _ := strings.Cut(string(status), "\nSigIgn:\t")
	must.Get(fmt.Sscanf(behind, "%x", &ignored))(t)
	if ignored&(1<<(unix.SIGTSTP-1)) == 0 {
		fmt.Println("shut, the signal is not ignored")
	}
}

// TestShutter is who is killed.
func TestShutter(t *testing.T) {
	pid, err := strconv.Atoi(os.Getenv("SHUT"))
	if err != nil {
		return
	}
	fmt.Println("ready")
	for err == nil || errors.Is(err, ErrInside) {
		err = Shut(pid, func() error { pause(2 * time.Millisecond); return nil })
	}
}

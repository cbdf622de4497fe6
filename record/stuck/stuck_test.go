package stuck

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// TestMain runs more tests at a time than there are processors: a look takes a second, in which nearly all programs wait.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// start starts a program that says when it is ready, and returns its PID.
func start(t *testing.T, command string, args ...string) int {
	t.Helper()
	cmd := exec.Command(command, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Stderr = os.Stderr
	must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it and its children may have ended
		_ = cmd.Wait()                                      // by that signal
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "ready") {
		t.Fatalf("%s %v: %q, %v", command, args, line, err)
	}
	return cmd.Process.Pid
}

// verdictOf looks at a process.
func verdictOf(t *testing.T, pid int) Verdict {
	t.Helper()
	r := must.Get(Look([]int{pid}, nil))(t)
	return r.Processes[0].Verdict
}

// newestPython is the interpreter of the newest version.
func newestPython(t *testing.T) string {
	t.Helper()
	all := pythontest.All(t)
	if len(all) == 0 {
		t.Skip("no Python here")
	}
	newest := all[0]
	for _, p := range all {
		if p.Minor > newest.Minor {
			newest = p
		}
	}
	return newest.Path
}

// TestHangs looks at programs that hang in a known way. They say that they are about to hang: the first verdicts may be of before.
func TestHangs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"mutex_order":             `the main thread waits for a lock at programs.py:\d+ \(.*take\) that thread \d+ .* has; .* waits for a lock .* that the main thread has: each waits for the other \(deadlock\)`,
		"circle":                  `the main thread waits for a lock .* has; thread .* has; thread .* that the main thread has: each waits for the other \(deadlock\)`,
		"mutex_held":              `the main thread waits for a lock at programs.py:\d+ \(mutex_held\) that thread \d+ .* has; .* waits in read at programs.py:\d+ \(forever_read\) for data from a pipe, into which no other process can write`,
		"lock_order":              `all of its 2 threads wait for each other \(deadlock\): the main thread waits for a lock at programs.py:\d+`,
		"lock_held":               `the main thread waits for a lock at programs.py:\d+ \(lock_held\); the only other thread of Python does not go on: thread \d+ .* is blocked in read on a pipe at programs.py:\d+ \(forever_read\)`,
		"lock_twice":              `its only thread waits for a lock at programs.py:\d+ \(lock_twice\), and nobody is left to release it`,
		"joined":                  `all of its 2 threads wait for each other \(deadlock\)`,
		"gil_sleep":               `the main thread waits for the GIL at .* that thread \d+ .* has; .* sleeps in (clock_)?nanosleep at programs.py:\d+ \(.*hold\)`,
		"gil_spin":                `the main thread waits for the GIL at .* that thread \d+ .* has; .* runs code of C with it at .* and does not give it up`,
		"full_pipe":               `the main thread waits in write at programs.py:\d+ \(full_pipe\): the pipe is full, and process \d+ does not read; process \d+ \(sleep 1000\): the main thread sleeps`,
		"own_full_pipe":           `the main thread waits in write at programs.py:\d+ \(own_full_pipe\): the pipe is full, no other process can read from it`,
		"full_output":             `the main thread waits at subprocess.py:\d+ .* for the end of process \d+; process \d+ \(dd .*\): the main thread waits in write: the pipe is full, and process \d+ does not read; each waits for the other \(deadlock\)`,
		"nobody_writes":           `the main thread waits in read at .* for data from a pipe, into which no other process can write`,
		"dead_worker":             `worker process \d+ \(python.*\) has ended \(killed by SIGKILL\); the main thread is blocked in read on a pipe at programs.py:\d+ \(dead_worker\)`,
		"failed_worker":           `worker process \d+ \(python.*\) has ended \(exit code 3\); the main thread is blocked in read on a pipe at programs.py:\d+ \(failed_worker\)`,
		"stopped":                 `a signal has stopped it \(SIGSTOP or another\); 'kill -CONT \d+' has it go on`,
		"stopped_worker":          `the main thread waits at programs.py:\d+ \(stopped_worker\) for the end of process \d+; process \d+ \(.*\): the main thread is stopped: a signal has stopped it`,
		"stopped_peer":            `the main thread waits in recvfrom at programs.py:\d+ \(stopped_peer\) for data from a socket of process \d+; process \d+ \(.*\): the main thread is stopped: a signal has stopped it`,
		"dead_peer":               `the main thread waits in recvfrom at programs.py:\d+ \(dead_peer\) for data from a socket, into which no other process can write`,
		"peers_that_wait":         `the main thread waits in recvfrom at programs.py:\d+ \(peers_that_wait\) for data from a socket of process \d+; process \d+ \(.*\): the main thread waits in recvfrom at .* for data from a socket of process \d+; each waits for the other \(deadlock\)`,
		"peer_that_does_not_read": `the main thread waits in sendto at programs.py:\d+ \(peer_that_does_not_read\): the socket is full, and process \d+ does not read; process \d+ \(.*\): the main thread sleeps`,
		"pool_of_stopped":         `the main thread waits at programs.py:\d+ \(pool_of_stopped\) for the end of process \d+; .* is stopped: a signal has stopped it`,
		"fifo":                    `the main thread is blocked in openat at programs.py:\d+ \(fifo\)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := start(t, newestPython(t), "testdata/programs.py", name, t.TempDir())
			pattern := regexp.MustCompile(want)
			var v Verdict
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				if v = verdictOf(t, pid); v.Outcome == Stuck && pattern.MatchString(v.Text) {
					return
				}
			}
			t.Errorf("%s: %s\nwant %s", v.Outcome, v.Text, want)
		})
	}
}

// TestHealthy looks at programs that do not hang.
func TestHealthy(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]Outcome{
		"computes": Moving, "computes_in_c": Moving, "two_compute": Moving, "busy_pool": Moving, "steps": Moving,
		"sleeps": Waiting, "polls": Waiting, "idle_pool": Waiting, "event": Waiting, "server": Waiting, "loop": Waiting, "reads_input": "",
		"waits_for_one":     Waiting,
		"waits_for_sleeper": Waiting, "waits_for_busy": Moving, "pipeline": "", "lock_that_moves": "", "ended_worker": Waiting,
		"failed_worker_of_server": Waiting, "joins_sleeper": Waiting, "sleeping_peer": Waiting, "many_workers": Waiting, "peer_of_two_threads": Waiting, "signals": Waiting,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := start(t, newestPython(t), "testdata/programs.py", name)
			v := verdictOf(t, pid)
			for end := time.Now().Add(time.Minute); v.Outcome != Stuck && want != "" && v.Outcome != want && time.Now().Before(end); {
				v = verdictOf(t, pid) // it said that it was ready a moment before
			}
			if v.Outcome == Stuck || v.Outcome == Unknown || want != "" && v.Outcome != want {
				t.Errorf("%s: %s", v.Outcome, v.Text)
			}
		})
	}
}

// TestHostile looks at programs whose memory is hard to read.
func TestHostile(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"frame_circle", "recursion", "short_lives"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pid := start(t, newestPython(t), "testdata/programs.py", name)
			r := must.Get(Look([]int{pid}, nil))(t)
			p := r.Processes[0]
			if p.Verdict.Outcome == Stuck || p.Verdict.Outcome == Unknown {
				t.Errorf("%s: %s", p.Verdict.Outcome, p.Verdict.Text)
			}
			if name == "frame_circle" && len(p.Threads[0].Python) != pyframes.MaxDepth {
				t.Errorf("%d frames in a circle, not %d", len(p.Threads[0].Python), pyframes.MaxDepth)
			}
		})
	}
}

// TestCrowd looks at a process with more than 1,024 threads, which all wait for nobody.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const threads = 1100
	pid := start(t, newestPython(t), "testdata/programs.py", "crowd", fmt.Sprint(threads))
	r := must.Get(Look([]int{pid}, nil))(t)
	p := r.Processes[0]
	if n := len(p.Threads) + p.LeftOut; n != threads+1 || p.Verdict.Outcome != Stuck {
		t.Errorf("%d threads, %s: %s", n, p.Verdict.Outcome, p.Verdict.Text)
	}
}

// TestRefused looks at processes that cannot be looked at.
func TestRefused(t *testing.T) {
	t.Parallel()
	if _, err := Look([]int{1 << 30}, nil); err == nil || err.Error() != "there is no process 1073741824" {
		t.Error(err)
	}
	cmd := exec.Command("true")
	must.Do(t, cmd.Start())
	for s, ok := procfs.StatOf(cmd.Process.Pid); ok && !s.Ended; s, ok = procfs.StatOf(cmd.Process.Pid) {
		time.Sleep(time.Millisecond)
	}
	if _, err := Look([]int{cmd.Process.Pid}, nil); err == nil || !strings.Contains(err.Error(), "has ended; its parent, process") {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

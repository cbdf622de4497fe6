package cupti

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
)

// exits are the ways in which a program of the simulated stack ends.
var exits = []struct {
	mode   string
	reason string // that the process knows itself
	lost   bool   // nothing can be done
	plain  bool   // not with sanitizers: the library does what it does in another one, or nothing
}{
	{"return", "exit", false, false},
	{"exit", "exit", false, true},
	{"_exit", "", false, false},
	{"quick-exit", "quick_exit", false, false},
	{"abort", "signal 6 (SIGABRT)", false, false},
	{"segv", "signal 11 (SIGSEGV)", false, false},
	{"overflow", "", true, true}, // of the stack: a handler has none to run on
	{"overflow-with-stack", "signal 11 (SIGSEGV)", false, false},
	{"int", "signal 2 (SIGINT)", false, false},
	{"term", "signal 15 (SIGTERM)", false, true},
	{"hup", "signal 1 (SIGHUP)", false, true},
	{"kill", "", true, true},
	{"exception", "signal 6 (SIGABRT)", false, true},
	{"exec", "", false, false},
	{"thread-exit", "exit", false, false},
	{"fork-child", "exit", false, false},
	{"daemon", "exit", false, true},
	{"device-reset", "exit", false, false},
	{"hang", "signal 2 (SIGINT)", false, false},
}

// An ending is what is seen of a program's end from outside.
type ending struct {
	stdout, stderr string
	status         syscall.WaitStatus
}

// exitsCommand is the program with the exit signal sent where the recorder's probes
// would send it.
func exitsCommand(t *testing.T, environ, env []string, arg ...string) *exec.Cmd {
	t.Helper()
	cmd := play{simProgram(t, "exits"), arg, preloaded(t, env, "asks.so")}.command(t, environ)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// output is what a program has printed so far.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// runExits runs it to its end; one that hangs gets Ctrl-C when hangs returns.
func runExits(t *testing.T, cmd *exec.Cmd, hangs func()) ending {
	t.Helper()
	var out, errs output
	cmd.Stdout, cmd.Stderr = &out, &errs
	must.Do(t, cmd.Start())
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	if hangs != nil {
		hangs()
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}
	_ = cmd.Wait() // how it ended is in its state
	return ending{out.String(), errs.String(), cmd.ProcessState.Sys().(syscall.WaitStatus)}
}

// hung returns what waits until a program of mode "hang" has come to its last launch.
func hung(t *testing.T, mode string, arrived func() bool) func() {
	if mode != "hang" {
		return nil
	}
	return func() { must.Wait(t, arrived, func() string { return "it does not hang" }) }
}

func testExits(t *testing.T, n int, o Options, env []string, extra ...string) {
	for _, e := range exits {
		if e.plain && o.library != nil {
			continue
		}
		t.Run(e.mode, func(t *testing.T) {
			t.Parallel()
			arg := append([]string{e.mode, "-n", fmt.Sprint(n), "-c", "7"}, extra...)
			plain := exitsCommand(t, os.Environ(), nil, arg...) // without sanitizers, too
			want := runExits(t, plain, hung(t, e.mode, func() bool {
				return strings.Contains(plain.Stdout.(*output).String(), "counts ")
			}))
			if !strings.HasPrefix(want.stdout, fmt.Sprintf("counts kernels=%d ", n)) {
				t.Fatalf("without us it ended with %v", want)
			}
			s := newStage(t, o, GoConfig{FlushInterval: 50 * time.Millisecond})
			recorded := exitsCommand(t, s.server.Environ(os.Environ()), env, arg...)
			got := runExits(t, recorded, hung(t, e.mode, func() bool {
				s.tally.mu.Lock()
				defer s.tally.mu.Unlock()
				return s.counts["kernel"] == uint64(n-1)
			}))
			if got != want {
				t.Errorf("it ended with %v, without us with %v", got, want)
			}
			s.checkExit(t, n, e.reason, e.lost)
		})
	}
}

func (s *stage) checkExit(t *testing.T, n int, reason string, lost bool) {
	t.Helper()
	must.Wait(t, func() bool { return s.ended() > 0 }, func() string { return "no process has ended" })
	s.server.Wait(patience)
	if len(s.ends) != 1 || len(s.notes) != 0 {
		t.Fatalf("%d processes ended, notes %q", len(s.ends), s.notes)
	}
	e := s.ends[0]
	if lost {
		if e.Complete != 0 || e.Reason != "" {
			t.Errorf("the end is %+v", e)
		}
		return
	}
	delete(s.lost, "cupti_unfinished") // the kernel that hangs
	if s.counts["kernel"] != uint64(n) || s.counts["api"] != uint64(n)+s.counts["memset"] || len(s.lost) != 0 {
		t.Errorf("%v arrived, %v was lost, want %d kernels", s.counts, s.lost, n)
	}
	if e.Complete != 1 || e.Reason != reason || e.Kernels != uint64(n) || e.Until == 0 || e.Until > e.Time {
		t.Errorf("the end is %+v, want the reason %q", e, reason)
	}
}

func (s *stage) ended() int {
	s.audience.mu.Lock()
	defer s.audience.mu.Unlock()
	return len(s.ends)
}

// TestExits ends programs in every way there is: what they print and how they end is
// as without us, and not a record is missing.
func TestExits(t *testing.T) {
	t.Parallel()
	testExits(t, 1000, Options{}, nil)
}

// TestExitWithFullQueue ends a program whose queued kernels take the GPU longer than the wait for one that does not come.
func TestExitWithFullQueue(t *testing.T) {
	t.Parallel()
	const n = 400
	s := newStage(t, Options{}, GoConfig{FlushInterval: 50 * time.Millisecond})
	environ := append(s.server.Environ(os.Environ()), "CUDASIM_KERNEL_NS=2000000")
	if got := runExits(t, exitsCommand(t, environ, nil, "exec", "-n", fmt.Sprint(n), "-c", "7"), nil); got.status.ExitStatus() != 7 {
		t.Errorf("it ended with %v", got)
	}
	s.checkExit(t, n, "", false)
}

// TestExitsSanitized does what TestExits does with the library built for sanitizers, which keep
// their own handlers out of it.
func TestExitsSanitized(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"address", "thread"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			built, env := sanitizedLibrary(t, which)
			for i := range env {
				if strings.Contains(env[i], "SAN_OPTIONS=") {
					env[i] += ":handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0"
					env[i] += ":use_sigaltstack=0"
					if which == "thread" { // nothing about the stack itself
						env[i] += ":ignore_noninstrumented_modules=1"
					}
				}
			}
			// The stack keeps its streams to the end; what we leave would still be seen.
			known := filepath.Join(t.TempDir(), "suppressions")
			must.Do(t, os.WriteFile(known, []byte("leak:sim_stream_new\n"), 0o600))
			env = append(env, "LSAN_OPTIONS=print_suppressions=0:suppressions="+known)
			// A sanitizer's dlopen does not look where the calling library says.
			env = append(env, "LD_LIBRARY_PATH="+filepath.Join(filepath.Dir(filepath.Dir(simProgram(t, "exits"))), "lib"))
			testExits(t, 500, Options{library: built}, env)
		})
	}
}

// TestLastCall ends programs whose last call gives the GPU no work. The clock stands still: who
// waits for that work waits until the test moves the clock.
func TestLastCall(t *testing.T) {
	t.Parallel()
	for mode, waits := range map[string]bool{"fails": false, "empties": true, "allocates": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			config := GoConfig{FlushInterval: time.Hour, Calls: []string{"cudaLaunchKernel", "cudaMalloc"}}
			s, c := newStage(t, Options{}, config), newCues(t)
			c.stopClock()
			cmd := play{"program", []string{mode, "1", "100"}, c.env()}.command(t, s.server.Environ(os.Environ()))
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			must.Do(t, cmd.Start())
			timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
			defer timer.Stop()
			if waits {
				c.until(cueFlushesBegun, 6)
				c.advance(time.Second)
			}
			_ = cmd.Wait() // the exit code says it
			expect(t, out.String(), errs.String(), cmd.ProcessState.ExitCode(), "launched 101 dropped 0\n")
			if n := c.get(cueFlushesDone); waits != (n > 3) {
				t.Errorf("%d flushes", n)
			}
		})
	}
}

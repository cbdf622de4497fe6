package cupti

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestOwnHandlers runs programs with handlers of their own, installed before or after
// recording began: these run, and nothing else.
func TestOwnHandlers(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"--handlers", "--handlers-late"} {
		for mode, signal := range map[string]int{"int": 2, "abort": 6, "segv": 11, "term": 15, "hup": 1} {
			t.Run(mode+when, func(t *testing.T) {
				t.Parallel()
				const n = 5000
				s := newStage(t, Options{}, GoConfig{})
				arg := []string{mode, "-n", fmt.Sprint(n), "--group", when}
				got := runExits(t, exitsCommand(t, s.server.Environ(os.Environ()), nil, arg...), nil)
				if !strings.HasSuffix(got.stdout, "\nhandled\n") || !got.status.Exited() || got.status.ExitStatus() != 100+signal {
					t.Errorf("it ended with %v", got)
				}
				s.checkExit(t, n, "", false)
			})
		}
	}
}

// running starts a program that has launched 2 × 1000 kernels and lives on, and
// returns its PID, a function that ends its input, and one that waits for its end.
func (s *stage) running(t *testing.T, mode string, env ...string) (pid int, finish func(), end func() syscall.WaitStatus) {
	t.Helper()
	cmd, input := s.waiting(t, mode, env)
	return cmd.Process.Pid, func() { input.Close() }, func() syscall.WaitStatus {
		_ = cmd.Wait() // how it ended is in its state
		s.server.Wait(patience)
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
}

// signals returns a set of signals of a process: SigCgt, SigIgn.
func signals(t *testing.T, pid int, set string) (list []int) {
	t.Helper()
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	for line := range strings.Lines(string(status)) {
		var bits uint64
		if rest, ok := strings.CutPrefix(line, set+":"); ok {
			must.Get(fmt.Sscanf(rest, "%x", &bits))(t)
			for i := range 64 {
				if bits>>i&1 == 1 {
					list = append(list, i+1)
				}
			}
		}
	}
	return list
}

// killing are the signals whose default is to end a process, without SIGKILL.
var killing = []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31}

// TestHandlersComeAndGo looks at what a program's signals do while it is recorded,
// and afterwards.
func TestHandlersComeAndGo(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	pid, finish, end := s.running(t, "wait")
	// Signals that this process ignores, the program ignores as well.
	ignored := signals(t, pid, "SigIgn")
	want := slices.DeleteFunc(append(slices.Clone(killing), int(unix.SIGURG)), func(n int) bool { return slices.Contains(ignored, n) })
	slices.Sort(want)
	library := func(n int) bool { return n == 32 || n == 33 } // glibc's own
	if got := slices.DeleteFunc(signals(t, pid, "SigCgt"), library); !slices.Equal(got, want) {
		t.Errorf("signals %v have handlers, want %v", got, want)
	}
	if left := s.server.StopAll(patience); left != 0 {
		t.Errorf("%d processes did not stop", left)
	}
	handled := func() []int { return slices.DeleteFunc(signals(t, pid, "SigCgt"), library) }
	must.Wait(t, func() bool { return len(handled()) == 0 }, func() string {
		return fmt.Sprintf("signals %v still have handlers", handled())
	})
	finish()
	if status := end(); status.ExitStatus() != 7 {
		t.Errorf("the program ended with %v", status)
	}
}

// TestIgnoredSignals starts a program that ignores a signal, as nohup does.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{})
	dir := must.Get(fake())(t)
	stdout, stderr, code := s.run(t, play{"/bin/sh", []string{"-c",
		"trap '' HUP TERM; exec " + dir + "/program return 2 10"}, nil})
	expect(t, stdout, stderr, code, "launched 20 dropped 0\n")
	s.whole(t, 20)
}

// TestExitSignal sends the exit signal to a program that goes on: all is handed over,
// and recording continues.
func TestExitSignal(t *testing.T) {
	t.Parallel()
	for mode, signal := range map[string]uint32{"wait": uint32(unix.SIGURG), "urgent": 61} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			testExitSignal(t, mode, signal)
		})
	}
}

func testExitSignal(t *testing.T, mode string, signal uint32) {
	t.Helper()
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
	pid, finish, end := s.running(t, mode)
	s.audience.mu.Lock()
	exits := slices.Clone(s.exits)
	s.audience.mu.Unlock()
	if len(exits) != 1 || exits[0].signal != signal || exits[0].handler == 0 {
		t.Fatalf("exit signals %v, want %d", exits, signal)
	}
	must.Do(t, unix.Tgkill(pid, pid, unix.Signal(signal)))
	s.until(t, func() bool { return s.counts["kernel"] == 2000 && s.counts["api"] == 2000 && s.counts["flushed"] == 1 })
	finish()
	if status := end(); status.ExitStatus() != 7 {
		t.Errorf("the program ended with %v", status)
	}
	s.whole(t, 4000)
}

// until waits until something is so of what has arrived.
func (s *stage) until(t *testing.T, is func() bool) {
	t.Helper()
	so := func() bool {
		s.tally.mu.Lock()
		defer s.tally.mu.Unlock()
		return is()
	}
	must.Wait(t, so, func() string { return "not all has arrived" })
}

// TestSignalled ends programs by signals in unusual ways.
func TestSignalled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode   string
		signal syscall.Signal
	}{{"chain", syscall.SIGTERM}, {"fork-signal", syscall.SIGTERM}, {"crash-all", syscall.SIGSEGV}} {
		t.Run(test.mode, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
			cmd := play{"program", []string{test.mode, "4", "500"}, nil}.command(t, s.server.Environ(os.Environ()))
			got := runExits(t, cmd, nil)
			s.server.Wait(patience)
			if !got.status.Signaled() || got.status.Signal() != test.signal || got.stdout != "launched 2000 dropped 0\n" {
				t.Errorf("the program ended with %v", got)
			}
			s.whole(t, 2000)
			want := fmt.Sprintf("signal %d (%s)", int(test.signal), unix.SignalName(test.signal))
			if s.ends[0].Reason != want {
				t.Errorf("the end is %+v", s.ends[0])
			}
		})
	}
}

// TestSecondSignal has a signal wait for a flush that hangs, and a second one that does
// not wait. The clock stands still meanwhile, so that twins are twins on any machine.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	cue := newCues(t)
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour, ExitWait: patience})
	pid, finish, end := s.running(t, "wait", cue.env()...)
	defer finish()
	cue.set(cueHang, 1)
	cue.stopClock()
	kill(t, pid, syscall.SIGTERM)
	cue.until(cueFlushesBegun, 1)
	kill(t, pid, syscall.SIGTERM) // a twin, as timeout(1) sends it
	waitsAgain(t, pid, syscall.SIGTERM)
	cue.advance(100 * time.Millisecond)
	kill(t, pid, syscall.SIGINT)
	if status := end(); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("the program ended with %v", status)
	}
	if len(s.ends) != 1 || s.ends[0].Complete != 0 {
		t.Errorf("the end is %+v", s.ends)
	}
}

func kill(t *testing.T, pid int, signal syscall.Signal) {
	t.Helper()
	must.Do(t, syscall.Kill(pid, signal))
}

// TestSignalWhileFlushHangs has CUPTI hang: the program dies as it would, when it has
// waited for as long as it may, or when nothing has moved for a while.
func TestSignalWhileFlushHangs(t *testing.T) {
	t.Parallel()
	const stall = 1500 * time.Millisecond // CT_STALL of the library
	for wait, most := range map[time.Duration]time.Duration{300 * time.Millisecond: 300 * time.Millisecond, patience: stall} {
		t.Run(wait.String(), func(t *testing.T) {
			t.Parallel()
			cue := newCues(t)
			s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour, ExitWait: wait})
			pid, finish, end := s.running(t, "wait", cue.env()...)
			defer finish()
			cue.set(cueHang, 1)
			cue.stopClock()
			kill(t, pid, syscall.SIGTERM)
			cue.until(cueFlushesBegun, 1)
			waitsAgain(t, pid, syscall.SIGTERM)
			cue.advance(most - time.Nanosecond) // and waits on
			waitsAgain(t, pid, syscall.SIGTERM)
			cue.advance(2 * time.Nanosecond)
			if status := end(); !status.Signaled() || status.Signal() != syscall.SIGTERM {
				t.Errorf("the program ended with %v", status)
			}
			if len(s.ends) != 1 || s.ends[0].Complete != 0 || s.ends[0].Reason != "" {
				t.Errorf("the end is %+v", s.ends)
			}
		})
	}
}

// TestForks forks children in the midst of everything, with the library's threads
// holding whatever locks they do: none of them hangs, and each ends as it would.
func TestForks(t *testing.T) {
	t.Parallel()
	builds(t, func(t *testing.T, o Options, env []string) {
		s := newStage(t, o, GoConfig{FlushInterval: 10 * time.Millisecond})
		// In a child, what a thread of the parent knows of looks leaked, and TSan sleeps at each exit.
		env = append(slices.Clip(env), "LSAN_OPTIONS=detect_leaks=0", "TSAN_OPTIONS=exitcode=55:atexit_sleep_ms=0")
		stdout, stderr, code := s.run(t, play{"program", []string{"forks", "2", "6000"}, env})
		expect(t, stdout, stderr, code, "launched 12000 dropped 0\n")
		if s.ends[0].Kernels != 12000 || s.ends[0].Complete != 1 || len(s.ends) != 1 {
			t.Errorf("the end is %+v", s.ends)
		}
	})
}

// TestSignalWithinCall interrupts a thread that holds a lock which the flush needs: it
// is let go until that is free, and dies then, of that signal.
func TestSignalWithinCall(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			t.Parallel()
			cue := newCues(t)
			s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
			pid, finish, end := s.running(t, "hold", cue.env()...)
			defer finish()
			cue.until(cueHeld, 1)
			kill(t, pid, signal)
			if status := end(); !status.Signaled() || status.Signal() != signal {
				t.Errorf("the program ended with %v", status)
			}
			s.whole(t, 1000)
		})
	}
}

// TestSignalWithoutTimer interrupts a thread that might be in the way of a slow flush. It cannot be let go for a
// while, since there is no timer that would send the signal again: it waits for the flush.
func TestSignalWithoutTimer(t *testing.T) {
	t.Parallel()
	cue := newCues(t)
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
	pid, finish, end := s.running(t, "spin", cue.env()...)
	defer finish()
	must.Do(t, unix.Prlimit(pid, unix.RLIMIT_SIGPENDING, &unix.Rlimit{}, nil))
	cue.set(cueHang, 1)
	cue.stopClock()
	kill(t, pid, syscall.SIGTERM)
	cue.until(cueFlushesBegun, 1)
	cue.advance(40 * time.Millisecond) // more than LET_GO of the library
	before := waits(t, pid)
	must.Wait(t, func() bool { return waits(t, pid) > before+5 }, func() string { return "the program does not wait" })
	cue.set(cueHang, 0)
	if status := end(); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("the program ended with %v", status)
	}
	s.whole(t, 1000)
}

// waits counts how often the main thread of a process has waited.
func waits(t *testing.T, pid int) (n int) {
	t.Helper()
	b := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)
	_, count, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
	if _, err := fmt.Sscan(count, &n); err != nil {
		t.Fatalf("the program has ended: %v", err)
	}
	return n
}

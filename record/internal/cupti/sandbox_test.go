package cupti

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// socketCalls are those of sockets.
var socketCalls = []uintptr{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_RECVFROM,
	unix.SYS_RECVMSG, unix.SYS_GETSOCKOPT, unix.SYS_SETSOCKOPT, unix.SYS_SHUTDOWN}

// refusable are system calls that a program may refuse: those that the library makes after its start, with those
// that stand in for them, and others. Calls of TestKillingSandbox that stand alone cannot fail, since none is made.
var refusable = []struct {
	calls  []uintptr
	little bool // records may be lost, for want of memory
}{
	{calls: []uintptr{unix.SYS_WRITEV}},
	{calls: []uintptr{unix.SYS_FUTEX}},
	{calls: []uintptr{unix.SYS_FUTEX, unix.SYS_NANOSLEEP}},
	{calls: append([]uintptr{unix.SYS_FUTEX, unix.SYS_NANOSLEEP}, pollCalls...)},
	{calls: []uintptr{unix.SYS_MMAP}, little: true},
	{calls: []uintptr{unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT}},
	{calls: []uintptr{unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGACTION}},
	{calls: []uintptr{unix.SYS_GETPID, unix.SYS_GETTID}},
	{calls: []uintptr{unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD}},
}

// TestRefusedSystemCalls has a program that is recorded refuse system calls to all of its threads, with the errors of
// sandboxes. The library looks at the error of a futex; it treats those of other calls alike: rows have them in turn.
func TestRefusedSystemCalls(t *testing.T) {
	t.Parallel()
	for i, r := range refusable {
		errors := []unix.Errno{unix.EPERM, unix.ENOSYS}
		if !slices.Contains(r.calls, unix.SYS_FUTEX) {
			errors = errors[i%2:][:1]
		}
		var words []string
		for _, nr := range r.calls {
			words = append(words, fmt.Sprint(nr))
		}
		for _, errno := range errors {
			box := fmt.Sprintf("error=%d %s", errno, strings.Join(words, " "))
			t.Run(strings.ReplaceAll(box, " ", ","), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour, ExitWait: 2 * time.Second})
				s.playInSandbox(t, box, !r.little)
				if r.little {
					s.accounted(t)
				} else {
					s.whole(t, 3*sandboxLaunches)
				}
			})
		}
	}
}

// TestKillingSandbox has the sandbox kill the program for system calls that the library can do without.
func TestKillingSandbox(t *testing.T) {
	t.Parallel()
	box := "kill"
	others := []uintptr{unix.SYS_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_RT_SIGACTION, unix.SYS_TGKILL, unix.SYS_KILL,
		unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_PRCTL}
	for _, nr := range slices.Concat(others, pollCalls, socketCalls) {
		box += fmt.Sprintf(" %d", nr)
	}
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
	s.playInSandbox(t, box, true)
	s.whole(t, 3*sandboxLaunches)
}

// TestNoDescriptorsLeft has the program take all descriptors from itself: none is needed after the start.
func TestNoDescriptorsLeft(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{}, GoConfig{FlushInterval: time.Hour})
	s.playInSandbox(t, "nofile=0", true)
	s.whole(t, 3*sandboxLaunches)
}

const sandboxLaunches = 1000

// playInSandbox runs a program that puts itself into a sandbox. With flush, what it has launched by then
// is asked for, and arrives before the program's end.
func (s *stage) playInSandbox(t *testing.T, box string, flush bool) {
	t.Helper()
	cmd := play{"program", []string{"sandbox", "1", fmt.Sprint(sandboxLaunches)}, []string{"SANDBOX=" + box}}.command(t, s.server.Environ(nil))
	var out, errs strings.Builder
	cmd.Stderr = &errs
	input, output := started(t, cmd)
	line := make([]byte, len("waiting\n"))
	if _, err := io.ReadFull(output, line); err != nil {
		t.Errorf("the program does not wait: %v", err)
	}
	if flush {
		s.server.peers.each(func(p *peer) { p.tell(msgFlush, nil) })
		arrived := func() bool {
			s.tally.mu.Lock()
			defer s.tally.mu.Unlock()
			return s.counts["kernel"] == 2*sandboxLaunches
		}
		must.Wait(t, arrived, func() string { return "what it has launched has not arrived" })
	}
	input.Close()
	if _, err := io.Copy(&out, output); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // the exit code says it
	expect(t, out.String(), errs.String(), cmd.ProcessState.ExitCode(), fmt.Sprintf("launched %d dropped 0\n", 3*sandboxLaunches))
	if left := s.server.Wait(patience); left != 0 {
		t.Fatalf("%d processes are still connected", left)
	}
}

// accounted checks that what has not arrived is counted as lost.
func (s *stage) accounted(t *testing.T) {
	t.Helper()
	var lost uint64
	for _, n := range s.lost {
		lost += n
	}
	if n := s.counts["kernel"] + s.counts["api"] + lost; n < 6*sandboxLaunches || len(s.ends) != 1 {
		t.Errorf("%v arrived and %v was lost of %d launches, the end is %+v", s.counts, s.lost, 3*sandboxLaunches, s.ends)
	}
}

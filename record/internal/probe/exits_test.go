package probe

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// An ending is a program of testdata/ends.c that waits to end.
type ending struct {
	tb      testing.TB
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  io.ReadCloser
	handler uint64
}

func startEnding(tb testing.TB, mode string) *ending {
	tb.Helper()
	dir := must.Get(builds())(tb)
	e := &ending{tb: tb, cmd: exec.Command(filepath.Join(dir, "ends"), mode)}
	starting.Lock()
	defer starting.Unlock()
	e.stdin, e.stdout = pipetest.Start(tb, e.cmd)
	tb.Cleanup(func() { e.cmd.Process.Kill(); e.cmd.Wait() })
	must.Get(fmt.Fscanf(e.stdout, "%v\n", &e.handler))(tb)
	return e
}

func (e *ending) pid() int { return e.cmd.Process.Pid }

// end lets the program end, and returns what it printed.
func (e *ending) end() string {
	e.tb.Helper()
	must.Get(io.WriteString(e.stdin, "end\n"))(e.tb)
	return e.wait()
}

func (e *ending) wait() string {
	e.tb.Helper()
	text := must.Get(io.ReadAll(e.stdout))(e.tb)
	e.cmd.Wait()
	return string(text)
}

func watchExit(tb testing.TB, p *Prober, e *ending) {
	tb.Helper()
	if err := p.WatchExit(e.pid(), int(unix.SIGURG), e.handler, 0); err != nil {
		tb.Fatalf("%v: %v", err, unwrapAll(err))
	}
}

// Every way of ending: what the program prints, in order, and how it ended. "asked" is
// from the library, "own" from the program's handler.
var endings = []struct{ mode, printed, reason string }{
	{"return", "asked\n", "status 9"},
	{"_exit", "asked\n", "status 3"},
	{"quick-exit", "asked\n", "status 4"},
	{"thread", "asked\n", "status 7"},
	{"exec", "asked\nHANDLER\n", "status 6"},
	{"fexecve", "asked\nHANDLER\n", "status 6"},
	{"exec-fails", "asked\nasked\nlives\nasked\nHANDLER\n", "status 6"},
	{"term", "asked\nown\n", "status 115"},
	{"segv", "asked\nown\n", "status 111"},
	{"segv-stack", "asked\nown\n", "status 111"},
	{"segv-small-stack", "own\n", "status 111"},
	{"term-masked", "own\n", "status 115"},
	{"term-default", "", "signal 15 (SIGTERM)"},
	{"segv-library", "library\n", "status 139"},
	{"pipes", "asked\n", "status 9"},
	{"reset", "", "status 3"},
	{"replaced", "", "status 3"},
	{"blocked", "", "status 3"},
	{"fork", "asked\n", "status 9"},
	{"spawn", "asked\n", "status 9"},
	{"system-call", "", "status 5"},
}

func TestEndings(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p := open(t, Options{mode: m})
		for _, c := range endings {
			e := startEnding(t, c.mode)
			watchExit(t, p, e)
			if _, ok := p.ExitReason(e.pid()); ok {
				t.Errorf("%s: an end is seen before it comes", c.mode)
			}
			before := host.Monotonic()
			printed := withoutAddress(e.end())
			goldentest.Same(t, c.printed, printed, "%s: printed", c.mode)
			exit, ok := p.ExitReason(e.pid())
			if !ok || !exit.Final || exit.Reason != c.reason || exit.Time < before || exit.Time > host.Monotonic() {
				t.Errorf("%s: ended by %+v, want %s", c.mode, exit, c.reason)
			}
		}
	})
}

// With what it needs prepared, a process that is attached first is watched all the same,
// and one that is not watched is left alone.
func TestWatchPrepared(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p := open(t, Options{mode: m, WatchExits: true})
		for _, watched := range []bool{true, false} {
			e := startEnding(t, "_exit")
			must.Get(p.Attach(e.pid()))(t)
			want := ""
			if watched {
				watchExit(t, p, e)
				want = "asked\n"
			}
			if printed := e.end(); printed != want {
				t.Errorf("watched: %v: printed %q", watched, printed)
			}
			if exit, ok := p.ExitReason(e.pid()); !ok || exit.Reason != "status 3" {
				t.Errorf("ended by %+v", exit)
			}
		}
	})
}

// A Prober that is closed at once, while something is being prepared.
func TestCloseAtOnce(t *testing.T) {
	t.Parallel()
	for range 3 {
		p := open(t, Options{WatchExits: true})
		must.Do(t, p.Close())
	}
}

// withoutAddress puts a word in place of the address that a program prints first.
func withoutAddress(printed string) string {
	lines := strings.Split(printed, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "0x") {
			lines[i] = "HANDLER"
		}
	}
	return strings.Join(lines, "\n")
}

// A program that takes faults as a matter of course is asked a few times, then never.
func TestFrequentFaults(t *testing.T) {
	t.Parallel()
	p, e := open(t, Options{}), startEnding(t, "faults")
	watchExit(t, p, e)
	n := strings.Count(e.end(), "asked\n")
	if n < 2 || n > bpf.MaxFaultAsks+1 { // once at its end
		t.Errorf("asked %d times", n)
	}
}

// Without probes on libc a program's own handlers are noticed, and what _exit and exec were is known afterwards.
func TestWatchSignalsAlone(t *testing.T) {
	t.Parallel()
	p := open(t, Options{OnlyOfFiles: true, WatchExits: true})
	for _, c := range []struct {
		mode, printed, reason string
		execs                 bool
	}{{"_exit", "", "status 3", false}, {"exec", "HANDLER\n", "status 6", true}, {"term", "asked\nown\n", "status 115", false}} {
		e := startEnding(t, c.mode)
		if a, err := p.Attach(e.pid()); err != nil || len(a.Libraries) != 0 {
			t.Fatalf("%+v, %v", a, err)
		}
		watchExit(t, p, e)
		if printed := withoutAddress(e.end()); printed != c.printed {
			t.Errorf("%s: printed %q", c.mode, printed)
		}
		if exit, ok := p.ExitReason(e.pid()); !ok || exit.Reason != c.reason || (exit.Exec != 0) != c.execs || exit.Traced {
			t.Errorf("%s: ended by %+v", c.mode, exit)
		}
	}
}

func TestKilled(t *testing.T) {
	t.Parallel()
	p, e := open(t, Options{}), startEnding(t, "hang")
	watchExit(t, p, e)
	e.cmd.Process.Kill()
	if printed := e.wait(); printed != "" {
		t.Errorf("printed %q", printed)
	}
	exit, ok := p.ExitReason(e.pid())
	if !ok || !exit.Final || exit.Reason != "signal 9 (SIGKILL)" || exit.Status != 137 {
		t.Errorf("ended by %+v", exit)
	}
}

// How a process ended is known also when it was only attached, and after Finish.
func TestEndOfAttached(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	attach(t, p, target)
	target.kill()
	finish(t, p)
	if exit, ok := p.ExitReason(target.pid); !ok || exit.Status != 137 {
		t.Errorf("ended by %+v", exit)
	}
}

// A process that is watched again, or detached, is asked once or never.
func TestWatchAgain(t *testing.T) {
	t.Parallel()
	p := open(t, Options{})
	for _, c := range []struct {
		name    string
		prepare func(e *ending) error
		printed string
	}{
		{"twice", func(e *ending) error { return p.WatchExit(e.pid(), int(unix.SIGURG), e.handler, 0) }, "asked\n"},
		{"elsewhere", func(e *ending) error { return p.WatchExit(e.pid(), int(unix.SIGURG), e.handler+1, 0) }, ""},
		{"over", func(e *ending) error { return p.WatchExit(e.pid(), int(unix.SIGURG), e.handler, e.handler) }, ""}, // its code is not 0
		{"other signal", func(e *ending) error { return p.WatchExit(e.pid(), int(unix.SIGUSR2), e.handler, 0) }, ""},
		{"detached", func(e *ending) error { return p.Detach(e.pid()) }, ""},
	} {
		e := startEnding(t, "_exit")
		watchExit(t, p, e)
		if err := c.prepare(e); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if printed := e.end(); printed != c.printed {
			t.Errorf("%s: printed %q", c.name, printed)
		}
	}
}

func TestWatchErrors(t *testing.T) {
	t.Parallel()
	p, e := open(t, Options{}), startEnding(t, "hang")
	for _, c := range []struct {
		pid, signal int
		handler     uint64
		words       string
	}{
		{e.pid(), 0, e.handler, "makes no sense"},
		{e.pid(), 65, e.handler, "makes no sense"},
		{e.pid(), 23, 1, "makes no sense"},
		{e.pid(), 23, 4096, "no library's code"},
		{1 << 30, 23, e.handler, "has ended"},
	} {
		if err := p.WatchExit(c.pid, c.signal, c.handler, 0); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

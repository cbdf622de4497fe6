package cupti

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// A lateHandler is an audience that can be slow.
type lateHandler struct {
	*audience
	hello, end func()
}

func (h *lateHandler) Hello(p Peer) (GoConfig, Listener) {
	h.hello()
	c, _ := h.audience.Hello(p)
	return c, h
}

func (h *lateHandler) End(e End) {
	h.end()
	h.audience.End(e)
}

// A lateProgram is the simulated stack's told, with long exit handlers, which a recorder has called.
type lateProgram struct {
	*tally
	*audience
	server *Server
	pid    int
	in     io.WriteCloser
	out    *bufio.Reader
	cmd    *exec.Cmd
}

func startLate(t *testing.T, hello, end func()) *lateProgram {
	t.Helper()
	setting := InjectionVar + "=" + armFolder(t)
	cmd := exec.Command(simProgram(t, "told"), "--exits")
	cmd.Env = append(os.Environ(), setting)
	in, out := started(t, cmd)
	heard := &audience{config: GoConfig{Late: true, Records: DefaultRecords}}
	p := &lateProgram{newTally(), heard, nil, cmd.Process.Pid, in, bufio.NewReader(out), cmd}
	p.expect(t, "ready")
	calls, refused := CallArmed([]ArmedProcess{LookForArmed(p.pid)})
	if len(calls) != 1 {
		t.Fatal(refused)
	}
	p.server = must.Get(Join(p.tally, []Entrance{calls[0].Entrance}, nil))(t)
	t.Cleanup(func() { p.server.Close(); calls[0].Close() })
	go p.server.Serve(&lateHandler{heard, hello, end})
	must.Do(t, calls[0].Ring())
	return p
}

func (p *lateProgram) expect(t *testing.T, want string) {
	t.Helper()
	if line, err := p.out.ReadString('\n'); line != want+"\n" {
		t.Fatalf("the program said %q, %v; want %q", line, err, want)
	}
}

// catches reports whether the program has a handler of a signal.
func (p *lateProgram) catches(t *testing.T, signal syscall.Signal) bool {
	t.Helper()
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid)))(t))
	_, caught, _ := strings.Cut(status, "SigCgt:\t")
	mask := must.Get(strconv.ParseUint(strings.Fields(caught)[0], 16, 64))(t)
	return mask&(1<<(signal-1)) != 0
}

func (p *lateProgram) end(t *testing.T) {
	t.Helper()
	p.in.Close()
	io.Copy(io.Discard, p.out)
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the program ended with %v", err)
	}
}

// TestLateGo answers a program that has begun to exit before the answer came, and does not wait for it: it is left alone.
func TestLateGo(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	p := startLate(t, func() { close(asked); <-answer }, func() {})
	<-asked
	const meetingWait = 2 * time.Second // MEETING_WAIT of main.c
	began := time.Now()
	must.Get(io.WriteString(p.in, "exit\n"))(t)
	for _, line := range []string{"told failed=0 children=0", "counts kernels=0 copies=1 sets=1", "exits"} {
		p.expect(t, line)
	}
	if waited := time.Since(began); waited >= meetingWait {
		t.Errorf("it waited for %v", waited)
	}
	close(answer)
	if left := p.server.Wait(5 * time.Second); left != 0 {
		t.Error("it is recorded")
	}
	if len(p.ends) != 1 || !strings.HasSuffix(p.ends[0].Absent, "about to end") {
		t.Errorf("it is said to have ended so: %+v", p.ends)
	}
	files := must.Get(procfs.Files(p.pid))(t)
	if slices.ContainsFunc(files, func(path string) bool { return strings.Contains(path, "libcupti") }) {
		t.Error("CUPTI is loaded where CUDA is gone")
	}
	p.end(t)
}

// TestTrapUntilLeft has a program catch SIGTRAP until the recorder has left, and may not set a breakpoint any more.
func TestTrapUntilLeft(t *testing.T) {
	ending, leave := make(chan time.Time, 1), make(chan struct{})
	p := startLate(t, func() {}, func() { ending <- time.Now(); <-leave })
	if status := <-p.statuses; status != "on" || !p.catches(t, syscall.SIGTRAP) {
		t.Fatalf("CUPTI is %s", status)
	}
	go p.server.StopAll(patience)
	began := <-ending
	time.Sleep(200 * time.Millisecond)
	if caught := p.catches(t, syscall.SIGTRAP); !caught && time.Since(began) < 800*time.Millisecond {
		t.Error("it does not catch SIGTRAP any more")
	}
	close(leave)
	must.Wait(t, func() bool { return !p.catches(t, syscall.SIGTRAP) },
		func() string { return "it still catches SIGTRAP" })
	p.end(t)
}

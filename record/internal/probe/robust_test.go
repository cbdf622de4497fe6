package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recorderChild holds a PID in this test program when it is to record that process
// until it is killed.
const recorderChild = "CUDATRACE_TEST_RECORDS"

func recordUntilKilled(pid string) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		os.Exit(1)
	}
	p, err := Open(Options{Functions: cudaapi.Functions(cudaapi.All), BufferBytes: 1 << 20})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if _, err := p.Attach(n); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("recording")
	unix.Pause()
}

// When the recorder is killed, the kernel removes all probes, and the program runs on.
func TestRecorderKilled(t *testing.T) {
	must.BeRoot(t)
	t.Parallel()
	target := startTarget(t, "driver")
	before := codeOf(t, target.pid)
	child := exec.Command("/proc/self/exe")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d", recorderChild, target.pid))
	out := must.Get(child.StdoutPipe())(t)
	must.Do(t, child.Start())
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "recording" {
		t.Fatalf("the recorder says %q", lines.Text())
	}
	if bytes.Equal(before, codeOf(t, target.pid)) {
		t.Fatal("probes don't show in the code")
	}
	target.run("launches", 100)
	must.Do(t, child.Process.Kill())
	child.Wait()
	must.Wait(t, func() bool { return bytes.Equal(before, codeOf(t, target.pid)) }, func() string {
		return "probes are left"
	})
	target.run("launches", 100)
}

// What returned before DrainedUntil has been delivered.
func TestDrainedUntil(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	attach(t, p, target)
	if until := p.DrainedUntil(); until != 0 {
		t.Errorf("drained until %d before the first time", until)
	}
	var r recorder
	for range 20 {
		target.run("launches", 100)
		ran := host.Monotonic()
		must.Do(t, p.Drain(&r))
		if until := p.DrainedUntil(); until < ran || until > host.Monotonic() {
			t.Errorf("drained until %d, the calls ended before %d", until, ran)
		}
	}
	if len(r.calls) != 2000 {
		t.Errorf("%d calls of 2000", len(r.calls))
	}
}

// The buffers together take what was asked for, and losses are told of once, with
// the time between two questions in which they happened.
func TestLossesInTime(t *testing.T) {
	t.Parallel()
	const ring = 256 << 10
	p, target := open(t, Options{BufferBytes: ring}), startTarget(t, "driver")
	if size := p.layout.bytes(); size != ring {
		t.Errorf("buffers of %d bytes together", size)
	}
	attach(t, p, target)
	var sum uint64
	for range 3 {
		from := host.Monotonic()
		if lost, err := p.LostSince(); err != nil || len(lost) != 0 {
			t.Errorf("lost %+v without a call (%v)", lost, err)
		}
		target.run("launches", 10_000)
		lost, err := p.LostSince()
		if err != nil || len(lost) != 1 || lost[0].Cause != tracelog.LostCallBuffer || lost[0].From < from || lost[0].To > host.Monotonic() || lost[0].To < lost[0].From {
			t.Fatalf("lost %+v after %d (%v)", lost, from, err)
		}
		sum += lost[0].Count
	}
	if all := lostCalls(t, p, tracelog.LostCallBuffer); all != sum {
		t.Errorf("%d lost in parts, %d in all", sum, all)
	}
}

// Processes that have ended make room for others: a recording of many short ones keeps
// nothing of them but how they ended.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	p := open(t, Options{})
	var first *target
	for range 5 {
		target := startTarget(t, "driver")
		attach(t, p, target)
		target.run("launches", 3)
		target.kill()
		if first == nil {
			first = target
		}
	}
	p.mu.Lock()
	if n := len(p.byPID); n != 1 {
		t.Errorf("%d processes are attached", n)
	}
	p.mu.Unlock()
	if r := finish(t, p); len(r.calls) != 15 {
		t.Errorf("%d calls of 15", len(r.calls))
	}
	if exit, ok := p.ExitReason(first.pid); !ok || !exit.Final {
		t.Errorf("the first ended by %+v", exit)
	}
	p.background.closing.Wait()
	if err := p.background.takeErrors(); err != nil {
		t.Error(err)
	}
}

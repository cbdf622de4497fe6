package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// An armedProgram is a program that waits for a recorder, and does what it is told.
type armedProgram struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startArmed starts the simulated stack's told, or a command that becomes it. The path of its temporary folder has
// spaces, and is as long as it may be.
func startArmed(t *testing.T, command ...string) *armedProgram {
	t.Helper()
	if len(command) == 0 {
		command = []string{sim("told")}
	}
	p := &armedProgram{cmd: exec.Command("cudatrace", append([]string{"run", "--armed"}, command...)...)}
	const longest = 81 // with the folder and the socket's name in it 107 bytes
	folder := t.TempDir() + "/"
	folder += strings.Repeat(" ", max(longest-len(folder), 1))
	must.Do(t, os.Mkdir(folder, 0o700))
	p.cmd.Stderr, p.cmd.Env = os.Stderr, append(os.Environ(), "TMPDIR="+folder)
	in, err1 := p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	p.in, p.out = in, bufio.NewReader(out)
	must.Do(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill(); p.cmd.Wait() })
	return p
}

// expect reads a line of the program's output.
func (p *armedProgram) expect(t *testing.T, want string) {
	t.Helper()
	if line, err := p.out.ReadString('\n'); line != want+"\n" {
		t.Fatalf("the program said %q, %v; want %q", line, err, want)
	}
}

// tell has the program do something, and waits until it is done.
func (p *armedProgram) tell(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		must.Get(io.WriteString(p.in, line+"\n"))(t)
		p.expect(t, "done")
	}
}

// end has the program end, which prints what it prints alone.
func (p *armedProgram) end(t *testing.T, words ...string) {
	t.Helper()
	p.in.Close()
	for _, line := range words {
		p.expect(t, line)
	}
	if rest, err := io.ReadAll(p.out); len(rest) > 0 || err != nil {
		t.Errorf("it also said %q, %v", rest, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func (p *armedProgram) hasCUPTI(t *testing.T) bool {
	t.Helper()
	files := must.Get(procfs.Files(p.cmd.Process.Pid))(t)
	return slices.ContainsFunc(files, func(path string) bool { return strings.Contains(path, "libcupti") })
}

// await waits until doctor says a text.
func (p *armedProgram) await(t *testing.T, want string) {
	t.Helper()
	said := ""
	must.Wait(t, func() bool {
		said, _ = outputOf(exec.Command("cudatrace", "doctor", "-p", fmt.Sprint(p.cmd.Process.Pid)))
		return strings.Contains(said, want)
	}, func() string { return "doctor said " + said })
}

// doctor holds what doctor says of the program against a text.
func (p *armedProgram) doctor(t *testing.T, want string) {
	t.Helper()
	if said, _ := outputOf(exec.Command("cudatrace", "doctor", "-p", fmt.Sprint(p.cmd.Process.Pid))); !strings.Contains(said, want) {
		t.Errorf("doctor said %s", said)
	}
}

// record records the program, from when the recorder has said something.
func (p *armedProgram) record(t *testing.T, said string) *background {
	t.Helper()
	b := startInBackground(t, "--flush-interval", "50ms", "-p", fmt.Sprint(p.cmd.Process.Pid))
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), said) })
	return b
}

// stop ends the recorder and reads its log.
func (b *background) stop(t *testing.T) {
	t.Helper()
	b.cmd.Process.Signal(syscall.SIGINT)
	if code := b.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.read(t, b.base+".cudatrace")
}

const (
	saidWork  = "recording the calls and GPU work of told"
	saidCalls = "recording the calls of told"
)

// TestArmed records a program that waited for it: launches, copies, and a graph that was instantiated before. Until
// then the program has not loaded CUPTI; afterwards it runs on, and further recordings are like the first one.
func TestArmed(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	p.tell(t, "launch 10", "capture", "graph 1")
	if p.hasCUPTI(t) {
		t.Error("CUPTI is loaded before a recorder came")
	}
	for n := range 3 {
		p.await(t, "is armed: it waits for a recorder")
		b := p.record(t, saidWork)
		p.doctor(t, "is armed and being recorded")
		p.tell(t, "launch 100", "graph 7")
		b.stop(t)
		if b.Kernels != 107 || b.Copies != 7 || b.Unmatched != 0 || !b.Complete || b.Launches != 100 || b.Pairs != b.Calls {
			t.Errorf("recording %d: %d kernels, %d copies, unmatched %d, complete %t %q, %d launches, %d pairs of %d calls\n%s",
				n, b.Kernels, b.Copies, b.Unmatched, b.Complete, b.Reasons, b.Launches, b.Pairs, b.Calls, b.recording.stderr)
		}
		p.tell(t, "launch 5")
	}
	p.end(t, "told failed=0 children=0", "counts kernels=347 copies=23 sets=1")
}

// TestArmedMemory records what an armed program allocates, without probes. What it allocated before is said to be
// unknown.
func TestArmedMemory(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	p.tell(t, "alloc")
	for i, options := range [][]string{{"--calls", "none"}, {"--calls", "none", "--detach"},
		{"--calls", "none", "--memory", "none"}} {
		p.await(t, "is armed: it waits for a recorder")
		b := startInBackground(t, append(options, "--flush-interval", "50ms", "-p", fmt.Sprint(p.cmd.Process.Pid))...)
		b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "GPU work of told") })
		p.tell(t, "alloc", "launch 2", "alloc", "fail")
		b.stop(t)
		unwanted := i == 2
		if (b.PeakDevice == 2<<20) == unwanted || b.Kernels != 2 || (b.NoMemory != "") != unwanted || !b.Complete {
			t.Errorf("%q: a peak of %d bytes, %d kernels, %q, complete %t %q\n%s", options, b.PeakDevice, b.Kernels, b.NoMemory,
				b.Complete, b.Reasons, b.recording.stderr)
		}
		const why = "what was allocated and freed before the recording began is not known"
		if (b.MemoryUnknown == why) == unwanted {
			t.Errorf("%q: it says %q", options, b.MemoryUnknown)
		}
	}
	p.end(t, "told failed=3 children=0", "counts kernels=6 copies=1 sets=1")
}

// TestArmedGraphs leaves CUPTI in a program that launched graphs while it was recorded, once and for all: they would fail
// without. Graphs of other times change nothing.
func TestArmedGraphs(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	p.tell(t, "capture", "graph 2")
	for n, does := range []string{"launch 2", "graph 2", "launch 2"} {
		p.await(t, "is armed: it waits for a recorder")
		b := startInBackground(t, "--calls", "none", "--detach", "-p", fmt.Sprint(p.cmd.Process.Pid))
		b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "GPU work of told") })
		p.tell(t, does)
		b.stop(t)
		stays := strings.Contains(b.recording.stderr, "CUPTI stays in it, and makes launches slower until it ends: CUDA graphs")
		if stays != (n > 0) || b.Kernels != 2 || !b.Complete {
			t.Errorf("recording %d: %d kernels, complete %t %q\n%s", n, b.Kernels, b.Complete, b.Reasons, b.recording.stderr)
		}
		p.tell(t, "graph 2")
	}
	w := watchPrograms(t, filepath.Join(t.TempDir(), "windows"), []string{"--detach"}, p)
	must.Wait(t, func() bool { return len(w.logs(t)) > 2 }, func() string {
		return "watch goes on with no window: " + contents(t, w.stderr)
	})
	w.cmd.Process.Signal(syscall.SIGTERM)
	if w.end(t); strings.Count(w.recording.stderr, record.Stays) != 1 {
		t.Errorf("watch does not say once that CUPTI stays: %s", w.recording.stderr)
	}
	p.end(t, "told failed=0 children=0", "counts kernels=14 copies=11 sets=1")
}

// TestArmedGraphsUnseen leaves CUPTI in a program whose graphs were launched in a recording that did not tell of them: its
// recorder was killed, records were off, a call of the program's returned too late, CUPTI dropped records. While a profiler
// has CUPTI's callbacks, records alone tell of them.
func TestArmedGraphsUnseen(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env     string
		options []string
		does    []string
		kill    bool
	}{
		"killed":   {"", []string{"--flush-interval", "10s"}, []string{"graph 1"}, true},
		"delay":    {"", []string{"--delay", "60s"}, []string{"driver 1"}, false},
		"returns":  {"CUDASIM_RETURN_NS=700000000 CUDASIM_KERNEL_NS=2000000000", nil, nil, false},
		"profiled": {"", []string{"--flush-interval", "10s"}, []string{"profile", "driver 1", "profiled"}, true},
		"dropped":  {"CUDASIM_CUPTI_DROP_EVERY=1", nil, []string{"profile", "driver 1", "profiled"}, false},
		"none":     {"", []string{"--memory", "none", "--delay", "60s"}, []string{"graph 1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startArmed(t, append(strings.Fields("env "+test.env), sim("told"))...)
			p.expect(t, "ready")
			p.tell(t, "capture")
			begin := func(options ...string) *background {
				p.await(t, "is armed: it waits for a recorder")
				b := startInBackground(t, append(options, "--calls", "none", "-p", fmt.Sprint(p.cmd.Process.Pid))...)
				b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "GPU work of told") })
				return b
			}
			b := begin(test.options...)
			if p.tell(t, test.does...); test.does == nil {
				must.Get(io.WriteString(p.in, "graph 1\n"))(t)
				time.Sleep(100 * time.Millisecond)
			}
			if test.kill {
				b.cmd.Process.Kill()
				b.cmd.Wait()
			} else {
				b.stop(t)
			}
			if test.does == nil {
				p.expect(t, "done")
			}
			b = begin("--detach")
			b.stop(t)
			if !strings.Contains(b.recording.stderr, record.Stays) {
				t.Errorf("CUPTI is gone: %s", b.recording.stderr)
			}
			p.tell(t, "graph 1")
			p.end(t, "told failed=0 children=0", "counts kernels=2 copies=3 sets=1")
		})
	}
}

// TestArmedProfilerStays has a profiler in the program that has found cuptiSubscribe in the first recording: it gets
// the subscription in later ones, too, from whichever copy of the library has it.
func TestArmedProfilerStays(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{nil, {"--detach"}} {
		p := startArmed(t)
		p.expect(t, "ready")
		for n := range 4 {
			p.await(t, "is armed: it waits for a recorder")
			b := startInBackground(t, append(options, "--calls", "none", "-p", fmt.Sprint(p.cmd.Process.Pid))...)
			b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "GPU work of told") })
			p.tell(t, "subscribed", "alloc")
			if n == 0 {
				p.tell(t, "keep")
			}
			p.tell(t, "profile", "alloc", "profiled", "subscribed", "alloc")
			b.stop(t)
			if b.PeakDevice != 2<<20 || b.Lost["memory_calls"] != 1 {
				t.Errorf("%q, recording %d: a peak of %d bytes, lost %v: %s", options, n, b.PeakDevice, b.Lost, b.recording.stderr)
			}
			p.tell(t, "profile", "profiled")
		}
		p.end(t, "told failed=0 children=0", "counts kernels=0 copies=1 sets=1")
	}
}

// TestArmedDetach takes CUPTI out of a program that launches on eight threads without pause, many times, and kills the
// program if a thread is inside CUDA then. Nothing of ours grows in it, nor without that, nor by turns.
func TestArmedDetach(t *testing.T) {
	t.Setenv("CUDASIM_FINALIZE_CHECK", "1")
	const detach, stay = "--detach", "--quiet=false"
	for name, options := range map[string][]string{
		"always": {detach, detach, detach, detach}, "never": {stay, stay, stay, stay},
		"by turns": {stay, detach, stay, detach},
	} {
		t.Run(name, func(t *testing.T) { testArmedDetach(t, options) })
	}
}

func testArmedDetach(t *testing.T, options []string) {
	p := startArmed(t, sim("launchloop"), "-i", "-n", "1000000000", "-t", "8", "-s", "8")
	pid := p.cmd.Process.Pid
	p.await(t, "is armed: it waits for a recorder")
	var maps []int
	kernels, stays := uint64(0), 0
	for n, option := range options {
		b := startInBackground(t, "--flush-interval", "50ms", "--memory-limit", "1G", "--calls", "none", option, "-p",
			fmt.Sprint(pid))
		b.until(t, func() bool {
			return strings.Contains(contents(t, b.stderr), "GPU work of launchloop")
		})
		b.stop(t)
		kernels += b.Kernels
		busy := strings.Contains(b.recording.stderr, "never all outside of CUDA") // on a machine that does much else
		if busy {
			stays++
		}
		if lostWork(&b.Summary) > 0 || !busy && strings.Contains(b.recording.stderr, "CUPTI stays") {
			t.Errorf("recording %d: %d kernels, lost %v\n%s", n, b.Kernels, b.Lost, b.recording.stderr)
		}
		p.await(t, "is armed: it waits for a recorder")
		code := must.Get(procfs.Code(pid))(t)
		maps = append(maps, len(code))
	}
	if kernels == 0 || stays > 3 {
		t.Errorf("%d kernels; CUPTI stayed %d times", kernels, stays)
	}
	if stays == 0 && slices.Max(maps[1:]) != maps[1] {
		t.Errorf("executable mappings behind each recording: %d", maps)
	}
	p.in.Close()
	said, _ := io.ReadAll(p.out)
	var launches, ran int
	if _, err := fmt.Sscanf(string(said), "launchloop: %d launches, 8 threads, 8 streams, 1 kernels, %d ran", &launches, &ran); err != nil ||
		launches != ran || launches == 0 {
		t.Errorf("it said %q, %v", said, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// TestArmedDetachForks takes CUPTI out of a program that has children without pause, and where CUPTI comes on and off only
// while its threads are stopped; every other recorder is killed at any moment. ROUNDS=300 has more of both.
func TestArmedDetachForks(t *testing.T) {
	t.Parallel()
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("ROUNDS"), "4"))
	must.Do(t, err)
	p := startArmed(t, "env", "CUDASIM_CUPTI_STARVES=5000", sim("forks"))
	for n := range rounds {
		p.await(t, "is armed: it waits for a recorder")
		b := startInBackground(t, "--flush-interval", "50ms", "--calls", "none", "--detach", "-d", "200ms", "-p",
			fmt.Sprint(p.cmd.Process.Pid))
		if n%2 == 0 {
			time.Sleep(rand.N(1500 * time.Millisecond))
			b.cmd.Process.Kill()
			b.cmd.Wait()
			continue
		}
		if code := b.end(t); code != 0 {
			t.Fatalf("exit code %d: %s", code, b.recording.stderr)
		}
		b.read(t, b.base+".cudatrace")
		if b.Kernels == 0 || !b.Complete || strings.Contains(b.recording.stderr, "CUPTI") {
			t.Errorf("recording %d: %d kernels, complete %t %q\n%s", n, b.Kernels, b.Complete, b.Reasons, b.recording.stderr)
		}
	}
	p.in.Close()
	said, _ := io.ReadAll(p.out)
	if p.cmd.Wait(); string(said) != "forks: wrong 0, copies 4\n" || p.cmd.ProcessState.ExitCode() != 9 {
		t.Errorf("it said %q and ended with %v", said, p.cmd.ProcessState)
	}
}

// TestArmedStarved records a program in which CUPTI does not come on, as beside threads that launch without pause:
// first of all it says why, and what would help.
func TestArmedStarved(t *testing.T) {
	t.Parallel()
	p := startArmed(t, "env", "CUDASIM_CUPTI_STARVES=100000000", sim("told"))
	p.expect(t, "ready")
	pid := fmt.Sprint(p.cmd.Process.Pid)
	b := startInBackground(t, "--calls", "none", "-d", "100ms", "-p", pid)
	b.end(t)
	b.read(t, b.base+".cudatrace")
	why := "process " + pid + ": CUPTI goes on or off late, or never: it waits for threads that launch without pause; " +
		"with --detach they are stopped for it; process " + pid + ": nothing is recorded, although it was armed: " +
		"it did not answer"
	reasons := strings.Join(b.Reasons, "")
	if b.Complete || !strings.HasPrefix(reasons, why) || strings.Contains(reasons, "ended") {
		t.Errorf("%q: %s", b.Reasons, b.recording.stderr)
	}
}

// TestArmedAfterKill records a program whose first recorder was killed, at once. It launches on, and prints the same, where
// its last one is killed, too.
func TestArmedAfterKill(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	kill := func() {
		killed := p.record(t, saidWork)
		p.tell(t, "launch 10")
		killed.cmd.Process.Kill()
		killed.cmd.Wait()
	}
	kill()
	b := p.record(t, saidWork)
	p.tell(t, "launch 20")
	b.stop(t)
	if b.Kernels != 20 || b.Unmatched != 0 || !b.Complete || b.Launches != 20 {
		t.Errorf("%d kernels, unmatched %d, complete %t %q, %d launches\n%s", b.Kernels, b.Unmatched, b.Complete, b.Reasons, b.Launches, b.recording.stderr)
	}
	kill()
	p.await(t, "is armed: it waits for a recorder")
	status := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(t))
	_, caught, _ := strings.Cut(status, "SigCgt:\t")
	if mask := must.Get(strconv.ParseUint(strings.Fields(caught)[0], 16, 64))(t); mask&(1<<(syscall.SIGTRAP-1)) == 0 {
		t.Error("a breakpoint of the recorder that was killed would end the program")
	}
	p.tell(t, "launch 50")
	p.end(t, "told failed=0 children=0", "counts kernels=90 copies=1 sets=1")
}

// TestArmedEnds ends programs while they are recorded: all of their work is in the log.
func TestArmedEnds(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"told", "told-large"} { // the latter's threads need large stacks
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			testArmedEnds(t, program)
		})
	}
}

func testArmedEnds(t *testing.T, program string) {
	p := startArmed(t, sim(program))
	p.expect(t, "ready")
	b := p.record(t, saidWork)
	p.tell(t, "launch 50")
	p.end(t, "told failed=0 children=0", "counts kernels=50 copies=1 sets=1")
	if code := b.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.read(t, b.base+".cudatrace")
	if b.Kernels != 50 || b.Copies != 1 || b.Unmatched != 0 || !b.Complete {
		t.Errorf("%d kernels, %d copies, unmatched %d, complete %t %q", b.Kernels, b.Copies, b.Unmatched, b.Complete, b.Reasons)
	}
}

// TestArmedExits leaves programs alone that are in their last exit handler, where CUDA is gone: those that were
// recorded before, and those that were not.
func TestArmedExits(t *testing.T) {
	t.Parallel()
	for recorded := range 3 {
		t.Run(fmt.Sprint(recorded), func(t *testing.T) {
			t.Parallel()
			p := startArmed(t, sim("told"), "--exits")
			p.expect(t, "ready")
			for range recorded {
				p.await(t, "is armed: it waits for a recorder")
				p.record(t, saidWork).stop(t)
			}
			p.await(t, "is armed: it waits for a recorder")
			copies := func() int {
				code := must.Get(procfs.Code(p.cmd.Process.Pid))(t)
				return len(slices.DeleteFunc(code, func(m procfs.Mapping) bool { return !strings.Contains(m.Path, "libcupti") }))
			}
			before := copies()
			must.Get(io.WriteString(p.in, "exit\n"))(t)
			for _, line := range []string{"told failed=0 children=0", "counts kernels=0 copies=1 sets=1", "exits"} {
				p.expect(t, line)
			}
			b := p.record(t, "it did not answer")
			if after := copies(); after != before {
				t.Errorf("%d mappings of libcupti, before %d", after, before)
			}
			p.end(t)
			b.end(t)
		})
	}
}

// TestArmedBeforeCUDA attaches to a process that runs another program by exec and starts CUDA after that.
func TestArmedBeforeCUDA(t *testing.T) {
	t.Parallel()
	p := startArmed(t, "sh", "-c", `echo begun; read line; exec "$0"`, sim("told"))
	p.expect(t, "begun")
	b := p.record(t, "has not started CUDA yet; its GPU work is recorded when it does")
	must.Get(io.WriteString(p.in, "go\n"))(t)
	p.expect(t, "ready")
	b.until(t, func() bool { return p.hasCUPTI(t) })
	n := 0
	b.onDisk(t, func(s convert.Summary) bool { p.tell(t, "launch 10"); n += 10; return s.Kernels > 0 })
	b.stop(t)
	if b.Kernels == 0 || b.Kernels > uint64(n) || lostWork(&b.Summary) != 0 || !b.Complete {
		t.Errorf("%d kernels of %d, complete %t %q\n%s", b.Kernels, n, b.Complete, b.Reasons, b.recording.stderr)
	}
	p.end(t, "told failed=0 children=0", fmt.Sprintf("counts kernels=%d copies=1 sets=1", n))
}

// TestArmedNobodyElse looks for another client where there is none, while records are off: CUPTI that is switched on
// late has no record then. The program idles, and ends.
func TestArmedNobodyElse(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	record := func(options ...string) *background {
		p.await(t, "is armed: it waits for a recorder")
		b := startInBackground(t, append(options, "--calls", "none", "-p", fmt.Sprint(p.cmd.Process.Pid))...)
		b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "GPU work of told") })
		return b
	}
	idles := record("--flush-interval", "20ms", "--delay", "500ms", "-d", "100ms")
	codes := []int{idles.end(t)}
	ends := record("--delay", "1h")
	p.end(t, "told failed=0 children=0", "counts kernels=0 copies=1 sets=1")
	if codes = append(codes, ends.end(t)); !slices.Equal(codes, []int{0, 0}) {
		t.Errorf("exit codes %d", codes)
	}
	for _, b := range []*background{idles, ends} {
		if strings.Contains(b.recording.stderr, "taken over") {
			t.Errorf("%s", b.recording.stderr)
		}
	}
}

// TestArmedAlone leaves a process alone whose own profiler uses CUPTI, and one in a sandbox.
func TestArmedAlone(t *testing.T) {
	t.Parallel()
	const held = "another tool in the program holds it, as PyTorch's profiler does from its first profile on"
	for line, why := range map[string]string{
		"profile": held,
		"clock":   held,
		"sandbox": "only its calls are recorded, although it was armed: it has entered a sandbox (seccomp), in which starting CUPTI could kill it",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := startArmed(t)
			p.expect(t, "ready")
			p.tell(t, line)
			b := startInBackground(t, "--detach", "--flush-interval", "50ms", "-p", fmt.Sprint(p.cmd.Process.Pid))
			b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), saidCalls) })
			p.tell(t, "launch 30")
			b.stop(t)
			said := b.recording.stderr
			if b.Kernels != 0 || b.Launches != 30 || !strings.Contains(said, why) || strings.Contains(said, "CUPTI stays") {
				t.Errorf("%d kernels, %d launches\n%s", b.Kernels, b.Launches, b.recording.stderr)
			}
			p.end(t, "told failed=0 children=0", "counts kernels=30 copies=1 sets=1")
		})
	}
}

// TestArmedRunsAsAlone compares what armed programs print and return with what they do alone. Some fork, some
// start others, some end by a signal.
func TestArmedRunsAsAlone(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{
		{sim("vectoradd")}, {sim("nocuda")}, {sim("forkafter")}, {sim("threads")}, {sim("nccl")}, {sim("steps")},
		{sim("exits"), "abort", "-n", "10"},
		{sim("exits"), "_exit", "-n", "10"}, {"sh", "-c", "exit 7"}, {"sh", "-c", "kill -TERM $$"}, {"env", "--", "true"},
	} {
		alone, aloneCode := outputOf(exec.Command(command[0], command[1:]...))
		run := exec.Command("cudatrace", append([]string{"run", "--armed"}, command...)...)
		run.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
		armed, code := outputOf(run)
		if armed != alone || code != aloneCode {
			t.Errorf("%q printed %q and ended with %d; alone %q and %d", command, armed, code, alone, aloneCode)
		}
	}
}

func outputOf(cmd *exec.Cmd) (string, int) {
	out, _ := cmd.CombinedOutput() // the exit code says it
	return string(out), exitStatusOf(cmd.ProcessState)
}

// TestUnarmed runs programs that cannot wait for a recorder: a line says why, and they run all the same.
func TestUnarmed(t *testing.T) {
	t.Parallel()
	raised := filepath.Join(t.TempDir(), "true")
	copyProgram(t, "/bin/true", raised)
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(raised, 65534, -1))
		must.Do(t, os.Chmod(raised, 0o755|os.ModeSetuid))
	}
	for _, c := range []struct {
		env     string
		command []string
		code    int
		said    string
	}{
		{"CUDA_INJECTION64_PATH=/opt/nsys.so", []string{"sh", "-c", `test "$CUDA_INJECTION64_PATH" = /opt/nsys.so`}, 0, "cudatrace: sh runs unarmed: CUDA_INJECTION64_PATH=/opt/nsys.so is set: another tool"},
		{"A=b", []string{raised}, 0, "cudatrace: true runs unarmed: it runs with raised rights (setuid or setgid)"},
		{"A=b", []string{"/nowhere/to/be"}, 127, "cudatrace: /nowhere/to/be: no such file"},
		{"A=b", []string{"/etc/passwd"}, 126, "not executable"},
	} {
		if c.command[0] == raised && os.Geteuid() != 0 {
			continue
		}
		cmd := exec.Command("cudatrace", append([]string{"run", "--armed", "--"}, c.command...)...)
		var stderr bytes.Buffer
		cmd.Stderr, cmd.Env = &stderr, append(os.Environ(), c.env)
		_ = cmd.Run() // the exit code says it
		if code := exitStatusOf(cmd.ProcessState); code != c.code || !strings.Contains(stderr.String(), c.said) {
			t.Errorf("%q: exit code %d, %q", c.command, code, stderr.String())
		}
	}
}

// Under sudo the program runs as the user who called it, as under record, and that user's recorder or root's finds it armed.
func TestArmedSudo(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	dir := t.TempDir()
	openWay(t, dir)
	must.Do(t, os.Chown(dir, 65534, 65534))
	cmd := exec.Command("cudatrace", "run", "--armed", "sh", "-c", "cat /proc/self/status; env; cat")
	cmd.Stderr, cmd.Env, cmd.Dir = os.Stderr, append(append(os.Environ(), "TMPDIR="+dir), sudoByNobody...), dir
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	must.Do(t, errors.Join(err1, err2, cmd.Start()))
	var text strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "CUDA_INJECTION64_PATH=") {
		text.WriteString(lines.Text() + "\n")
	}
	_, library, _ := strings.Cut(lines.Text(), "=")
	in.Close()
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &text)
	}
	for _, line := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65534\t65534\t65534\t65534\n", "CapEff:\t0000000000000000\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("the program lacks %q", line)
		}
	}
	if strings.Contains(text.String(), "SUDO_UID") {
		t.Error("the program has the variables of sudo")
	}
	var s syscall.Stat_t
	if err := syscall.Stat(filepath.Dir(library), &s); err != nil || s.Uid != 65534 || !strings.HasPrefix(library, dir) {
		t.Errorf("the folder of %s belongs to user %d, %v", library, s.Uid, err)
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

// Without rights for probes, doctor and record name the option that records an armed program; of one that is not armed
// record says so.
func TestArmedWithoutProbes(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	p.await(t, "is armed: it waits for a recorder")
	self := copyOfSelf(t, t.TempDir())
	for _, c := range []struct {
		pid     int
		command string
		code    int
		want    string
	}{
		{p.cmd.Process.Pid, "doctor", exitPart, "a recording gets part of it: GPU work; not calls"},
		{p.cmd.Process.Pid, "doctor", exitPart, "record it with --calls none"},
		{p.cmd.Process.Pid, "record -d 100ms", exitFailure, "--calls none records the GPU work of an armed process"},
		{os.Getpid(), "record -d 100ms", exitFailure, "with probes only, unless 'cudatrace run --armed' started it"},
	} {
		args := append(append([]string{self}, strings.Fields(c.command)...), "-p", fmt.Sprint(c.pid))
		cmd := exec.Command("nobpf", args...)
		cmd.Dir = t.TempDir()
		if said, code := outputOf(cmd); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", c.command, code, c.code, c.want, said)
		}
	}
	cmd := exec.Command("cudatrace", "record", "-p", fmt.Sprint(os.Getpid()), "--last", "1s", "--trigger", "kernel>1s")
	cmd.Dir = t.TempDir()
	if said, code := outputOf(cmd); code != exitFailure || !strings.Contains(said, "need CUPTI") {
		t.Errorf("a condition of kernels without GPU work: exit code %d\n%s", code, said)
	}
	p.end(t, "told failed=0 children=0", "counts kernels=0 copies=1 sets=1")
}

// A long kernel of an armed program has the last second written.
func TestArmedTrigger(t *testing.T) {
	t.Parallel()
	p := startArmed(t)
	p.expect(t, "ready")
	p.await(t, "is armed: it waits for a recorder")
	b := startInBackground(t, "--flush-interval", "50ms", "--calls", "none", "--last", "1s", "--trigger", "kernel>1ns",
		"-p", fmt.Sprint(p.cmd.Process.Pid))
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), saidWork) })
	p.tell(t, "launch 1")
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "reason: kernel") })
	b.cmd.Process.Signal(syscall.SIGINT)
	b.end(t)
	b.read(t, b.base+".1.cudatrace")
	if b.Kernels != 1 {
		t.Errorf("%d kernels\n%s", b.Kernels, b.recording.stderr)
	}
	p.end(t, "told failed=0 children=0", "counts kernels=1 copies=1 sets=1")
}

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
)

// A told is a recording of a program that does what it is told.
type told struct {
	*background
	in    io.WriteCloser
	lines int // told so far
}

// recordTold starts a recording of the program told.
func recordTold(t *testing.T, env string, args ...string) *told {
	t.Helper()
	b := prepareInBackground(t, append(slices.Concat([]string{"--flush-interval", "100ms"}, args), sim("told"))...)
	b.cmd.Env = append(os.Environ(), env)
	in := must.Get(b.cmd.StdinPipe())(t)
	must.Do(t, b.cmd.Start())
	b.until(t, func() bool { return b.out(t) == "ready\n" })
	return &told{background: b, in: in}
}

// tell has the program do something, and waits until it has been done.
func (p *told) tell(t *testing.T, line string) {
	t.Helper()
	must.Get(io.WriteString(p.in, line+"\n"))(t)
	p.lines++
	p.until(t, func() bool { return strings.Count(p.out(t), "done\n") == p.lines })
}

// finish ends the program and the recording.
func (p *told) finish(t *testing.T) {
	t.Helper()
	p.in.Close()
	if got := p.end(t); got != 0 {
		t.Errorf("exit code %d\n%s", got, p.recording.stderr)
	}
}

// file waits for the Nth file, and reads it.
func (p *told) file(t *testing.T, n int) *recording {
	t.Helper()
	log := fmt.Sprintf("%s.%d.cudatrace", p.base, n)
	p.until(t, func() bool { _, err := os.Stat(log); return err == nil })
	r := &recording{base: strings.TrimSuffix(log, ".cudatrace")}
	r.read(t, log)
	return r
}

// holds checks a file: what it was written for, that nothing is missing, and that all work has its call.
func (r *recording) holds(t *testing.T, why string) {
	t.Helper()
	if r.Last == nil || !regexp.MustCompile(`^(`+why+`)$`).MatchString(r.Last.Why) {
		t.Fatalf("it holds %+v, and was to be written because of %s", r.Last, why)
	}
	if !r.Complete || lostWork(&r.Summary) > 0 || r.Unmatched != 0 || r.Matched+r.Last.Earlier != r.Kernels+r.Copies+r.Memsets {
		t.Errorf("complete %t %q, %d of %d kernels have their call, %d not, %d an earlier one", r.Complete, r.Reasons, r.Matched, r.Kernels, r.Unmatched, r.Last.Earlier)
	}
}

// TestLastTriggers has each condition hold once.
func TestLastTriggers(t *testing.T) {
	t.Parallel()
	const slow = "CUDASIM_KERNEL_NS=200000000"
	steps := append(slices.Repeat([]string{"step 1"}, 12), "step 1000")
	for name, c := range map[string]struct {
		env   string
		args  []string
		tell  []string
		why   string
		there uint64 // kernels in the file
	}{
		"call-failed":          {"", []string{"--trigger", "call-failed"}, []string{"launch 5", "fail"}, `cudaMalloc failed with cudaErrorMemoryAllocation in process \d+, thread \d+`, 5},
		"call-failed by CUPTI": {"", []string{"--trigger", "call-failed", "--calls", "cupti"}, []string{"launch 5", "fail"}, `cu\w+ failed with \w+ in process \d+, thread \d+`, 5},
		"call":                 {slow, []string{"--trigger", "call>100ms"}, []string{"launch 2"}, `\w+ took .* in process \d+, thread \d+`, 1},
		"kernel":               {slow, []string{"--trigger", "kernel>100ms", "--trigger", "call-failed"}, []string{"launch 2"}, `kernel tick took .*`, 1},
		"step":                 {"", []string{"--trigger", "step>3", "--step", "step"}, steps, `step step took .*, .* times the median`, 9},
		"crash":                {"", nil, []string{"launch 3", "child"}, `process \d+ was ended by signal 6 \(SIGABRT\)`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := recordTold(t, c.env, append([]string{"--last", "1m"}, c.args...)...)
			for _, line := range c.tell {
				p.tell(t, line)
			}
			r := p.file(t, 1)
			r.holds(t, c.why)
			if r.Kernels < c.there || r.Last.HeldNS > uint64(time.Minute) || len(r.ProcessList) == 0 || r.ProcessList[0].Name != "told" {
				t.Errorf("%d kernels, %d are to be there; held %d ns; %+v", r.Kernels, c.there, r.Last.HeldNS, r.ProcessList)
			}
			p.finish(t)
			p.recording.read(t, p.base+".cudatrace")
			p.recording.holds(t, "the end of the recording")
			if kernels, _, _ := counts(t, p.recording.stdout); p.Kernels < kernels {
				t.Errorf("the file at the end has %d kernels, %d were launched", p.Kernels, kernels)
			}
		})
	}
}

// TestLastAsked asks for files by SIGUSR2: there are two with traces, and no third. Nothing else is left.
func TestLastAsked(t *testing.T) {
	t.Parallel()
	p := recordTold(t, "", "--no-convert=false", "--last", "1m", "--max-files", "2")
	for n := 1; n <= 2; n++ {
		p.tell(t, "launch 10")
		p.cmd.Process.Signal(syscall.SIGUSR2)
		r := p.file(t, n)
		r.holds(t, "SIGUSR2")
		if r.Kernels != uint64(10*n) {
			t.Errorf("file %d has %d kernels", n, r.Kernels)
		}
		p.until(t, func() bool { return strings.Contains(contents(t, p.stderr), filepath.Base(r.base)+".pftrace") })
	}
	p.cmd.Process.Signal(syscall.SIGUSR2)
	p.until(t, func() bool {
		return strings.Contains(contents(t, p.stderr), "cudatrace: SIGUSR2: no file is written, since there are 2 already (--max-files)\n")
	})
	p.finish(t)
	var names []string
	entries, _ := os.ReadDir(filepath.Dir(p.base))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"err", "out", "run.1.cudatrace", "run.1.pftrace", "run.2.cudatrace", "run.2.pftrace", "run.cudatrace", "run.pftrace"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
	if said := contents(t, p.stderr); strings.Count(said, "holds the last ") != 3 {
		t.Errorf("it is not said what the files hold:\n%s", said)
	}
}

// TestLastTriggerAtTheEnd has a condition hold when nobody looks any more: the file at the end has the reason, and a line names it.
func TestLastTriggerAtTheEnd(t *testing.T) {
	t.Parallel()
	r := recordProgram(t, "--no-convert", "--last", "1m", "--trigger", "call-failed", "--flush-interval", "10s",
		"sh", "-c", "(echo launch 3; echo fail) | "+sim("told"))
	r.holds(t, `cudaMalloc failed with cudaErrorMemoryAllocation in process \d+, thread \d+`)
	if !strings.Contains(r.stderr, ": the recording ended before a file of its own was written; "+r.base+".cudatrace has it\n") {
		t.Errorf("it is not said where the file is:\n%s", r.stderr)
	}
}

// TestLastCoolDown has a condition hold twice: the second file is written because of a signal.
func TestLastCoolDown(t *testing.T) {
	t.Parallel()
	p := recordTold(t, "", "--last", "1m", "--trigger", "call-failed", "--cool-down", "1h")
	p.tell(t, "fail")
	p.file(t, 1).holds(t, "cudaMalloc failed with .*")
	p.tell(t, "fail")
	time.Sleep(500 * time.Millisecond) // in which a recorder without cool-down would want a file
	p.cmd.Process.Signal(syscall.SIGUSR2)
	p.file(t, 2).holds(t, "SIGUSR2")
	p.finish(t)
	if _, err := os.Stat(p.base + ".3.cudatrace"); err == nil {
		t.Error("there is a third file")
	}
}

// TestLastCutsOff records for longer than the window: the range that stays open and the names of
// functions are from before the window.
func TestLastCutsOff(t *testing.T) {
	t.Parallel()
	p := recordTold(t, "", "--last", "1s")
	p.tell(t, "open")
	p.tell(t, "alloc")
	for began := time.Now(); time.Since(began) < 3*time.Second; {
		p.tell(t, "launch 1")
	}
	p.tell(t, "launch 10")
	p.finish(t)
	p.recording.read(t, p.base+".cudatrace")
	p.recording.holds(t, "the end of the recording")
	kernels, _, _ := counts(t, p.recording.stdout)
	switch {
	case p.Last.HeldNS != uint64(time.Second) || p.Last.AskedNS != uint64(time.Second) || p.Last.Short != "":
		t.Errorf("it holds %+v", p.Last)
	case p.Kernels >= kernels:
		t.Errorf("it has all %d kernels", kernels)
	case p.Ranges != 1:
		t.Errorf("%d ranges", p.Ranges)
	}
	for name := range p.Functions {
		if !strings.HasPrefix(name, "cuda") {
			t.Errorf("a function without its name: %q", name)
		}
	}
	if text, err := exec.Command("cudatrace", "info", p.base+".cudatrace").CombinedOutput(); err != nil || !regexp.MustCompile(`(?m)^holds +the last 1\.0 s; reason: the end of the recording$`).Match(text) {
		t.Errorf("%v\n%s", err, text)
	}
}

// TestLastCrash records a program that crashes: the file at the end says so. record's TestReasonOfLastFile has other
// ends.
func TestLastCrash(t *testing.T) {
	t.Parallel()
	r := recordExit(t, 139, "--last", "1m", sim("exits"), "segv", "-n", "2000")
	r.holds(t, `process \d+ was ended by signal 11 \(SIGSEGV\)`)
	if r.Kernels != 2000 || r.ExitStatus != 139 {
		t.Errorf("%d kernels, exit status %d", r.Kernels, r.ExitStatus)
	}
}

// TestLastLong records for longer than the disk limit allows: the segments keep to it. CUDATRACE_LAST is
// the number of seconds; make test-long has more.
func TestLastLong(t *testing.T) {
	t.Parallel()
	seconds, _ := strconv.Atoi(os.Getenv("CUDATRACE_LAST"))
	if seconds == 0 {
		t.Skip("CUDATRACE_LAST is not set")
	}
	const limit, slack = 32 << 20, 8 << 20 // slack: written between two looks at the segments, on a loaded machine
	b := startInBackground(t, "--last", "1h", "--disk-limit", "32M", sim("launchloop"), "-n", "1000000000", "-t", "2")
	var most, memory int64
	for began := time.Now(); time.Since(began) < time.Duration(seconds)*time.Second; time.Sleep(100 * time.Millisecond) {
		most = max(most, onDisk(b.cmd.Process.Pid))
		memory = max(memory, resident(t, b.cmd.Process.Pid))
	}
	t.Logf("%d bytes on disk, %d in memory", most, memory)
	if most > limit+slack || most < limit/2 || memory > 1<<30 {
		t.Errorf("the log took up to %d bytes on disk, %d are allowed; %d in memory", most, limit, memory)
	}
	syscall.Kill(-b.cmd.Process.Pid, syscall.SIGTERM)
	b.end(t)
	b.read(t, b.base+".cudatrace")
	if b.Last == nil || b.Last.Short == "" || b.Kernels == 0 {
		t.Errorf("%d kernels; it is not said that less is held: %+v", b.Kernels, b.Last)
	}
}

// onDisk is the size of the files without a name that a process has open.
func onDisk(pid int) (total int64) {
	seen := map[uint64]bool{}
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range fds {
		info, err := os.Stat(fd)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if s := info.Sys().(*syscall.Stat_t); s.Nlink == 0 && !seen[s.Ino] {
			seen[s.Ino] = true
			total += s.Blocks * 512
		}
	}
	return total
}

// resident is the memory of a process.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	_, line, _ := strings.Cut(contents(t, fmt.Sprintf("/proc/%d/status", pid)), "VmRSS:")
	var kib int64
	fmt.Sscan(line, &kib)
	return kib << 10
}

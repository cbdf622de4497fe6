package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// startLongrun runs a program in the background and returns its PID when it launches.
func startLongrun(t *testing.T, arg ...string) *os.Process {
	t.Helper()
	cmd := exec.Command(sim("longrun"), arg...)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%v after %q", err, line)
	}
	return cmd.Process
}

// TestAttach records a running program by its PID and leaves it running.
func TestAttach(t *testing.T) {
	t.Parallel()
	program := startLongrun(t, "600", "-i", "100")
	b := startInBackground(t, "--flush-interval", "50ms", "-p", fmt.Sprint(program.Pid))
	b.onDisk(t, func(s convert.Summary) bool { return s.Launches > 0 })
	b.cmd.Process.Signal(syscall.SIGINT)
	if got := b.end(t); got != 0 {
		t.Errorf("exit code %d", got)
	}
	b.read(t, b.base+".cudatrace")
	if b.Launches == 0 || b.Kernels != 0 || !b.Complete || b.Pairs != b.Calls {
		t.Errorf("launches %d, kernels %d, complete %t %q, pairs %d, calls %d", b.Launches, b.Kernels, b.Complete, b.Reasons, b.Pairs, b.Calls)
	}
	if b.Unnamed > b.Launches || strings.Contains(b.recording.stderr, "no kernel name") != (b.Unnamed > 0) {
		t.Errorf("%d of %d launches have no kernel name:\n%s", b.Unnamed, b.Launches, b.recording.stderr)
	}
	if err := program.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program did not live on: %v", err)
	}
	if !strings.Contains(b.recording.stderr, "longrun") {
		t.Errorf("the process is not named:\n%s", b.recording.stderr)
	}
}

// TestAttachReplaced records a running process, of which first another thread than its first and then the first runs
// a program by exec. Each program is recorded under its own name, those after the first whole.
func TestAttachReplaced(t *testing.T) {
	t.Parallel()
	program := exec.Command(sim("replaced"), "-g", "2", "-n", "50", "-w")
	stdin, err1 := program.StdinPipe()
	stdout, err2 := program.StdoutPipe()
	must.Do(t, errors.Join(err1, err2, program.Start()))
	t.Cleanup(func() { program.Process.Kill(); program.Wait() })
	lines := bufio.NewScanner(stdout)
	ready := func() { // or ended
		for lines.Scan() && lines.Text() != "ready" {
		}
	}
	ready()
	b := startInBackground(t, "--flush-interval", "50ms", "-p", fmt.Sprint(program.Process.Pid))
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "recording the calls of replaced") })
	fmt.Fprintln(stdin)
	ready()
	b.onDisk(t, func(s convert.Summary) bool { return len(s.ProcessList) == 2 }) // it is probed
	fmt.Fprintln(stdin)
	ready()
	b.onDisk(t, func(s convert.Summary) bool { return len(s.ProcessList) == 3 })
	fmt.Fprintln(stdin)
	ready()
	if code := b.end(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	b.read(t, b.base+".cudatrace")
	var names []string
	for _, p := range b.ProcessList {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"replaced", "replaced", "replaced"}) || b.Launches != 5*50 || b.Unfinished > 0 {
		t.Errorf("programs %v with %d launches, want three with %d; %d calls unfinished; reasons %q", names, b.Launches, 5*50, b.Unfinished, b.Reasons)
	}
}

// checkSwitched holds the kernels of a log against what longrun saw of the records being
// switched on and off.
func (r *recording) checkSwitched(t *testing.T) {
	t.Helper()
	var least, most uint64
	_, line, _ := strings.Cut(r.stdout, "recorded ")
	if _, err := fmt.Sscanf(line, "least=%d most=%d", &least, &most); err != nil {
		t.Fatalf("%v in %q", err, r.stdout)
	}
	if r.Kernels == 0 || r.Kernels < least || r.Kernels > most || r.Unmatched != 0 || !r.Complete {
		t.Errorf("%d kernels, %d to %d were to be recorded, unmatched %d, complete %t %q", r.Kernels, least, most, r.Unmatched, r.Complete, r.Reasons)
	}
}

// TestDuration ends the recording, not the program: log and trace are finished and the summary is
// printed while the program runs on. Then its output and its exit code pass through. The time counts from
// the first CUDA call, which comes after the time is over.
func TestDuration(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	must.Do(t, syscall.Mkfifo(gate, 0o600))
	b := startInBackground(t, "--no-convert=false", "-d", "2s",
		"sh", "-c", "sleep 2.2; "+sim("longrun")+" 60 --until off; read line < "+gate+"; echo read $line; exit 3")
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "cudatrace stats ") })
	if said := contents(t, b.stderr); !strings.Contains("\n"+said, "\ncudatrace: the recording has ended; sh runs on\n") {
		t.Errorf("it is not said that the program runs on:\n%s", said)
	}
	if strings.Contains(b.out(t), "read") {
		t.Error("the program has ended")
	}
	b.read(t, b.base+".cudatrace")
	if b.Kernels == 0 || !b.Complete {
		t.Errorf("%d kernels, complete %t %q", b.Kernels, b.Complete, b.Reasons)
	}
	for _, made := range []string{b.base + ".cudatrace", b.base + ".pftrace"} {
		if _, err := os.Stat(made); err != nil {
			t.Error(err)
		}
	}
	must.Do(t, os.WriteFile(gate, []byte("on\n"), 0))
	if got := b.end(t); got != 3 {
		t.Errorf("exit code %d, the program's is 3", got)
	}
	b.checkSwitched(t)
	if kernels, _, _ := counts(t, b.recording.stdout); b.Kernels >= kernels || !strings.Contains(b.recording.stdout, "read on\n") {
		t.Errorf("%d of %d kernels\n%s", b.Kernels, kernels, b.recording.stdout)
	}
}

// TestDurationFromStart ends the recording before the first CUDA call.
func TestDurationFromStart(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	must.Do(t, syscall.Mkfifo(gate, 0o600))
	b := startInBackground(t, "--from-start", "-d", "100ms", "sh", "-c", "read line < "+gate+"; "+sim("vectoradd")+"; exit 4")
	b.until(t, func() bool {
		return strings.Contains(contents(t, b.stderr), "sh had not used CUDA when recording ended; nothing was recorded")
	})
	must.Do(t, os.WriteFile(gate, []byte("on\n"), 0))
	if got := b.end(t); got != 4 {
		t.Errorf("exit code %d, the program's is 4\n%s", got, b.recording.stderr)
	}
}

// TestSignalAfterDuration sends a signal to the recorder alone, after the recording: it is the program's.
func TestSignalAfterDuration(t *testing.T) {
	t.Parallel()
	b := startInBackground(t, "-d", "2s", "sh", "-c", `trap "exit 9" TERM; `+sim("longrun")+" 60 --until off; while :; do sleep 0.1; done")
	b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), "cudatrace stats ") })
	b.cmd.Process.Signal(syscall.SIGTERM)
	if got := b.end(t); got != 9 {
		t.Errorf("exit code %d, the program's is 9\n%s", got, b.recording.stderr)
	}
	b.read(t, b.base+".cudatrace")
	b.checkSwitched(t)
}

// TestDurationInsideCall ends while a launch has submitted its kernel and not returned:
// CUPTI makes the launch's record at its return, and without it the kernel has no call.
func TestDurationInsideCall(t *testing.T) {
	t.Parallel()
	r := recordProgram(t, "--no-convert", "-d", "1s", "env", "CUDASIM_RETURN_NS=5000000", sim("longrun"), "60", "--until", "off", "-i", "0")
	r.checkSwitched(t)
	if r.Launches < r.Kernels {
		t.Errorf("%d launches of %d kernels", r.Launches, r.Kernels)
	}
}

// TestDelay leaves out the beginning.
func TestDelay(t *testing.T) {
	t.Parallel()
	r := recordProgram(t, "--no-convert", "--delay", "1s", sim("longrun"), "60", "--until", "on")
	r.checkSwitched(t)
	early, err := exec.Command("cudatrace", "dump", "--kind", "kernel", "--to", "1s", r.base+".cudatrace").CombinedOutput()
	if err == nil || !strings.Contains(string(early), "matches --kind kernel --to 1s") {
		t.Errorf("%v, in the first second:\n%s", err, early)
	}
}

// TestOtherClient records a program that becomes a CUPTI client itself: that is said
// at once and in the summary, and the calls go on being recorded.
func TestOtherClient(t *testing.T) {
	t.Parallel()
	for calls, gap := range map[string]string{"uprobe": "", "auto": "but for launches, copies and fills until these are probed"} {
		r := recordProgram(t, "--no-convert", "--calls", calls, sim("kineto"))
		kernels, _, _ := counts(t, r.stdout)
		if least := kernels / 3; r.Complete || gap == "" && r.Launches != kernels || r.Launches < least || r.Launches > kernels {
			t.Errorf("%s: complete %t %q, %d launches of %d", calls, r.Complete, r.Reasons, r.Launches, kernels)
		}
		if !strings.Contains(r.stderr, "another CUPTI client") || !strings.Contains(r.stderr, gap) {
			t.Errorf("%s: it is not said:\n%s", calls, r.stderr)
		}
	}
}

// TestOtherClientWithoutProbes does the same where CUPTI records the calls, too: the program's own client
// gets every kernel that it would get alone, and what our log lacks is said.
func TestOtherClientWithoutProbes(t *testing.T) {
	t.Parallel()
	for gpu, lacks := range map[string]string{"cupti": "the log lacks its calls and GPU work", "none": "the log lacks its calls"} {
		t.Run(gpu, func(t *testing.T) {
			t.Parallel()
			r := recordProgram(t, "--no-convert", "--calls", "cupti", "--gpu", gpu, sim("kineto"), "-n", "500")
			var own, earlier uint64
			_, line, _ := strings.Cut(r.stdout, "kineto ")
			if _, err := fmt.Sscanf(line, "kernels=%d earlier=%d", &own, &earlier); err != nil {
				t.Fatalf("%v in %q", err, r.stdout)
			}
			if own+earlier < 500 {
				t.Errorf("the program's own client has %d of 500 kernels", own+earlier)
			}
			if r.Complete || !slices.ContainsFunc(r.Reasons, func(s string) bool { return strings.HasSuffix(s, lacks) }) {
				t.Errorf("complete %t %q", r.Complete, r.Reasons)
			}
			if !strings.Contains(r.stderr, lacks+"\n") {
				t.Errorf("it is not said:\n%s", r.stderr)
			}
		})
	}
}

// TestLinkedClient records programs that become CUPTI clients themselves by functions that they are linked
// with, as PyTorch's profiler is: the client gets each kernel that it would get alone, in buffers of its own, on
// the clock that it would have alone; and our log has all that came before.
func TestLinkedClient(t *testing.T) {
	t.Parallel()
	const n = 500
	for _, program := range []string{"kineto-lazy", "kineto-now", "kineto-clock"} {
		for _, calls := range []string{"auto", "cupti"} {
			if calls == "auto" && program != "kineto-now" {
				continue // a program's client does not depend on the source of calls
			}
			t.Run(program+"-"+calls, func(t *testing.T) {
				t.Parallel()
				r := recordProgram(t, "--no-convert", "--calls", calls, sim(program), "-n", fmt.Sprint(n))
				if want := fmt.Sprintf("kineto kernels=%d earlier=0 astray=0\n", n); !strings.Contains(r.stdout, want) {
					t.Errorf("the client's line is in %q, want %q", r.stdout, want)
				}
				if r.Kernels != n || lostWork(&r.Summary) != 0 || r.Complete {
					t.Errorf("%d kernels, lost %v, complete %t %q", r.Kernels, r.Lost, r.Complete, r.Reasons)
				}
				if said := strings.Count(r.stderr, "cudatrace: process"); said != 1 {
					t.Errorf("it is said %d times:\n%s", said, r.stderr)
				}
			})
		}
	}
}

// TestOwnClientAlone records calls alone, by probes: the program's own client takes nothing from us.
func TestOwnClientAlone(t *testing.T) {
	t.Parallel()
	r := recordProgram(t, "--no-convert", "--gpu", "none", sim("kineto"))
	kernels, _, _ := counts(t, r.stdout)
	if !strings.Contains(r.stdout, "kineto kernels=200 earlier=0 astray=0\n") || r.Launches != kernels || !r.Complete {
		t.Errorf("%d launches, complete %t %q\n%s", r.Launches, r.Complete, r.Reasons, r.stdout)
	}
}

// TestInjectionTaken runs a program into which another tool is injected already.
func TestInjectionTaken(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cudatrace", "record", "-o", filepath.Join(t.TempDir(), "run"), sim("vectoradd"))
	cmd.Env = append(os.Environ(), "CUDA_INJECTION64_PATH=/opt/other/tool.so")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sum ok") {
		t.Errorf("the program did not run: %v", err)
	}
	if !strings.Contains(string(out), "nothing was recorded: CUDA_INJECTION64_PATH=/opt/other/tool.so is set") || strings.Contains(string(out), "was not seen to use CUDA") {
		t.Errorf("it is not said:\n%s", out)
	}
}

// TestContainer records a program in PID and mount namespaces of its own, from the
// outside: ids are the host's, and everything is matched.
func TestContainer(t *testing.T) {
	t.Parallel()
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("unshare is not installed")
	}
	r := recordProgram(t, "--no-convert", unshare, "--pid", "--mount", "--fork", "--mount-proc", sim("threads"), "-t", "3", "-n", "200")
	r.whole(t)
	kernels, copies, sets := counts(t, r.stdout)
	if r.Kernels != kernels || r.Copies != copies || r.Memsets != sets || r.ThreadCount != 3 {
		t.Errorf("%d kernels, %d copies, %d memsets on %d threads; want %d, %d, %d on 3", r.Kernels, r.Copies, r.Memsets, r.ThreadCount, kernels, copies, sets)
	}
	if pid := r.ProcessList[0].PID; pid < 10 {
		t.Errorf("PID %d is the container's, not the host's", pid)
	}
}

// TestSudo runs the program as the user who called sudo, who gets the files.
func TestSudo(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	dir := t.TempDir()
	cmd := exec.Command("cudatrace", "record", "-o", filepath.Join(dir, "run"), "sh", "-c", "id -u; exec "+sim("vectoradd"))
	cmd.Env = append(os.Environ(), sudoByNobody...)
	must.Do(t, os.Chown(dir, 65534, 65534))
	for path := dir; path != "/"; path = filepath.Dir(path) {
		// The other user has to get at the program and the folder.
		must.Do(t, os.Chmod(path, 0o755))
		if path == os.TempDir() || filepath.Dir(path) == os.TempDir() {
			break
		}
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "65534\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, suffix := range []string{".cudatrace", ".pftrace"} {
		info := must.Get(os.Stat(filepath.Join(dir, "run"+suffix)))(t)
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 65534 {
			t.Errorf("%s belongs to user %d", suffix, uid)
		}
	}
	sum, err := summarize(filepath.Join(dir, "run.cudatrace"))
	if err != nil || sum.Kernels != 1 || !sum.Complete || sum.Pairs == 0 {
		t.Errorf("%v: %d kernels, complete %t %q, %d pairs", err, sum.Kernels, sum.Complete, sum.Reasons, sum.Pairs)
	}
}

// TestKernelNames finds kernels' names without CUPTI: in the calls that made their
// handles.
func TestKernelNames(t *testing.T) {
	t.Parallel()
	r := recordProgram(t, "--gpu", "none", sim("driveronly"))
	if r.Launches == 0 || r.Kernels != 0 {
		t.Fatalf("%d launches, %d kernels", r.Launches, r.Kernels)
	}
	tr := tptest.Open(t, r.base+".pftrace")
	tptest.NoErrors(t, tr)
	expectRows(t, tr, r.Launches, "launches that name their kernel",
		"select count(*) from slice where name glob 'cuLaunchKernel*' and extract_arg(arg_set_id, 'debug.kernel') is not null")
}

// TestNoGPUWork has CUPTI record calls alone: the same calls as beside GPU work, and nothing else.
func TestNoGPUWork(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"many", "graphs"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			with := recordShared(t, "--calls", "cupti", sim(program))
			r := recordProgram(t, "--no-convert", "--calls", "cupti", "--gpu", "none", "--gpu-metrics", "off", "--sample", "off", sim(program))
			if !r.Complete || lostWork(&r.Summary) != 0 {
				t.Errorf("complete %t %q, lost %v", r.Complete, r.Reasons, r.Lost)
			}
			if diff := cmp.Diff(with.Functions, r.Functions); diff != "" {
				t.Errorf("calls:\n%s", diff)
			}
			if diff := cmp.Diff(with.Callers, r.Callers); diff != "" {
				t.Errorf("callers:\n%s", diff)
			}
			records := must.Get(exec.Command("cudatrace", "dump", r.base+".cudatrace").Output())(t)
			for line := range strings.Lines(string(records)) {
				kind, _, _ := strings.Cut(line, " ")
				switch kind {
				case "api", "call", "caller", "clock", "cupti", "end", "flushed", "function", "meta", "note", "process", "process_end", "thread":
				default:
					t.Errorf("a record that nobody asked for: %s", line)
				}
			}
		})
	}
}

// TestCaptureRange records what lies between cudaProfilerStart and cudaProfilerStop,
// exactly, with and without probes. Where CUPTI tells who calls it needs no CUPTI subscription: the program may have
// that.
func TestCaptureRange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ calls, option string }{{"uprobe", "-r1"}, {"auto", "-s1"}, {"cupti", "-s1"}} {
		t.Run(c.calls+c.option, func(t *testing.T) {
			t.Parallel()
			r := recordProgram(t, "--no-convert", "--calls", c.calls, "--capture-range", "cudaProfilerApi",
				"--memory", "none", sim("profiler"), c.option[:2], c.option[2:], "-r", "3")
			var inside uint64
			_, line, _ := strings.Cut(r.stdout, "inside ")
			if _, err := fmt.Sscanf(line, "kernels=%d", &inside); err != nil {
				t.Fatalf("%v in %q", err, r.stdout)
			}
			if r.Kernels != inside || r.Launches != inside || r.Unmatched != 0 || !r.Complete {
				t.Errorf("%d kernels, %d launches, want %d; unmatched %d, complete %t %q", r.Kernels, r.Launches, inside, r.Unmatched, r.Complete, r.Reasons)
			}
		})
	}
}

// A profiler in the program that asks dlsym for cuptiSubscribe gets CUPTI's one subscription, which was there for memory.
func TestSubscriptionIsGivenBack(t *testing.T) {
	t.Parallel()
	const why = "allocated memory is not recorded while a profiler in the program has CUPTI's callbacks"
	for memory, given := range map[string]bool{"calls": true, "none": false} {
		r := recordProgram(t, "--no-convert", "--calls", "cupti", "--memory", memory, sim("profiler"), "-s", "1")
		if strings.Contains(r.stderr, why) != given || r.Kernels != 300 || (r.PeakDevice > 0) != given {
			t.Errorf("--memory %s: %d kernels, a peak of %d bytes:\n%s", memory, r.Kernels, r.PeakDevice, r.stderr)
		}
	}
}

// A profiler in the program that ends gives CUPTI's subscription back: it is taken again, also from one that comes
// later, and the time between is said. Nothing is taken from a second profiler that is refused.
func TestSubscriptionIsTakenAgain(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"profile", "profile 2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := recordTold(t, "", "--no-convert", "--calls", "cupti")
			for _, line := range []string{"alloc", version, "alloc", "profile", "profiled", "subscribed", "alloc", version,
				"profiled", "subscribed", "alloc", version, "alloc"} {
				p.tell(t, line)
			}
			p.finish(t)
			r := &p.recording
			r.read(t, p.base+".cudatrace")
			if !strings.Contains(p.out(t), "told failed=1 ") || r.PeakDevice != 3<<20+4 || r.Lost["memory_calls"] != 3 {
				t.Errorf("a peak of %d bytes, lost %v: %s%s", r.PeakDevice, r.Lost, p.out(t), r.stderr)
			}
			if !strings.Contains(r.stderr, "profiler in the program") ||
				!strings.Contains(strings.Join(r.Notes, "\n"), "unknown memory calls") {
				t.Errorf("it says %q, %s", r.Notes, r.stderr)
			}
			for _, args := range [][]string{{"info"}, {"stats", "--report", "memory"}} {
				said, _ := succeed(t, append(args, p.base+".cudatrace")...)
				said = strings.Join(strings.Fields(said), " ")
				times := regexp.MustCompile(`allocated and freed(,? between [0-9.]+ m?s and [0-9.]+ m?s){3} is not known`)
				if !times.MatchString(said) {
					t.Errorf("%q says\n%s", args, said)
				}
			}
		})
	}
}

// TestCaptureNVTX records what lies within NVTX ranges of a name, exactly, with and without probes: ranges that
// are pushed, started and ended on another thread, of a domain, with a registered name, and one that
// begins before CUDA does. record/internal/cupti holds the patterns and the forms of names, which the injected library
// matches in either case.
func TestCaptureNVTX(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name            string
		kernels, ranges uint64
		unmatched       uint64 // ranges inside that end outside, or began before recording did
		sources         string
	}{
		{"step", 30, 30, 0, "cupti"},
		{"forward@model", 30, 20, 0, "uprobe"},
		{"across threads", 1, 2, 1, "uprobe"},
		{"early", 32, 34, 1, "uprobe cupti"},
		{"wide größe", 0, 0, 0, "uprobe"}, // no name in wide characters matches
	} {
		for calls := range strings.FieldsSeq(c.sources) {
			t.Run(c.name+", "+calls, func(t *testing.T) {
				t.Parallel()
				r := recordProgram(t, "--no-convert", "--calls", calls, "--capture-range", "nvtx:"+c.name, sim("nvtx"), "-e", "1", "-w", "1")
				if r.Kernels != c.kernels || r.Launches != c.kernels || r.Unmatched != 0 || !r.Complete {
					t.Errorf("%d kernels, %d launches, want %d; unmatched %d, complete %t %q", r.Kernels, r.Launches, c.kernels, r.Unmatched, r.Complete, r.Reasons)
				}
				if r.Ranges != c.ranges || r.RangesUnmatched != c.unmatched {
					t.Errorf("%d ranges, %d unmatched, want %d and %d", r.Ranges, r.RangesUnmatched, c.ranges, c.unmatched)
				}
				if probed := r.Pairs >= c.kernels; probed != (calls == "uprobe") {
					t.Errorf("%d uprobe pairs", r.Pairs)
				}
			})
		}
	}
	r := recordProgram(t, "--no-convert", "--capture-range", "nvtx:forward@", sim("nvtx"))
	if r.Kernels+r.Pairs+r.Ranges != 0 || !strings.Contains(r.stderr, "the program did none in an NVTX range that forward@ matches, or had no such range") {
		t.Errorf("%d kernels, %d calls, %d ranges of the default domain; it says %s", r.Kernels, r.Pairs, r.Ranges, r.stderr)
	}
}

// TestCaptureSteps records the kernels of the chosen steps and no others, whatever the form of their names, by uprobes
// and without: the injected library matches names in either case, so each form has one of the sources of calls. Ranges
// without a number are counted.
func TestCaptureSteps(t *testing.T) {
	t.Parallel()
	for form, name := range []string{"step 5-step 8", "step#5-step#8", "step_5-step_8", "step:5-step:8", "step-step",
		"step, seq = 5-step, seq = 8"} {
		calls := []string{"uprobe", "cupti"}[form%2]
		t.Run(fmt.Sprint(form, " ", calls), func(t *testing.T) {
			t.Parallel()
			r := recordProgram(t, "--calls", calls, "--steps", "5-8", sim("steps"), "-f", fmt.Sprint(form))
			if r.Kernels != 8 || r.Launches != 8 || r.Ranges != 4 || r.RangesUnmatched != 0 || !r.Complete {
				t.Errorf("%d kernels, %d launches, %d ranges, want 8, 8, 4; complete %t %q",
					r.Kernels, r.Launches, r.Ranges, r.Complete, r.Reasons)
			}
			if r.stdout != "counts kernels=60 copies=1 sets=1\n" || !strings.Contains(r.Options, "--steps 5-8") {
				t.Errorf("it prints %q; options %q", r.stdout, r.Options)
			}
			first, last, _ := strings.Cut(name, "-")
			tr := r.trace(t)
			expectRows(t, tr, 4, "steps", "select count(*) from slice where name glob 'step*' and category = 'nvtx'")
			found, _ := succeed(t, "stats", "--format", "csv", "--report", "steps", r.base+".cudatrace")
			for n := 5; n <= 8; n++ {
				if !strings.Contains(found, fmt.Sprintf("\nstep %d,", n)) {
					t.Errorf("no step %d in %q", n, found)
				}
			}
			if first != last {
				expectRows(t, tr, 2, "the first step and the last", fmt.Sprintf("select count(*) from slice "+
					"where category = 'nvtx' and name in ('%s', '%s')", first, last))
			}
		})
	}
	again := recordProgram(t, "--no-convert", "--steps", "5-8", "--capture-range", "nvtx:step_*@model",
		sim("steps"), "-f", "2", "-n", "60", "-e", "20")
	if again.Kernels != 8 || again.Ranges != 4 || !again.Complete {
		t.Errorf("where numbers begin again: %d kernels, %d ranges, want 8 and 4; complete %t %q",
			again.Kernels, again.Ranges, again.Complete, again.Reasons)
	}
	for _, c := range []struct{ options, want string }{
		{"--steps 500-510",
			"there are NVTX ranges named step, but the program did none in step 500-510: name steps that it reaches"},
		{"--step iteration --steps 5", "no NVTX range named iteration was seen; mark the loop with " +
			"torch.cuda.nvtx.range(f'step {i}') or cudatrace.step(), or name the ranges that it has with --step"},
	} {
		r := recordProgram(t, append(strings.Fields("--no-convert "+c.options), sim("steps"))...)
		if r.Kernels != 0 || !strings.Contains(r.stderr, "no GPU work was recorded: "+c.want+"\n") {
			t.Errorf("%s: %d kernels; it says %s", c.options, r.Kernels, r.stderr)
		}
	}
}

// TestAllFunctions probes the runtime's functions that create GPU work as well as the
// driver's: each call is one slice, with the driver's arguments.
func TestAllFunctions(t *testing.T) {
	t.Parallel()
	r := recordShared(t, "--api", "all", sim("many"), "--no-errors")
	r.whole(t)
	tr := r.trace(t)
	checkArrows(t, tr)
	launches := r.Functions["cudaLaunchKernel"]
	if launches == 0 {
		t.Errorf("no launches: %v", r.Functions)
	}
	expectRows(t, tr, launches, "runtime launches with the driver's arguments", `select count(*) from slice
		where name = 'cudaLaunchKernel' and extract_arg(arg_set_id, 'debug.driver') = 'cuLaunchKernel'
		and extract_arg(arg_set_id, 'debug.grid') is not null`)
}

// A call of the runtime that makes several driver calls is one call where it is probed. Each piece of its work belongs to
// one of them, or to the runtime's.
func TestSeveralDriverCalls(t *testing.T) {
	t.Parallel()
	for options, whole := range map[string]bool{"": true, "--api all": true, "--api minimal": false, "--calls cupti": false, "--calls cupti --api all": true} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			r := recordShared(t, append(strings.Fields(options), sim("functions"))...)
			if f := r.Functions; whole && (f["cudaMemcpyToArray"] != 3 || f["cudaMemset3D"] != 2) {
				t.Errorf("%d copies of 2 parts, %d sets of 3 planes", f["cudaMemcpyToArray"], f["cudaMemset3D"])
			}
			checkArrows(t, r.trace(t))
		})
	}
}

// TestCallsWithoutDriver records a launch that the runtime refuses by itself: the driver sees nothing of it. The runtime's own
// function does, by a probe or by CUPTI's record.
func TestCallsWithoutDriver(t *testing.T) {
	t.Parallel()
	const refused = "cudaLaunchKernel: cudaErrorInvalidResourceHandle"
	for options, seen := range map[string]uint64{
		"": 0, "--api all": 1, "--probe cudaLaunchKernel": 1, "--calls cupti": 0, "--calls cupti --api all": 1,
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			r := recordShared(t, append(strings.Fields(options), sim("many"))...)
			if got := r.Errors[refused]; got != seen {
				t.Errorf("%d refused launches, want %d: %v", got, seen, r.Errors)
			}
		})
	}
}

// TestWithoutCUPTI records where there is no libcupti, or none that works: the calls
// are there, and a line says what is missing. record/internal/cupti holds one that fails or is too new.
func TestWithoutCUPTI(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"lib/libcuda.so.1", "lib/libcudart.so.13", "bin/vectoradd"} {
		to := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(to), 0o755))
		copyProgram(t, filepath.Join(simStack, name), to)
	}
	for _, c := range []struct{ name, env, program, want string }{
		{"none", "NOTHING=1", filepath.Join(dir, "bin/vectoradd"), "no libcupti was found. Looked beside"},
		{"lacks a function", "LD_LIBRARY_PATH=" + filepath.Join(simStack, "lib-broken"), sim("vectoradd"), "has no function"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := recordProgram(t, "--no-convert", "env", c.env, c.program)
			if !strings.Contains(r.stdout, "sum ok") || r.Launches != 1 || r.Kernels != 0 || r.Complete || r.Pairs < 5 {
				t.Errorf("%d launches, %d kernels, %d pairs, complete %t\n%s", r.Launches, r.Kernels, r.Pairs, r.Complete, r.stdout)
			}
			if !strings.Contains(r.stderr, c.want) {
				t.Errorf("%q is not said:\n%s", c.want, r.stderr)
			}
		})
	}
}

// TestMinimal records launches as the driver sees them: all work has its call, and no
// call of the runtime that makes work is there.
func TestMinimal(t *testing.T) {
	for _, calls := range []string{"auto", "cupti"} {
		t.Run(calls, func(t *testing.T) {
			t.Parallel()
			with := recordShared(t, sim("many"), "--no-errors")
			r := recordProgram(t, "--no-convert", "--api", "minimal", "--calls", calls, sim("many"), "--no-errors")
			if r.Kernels != with.Kernels || r.Launches != with.Launches || r.Copies != with.Copies || r.Matched != with.Matched || r.Unmatched != 0 {
				t.Errorf("kernels %d of %d, launches %d of %d, copies %d of %d, matched %d of %d, unmatched %d", r.Kernels, with.Kernels,
					r.Launches, with.Launches, r.Copies, with.Copies, r.Matched, with.Matched, r.Unmatched)
			}
			records, err := exec.Command("cudatrace", "dump", "--kind", "api", r.base+".cudatrace").Output()
			if err != nil || !bytes.Contains(records, []byte("name=cuLaunchKernel ")) || bytes.Contains(records, []byte("name=cuda")) {
				t.Errorf("%v\n%s", err, records)
			}
		})
	}
}

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

var markerLine = regexp.MustCompile(`(?m)^marker .* flags=(\S+) .* name="?(.*?)"? domain="?(\w*)"?$`)

// markersOf lists the markers of a log: flags, name and domain.
func markersOf(t *testing.T, log string) (list []string) {
	t.Helper()
	out := must.Get(exec.Command("cudatrace", "dump", log).Output())(t)
	for _, m := range markerLine.FindAllStringSubmatch(string(out), -1) {
		list = append(list, strings.TrimSpace(m[1]+" "+m[2]+" "+m[3]))
	}
	return list
}

// TestArmedNVTX records a program that marks ranges, again and again: each recording has those that were open when it
// began and those of its time, its steps are found and chosen, and so is its rank. Between recordings, stuck looks at the
// program.
func TestArmedNVTX(t *testing.T) {
	t.Parallel()
	for _, options := range [][]string{{"--calls", "none"}, {"--calls", "none", "--detach"}, {"--detach"}} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			t.Parallel()
			p := startArmed(t, "env", "RANK=3", "WORLD_SIZE=8", sim("told"))
			pid := fmt.Sprint(p.cmd.Process.Pid)
			p.expect(t, "ready")
			p.tell(t, "open", "start", "step 0")
			for n := range 3 {
				p.await(t, "is armed: it waits for a recorder")
				b := startInBackground(t, append(options, "--flush-interval", "50ms", "-p", pid)...)
				b.until(t, func() bool { return strings.Contains(contents(t, b.stderr), saidWork) })
				p.tell(t, "step 1", "launch 2", "stop", "step 1", "start", "open")
				b.stop(t)
				want := slices.Repeat([]string{"start|before epoch"}, n)
				want = slices.Concat([]string{"start|before epoch", "start|before request app"}, want, []string{"start step", "end",
					"end  app", "start step", "end", "start request app", "start epoch"})
				got := markersOf(t, b.base+".cudatrace")
				slices.Sort(got[:n+2]) // the beginnings of the threads come in any order
				slices.Sort(want[:n+2])
				if !slices.Equal(got, want) || !b.Complete || b.Kernels != 4 {
					t.Errorf("recording %d: %q, want %q; complete %t %v, %d kernels", n, got, want, b.Complete, b.Reasons, b.Kernels)
				}
				for filter, kernels := range map[string]int{"--steps 1": 1, "--steps 0-1": 4, "--ranks 3": 4, "--nvtx step": 2,
					"--nvtx request@app": 3} {
					args := append(strings.Fields(filter), "--report", "kernels", "--step", "step", "--format", "json")
					said := printedStats(t, b.base+".cudatrace", args...)
					if !regexp.MustCompile(fmt.Sprintf(`"count": *%d\b`, kernels)).MatchString(said) {
						t.Errorf("recording %d, %s: want %d kernels\n%s", n, filter, kernels, said)
					}
				}
				// The range that was open before is no step.
				last := []string{"--step", "epoch", "--steps", "0", "--report", "kernels", "--format", "json"}
				if said := printedStats(t, b.base+".cudatrace", last...); strings.Contains(said, `"count"`) {
					t.Errorf("recording %d: the range that begins last has kernels\n%s", n, said)
				}
				other := exec.Command("cudatrace", "stats", "--ranks", "4", b.base+".cudatrace")
				if out, err := other.CombinedOutput(); err == nil {
					t.Errorf("there is a rank 4: %s", out)
				}
				if out, err := exec.Command("cudatrace", "stuck", "-p", pid).CombinedOutput(); err != nil ||
					!strings.Contains(string(out), "told") {
					t.Errorf("stuck: %v\n%s", err, out)
				}
				p.tell(t, "step 0") // nobody sees it
			}
			p.end(t, "told failed=0 children=0", "counts kernels=16 copies=1 sets=1")
		})
	}
}

// TestArmedPython records a Python program several times: with --detach all calls have their Python lines, and its
// ranges have the calls in them.
func TestArmedPython(t *testing.T) {
	t.Parallel()
	pythontest.OldestAndNewest(t, func(t *testing.T, p pythontest.Interpreter) {
		folder := t.TempDir()
		program := pythonCommand("cudatrace", "run", "--armed", p.Path, "testdata/python/stepping.py",
			must.Get(filepath.Abs("../../packaging/python"))(t))
		program.Env = append(program.Env, "TMPDIR="+folder)
		input, output := pipetest.Start(t, program)
		defer func() { input.Close(); program.Wait() }()
		if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
			t.Fatalf("it said %q, %v", line, err)
		}
		for _, options := range []string{"--calls none --detach", "--detach", "--calls none --detach", "--calls none"} {
			pid := fmt.Sprint(program.Process.Pid)
			b := startInBackground(t, append(strings.Fields(options), "--flush-interval", "50ms", "-p", pid)...)
			b.onDisk(t, func(s convert.Summary) bool { return s.Memsets > 20 })
			b.stop(t)
			if !b.Complete {
				t.Errorf("%s: %q\n%s", options, b.Reasons, b.recording.stderr)
			}
			said := printedStats(t, b.base+".cudatrace", "--nvtx", "turn", "--report", "python")
			has := strings.Contains(said, "100.0 % of") && strings.Contains(said, "stepping.py:19 <module>")
			if has != strings.Contains(options, "--detach") {
				t.Errorf("%s: %s", options, said)
			}
		}
	})
}

// TestArmedPythonStays records a Python program out of which CUPTI cannot be taken, since a debugger is attached: what
// each recording with lines leaves in it does not grow for ever.
func TestArmedPythonStays(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the debugger
	defer runtime.UnlockOSThread()
	python := pythontest.All(t)[0]
	program := pythonCommand("cudatrace", "run", "--armed", python.Path, "testdata/python/stepping.py",
		must.Get(filepath.Abs("../../packaging/python"))(t))
	program.Env = append(program.Env, "TMPDIR="+t.TempDir())
	input, output := pipetest.Start(t, program)
	defer func() { input.Close(); program.Process.Kill(); program.Wait() }()
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		t.Fatalf("it said %q, %v", line, err)
	}
	pid := program.Process.Pid
	must.Do(t, unix.PtraceSeize(pid))
	const withLines = 8
	code := 0
	for n := range withLines + 2 {
		b := startInBackground(t, "--calls", "none", "--detach", "-d", "50ms", "-p", fmt.Sprint(pid))
		if exit := b.end(t); exit != 0 {
			t.Fatalf("exit code %d\n%s", exit, b.recording.stderr)
		}
		b.read(t, b.base+".cudatrace")
		said := b.recording.stderr
		if !strings.Contains(said, "CUPTI stays") || b.Calls == 0 ||
			strings.Contains(said, "would keep memory") != (n >= withLines) {
			t.Errorf("recording %d: %d calls\n%s", n, b.Calls, said)
		}
		now := len(must.Get(procfs.Code(pid))(t))
		if n > withLines && now != code {
			t.Errorf("executable mappings behind recording %d: %d, before %d", n, now, code)
		}
		code = now
	}
}

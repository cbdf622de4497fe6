package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// A watching is a 'cudatrace watch' that runs.
type watching struct {
	background
	folder string
}

// watchPrograms watches armed programs, with windows as soon as may be.
func watchPrograms(t *testing.T, folder string, args []string, programs ...*armedProgram) *watching {
	t.Helper()
	w := &watching{*prepareInBackground(t), folder}
	w.cmd.Args = append([]string{"cudatrace", "watch", "-o", folder, "--every", "1s", "--for", "100ms", "--budget", "100%"}, args...)
	for _, p := range programs {
		w.cmd.Args = append(w.cmd.Args, "-p", fmt.Sprint(p.cmd.Process.Pid))
	}
	must.Do(t, w.cmd.Start())
	return w
}

// logs are the logs of the windows so far.
func (w *watching) logs(t *testing.T) []string {
	t.Helper()
	list := must.Get(filepath.Glob(filepath.Join(w.folder, "*.cudatrace")))(t)
	return list
}

// works has programs launch until a condition holds.
func works(t *testing.T, done func() bool, programs ...*armedProgram) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		for _, p := range programs {
			p.tell(t, "launch 5")
		}
		if time.Now().After(end) {
			t.Fatal("not within a minute")
		}
	}
}

// armedPrograms are programs that have started CUDA.
func armedPrograms(t *testing.T, n int, env ...string) (list []*armedProgram) {
	t.Helper()
	for range n {
		p := startArmed(t, append([]string{"env"}, append(env, sim("told"))...)...)
		p.expect(t, "ready")
		p.tell(t, "launch 1")
		p.await(t, "is armed: it waits for a recorder")
		list = append(list, p)
	}
	return list
}

// quit has a program end, which is to succeed.
func (p *armedProgram) quit(t *testing.T) {
	t.Helper()
	p.in.Close()
	if _, err := io.Copy(io.Discard, p.out); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// Windows are complete recordings of both ranks of a job, each with a profile, tables and metrics. A recorder that is
// killed is a line, and the next window comes; a signal ends the service, and the programs run on.
func TestWatch(t *testing.T) {
	t.Parallel()
	both := armedPrograms(t, 2, "SLURM_JOB_ID=4711")
	folder := filepath.Join(t.TempDir(), "windows")
	metrics := filepath.Join(folder, "x.prom")
	w := watchPrograms(t, folder, []string{"--detach", "--convert", "pprof,parquet", "--prometheus", metrics}, both...)
	works(t, func() bool {
		text, _ := os.ReadFile(metrics)
		return strings.Contains(string(text), "cudatrace_watch_windows_total{job=\"4711\"} 2\n")
	}, both...)
	logs := w.logs(t)
	for _, log := range logs[:2] {
		var r recording
		r.read(t, log)
		if len(r.ProcessList) != 2 || !r.Complete || r.Kernels == 0 || !strings.HasPrefix(filepath.Base(log), "4711-") {
			t.Errorf("%s: processes %d, %d kernels, complete %t: %v", log, len(r.ProcessList), r.Kernels, r.Complete, r.Reasons)
		}
		base := strings.TrimSuffix(log, ".cudatrace")
		for _, made := range []string{base + ".pb.gz", base + ".parquet/_cudatrace_files.txt"} {
			if _, err := os.Stat(made); err != nil {
				t.Error(err)
			}
		}
	}
	text, _ := os.ReadFile(metrics)
	for _, want := range []string{`cudatrace_complete{job="4711"} 1`, `cudatrace_kernel_time_ratio{job="4711",kernel="tick"} 1`} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}

	works(t, func() bool { // until a recorder is caught
		for _, child := range procfs.Children(w.cmd.Process.Pid) {
			if strings.Contains(procfs.CommandLine(child), "record --format json") {
				return syscall.Kill(child, syscall.SIGKILL) == nil
			}
		}
		return false
	}, both...)
	works(t, func() bool { return strings.Contains(contents(t, w.stderr), "record was killed") }, both...)
	before := len(w.logs(t))
	works(t, func() bool { return len(w.logs(t)) > before }, both...)
	w.cmd.Process.Signal(syscall.SIGTERM)
	if code := w.end(t); code != 0 {
		t.Errorf("exit code %d: %s", code, contents(t, w.stderr))
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*partial*")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	for _, p := range both {
		p.quit(t)
	}
}

// A signal that comes while a window is summed up or converted costs no window, and is no fault.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	p := armedPrograms(t, 1)[0]
	for _, command := range []string{"record ", conversionCommand, "convert "} {
		w := watchPrograms(t, t.TempDir(), []string{"--convert", "pprof"}, p)
		working := 0
		works(t, func() bool {
			for _, child := range procfs.Children(w.cmd.Process.Pid) {
				for _, working = range append(procfs.Children(child), child) {
					if strings.HasPrefix(procfs.CommandLine(working), "cudatrace "+command) {
						return syscall.Kill(working, syscall.SIGSTOP) == nil
					}
				}
			}
			return false
		}, p)
		w.cmd.Process.Signal(syscall.SIGTERM)
		time.Sleep(10 * time.Millisecond)
		syscall.Kill(working, syscall.SIGCONT) // it may have been killed
		code, said := w.end(t), contents(t, w.stderr)
		lost := command != "record " && len(w.logs(t)) == 0
		if code != 0 || lost || strings.Contains(said, "no window") || strings.Contains(said, "killed") ||
			strings.Contains(said, "interrupted") {
			t.Errorf("%s: exit code %d, windows %v, it said\n%s", command, code, w.logs(t), said)
		}
	}
	p.quit(t)
}

// Without probes, a process that another recorder records is an error, not an empty recording. So is a folder that
// another watch writes to.
func TestWatchedTwice(t *testing.T) {
	t.Parallel()
	p := armedPrograms(t, 1)[0]
	first := p.record(t, saidWork)
	folder := t.TempDir()
	out, err := exec.Command("cudatrace", "record", "-p", fmt.Sprint(p.cmd.Process.Pid), "--calls", "none", "-d", "100ms",
		"-o", filepath.Join(folder, "second")).CombinedOutput()
	left, _ := os.ReadDir(folder)
	if err == nil || !strings.Contains(string(out), "cannot be recorded: another recorder records") || len(left) > 0 {
		t.Errorf("%v, left %v\n%s", err, left, out)
	}
	first.stop(t)
	w := watchPrograms(t, folder, nil, p)
	works(t, func() bool { return len(w.logs(t)) > 0 }, p)
	out, err = exec.Command("cudatrace", "watch", "-o", folder+"/.").CombinedOutput()
	if want := "another 'cudatrace watch' writes to " + folder + "/.: name another folder with -o\n"; err == nil ||
		string(out) != "cudatrace: "+want {
		t.Errorf("%v\n%s", err, out)
	}
	w.cmd.Process.Signal(syscall.SIGTERM)
	if code := w.end(t); code != 0 {
		t.Errorf("exit code %d: %s", code, contents(t, w.stderr))
	}
	p.quit(t)
}

// A disk that is full is a line, and the service goes on; --disk-limit keeps it from filling up.
func TestWatchFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("unshare is not installed")
	}
	program := armedPrograms(t, 1)
	folder := t.TempDir()
	w := &watching{*prepareInBackground(t), folder}
	w.cmd.Args = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=8k tmpfs "$1" && exec cudatrace watch -q ` +
		`-o "$1" --every 1s --for 100ms --budget 100% --windows 2 -p "$2"`, "sh", folder, fmt.Sprint(program[0].cmd.Process.Pid)}
	w.cmd.Path, _ = exec.LookPath("unshare")
	must.Do(t, w.cmd.Start())
	ended := make(chan int)
	go func() { ended <- w.end(t) }()
	code := -1
	works(t, func() bool {
		select {
		case code = <-ended:
		default:
		}
		return code >= 0
	}, program...)
	if said := contents(t, w.stderr); code != 0 || strings.Count(said, "no space left in "+folder) != 2 || strings.Count(said, "\n") != 2 {
		t.Errorf("exit code %d, said\n%s", code, said)
	}
	program[0].quit(t)
}

// A look at processes that a signal ends is no fault.
func TestWatchEndsLooking(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	m := &watched{con: console.New(io.Discard, &said), signals: make(chan os.Signal, 1)}
	m.signals <- syscall.SIGTERM
	if why := m.Stuck([]int{os.Getpid()}); why != nil || !m.over || said.Len() > 0 {
		t.Errorf("%v, it said %q", why, said.String())
	}
}

// A signal that has come ends each wait, also one that is over at once.
func TestWatchAwaits(t *testing.T) {
	t.Parallel()
	for range 100 {
		m := &watched{signals: make(chan os.Signal, 1)}
		m.signals <- syscall.SIGTERM
		if !m.Await(time.Time{}) {
			t.Fatal("it goes on")
		}
	}
}

// A command that takes too long is ended, and that is the reason which is said.
func TestWatchSlow(t *testing.T) {
	t.Parallel()
	m := &watched{length: 300*time.Millisecond - slack}
	_, err := m.run(nil, io.Discard, stuckName, "-p", fmt.Sprint(os.Getpid()))
	if err == nil || err.Error() != "stuck took longer than 300ms" {
		t.Errorf("%v", err)
	}
}

// Moments have no monotonic reading: by that, a clock that was set back would not show, and windows would wait for it.
func TestWatchClock(t *testing.T) {
	t.Parallel()
	if now := new(watched).Now().String(); strings.Contains(now, " m=") {
		t.Errorf("it is %s", now)
	}
}

// Between windows NVML says how busy a GPU is. When it is idle and a process is stuck, that is a line and a metric.
func TestWatchStuck(t *testing.T) {
	t.Parallel()
	program := armedPrograms(t, 1)
	pid := program[0].cmd.Process.Pid
	folder := t.TempDir()
	metrics := filepath.Join(folder, "x.prom")
	w := &watching{*prepareInBackground(t), folder}
	w.cmd.Args = []string{"cudatrace", "watch", "-o", folder, "--every", "2s", "--for", "10ms", "--prometheus", metrics,
		"-p", fmt.Sprint(pid)}
	w.cmd.Env = append(os.Environ(), nvml(t), "CUDASIM_NVML_UTILIZATION=0")
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	has := func(line string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(metrics)
			return strings.Contains(string(text), line)
		}
	}
	w.until(t, has(`cudatrace_watch_gpu_busy_ratio{job="told-`))
	w.until(t, has(`,state="sleeping"} `))
	program[0].cmd.Process.Signal(syscall.SIGSTOP)
	w.until(t, has("cudatrace_watch_stuck_processes{job=\"told-"+fmt.Sprint(pid)+"\"} 1\n"))
	program[0].cmd.Process.Signal(syscall.SIGCONT)
	want := fmt.Sprintf("told-%d: its GPUs have been idle for ", pid)
	said := contents(t, w.stderr)
	if strings.Count(said, want) != 1 || !strings.Contains(said, fmt.Sprintf("process %d is stuck: ", pid)) {
		t.Errorf("it said\n%s", said)
	}
	w.cmd.Process.Signal(syscall.SIGTERM)
	if code := w.end(t); code != 0 {
		t.Errorf("exit code %d: %s", code, contents(t, w.stderr))
	}
	program[0].quit(t)
}

// The steps of a Python program tell what its windows cost, between them and in them, and windows have those steps.
func TestWatchSteps(t *testing.T) {
	t.Parallel()
	pythontest.OldestAndNewest(t, func(t *testing.T, p pythontest.Interpreter) {
		module := must.Get(filepath.Abs("../../packaging/python"))(t)
		folder := t.TempDir()
		program := pythonCommand("cudatrace", "run", "--armed", p.Path, "testdata/python/stepping.py", module)
		program.Env = append(program.Env, "TMPDIR="+folder)
		input, output := pipetest.Start(t, program)
		defer func() { input.Close(); program.Wait() }()
		if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
			t.Fatalf("it said %q, %v", line, err)
		}
		metrics := filepath.Join(folder, "x.prom")
		out, err := exec.Command("cudatrace", "watch", "-p", fmt.Sprint(program.Process.Pid), "-o", filepath.Join(folder, "w"),
			"--every", "1s", "--for", "300ms", "--budget", "100%", "--windows", "4", "--prometheus", metrics).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		text, _ := os.ReadFile(metrics)
		for _, want := range []string{"_cost_ratio{job=", `when="between"`, `when="window"`,
			`step="step",source="NVTX",quantile="0.5"} 0.0`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("metrics lack %s:\n%s\n%s", want, text, out)
			}
		}
	})
}

// An armed program is recorded by its user without any rights, and without probes.
func TestArmedWithoutRights(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := openFolder(t)
	must.Do(t, os.Chown(dir, 65534, 65534))
	script := `mkfifo "$1/in"; "$3" run --armed "$2" <"$1/in" >"$1/out" & exec 9>"$1/in"; echo 'launch 3' >&9
		until grep -q done "$1/out"; do sleep 0.02; done; pid=$!
		"$3" record -p $pid --calls none --no-convert -o "$1/run" 2>"$1/said" & recorder=$!
		until grep -q 'GPU work of' "$1/said"; do sleep 0.02; done
		echo 'launch 30' >&9; until test $(grep -c done "$1/out") = 2; do sleep 0.02; done
		kill -INT $recorder; wait $recorder; code=$?; exec 9>&-; wait $pid; cat "$1/said"; exit $code`
	cmd := exec.Command("timeout", "60", "sh", "-c", script, "sh", dir, sim("told"), copyOfSelf(t, openFolder(t)))
	cmd.SysProcAttr, cmd.Env = &nobody, append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	must.Run(t, cmd)
	var r recording
	r.read(t, filepath.Join(dir, "run.cudatrace"))
	if r.Kernels != 30 || r.Matched != 30 || r.Pairs != 0 || r.LostTotal() != 0 {
		t.Errorf("%d kernels, %d with their calls, %d probed calls, %d lost", r.Kernels, r.Matched, r.Pairs, r.LostTotal())
	}
}

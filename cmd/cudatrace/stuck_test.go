package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// stuckSays runs stuck until it says something.
func stuckSays(t *testing.T, want string, args ...string) string {
	t.Helper()
	pattern := regexp.MustCompile(want)
	var said string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var code int
		if said, code = outputOf(exec.Command("cudatrace", append([]string{"stuck"}, args...)...)); pattern.MatchString(said) {
			if stuck := strings.HasPrefix(said, "stuck"); !strings.HasPrefix(said, "{") && stuck != (code == exitStuck) {
				t.Errorf("exit code %d\n%s", code, said)
			}
			return said
		}
	}
	t.Fatalf("stuck %q said\n%s\nwant %s", args, said, want)
	return ""
}

// checkStuckKernel looks at a program that waits for a kernel which does not end.
func checkStuckKernel(t *testing.T, source string, pid int) {
	t.Helper()
	work := "kernel last"
	if source == "cupti" { // no arguments
		work = "the work of cudaLaunchKernel"
	}
	said := stuckSays(t, `^stuck: process \d+ \(.*exits hang -n \d+\): `+work+
		` on stream \d+ was launched \d+ s ago and has not ended; the main thread has been in cudaStreamSynchronize for \d+ s\n`,
		"-p", fmt.Sprint(pid))
	if !regexp.MustCompile(`\n  stream \d+: ` + work + ` was launched .* s ago and has not ended; 0 launches behind it\n`).MatchString(said) {
		t.Error(said)
	}
	if !regexp.MustCompile(`\n +\d+ +exits +sleeping +cudaStreamSynchronize since \d+ s: \w+`).MatchString(said) {
		t.Error(said)
	}
}

// TestStuckCall looks at a program whose GPU work is not recorded.
func TestStuckCall(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"uprobe", "cupti"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			checkStuckCall(t, source)
		})
	}
}

func checkStuckCall(t *testing.T, source string) {
	b := recordInBackground(t, "--calls", source, "--gpu", "none", "--flush-interval", "100ms", sim("exits"), "hang", "-n", "100")
	said := stuckSays(t, `^healthy \(waiting\): process \d+ \(.*exits hang -n 100\): the main thread has been in cudaStreamSynchronize for \d+ s\n`,
		"-p", fmt.Sprint(b.program(t)))
	if !strings.Contains(said, "\n  GPU work: not recorded\n") {
		t.Error(said)
	}
	syscall.Kill(-b.cmd.Process.Pid, syscall.SIGINT)
	b.end(t)
}

// TestStuckAll looks at all recorded processes of a PID namespace: those of two recorders. A file of another user that looks like the
// log of a recorder names a third process.
func TestStuckAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := must.Get(os.Create(filepath.Join(dir, "liar.cudatrace.partial-1")))(t)
	w := must.Get(tracelog.NewWriter(log, tracelog.Options{}))(t)
	w.Add(&tracelog.Process{PID: 1, Start: 1})
	must.Do(t, errors.Join(w.Flush(), log.Close()))
	script := `
		mount -t proc proc /proc || exit 1
		mount -t tmpfs none /mnt && cp "$(command -v sleep)" /mnt/cudatrace || exit 1
		cudatrace stuck >"$D/none" 2>&1; echo "exit code $?" >>"$D/none"
		setpriv --reuid 65534 --clear-groups /mnt/cudatrace 1000 9<>"$D/liar.cudatrace.partial-1" &
		liar=$!
		for name in a b; do
			cudatrace record --no-convert -o "$D/$name" --flush-interval 100ms ` + sim("exits") + ` hang -n 100 >"$D/$name.out" 2>&1 &
		done
		for try in $(seq 60); do
			cudatrace stuck >"$D/said" 2>&1
			code=$?
			if [ $(grep -c '^stuck: process [0-9]* (.*exits hang -n 100): the work of cudaLaunchKernel on stream' "$D/said") = 2 ]; then break; fi
		done
		echo "exit code $code" >>"$D/said"
		kill $liar
		/mnt/cudatrace 1000 9<>"$D/liar.cudatrace.partial-1" &
		for try in $(seq 60); do
			cudatrace stuck >"$D/root" 2>&1
			if grep -q '^process 1 (' "$D/root"; then break; fi
		done`
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = append(os.Environ(), "D="+dir, "TMPDIR="+dir) // the recorders are killed with the namespace
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, Unshareflags: syscall.CLONE_NEWNS}
	must.Run(t, cmd)
	if said := contents(t, filepath.Join(dir, "none")); said != "cudatrace: no process is being recorded that has called CUDA: give -p PID\nexit code 1\n" {
		t.Errorf("without recorders: %s", said)
	}
	said := contents(t, filepath.Join(dir, "said"))
	if !strings.Contains(said, "\nexit code 3\n") || strings.Count(said, "\nprocess ") != 2 || strings.Contains(said, "\nprocess 1 (") {
		t.Error(said)
	}
	if said := contents(t, filepath.Join(dir, "root")); !strings.Contains(said, "\nprocess 1 (") {
		t.Errorf("what a recorder of root's says is not believed\n%s", said)
	}
}

// TestStuckRank records four ranks, of which one never comes to the last collective: it waits for a file.
func TestStuckRank(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	rank := "RANK=%d WORLD_SIZE=4 " + sim("nccl") + " -n 1 -s %d -w " + fifo
	b := startInBackground(t, "--flush-interval", "100ms", "sh", "-c", fmt.Sprintf(rank+" & "+rank+" & "+rank+" & "+rank+" & wait", 0, 6, 1, 6, 2, 6, 3, 5))
	files := make([]string, 4)
	for r := range files {
		var pid int
		b.until(t, func() bool {
			pid = rankOf(b.cmd.Process.Pid, r)
			return pid != 0
		})
		last := fmt.Sprintf(`"communicator": "0xfe0b4ef3716d7af0",\s*"name": "ncclAllReduce",\s*"count": %d\b`, map[bool]int{true: 9, false: 10}[r == 3])
		said := stuckSays(t, `(?s)`+last+`.*"call": "openat"|"call": "openat".*`+last, "--format", "json", "-p", fmt.Sprint(pid))
		files[r] = filepath.Join(dir, fmt.Sprintf("rank%d.json", r))
		must.Do(t, os.WriteFile(files[r], []byte(said), 0o600))
	}
	stuckSays(t, `^stuck: rank 3 never entered ncclAllReduce \d+ of communicator 0x\w+; ranks 0-2 have been in it for \d+ s; rank 3: the main thread is blocked in openat\n`, files...)
	stuckSays(t, `no report of rank 2 of 4\n`, files[0], files[1], files[3])
	syscall.Kill(-b.cmd.Process.Pid, syscall.SIGINT)
	b.end(t)
}

// rankOf finds a rank of a program among the descendants of a process.
func rankOf(of, rank int) int {
	if has, err := procfs.EnvironmentHas(of, fmt.Sprintf("RANK=%d", rank)); err == nil && has && procfs.Name(of) == "nccl" {
		return of
	}
	for _, child := range procfs.Children(of) {
		if pid := rankOf(child, rank); pid != 0 {
			return pid
		}
	}
	return 0
}

// TestStuckReports gives stuck the reports of four ranks on GPUs, of which rank 3 opened a FIFO that nobody wrote.
func TestStuckReports(t *testing.T) {
	t.Parallel()
	at := func(waiting string) string {
		return "stuck: rank 3 never entered ncclAllReduce 336 of communicator 0xa870ba12bb80ac01; " + waiting + " in it for 4 s; rank 3: the main thread is blocked in openat at ranks.py:73 (never_comes)"
	}
	for _, c := range []struct {
		ranks   []int
		verdict string
		missing string
		code    int
	}{
		{[]int{3, 1, 0, 2}, at("ranks 0-2 have been"), "", exitStuck},
		{[]int{0, 1, 3}, at("ranks 0-1 have been"), "rank 2", exitStuck},
		{[]int{0, 3}, at("rank 0 has been"), "ranks 1-2", exitStuck},
		{[]int{0, 1, 2}, "unknown: there is no report of rank 3", "rank 3", 0},
	} {
		args := []string{"cudatrace", "stuck"}
		for _, r := range c.ranks {
			args = append(args, filepath.Join(root, "testdata/gpu/logs/never", fmt.Sprintf("rank%d.json", r)))
		}
		var out, errs strings.Builder
		code := run(args, &out, &errs)
		verdict, rest, _ := strings.Cut(out.String(), "\n")
		if code != c.code || verdict != c.verdict || strings.Contains(rest, "no report of") != (c.missing != "") || !strings.Contains(rest, c.missing) || errs.Len() > 0 {
			t.Errorf("ranks %v: exit code %d\n%s%s", c.ranks, code, &out, &errs)
		}
	}
}

// TestStuckFiles gives stuck files that are no reports of ranks.
func TestStuckFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for content, want := range map[string]string{
		"":                                 "is empty or cut off: print it again",
		`{"stuck": 1, "processes": [`:      "is empty or cut off: print it again",
		"text":                             "is no report of stuck in JSON",
		"{}":                               "is no report of stuck in JSON",
		`{"stuck": 7}`:                     "is a report of version 7, and only version 1 is known: use the cudatrace that printed it",
		`{"stuck": 1}`:                     "no process of these reports has a rank",
		`{"stuck": 1, "processes": [{}]}`:  "no process of these reports has a rank",
		`{"stuck": 1, "processes": "all"}`: "is no report of stuck in JSON",
	} {
		path := filepath.Join(dir, "report.json")
		must.Do(t, os.WriteFile(path, []byte(content), 0o600))
		if said, code := outputOf(exec.Command("cudatrace", "stuck", path)); code != exitFailure || !strings.Contains(said, want) {
			t.Errorf("%q: exit code %d, %s", content, code, said)
		}
	}
	if said, code := outputOf(exec.Command("cudatrace", "stuck", filepath.Join(dir, "none"))); code != exitFailure || !strings.Contains(said, "none cannot be opened: ") {
		t.Error(said)
	}
	for _, args := range [][]string{{"-p", "x"}, {"-p", "1", "two"}, {"--format", "xml", "-p", "1"}, {"--format", "xml", "file"}} {
		if said, code := outputOf(exec.Command("cudatrace", append([]string{"stuck"}, args...)...)); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, said)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// runsVar asks TestManyRuns for more runs than the few of an ordinary test run.
const runsVar = "CUDATRACE_RUNS"

// TestManyRuns records a short program again and again, every fourth time with a
// recorder that is killed, and looks for what is left: a file, a process, a socket. BPF
// links, programs and maps are held by descriptors alone, so they go with the process.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	runs := 3
	if text := os.Getenv(runsVar); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 4 {
			t.Fatalf("%s=%q: how many runs, 4 or more?", runsVar, text)
		}
		runs = n
	}
	work, private := t.TempDir(), t.TempDir()
	env := append(os.Environ(), "TMPDIR="+private)
	base := filepath.Join(work, "run")
	for i := range runs {
		cmd := exec.Command("cudatrace", "record", "-q", "-o", base, sim("vectoradd"))
		cmd.Env = env
		if i%4 == 1 {
			killWhileRecording(t, cmd, private)
			continue
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, out)
		}
	}
	cmd := exec.Command("cudatrace", "record", "-q", "-o", base, sim("vectoradd"))
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the last run: %v\n%s", err, out)
	}
	for _, name := range partials(t, base) {
		os.Remove(name) // of recorders that were killed: these are a person's to look at
	}
	files, err := filepath.Glob(work + "/*")
	if err != nil || len(files) != 2 {
		t.Errorf("files %v, %v; want the log and the trace", files, err)
	}
	empty(t, private)
	for _, environ := range all(t, "/proc/[0-9]*/environ") {
		if data, err := os.ReadFile(environ); err == nil && bytes.Contains(data, []byte(private)) {
			t.Errorf("%s is left", filepath.Dir(environ))
		}
	}
	if sockets := contents(t, "/proc/net/unix"); strings.Contains(sockets, private) {
		t.Error("a socket is left")
	}
}

// killWhileRecording kills a recorder whose socket has appeared.
func killWhileRecording(t *testing.T, cmd *exec.Cmd, private string) {
	t.Helper()
	must.Do(t, cmd.Start())
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	for len(all(t, private+"/*/sock")) == 0 && !isEnded(ended) {
	}
	cmd.Process.Kill()
	<-ended
}

func isEnded(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

func partials(t *testing.T, base string) []string { return all(t, base+".cudatrace.partial-*") }

func all(t *testing.T, pattern string) []string {
	t.Helper()
	names := must.Get(filepath.Glob(pattern))(t)
	return names
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left := all(t, dir+"/*"); len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v", left)
	}
}

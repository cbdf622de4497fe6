package record

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/procfs"
)

// A stand is a process that looks as if it used CUDA, and its child, which is still in the same program.
type stand struct{ pid, child int }

// startStand starts one that maps these files and has this setting in its environment.
func startStand(t *testing.T, mapped []string, setting string) stand {
	t.Helper()
	cmd := exec.Command("sh", "-c", `(echo; read line) <&3 & echo $!; wait`)
	cmd.Env = []string{"LD_PRELOAD=" + strings.Join(mapped, " "), setting}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // the child ends when the test does
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{r}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	t.Cleanup(func() { w.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(stdout)
	s := stand{pid: cmd.Process.Pid}
	for range 2 { // of the child, empty, and of the parent, in any order
		if lines.Scan(); lines.Text() != "" {
			s.child, _ = strconv.Atoi(lines.Text())
		}
	}
	if s.child == 0 {
		t.Fatal("the child has not started")
	}
	return s
}

// TestUnseen looks at processes that use CUDA, or seem to, and are not recorded.
func TestUnseen(t *testing.T) {
	t.Parallel()
	built, err := filepath.Abs("../build/sim/lib")
	if err != nil {
		t.Fatal(err)
	}
	const name = "CUDA_INJECTION64_PATH"
	library, driver := filepath.Join(built, "libcupti.so.13"), filepath.Join(built, "libcuda.so.1")
	device := filepath.Join(t.TempDir(), "dev", "nvidia0") // any library, at this path
	content, err := os.ReadFile(filepath.Join(built, "libcudart.so.13"))
	if err := errors.Join(err, os.Mkdir(filepath.Dir(device), 0o777), os.WriteFile(device, content, 0o666)); err != nil {
		t.Fatal(err)
	}
	const cleaned = "it was started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out): pass it on (env -i CUDA_INJECTION64_PATH=\"$CUDA_INJECTION64_PATH\" PROGRAM, sudo --preserve-env=CUDA_INJECTION64_PATH PROGRAM)"
	const replaced = "its CUDA_INJECTION64_PATH is /other, and not the recorder's library: another tool has set it"
	const removed = "the driver has not loaded the injected library into it: the program removed CUDA_INJECTION64_PATH from its environment, or may not read that file"
	for _, c := range []struct {
		what        string
		mapped      []string
		setting     string
		has         met
		first, said string // at the first look, and when patience is over
	}{
		{"NVML", []string{driver}, "A=b", silent, "", ""},
		{"cleaned environment", []string{driver, device}, "A=b", silent, cleaned, cleaned},
		{"another program of a process, in a cleaned environment", []string{driver, device}, "A=b", formerly, cleaned, cleaned},
		{"another tool", []string{driver, device}, name + "=/other", silent, replaced, replaced},
		{"our setting, removed by the program", []string{driver, device}, name + "=" + library, silent, "", removed},
		{"overwritten environment", []string{driver, device}, "a title", silent, "", removed},
		{"no way to the recorder", []string{driver, device, library}, "A=b", silent, "", noWay},
		{"at its end", []string{driver, device, library}, "A=b", formerly, "", ""},
		{"recorded", []string{driver, device, library}, "A=b", running, "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := startStand(t, c.mapped, c.setting)
			u := newUnseen(name+"="+library, nil)
			defer u.close()
			know := func(pid int, _ procfs.StartTime) met {
				if pid == s.pid {
					return c.has
				}
				return silent
			}
			got := map[uint32]string{}
			look := func(want string) {
				u.full = time.Time{}
				u.look(s.pid, know, func(pid uint32, text string) { _, got[pid], _ = strings.Cut(text, " is not recorded: ") })
				if got[uint32(s.pid)] != want || got[uint32(s.child)] != "" {
					t.Errorf("of process %d and its child %d it is said: %v, not %q of the first", s.pid, s.child, got, want)
				}
			}
			look(c.first)
			for _, x := range u.strangers {
				if !x.since.IsZero() {
					x.since = time.Now().Add(-loadPatience)
				}
			}
			look(c.said)
		})
	}
}

// TestUnseenEnd has a process that was started without the setting end soon after a look at it, and long after: then it
// may have used CUDA.
func TestUnseenEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environment string
		since       time.Duration
		want        string
	}{
		{"A=b", 0, ""},
		{"A=b", cudaStart, " may have used CUDA unrecorded: it was started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out), and ended between two looks at it: pass it on (env -i CUDA_INJECTION64_PATH=\"$CUDA_INJECTION64_PATH\" PROGRAM, sudo --preserve-env=CUDA_INJECTION64_PATH PROGRAM)"},
		{"CUDA_INJECTION64_PATH=/library", cudaStart, ""},
	} {
		cmd := exec.Command("cat")
		cmd.Env = []string{c.environment}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		u, said := newUnseen("CUDA_INJECTION64_PATH=/library", nil), ""
		look := func() {
			u.full = time.Time{}
			u.look(cmd.Process.Pid, func(int, procfs.StartTime) met { return silent }, func(_ uint32, text string) { said += text })
		}
		look()
		look()
		process := u.strangers[cmd.Process.Pid]
		name := process.cleaned
		if (name != "") != (c.environment == "A=b") {
			t.Errorf("%+v: followed as %q", c, name)
		}
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		process.alive = time.Now().Add(time.Hour - c.since)
		if c.since > 0 {
			process.alive = time.Now().Add(-c.since)
		}
		look()
		if want := c.want; want != "" && said != name+want || want == "" && said != "" {
			t.Errorf("%+v: it is said: %q", c, said)
		}
		u.close()
	}
}

// TestBetweenLooks has looks follow each other sooner and later than CUDA needs to start, with and without traces of a process that
// ran meanwhile.
func TestBetweenLooks(t *testing.T) {
	gone := func(all ...met) map[int]*stranger {
		gone := map[int]*stranger{}
		for pid, has := range all {
			gone[pid] = &stranger{has: has}
		}
		return gone
	}
	for _, c := range []struct {
		time   time.Duration
		faults uint64
		gone   map[int]*stranger
		want   bool
	}{
		{cudaStart - 1, 200, gone(silent), false},
		{time.Second, 100, nil, false},
		{time.Second, 0, gone(running, formerly), false}, // recorded processes have ended
		{cudaStart, 101, nil, true},
		{cudaStart, 0, gone(running, silent), true},
	} {
		u := unseen{setting: "CUDA_INJECTION64_PATH=/library", faults: 100}
		u.between(c.time, c.faults, c.gone)
		u.between(time.Millisecond, 1000, nil)
		if u.gap != c.time || u.doubt != c.want {
			t.Errorf("%+v: gap %v, doubt %t", c, u.gap, u.doubt)
		}
	}
	u := unseen{setting: "CUDA_INJECTION64_PATH=/library"}
	u.between(60*time.Millisecond, 0, nil)
	const want = "a process started without CUDA_INJECTION64_PATH in its environment (env -i and sudo leave it out) may have gone unnoticed if it used CUDA for less than 60.0 ms"
	if got := u.watched(); got != want {
		t.Errorf("it is said: %s", got)
	}
}

// TestShortChild has a process start and end between two looks, long after the first one.
func TestShortChild(t *testing.T) {
	t.Parallel()
	parent := exec.Command("sh", "-c", "while read x; do env -i true; echo done; done")
	stdin, err := parent.StdinPipe()
	stdout, err2 := parent.StdoutPipe()
	if err := errors.Join(err, err2, parent.Start()); err != nil {
		t.Fatal(err)
	}
	u := newUnseen("CUDA_INJECTION64_PATH=/library", nil)
	defer u.close()
	lines := bufio.NewScanner(stdout)
	look := func(want bool) {
		u.looked = time.Now().Add(-time.Hour)
		u.look(parent.Process.Pid, func(int, procfs.StartTime) met { return running }, nil)
		if u.gap < time.Hour || u.doubt != want {
			t.Errorf("gap %v, doubt %t", u.gap, u.doubt)
		}
	}
	look(false)
	look(false)
	if _, err := stdin.Write([]byte("\n")); err != nil || !lines.Scan() {
		t.Error(err, lines.Err())
	}
	look(true)
	stdin.Close()
	if err := parent.Wait(); err != nil {
		t.Error(err)
	}
}

// TestReusedPID has a PID belong to another process than at the last look, which was named as unrecorded, or followed: what was known of
// that one is not said of the other.
func TestReusedPID(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("cat")
	cmd.Env = []string{"A=b"}
	stdin, err := cmd.StdinPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { stdin.Close(); _ = cmd.Wait() }()
	pid := cmd.Process.Pid
	start, _ := procfs.Started(pid)
	for _, before := range []stranger{
		{start: start + 1, told: true},
		{start: start + 1, cleaned: "another (1)", looks: 2},
	} {
		u, said := newUnseen("CUDA_INJECTION64_PATH=/library", nil), ""
		u.strangers = map[int]*stranger{pid: &before}
		u.look(pid, func(_ int, at procfs.StartTime) met {
			if at != start {
				t.Errorf("it is asked for a process that was started at %d, not at %d", at, start)
			}
			return silent
		}, func(_ uint32, text string) { said += text })
		if x := u.strangers[pid]; x == nil || x.start != start || x.told || !strings.HasPrefix(x.cleaned, "cat (") || x.looks != 1 {
			t.Errorf("after %+v: %+v", before, x)
		}
		if ended := strings.HasPrefix(said, "another (1) may have used CUDA unrecorded"); ended != (before.looks > 0) {
			t.Errorf("after %+v it is said: %q", before, said)
		}
		u.close()
	}
}

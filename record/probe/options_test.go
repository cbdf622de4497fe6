package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

func TestNextPause(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		fill  float64
		want  time.Duration
	}{
		{time.Millisecond, 0, 2 * time.Millisecond},
		{maxPause, 0, maxPause},
		{40 * time.Millisecond, 0.05, 40 * time.Millisecond},
		{40 * time.Millisecond, 0.2, 10 * time.Millisecond},
		{time.Millisecond, 0.2, minPause},
		{40 * time.Millisecond, 0.9, minPause},
	} {
		if got := nextPause(c.pause, c.fill); got != c.want {
			t.Errorf("after %v and %.2f full: %v", c.pause, c.fill, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{BufferBytes: -1}, {MaxThreads: -1}, {Functions: []*cudaapi.Function{{ID: 5000}}}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// Without root, opening says which capabilities are missing.
func TestWithoutRights(t *testing.T) {
	const child = "CUDATRACE_TEST_WITHOUT_RIGHTS"
	if os.Getenv(child) != "" {
		_, err := Open(Options{})
		var missing *PermissionError
		if !errors.As(err, &missing) || len(missing.Missing) != 2 {
			t.Errorf("error %v", err)
		}
		fmt.Println("says:", err)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to give it up")
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.v", "-test.run", "^TestWithoutRights$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env, cmd.Dir = append(os.Environ(), child+"=1"), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "says: no rights for eBPF probes: CAP_BPF and CAP_PERFMON missing (run with sudo") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSymbolBytes(t *testing.T) {
	for calls, want := range map[int]int{1: 64 << 10, 64 << 20: 4 << 20, 1 << 40: 64 << 20} {
		if got := symbolBytes(calls); got != want {
			t.Errorf("beside %d bytes for calls, names take %d", calls, got)
		}
	}
}

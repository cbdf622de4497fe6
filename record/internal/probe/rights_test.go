package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
)

// otherUser is set in this test program when it runs as another user than root: to that user's
// capabilities.
const otherUser = "CUDATRACE_TEST_OTHER_USER"

// runAsOther runs the calling test again, as another user with some capabilities, and returns what it
// prints.
func runAsOther(t *testing.T, capabilities ...uintptr) string {
	t.Helper()
	must.BeRoot(t)
	self := must.Get(os.Open("/proc/self/exe"))(t)
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env, cmd.Dir = append(os.Environ(), otherUser+"="+fmt.Sprint(capabilities)), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// Without root, opening says which capabilities are missing.
func TestWithoutRights(t *testing.T) {
	if os.Getenv(otherUser) != "" {
		_, err := Open(Options{})
		var missing *PermissionError
		if !errors.As(err, &missing) || len(missing.Missing) != 2 {
			t.Errorf("error %v", err)
		}
		fmt.Println("says:", err)
		return
	}
	out := runAsOther(t)
	if !strings.Contains(out, "says: no rights for eBPF probes: CAP_BPF and CAP_PERFMON missing (run with sudo") {
		t.Error(out)
	}
}

// CAP_BPF and CAP_PERFMON are enough, also for a process that must not read its own memory. A program
// with file capabilities is such a process. For perf events some kernels ask for CAP_SYS_ADMIN.
func TestCapabilities(t *testing.T) {
	admin := []uintptr{unix.CAP_SYS_ADMIN}
	if os.Getenv(otherUser) == "" {
		runAsOther(t, unix.CAP_BPF, unix.CAP_PERFMON)
		runAsOther(t, admin...)
		return
	}
	must.Do(t, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
	if f, err := os.Open("/proc/self/mem"); err == nil {
		f.Close()
		t.Error("this process reads its own memory")
	}
	eachMode(t, func(t *testing.T, m attachMode) {
		p, err := Open(Options{mode: m, WatchExits: true})
		var missing *PermissionError
		if m == modeSingle && errors.As(err, &missing) && slices.Equal(missing.Missing, []string{"CAP_SYS_ADMIN"}) && os.Getenv(otherUser) != fmt.Sprint(admin) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Calibrate(); err != nil {
			t.Error(err)
		}
		if err := p.Degraded(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
}

package probe

import (
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaceChild is set in this test program when it runs in namespaces of its own.
const namespaceChild = "CUDATRACE_TEST_IN_NAMESPACE"

// enterNamespace gives the program the /proc of its PID namespace.
func enterNamespace() {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		log.Fatal(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		log.Fatal(err)
	}
}

// A recorder in a PID namespace of its own, as in a container, records ids as they
// are there. The tests named here compare ids; they run again inside.
func TestOwnPIDNamespace(t *testing.T) {
	if os.Getenv(namespaceChild) != "" {
		t.Skip("inside already")
	}
	if os.Geteuid() != 0 {
		t.Skip("namespaces need root")
	}
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^(TestRenamedThread|TestOtherProcesses|TestUnfinished|TestNestedNamespace)$")
	cmd.Env = append(os.Environ(), namespaceChild+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestUnfinished") || !strings.Contains(string(out), "--- PASS: TestNestedNamespace") {
		t.Errorf("%v\n%s", err, out)
	}
}

// From inside a namespace, a process in a deeper one can't be recorded, which is said.
func TestNestedNamespace(t *testing.T) {
	if os.Getenv(namespaceChild) == "" {
		t.Skip("runs inside TestOwnPIDNamespace")
	}
	p := open(t, Options{})
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := p.Attach(cmd.Process.Pid); err == nil || !strings.Contains(err.Error(), "container of its own") {
		t.Errorf("error %v", err)
	}
}

// From the host, a process in a container is recorded under the host's ids.
func TestContainerFromOutside(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTargetIn(t, "driver", unix.CLONE_NEWPID)
	attach(t, p, target)
	target.run("launches", 5)
	r := finish(t, p)
	if len(r.calls) != 5 || r.calls[0].PID != uint32(target.cmd.Process.Pid) {
		t.Errorf("calls %+v of process %d", r.calls, target.cmd.Process.Pid)
	}
}

package probe

import (
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
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
	must.BeRoot(t)
	t.Parallel()
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^(TestRenamedThread|TestOtherProcesses|TestUnfinished|TestNestedNamespace|TestKilled|TestWatchAgain)$")
	cmd.Env = append(os.Environ(), namespaceChild+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestUnfinished") || !strings.Contains(string(out), "--- PASS: TestWatchAgain") || !strings.Contains(string(out), "--- PASS: TestNestedNamespace") {
		t.Errorf("%v\n%s", err, out)
	}
}

// From inside a namespace, a process in a deeper one is recorded under the recorder's
// ids, with its own beside them. So is one two levels down.
func TestNestedNamespace(t *testing.T) {
	if os.Getenv(namespaceChild) == "" {
		t.Skip("runs inside TestOwnPIDNamespace")
	}
	p, target := open(t, Options{}), startTargetIn(t, "driver", unix.CLONE_NEWPID)
	attach(t, p, target)
	target.run("threads", 5)
	target.run("launches", 7)
	target.begin("hang", 0)
	if line := target.line(); line != "hanging" {
		t.Fatal(line)
	}
	waitAsleep(t, target.pid)
	r := finish(t, p)
	if n, open := r.count("cuLaunchKernel", 0), r.count("cuLaunchKernel", tracelog.CallUnfinished); n != 64*5+7 || open != 1 {
		t.Errorf("%d calls, %d open", n, open)
	}
	perThread := map[uint32]int{}
	for _, c := range r.calls {
		perThread[c.TID]++
		if c.PID != uint32(target.pid) {
			t.Fatalf("a call of process %d: %+v", target.pid, c)
		}
	}
	if len(perThread) != 65 || perThread[uint32(target.pid)] != 8 {
		t.Errorf("calls of %d threads, %d of the first", len(perThread), perThread[uint32(target.pid)])
	}
	checkLocal(t, r, target)
}

// checkLocal compares the threads' ids in the target's own namespace: they are
// numbered in the order of their start there and here.
func checkLocal(t *testing.T, r *recorder, target *target) {
	t.Helper()
	slices.SortFunc(r.threads, func(a, b tracelog.Thread) int { return int(a.TID) - int(b.TID) })
	for i, thread := range r.threads {
		if thread.NamespaceTID != uint32(i+1) || thread.PID != uint32(target.pid) {
			t.Errorf("thread %d is %+v", i, thread)
		}
	}
}

// From the host, a process in a container is recorded under the host's ids.
func TestContainerFromOutside(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTargetIn(t, "driver", unix.CLONE_NEWPID)
	attach(t, p, target)
	target.run("renames", 0)
	target.run("launches", 4)
	r := finish(t, p)
	if len(r.calls) != 5 || r.calls[0].PID != uint32(target.cmd.Process.Pid) {
		t.Errorf("calls %+v of process %d", r.calls, target.cmd.Process.Pid)
	}
	want := []tracelog.Thread{
		{PID: uint32(target.pid), TID: uint32(target.pid), Name: "driver", NamespaceTID: 1},
		{PID: uint32(target.pid), TID: uint32(target.pid), Name: "renamed", NamespaceTID: 1},
	}
	goldentest.Same(t, want, r.threads, "threads")
}

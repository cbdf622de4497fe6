package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// TestCapabilities records as a user other than root with CAP_BPF and CAP_PERFMON, from the file or from
// the process that starts it: calls are probed. Without these, and in a user namespace, they are not, and the cause is named.
func TestCapabilities(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	const noNamespace = "in its first user namespace only"
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 65534, Size: 1}}
	capabilities := []uintptr{unix.CAP_BPF, unix.CAP_PERFMON}
	for _, c := range []struct {
		name string
		file bool // the capabilities are the file's
		attr syscall.SysProcAttr
		want string // why calls are not probed
	}{
		{name: "none", attr: nobody, want: "no rights for eBPF probes: CAP_BPF and CAP_PERFMON missing"},
		{name: "file", file: true, attr: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}},
		{name: "ambient", attr: syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, AmbientCaps: capabilities}},
		{name: "file in a user namespace", file: true, want: noNamespace,
			attr: syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapped, GidMappings: mapped, Credential: &syscall.Credential{NoSetGroups: true}}},
		{name: "ambient in a user namespace", want: noNamespace,
			attr: syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: mapped, GidMappings: mapped, Credential: &syscall.Credential{NoSetGroups: true}, AmbientCaps: capabilities}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := openFolder(t)
			self := copyOfSelf(t, dir)
			if c.file {
				setCapabilities(t, self)
			}
			cmd := exec.Command(self, "record", "--no-convert", "-o", filepath.Join(dir, "run"), sim("vectoradd"))
			cmd.SysProcAttr = &c.attr
			out, err := cmd.CombinedOutput()
			if cmd.Process == nil && c.want != "" {
				t.Skipf("no user namespaces here: %v", err)
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			sum, err := summarize(filepath.Join(dir, "run.cudatrace"))
			if err != nil || sum.Kernels != 1 || sum.Matched != 4 || !sum.Complete {
				t.Errorf("%v: %d kernels, %d matched, complete %t %q\n%s", err, sum.Kernels, sum.Matched, sum.Complete, sum.Reasons, out)
			}
			if probed := c.want == ""; (sum.Pairs > 0) != probed || bytes.Contains(out, []byte("not probed")) == probed || !strings.Contains(string(out), c.want) {
				t.Errorf("%d probed calls; it is not said that calls are probed %q:\n%s", sum.Pairs, c.want, out)
			}
		})
	}
}

// TestForeignProcess has a user without rights record another user's process: that fails, and leaves no file.
func TestForeignProcess(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	target := exec.Command(sim("told"))
	input, _ := pipetest.Start(t, target)
	defer func() { input.Close(); _ = target.Wait() }()
	dir := openFolder(t)
	self := copyOfSelf(t, dir)
	before := ownedTree(t, dir)
	pid := fmt.Sprint(target.Process.Pid)
	for _, args := range [][]string{{"record", "-p", pid, "-d", "1ms", "-o", "run"}, {"top", "-p", pid, "-o", "run"}, {"doctor", "-p", pid}} {
		cmd := exec.Command(self, args...)
		cmd.Dir, cmd.SysProcAttr = dir, &nobody
		if out, _ := cmd.CombinedOutput(); exitStatusOf(cmd.ProcessState) != 1 || ownedTree(t, dir) != before {
			t.Errorf("%q: %v\n%s%s", args, cmd.ProcessState, out, ownedTree(t, dir))
		}
	}
}

// openFolder is a new folder that every user may enter and write to.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		must.Do(t, os.Chmod(path, 0o777))
	}
	return dir
}

// copyOfSelf copies the command cudatrace into a folder.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	self := must.Get(exec.LookPath("cudatrace"))(t)
	to := filepath.Join(dir, "cudatrace")
	copyProgram(t, self, to)
	return to
}

// copyProgram copies a program that is to run. Another process does it: if this one had the file open
// for writing, a child that another test starts at that moment would have it, too, and the program could
// not be run.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	must.Run(t, exec.Command("cp", "--", from, to))
}

// setCapabilities does what setcap cap_bpf,cap_perfmon+ep does: linux/capability.h, struct vfs_cap_data.
func setCapabilities(t *testing.T, path string) {
	t.Helper()
	const revision2, effective = 2, 1
	high := byte(1<<(unix.CAP_BPF-32) | 1<<(unix.CAP_PERFMON-32))
	value := []byte{effective, 0, 0, revision2, 0, 0, 0, 0, 0, 0, 0, 0, high, 0, 0, 0, 0, 0, 0, 0}
	var system unix.Statfs_t
	if err := unix.Setxattr(path, "security.capability", value, 0); err != nil {
		t.Skipf("files have no capabilities here: %v", err)
	}
	if err := unix.Statfs(path, &system); err != nil || system.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("capabilities of files have no effect here: %v", err)
	}
}

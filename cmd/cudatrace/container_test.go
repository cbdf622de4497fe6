package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestOtherContainer looks at a program of another container, whose files are in a file system that this process does
// not see, with the capabilities that docs/containers.md names.
func TestOtherContainer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("there is no setpriv")
	}
	program := exec.Command("sh", "-c", `mount -t tmpfs none /mnt && cp -r "$1" /mnt/sim || exit 1
		LD_LIBRARY_PATH=/mnt/sim/lib exec /mnt/sim/bin/longrun 100000`, "sh", simStack)
	program.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	stdout := must.Get(program.StdoutPipe())(t)
	must.Do(t, program.Start())
	t.Cleanup(func() {
		program.Process.Kill()
		program.Wait()
	})
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it has launched
		t.Fatal(err)
	}
	pid, log := strconv.Itoa(program.Process.Pid), filepath.Join(t.TempDir(), "run")
	for _, c := range []struct{ capabilities, command, want string }{
		{"+sys_ptrace", "stuck -p " + pid, "healthy (waiting): process " + pid + " (/mnt/sim/bin/longrun 100000)"},
		{"+bpf,+perfmon", "stuck -p " + pid, "CAP_SYS_PTRACE is missing (start the container with --cap-add "},
		{"+bpf,+perfmon,+sys_ptrace,+sys_admin", "record --no-convert -d 200ms -o " + log + " -p " + pid,
			"; nothing lost\n"},
	} {
		args := []string{"--inh-caps=-all", "--bounding-set=-all," + c.capabilities, "cudatrace"}
		out, err := exec.Command("setpriv", append(args, strings.Fields(c.command)...)...).CombinedOutput()
		if !strings.Contains(string(out), c.want) {
			t.Errorf("%s with %s: %v\n%s", c.command, c.capabilities, err, out)
		}
	}
}

// TestNoSys records where /sys is missing, as in a chroot: the line about probes names it, not the kernel.
func TestNoSys(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `mount -t tmpfs none /sys && exec cudatrace record --no-convert -o "$1" "$2"`, "sh",
		filepath.Join(t.TempDir(), "run"), sim("vectoradd"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "calls are not probed: the eBPF probes need /sys, ") ||
		!strings.Contains(string(out), "they come from CUPTI instead") {
		t.Errorf("%v\n%s", err, out)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
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
		{"+sys_ptrace", "stuck -p " + pid, "): process " + pid + " (/mnt/sim/bin/longrun 100000): the main thread "}, // healthy
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

// In a time namespace CLOCK_MONOTONIC is not the kernel's. Calls and their records meet all the same,
// whether the program alone is in such a namespace or the recorder with it.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	within := []string{"unshare", "--time", "--fork", "--monotonic=97200", "--boottime=97200"}
	if err := exec.Command(within[0], append(within[1:], "true")...).Run(); err != nil {
		t.Skipf("there are no time namespaces here: %v", err)
	}
	vectoradd := sim("vectoradd")
	both := func(words ...[]string) (all []string) {
		for _, w := range words {
			all = append(all, w...)
		}
		return all
	}
	base := filepath.Join(t.TempDir(), "run")
	recorder := []string{"cudatrace", "record", "-o", base, "--"}
	for name, args := range map[string][]string{
		"the program":  both(recorder, within, []string{vectoradd}),
		"the recorder": both(within, recorder, []string{vectoradd}),
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		out, err := exec.Command("cudatrace", "info", "--format", "json", base+".cudatrace").Output()
		if err != nil {
			t.Fatalf("%s: info: %v", name, err)
		}
		var s convert.Summary
		must.Do(t, json.NewDecoder(bytes.NewReader(out)).Decode(&s))
		if s.DurationNS > uint64(time.Hour) || s.Uncorrelated > 0 || s.Early > 0 || s.Unmatched > 0 || !s.Complete {
			t.Errorf("%s: %d ns, %d calls without a record, %d early, %d unmatched, complete %t: %q",
				name, s.DurationNS, s.Uncorrelated, s.Early, s.Unmatched, s.Complete, s.Reasons)
		}
	}
}

package record

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestUnseen has processes open the driver's device, and are not recorded: while they run and when they have ended.
func TestUnseen(t *testing.T) {
	must.BeRoot(t)
	dir := t.TempDir()
	content, err := os.ReadFile("../build/sim/lib/libcudart.so.13") // any library
	device, nvml, library := filepath.Join(dir, "dev", "nvidia-uvm"), filepath.Join(dir, "dev", "copy"), filepath.Join(dir, "library")
	must.Do(t, errors.Join(err, os.Mkdir(filepath.Dir(device), 0o777), os.WriteFile(device, content, 0o666), os.WriteFile(library, content, 0o666)))
	if err := os.Link(device, nvml); err != nil { // the same file, which is not mapped as a device
		t.Fatal(err)
	}
	t.Setenv(deviceVar, device)
	const name = "CUDA_INJECTION64_PATH"
	own := name + "=" + library
	started := startedWithout(name)
	maybe := "may have used CUDA unrecorded: it opened the GPU driver's device, as NVML does, too, and never loaded the injected library: perhaps " + started
	const removed = "the driver has not loaded the injected library into it: the program removed CUDA_INJECTION64_PATH from its environment, or may not read that file"
	for _, c := range []struct {
		what, opens, setting string
		hello                bool
		first, later, dead   string // at the first look, when patience is over, and after its end without any look before
	}{
		{"no device", library, "A=b", false, "", "", ""},
		{"NVML", nvml, own, false, "", "", maybe},
		{"cleaned environment", device, "A=b", false, started, "", maybe},
		{"another tool", device, name + "=/other", false, "its CUDA_INJECTION64_PATH is /other, and not the recorder's library: another tool has set it", "", maybe},
		{"our setting, removed by the program", device, own, false, "", removed, maybe},
		{"overwritten environment", device, "a title", false, "", removed, maybe},
		{"no way to the recorder", device + " " + library, own, false, "", noWay, noWay},
		{"recorded", device + " " + library, own, true, "", "", ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			for _, ended := range []bool{false, true} {
				u := newUnseen(own, nil)
				defer u.close()
				if u.others() != "" {
					t.Fatal(u.others())
				}
				cmd := exec.Command("sh", "-c", "echo; read x")
				cmd.Env = []string{"LD_PRELOAD=" + c.opens, c.setting}
				in, err := cmd.StdinPipe()
				out, err2 := cmd.StdoutPipe()
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				u.start(func() { err = cmd.Start() })
				if err != nil {
					t.Fatal(err)
				}
				bufio.NewScanner(out).Scan()
				said := ""
				look := func(want string) {
					t.Helper()
					said = ""
					u.look(false, func(pid uint32) []uint64 {
						if c.hello {
							return []uint64{^uint64(0) - 1}
						}
						return nil
					}, func(pid uint32, text string) { said += fmt.Sprint(pid, " ", text) })
					if want != "" {
						want = fmt.Sprintf("%d sh (%[1]d) is not recorded: %s", cmd.Process.Pid, want)
						want = strings.Replace(want, "is not recorded: may", "may", 1)
					}
					if said != want {
						t.Errorf("ended: %t: it is said %q, not %q", ended, said, want)
					}
				}
				end := func() { in.Close(); _ = cmd.Wait() }
				if ended {
					end()
					look(c.dead)
					continue
				}
				look(c.first)
				for _, o := range u.openers {
					if o.device != 0 {
						o.device -= uint64(loadPatience)
					}
				}
				look(c.later)
				end()
				look("")
			}
		})
	}
}

// TestUnseenByExec has a process that said hello run another program that opens the device, too.
func TestUnseenByExec(t *testing.T) {
	must.BeRoot(t)
	device := filepath.Join(t.TempDir(), "device")
	must.Do(t, os.WriteFile(device, nil, 0o666))
	t.Setenv(deviceVar, device)
	u := newUnseen("CUDA_INJECTION64_PATH=/library", nil)
	defer u.close()
	cmd := exec.Command("sh", "-c", "exec 3<"+device+"; echo; read x; exec cat "+device)
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	u.start(func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	bufio.NewScanner(out).Scan()
	u.hear()
	var hello uint64
	for p := range u.openers {
		hello = p.began + 1
	}
	in.Close()
	_ = cmd.Wait()
	said := ""
	u.look(true, func(uint32) []uint64 { return []uint64{hello} }, func(_ uint32, text string) { said += text })
	if !strings.HasPrefix(said, "cat (") || u.others() != "" {
		t.Errorf("it is said %q, %q", said, u.others())
	}
}

package procfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestReadFile reads files as a process in a root of its own sees them, and none outside.
func TestReadFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	self := must.Get(os.Executable())(t)
	dir := t.TempDir()
	outside, root := filepath.Join(dir, "outside"), filepath.Join(dir, "root")
	if err := errors.Join(os.WriteFile(outside, []byte("outside"), 0o600), os.MkdirAll(root+"/src", 0o755),
		os.WriteFile(root+"/src/code.py", []byte("inside"), 0o600), syscall.Mkfifo(root+"/pipe", 0o600),
		os.Symlink("/src/code.py", root+"/link"), os.Symlink("../../outside", root+"/src/up"),
		os.Symlink(outside, root+"/away"), exec.Command("cp", self, root+"/wait").Run()); err != nil {
		t.Fatal(err)
	}
	process := exec.Command("/wait", "-test.run=^TestWaitForEnd$")
	process.Env, process.Dir = []string{waitForEnd + "=1"}, "/src"
	process.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	in := must.Get(process.StdinPipe())(t)
	must.Do(t, process.Start())
	for path, want := range map[string]string{
		"/src/code.py": "inside", "/link": "inside", "code.py": "inside",
		"/src/up": "", "up": "", "/away": "", outside: "", "../link": "", "/pipe": "", "/src": "", "/none": "",
	} {
		if text, err := ReadFile(process.Process.Pid, path, 6); string(text) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if _, err := ReadFile(process.Process.Pid, "/src/code.py", 5); !errors.Is(err, ErrCut) {
		t.Errorf("a long file: %v", err)
	}
	in.Close()
	if err := process.Wait(); err != nil {
		t.Error(err)
	}
}

const waitForEnd = "CUDATRACE_TEST_WAIT"

// TestWaitForEnd is the process whose files TestReadFile reads: it waits until its input ends.
func TestWaitForEnd(t *testing.T) {
	if os.Getenv(waitForEnd) == "" {
		t.Skip("a process of TestReadFile")
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err == nil {
		t.Error("there is input")
	}
}

package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTranslator runs programs with the names of those that translate code, and others.
func TestTranslator(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	content, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, want := range map[string]string{
		"libexec/valgrind/memcheck-amd64-linux": "valgrind", "valgrind/sleep": "", "bin/qemu-x86_64-static": "qemu", "bin/qemu-run": "", "pin/pinbin": "Pin", "sleep": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(path, "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := Translator(cmd.Process.Pid); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

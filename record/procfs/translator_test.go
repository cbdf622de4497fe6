package procfs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestTranslator runs programs with the names of those that translate code, and others.
func TestTranslator(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	content := must.Get(os.ReadFile(sleep))(t)
	dir := t.TempDir()
	for name, want := range map[string]string{
		"libexec/valgrind/memcheck-amd64-linux": "valgrind", "valgrind/sleep": "", "bin/qemu-x86_64-static": "qemu", "bin/qemu-run": "", "pin/pinbin": "Pin", "sleep": "",
	} {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
		must.Do(t, os.WriteFile(path, content, 0o777))
		cmd := exec.Command(path, "100")
		must.Do(t, cmd.Start())
		if got := Translator(cmd.Process.Pid); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

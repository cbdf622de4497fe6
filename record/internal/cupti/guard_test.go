package cupti

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestGuard faults at guarded reads, here and, where there is an emulator, on arm64.
func TestGuard(t *testing.T) {
	t.Parallel()
	for arch, c := range map[string]struct {
		compiler string
		run      []string
	}{
		"amd64": {"x86_64-linux-gnu-gcc", nil},
		"arm64": {"aarch64-linux-gnu-gcc", []string{"qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"}},
	} {
		t.Run(arch, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "guard")
			run := append(c.run, program)
			for _, tool := range []string{c.compiler, run[0]} {
				if _, err := exec.LookPath(tool); err != nil && tool != program {
					t.Skip(err)
				}
			}
			gcc := exec.Command(c.compiler, "-O2", "-D_GNU_SOURCE", "-Iinject", "-o", program,
				"testdata/guard.c", "inject/guard.c", fmt.Sprintf("-DPTHREAD_TID=%d", pyframes.PthreadTID[arch]))
			must.Run(t, gcc)
			if out, err := exec.Command(run[0], run[1:]...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

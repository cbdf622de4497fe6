package privatefolder

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// TestArmedFolder keeps the folder of armed programs as long as one of them runs, or may just be about to.
func TestArmedFolder(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	path := must.Get(MakeArmed([]string{base}, library, 0))(t)
	if !Arms(path) || Arms("/lib/libcudatrace.so") || Arms(filepath.Join(filepath.Dir(path), "other.so")) {
		t.Error("it is not known which library is that of armed programs")
	}
	cmd := exec.Command("cat")
	cmd.Env = []string{"CUDA_INJECTION64_PATH=" + path}
	input, _ := pipetest.Start(t, cmd)
	removeStale(base, os.Geteuid())
	age(t, filepath.Dir(path), 2*staleAge)
	removeStale(base, os.Geteuid())
	if !exists(path) {
		t.Fatal("the folder of a running program was removed")
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), copyPrefix+"1-1.so"), nil, 0o700); err != nil { // the program was killed
		t.Fatal(err)
	}
	age(t, filepath.Dir(path), 2*staleAge)
	input.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	removeStale(base, os.Geteuid())
	if exists(filepath.Dir(path)) {
		t.Error("the folder of a program that has ended is still there")
	}
}

// TestArmedFolderElsewhere keeps a folder whose programs may run out of our sight.
func TestArmedFolderElsewhere(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	path := must.Get(MakeArmed([]string{base}, library, 0))(t)
	page := newPage(0)
	page[PageSpaceAt]++
	must.Do(t, os.WriteFile(filepath.Join(filepath.Dir(path), ArmedName), page, 0o600))
	age(t, filepath.Dir(path), 2*staleAge)
	removeStale(base, os.Geteuid())
	if !exists(path) {
		t.Error("the folder of another PID namespace was removed")
	}
	RemoveArmed(path)
	if exists(filepath.Dir(path)) {
		t.Error("the folder of a program that was not started is still there")
	}
}

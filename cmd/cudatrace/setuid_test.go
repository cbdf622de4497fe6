package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestSetuid records programs that run with raised rights, which load no library of ours: they print and return
// what they do alone, and the reason why nothing is recorded is named.
func TestSetuid(t *testing.T) {
	t.Parallel()
	dir := shownToAll(t)
	raised := filepath.Join(dir, "bin", "hostile")
	for name, test := range map[string]struct {
		owner   int
		user    *syscall.SysProcAttr
		through []string // what starts the program
		why     string
	}{
		"root":    {0, &nobody, nil, "nothing was recorded: hostile runs with raised rights (setuid): the library"},
		"nobody":  {65534, nil, nil, "nothing was recorded: hostile runs with raised rights (setuid): if it used CUDA, that was not recorded"},
		"started": {0, &nobody, []string{"sh", "-c", `"$@"; exit $?`, "sh"}, "runs with raised rights (setuid"},
	} {
		t.Run(name, func(t *testing.T) {
			must.Do(t, os.Chown(raised, test.owner, -1))
			must.Do(t, os.Chmod(raised, 0o755|os.ModeSetuid))
			command := append(test.through, raised, "work", "end")
			alone, aloneCode := runAs(t, dir, test.user, command...)
			record := []string{filepath.Join(dir, "bin", "cudatrace"), "record", "-o", filepath.Join(dir, "out", name)}
			out, code := runAs(t, dir, test.user, append(record, command...)...)
			if out.stdout != alone.stdout || code != aloneCode || !strings.Contains(out.stdout, "kernels=200") {
				t.Errorf("it printed %q and returned %d, alone %q and %d\n%s",
					out.stdout, code, alone.stdout, aloneCode, out.stderr)
			}
			if !strings.Contains(out.stderr, test.why) {
				t.Errorf("it is said: %s", out.stderr)
			}
		})
	}
}

// shownToAll copies cudatrace and the simulated stack to a folder that every user can read, and builds a program there.
func shownToAll(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o755))
	for _, sub := range []string{"bin", "lib", "out"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	must.Do(t, os.Chmod(filepath.Join(dir, "out"), 0o777))
	self := must.Get(exec.LookPath("cudatrace"))(t)
	copyProgram(t, self, filepath.Join(dir, "bin", "cudatrace"))
	libraries := must.Get(filepath.Glob(filepath.Join(filepath.Dir(sim("")), "lib", "*.so.*")))(t)
	for _, library := range libraries {
		copyProgram(t, library, filepath.Join(dir, "lib", filepath.Base(library)))
	}
	// A program with raised rights finds libraries by an absolute path alone.
	lib, source := filepath.Join(dir, "lib"), "../../testdata/sim"
	build := exec.Command("gcc", "-O1", "-D_GNU_SOURCE", "-I"+source+"/prog", "-I"+source+"/include", "-o", filepath.Join(dir, "bin", "hostile"),
		source+"/prog/hostile.c", lib+"/libcudart.so.13", lib+"/libcuda.so.1", "-Wl,-rpath,"+lib, "-lpthread")
	must.Run(t, build)
	return dir
}

func runAs(t *testing.T, dir string, user *syscall.SysProcAttr, command ...string) (hostileOutput, int) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Dir, cmd.SysProcAttr = filepath.Join(dir, "out"), user
	_ = cmd.Run() // the exit code says it
	return hostileOutput{stdout.String(), stderr.String()}, exitStatusOf(cmd.ProcessState)
}

package record

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

// A program that does so many steps as a line says, in a child for a line "fork".
const stepping = `
import os, sys
sys.path.insert(0, sys.argv[1])
import cudatrace
before = len(os.listdir("/proc/self/fd"))
print("ready", flush=True)
for line in sys.stdin:
    if line == "fork\n":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        line = "7"
    for _ in range(int(line)):
        cudatrace.step()
    print(os.getpid(), len(os.listdir("/proc/self/fd")) - before, flush=True)
    if line == "7":
        sys.stdin.readline()
        os._exit(0)
`

// Steps are read from outside of an armed program, which has no file open for them. A child counts its own.
func TestStepsOf(t *testing.T) {
	t.Parallel()
	module := must.Get(filepath.Abs("../packaging/python"))(t)
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		cmd := exec.Command(p.Path, "-c", stepping, module)
		folder := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(folder, "armed"), nil, 0o600))
		cmd.Env = []string{"CUDA_INJECTION64_PATH=" + folder + "/libcudatrace.so"}
		input, output := pipetest.Start(t, cmd)
		defer cmd.Wait()
		defer input.Close()
		lines := bufio.NewReader(output)
		if said, err := lines.ReadString('\n'); said != "ready\n" {
			t.Fatalf("it said %q, %v", said, err)
		}
		if s, ok := StepsOf(cmd.Process.Pid); ok {
			t.Errorf("before any step: %+v", s)
		}
		step := func(line string) (pid int, s Steps) {
			t.Helper()
			before := host.Monotonic()
			io.WriteString(input, line+"\n")
			files := 0
			if _, err := fmt.Fscan(lines, &pid, &files); err != nil || files != 0 {
				t.Fatalf("%d more files, %v", files, err)
			}
			s, ok := StepsOf(pid)
			if now := host.Monotonic(); !ok || s.Last < before || s.Last > now {
				t.Errorf("%s: %+v, %t, between %d and %d", line, s, ok, before, now)
			}
			return pid, s
		}
		if _, s := step("1"); s.Count != 1 {
			t.Errorf("after one step %+v", s)
		}
		pid, s := step("10")
		if s.Count != 11 || pid != cmd.Process.Pid {
			t.Errorf("after 11 steps %+v", s)
		}
		if child, s := step("fork"); s.Count != 7 || child == pid {
			t.Errorf("a child with 7 steps has %+v", s)
		}
		if s, _ := StepsOf(pid); s.Count != 11 {
			t.Errorf("a child's steps count for its parent: %+v", s)
		}
	})
}

// A program that is not armed counts nothing, nor does one that a recorder has started.
func TestNoSteps(t *testing.T) {
	t.Parallel()
	module := must.Get(filepath.Abs("../packaging/python"))(t)
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		for _, env := range [][]string{
			nil, {"CUDA_INJECTION64_PATH=/nowhere/other.so"},
			{"CUDA_INJECTION64_PATH=/nowhere/libcudatrace.so", "NVTX_INJECTION64_PATH=/nowhere/libcudatrace.so"},
		} {
			cmd := exec.Command(p.Path, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import cudatrace; cudatrace.step(); "+
				"print('memfd:cudatrace' in open('/proc/self/maps').read())", module)
			cmd.Env = append([]string{"A=1"}, env...)
			if out, err := cmd.CombinedOutput(); string(out) != "False\n" || err != nil {
				t.Errorf("%v: %s%v", env, out, err)
			}
		}
	})
}

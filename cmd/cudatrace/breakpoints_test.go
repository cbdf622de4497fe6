package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestNoBreakpoints looks at the code of programs that are recorded: without probes on calls it is that of its files, byte by byte.
// The default puts breakpoints on the driver, libcupti and libc.
func TestNoBreakpoints(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	for options, want := range map[string]string{
		"--calls auto": "libc.so libcuda.so libcupti.so", "--calls cupti": "", "--calls none": "", "--calls cupti --capture-range cudaProfilerApi": "",
		"--calls cupti --capture-range nvtx:forward": "", "--calls cupti --probe libc.so*:getppid": "libc.so",
	} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			b := recordInBackground(t, append(strings.Fields(options), sim("exits"), "hang", "-n", "100")...)
			pid := b.program(t)
			changed := changedCode(t, pid)
			for name := range strings.FieldsSeq(want) {
				if !strings.Contains(changed, name) {
					t.Errorf("no breakpoint in %s", name)
				}
			}
			if want == "" && changed != "" {
				t.Errorf("code that is not its file's: %s", changed)
			}
			if want == "libc.so" && strings.Contains(changed, "libcu") {
				t.Errorf("breakpoints in %s", changed)
			}
			syscall.Kill(-b.cmd.Process.Pid, syscall.SIGINT)
			if got := b.end(t); got != 130 {
				t.Errorf("exit code %d\n%s", got, b.recording.stderr)
			}
		})
	}
}

// changedCode names the files of which code in a process's memory differs from the file.
func changedCode(t *testing.T, pid int) string {
	t.Helper()
	memory := must.Get(os.Open(fmt.Sprintf("/proc/%d/mem", pid)))(t)
	defer memory.Close()
	var changed []string
	looked := 0
	for line := range strings.Lines(contents(t, fmt.Sprintf("/proc/%d/maps", pid))) {
		var from, to, offset int64
		var rights, device, inode, path string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s %s", &from, &to, &rights, &offset, &device, &inode, &path); n != 7 || rights[2] != 'x' || path[0] != '/' {
			continue
		}
		file := must.Get(os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, from, to)))(t)
		of, in := make([]byte, to-from), make([]byte, to-from)
		n, _ := file.ReadAt(of, offset) // the last page is longer than the file
		file.Close()
		must.Get(memory.ReadAt(in, from))(t)
		if looked++; !bytes.Equal(of[:n], in[:n]) {
			changed = append(changed, filepath.Base(path))
		}
	}
	if looked < 5 {
		t.Fatalf("only %d mappings have code", looked)
	}
	return strings.Join(changed, " ")
}

package cupti

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/cupti/privatefolder"
)

// resident returns a process's resident memory in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// launchedAndWaits starts a program that launches far more than fits, and waits.
func launchedAndWaits(t *testing.T, environ []string) (pid int, finish func()) {
	t.Helper()
	cmd := play{"program", []string{"wait", "4", "50000"}, nil}.command(t, environ)
	input, output := started(t, cmd)
	if _, err := io.ReadFull(output, make([]byte, len("waiting\n"))); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, func() {
		input.Close()
		_, _ = io.Copy(io.Discard, output)
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 7 {
			t.Errorf("the program ended with %v", err)
		}
	}
}

// TestMemoryIsBounded has a recorder that reads nothing while a program makes far more
// records than fit: what recording adds to the program stays within the limit.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{4 << 20, 16 << 20} {
		t.Run(fmt.Sprintf("%d-MiB", limit>>20), func(t *testing.T) {
			t.Parallel()
			pid, finish := launchedAndWaits(t, os.Environ())
			plain := resident(t, pid)
			finish()

			s := newStage(t, Options{}, GoConfig{})
			if err := removeSocket(s.server); err != nil {
				t.Fatal(err)
			}
			l := listenAt(t, filepath.Join(s.server.dir, privatefolder.SocketName))
			config := GoConfig{MemoryLimit: uint64(limit), FlushInterval: 10 * time.Millisecond, ExitWait: 100 * time.Millisecond}
			go func() {
				if conn, err := l.AcceptUnix(); err == nil {
					s.answered(t, conn, config)
				}
			}()
			pid, finish = launchedAndWaits(t, s.server.Environ(os.Environ()))
			grown := resident(t, pid) - plain
			// Of 4 MiB about one holds records, the rest is room for names and reserves, which is not
			// touched here. That there is any growth says that records were made.
			if grown > limit || grown < limit/8 {
				t.Errorf("the program grew by %d bytes, the limit is %d", grown, limit)
			}
			t.Logf("the program grew by %d bytes", grown)
			finish()
		})
	}
}

package record

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startMarked starts a process with a setting in its environment, and returns a function that ends it.
func startMarked(t *testing.T, setting string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), setting)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// The processes of the machine are looked through only when the known stragglers do not tell whether
// recording is over.
func TestStragglers(t *testing.T) {
	const setting = "CUDATRACE_TEST_STRAGGLERS=1"
	w := newStragglers("program", setting, func(uint32) bool { return false })
	defer w.forget()
	if !w.over(false) || w.looks != 1 {
		t.Errorf("with no process, after %d looks: %+v", w.looks, w.known)
	}
	first, endFirst := startMarked(t, setting)
	second, endSecond := startMarked(t, setting)
	startMarked(t, setting+"1")
	for range 5 {
		if w.over(false) {
			t.Error("it is over with two processes")
		}
	}
	if w.looks != 2 || len(w.known) != 2 || !strings.Contains(w.names(), "sleep") || w.looks != 2 {
		t.Errorf("after %d looks: %+v", w.looks, w.known)
	}
	if w.known[0].pid == second {
		slices.Reverse(w.known)
	}
	unix.Close(w.known[1].end)
	w.known[1].end = -1 // as without descriptors
	endFirst()
	if w.over(false) || w.looks != 2 || len(w.known) != 1 || w.known[0].pid == first {
		t.Errorf("after one has ended, after %d looks: %+v", w.looks, w.known)
	}
	if !w.over(true) || w.looks != 3 {
		t.Errorf("after the grace, after %d looks: %+v", w.looks, w.known)
	}
	w.known[0].usesCUDA, w.looked = true, time.Now().Add(time.Hour)
	if w.over(true) || w.looks != 3 {
		t.Errorf("with one that uses CUDA, after %d looks: %+v", w.looks, w.known)
	}
	w.looked = time.Now().Add(-2 * stragglerLook)
	if !w.over(true) || w.looks != 4 {
		t.Errorf("with one that no longer uses CUDA, after %d looks: %+v", w.looks, w.known)
	}
	unix.Close(w.known[0].end)
	w.known[0].end = -1
	endSecond()
	if !w.over(false) || w.looks != 5 {
		t.Errorf("after both have ended, after %d looks: %+v", w.looks, w.known)
	}
}

// Recording waits for connected processes without a look, and names those that outlive the program once.
func TestWaitForConnected(t *testing.T) {
	w := newStragglers("program", "CUDATRACE_TEST_STRAGGLERS=connected", func(uint32) bool { return false })
	said := 0
	w.wait(func(time.Duration) int {
		if said > 0 {
			return 0
		}
		if w.looks > 0 {
			t.Errorf("%d looks beside a connected process", w.looks)
		}
		time.Sleep(time.Millisecond)
		return 1
	}, func(line string) {
		said++
		if !strings.HasPrefix(line, "program has ended, but processes that it started still run; recording") {
			t.Error(line)
		}
	})
	if said != 1 || w.looks != 2 {
		t.Errorf("%d lines after %d looks", said, w.looks)
	}
}

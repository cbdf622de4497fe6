package record

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/attacktest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// startMarked starts a process with a setting in its environment, and returns a function that ends it.
func startMarked(t *testing.T, setting string) (pid int, end func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.Env = append(os.Environ(), setting)
	must.Do(t, cmd.Start())
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	t.Cleanup(end)
	return cmd.Process.Pid, end
}

// The processes of the machine are looked through only when the known orphans do not tell whether
// recording is over.
func TestOrphans(t *testing.T) {
	const setting = "CUDATRACE_TEST_ORPHANS=1"
	w := newOrphans("program", uint32(os.Getuid()), procfs.Now(), setting, func(uint32) bool { return false })
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
	w.looked = time.Now().Add(-2 * orphanLook)
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
	w := newOrphans("program", uint32(os.Getuid()), procfs.Now(), "CUDATRACE_TEST_ORPHANS=connected", func(uint32) bool { return false })
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

// Processes of other users, and those that were there before the program, are none, whatever their environment has. One whose
// environment is too long is none as far as is known.
func TestForeignOrphans(t *testing.T) {
	if attacktest.Bloats() {
		return
	}
	if os.Getuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	t.Parallel()
	const setting = "CUDATRACE_TEST_ORPHANS=foreign"
	own, since := uint32(os.Getuid()), procfs.Now()
	none := func(uint32) bool { return false }
	theirs := attacktest.Bloated{User: attacktest.User, Bytes: 1 << 30, First: setting}.Start(t)
	first := attacktest.Bloated{User: int(own), Bytes: 1 << 30, First: setting}.Start(t)
	attacktest.Bloated{User: int(own), Bytes: 1 << 30, First: "FIRST=1"}.Start(t)
	for _, c := range []struct {
		what  string
		owner uint32
		since procfs.StartTime
		want  []int
	}{
		{"ours", own, since, []int{first}},
		{"those of another user", attacktest.User, since, []int{theirs}},
		{"of nobody here", attacktest.User - 1, since, nil},
		{"earlier ones", own, procfs.Now() + 1, nil},
	} {
		w := newOrphans("program", c.owner, c.since, setting, none)
		w.look()
		var got []int
		for _, s := range w.known {
			got = append(got, s.pid)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
		w.forget()
	}
}

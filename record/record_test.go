package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// newLog makes a log that nobody reads.
func newLog(t *testing.T) *tracelog.Writer {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := tracelog.NewFileWriter(f, tracelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close(tracelog.End{}) })
	return w
}

// A program that is attached to by PID may become a CUPTI client: its records were never
// ours, so nothing is said, and nothing that does not exist is asked.
func TestRivalInAttachedProcess(t *testing.T) {
	said := 0
	i := injection{report: &report{log: newLog(t), say: func(string) { said++ }}}
	i.registered(1, 0x1000)
	if said != 0 || len(i.report.missing.list()) != 0 {
		t.Errorf("%d lines were said, missing %q", said, i.report.missing.list())
	}
}

// A text is said once, and counted beyond those that are kept.
func TestReport(t *testing.T) {
	said := 0
	r := report{log: newLog(t), say: func(string) { said++ }}
	for range 2 {
		r.miss(0, "the first")
	}
	r.remark(0, "nothing is missing")
	for i := range maxMissing + 4 {
		r.miss(0, fmt.Sprint("number ", i))
	}
	list := r.missing.list()
	if said != maxMissing+1 || len(list) != maxMissing+1 || list[0] != "the first" || list[maxMissing] != "and 5 more reasons" {
		t.Errorf("said %d lines, %d reasons: %q", said, len(list), list)
	}
}

// notWatched is a process whose end is not watched.
func notWatched(uint32) (probe.Exit, bool) { return probe.Exit{}, false }

// Who registers with CUPTI by another key than ours is a rival, in its process alone.
func TestRegistered(t *testing.T) {
	ts := newTracees(newLog(t), notWatched)
	ts.add(1, tracee{pid: 10, request: 0x1000}, nil)
	ts.add(2, tracee{pid: 20, request: 0x2000}, nil)
	if !ts.isOwn(10, 0x1000) || ts.isOwn(20, 0x1000) {
		t.Error("our own registration is not told from a rival's")
	}
	if !ts.setRival(20) || ts.setRival(20) || !ts.hasRival(20) || ts.hasRival(10) {
		t.Error("a rival is not seen once, and in its process alone")
	}
	ts.setRecorded(10)
	if !ts.wasRecorded(10) || ts.wasRecorded(20) {
		t.Error("it is not known which process CUPTI records")
	}
}

// Which processes' last records are missing, by how each one ended.
func TestLastRecords(t *testing.T) {
	exits := map[uint32]probe.Exit{
		3: {Reason: "signal 9 (SIGKILL)", Status: 137, Final: true},
		4: {Reason: "exec", Status: -1},
	}
	ts := newTracees(newLog(t), func(pid uint32) (probe.Exit, bool) {
		x, ok := exits[pid]
		return x, ok
	})
	for pid := range uint32(8) {
		ts.add(uint64(pid), tracee{pid: pid, attached: pid == 5, rival: pid == 6}, nil)
	}
	ts.end(1, tracelog.ProcessEnd{PID: 1, Complete: 1, Kernels: 3})
	ts.end(2, tracelog.ProcessEnd{PID: 2, Time: 5e9, Until: 3e9, Reason: "_exit"})
	ts.end(4, tracelog.ProcessEnd{PID: 4})
	if live := ts.live(); len(live) != 5 || slices.Contains(live, 1) || !ts.worked() || ts.none() {
		t.Errorf("live %v, worked %v, none %v", live, ts.worked(), ts.none())
	}
	want := []string{
		"process 0 ended before its last records were handed over",
		"process 2 ended before its last records were handed over, by _exit: GPU work of its last 2s may be missing",
		"process 3 ended before its last records were handed over, by signal 9 (SIGKILL)",
		"process 4 ended before its last records were handed over, by exec",
		"process 7 ended before its last records were handed over",
	}
	if got := ts.finish(nil, false); !slices.Equal(got, want) {
		t.Errorf("missing:\n%s", strings.Join(got, "\n"))
	}
	if got := ts.finish(nil, true); len(got) != 0 {
		t.Errorf("when recording is ended early, missing:\n%s", strings.Join(got, "\n"))
	}
	for pid := range uint32(7) {
		ts.add(uint64(50+pid), tracee{pid: 50 + pid}, nil)
		ts.setAbsent(uint64(50+pid), "they waited")
	}
	if got := ts.finish(nil, false); got[len(got)-1] != "7 processes are not recorded (50, 51, 52, 53, 54, ...): they waited" {
		t.Errorf("with some that are not recorded:\n%s", strings.Join(got, "\n"))
	}
	for pid := range uint32(7) {
		delete(ts.byID, uint64(50+pid))
	}
	for pid := range uint32(3) {
		ts.add(uint64(100+pid), tracee{pid: 100 + pid}, nil)
	}
	if got := ts.finish(nil, false); len(got) != maxCut+1 || got[maxCut] != "so did 3 more processes" {
		t.Errorf("of many, missing:\n%s", strings.Join(got, "\n"))
	}
}

// The file at the end says that the program has crashed, even where the crash was reason for another file before, as
// on a slow machine; it says nothing of a process that crashed long ago.
func TestCrashOfProgram(t *testing.T) {
	t.Parallel()
	n := newNewest(Options{}, nil, &report{}, nil)
	n.crashed(7, "signal 6 (SIGABRT)")
	<-n.crashes
	n.crashed(5, "signal 11 (SIGSEGV)")
	<-n.crashes
	n.crashed(6, "signal 15 (SIGTERM)")
	close(n.over)
	for pid, want := range map[uint32]string{5: "process 5 was ended by signal 11 (SIGSEGV)", 6: atTheEnd, 0: atTheEnd} {
		n.stop = make(chan struct{})
		if got := n.finish(pid); got != want {
			t.Errorf("process %d: %q, want %q", pid, got, want)
		}
	}
}

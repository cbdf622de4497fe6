package probe

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// newWatcher makes a watcher with maps of its own, the first with room for so many
// processes. No program notes ends in it.
func newWatcher(t *testing.T, processes uint32) *exitWatcher {
	t.Helper()
	must.BeRoot(t)
	spec, err := bpf.LoadProbes()
	if err != nil {
		t.Fatal(err)
	}
	var maps [2]*ebpf.Map
	for i, name := range []string{bpf.ProbesMapEnds, bpf.ProbesMapWatches} {
		if i == 0 {
			spec.Maps[name].MaxEntries = processes
		}
		if maps[i], err = ebpf.NewMap(spec.Maps[name]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { maps[i].Close() })
	}
	return newExitWatcher(modeMulti, false, maps[0], maps[1])
}

// A watcher that is closed while something is being prepared leaves nothing.
func TestCloseExitWatcherAtOnce(t *testing.T) {
	w := newWatcher(t, 4096)
	w.prepare()
	must.Do(t, w.close())
	if w.programs != nil || w.signals != nil {
		t.Error("the hook on signals is left")
	}
}

// Processes that have ended make way when the table is full; those that have not stay.
func TestFullTable(t *testing.T) {
	w := newWatcher(t, 4)
	for pid := 1; pid <= 4; pid++ {
		must.Do(t, w.awaitEnd(pid))
	}
	if err := w.awaitEnd(5); err == nil {
		t.Error("a full table takes another process")
	}
	for _, pid := range []int{2, 3} {
		must.Do(t, w.putEnd(pid, &bpf.ProbesProcessEnd{EndTime: 7}))
	}
	if !w.ended(2) || w.ended(1) {
		t.Error("ends are not told apart")
	}
	if err := w.awaitEnd(5); err != nil {
		t.Error(err)
	}
	var end bpf.ProbesProcessEnd
	if err := errors.Join(w.ends.Lookup(uint32(1), &end), w.ends.Lookup(uint32(5), &end)); err != nil || w.ended(2) || w.ended(3) {
		t.Errorf("the table has not those who live alone: %v", err)
	}
}

func TestExit(t *testing.T) {
	for _, c := range []struct {
		end  bpf.ProbesProcessEnd
		want Exit
		ok   bool
	}{
		{bpf.ProbesProcessEnd{}, Exit{}, false},
		{bpf.ProbesProcessEnd{Sign: bpf.EndExit, SignArgument: 259, SignTime: 5}, Exit{"_exit", 5, 3, false, false, 0}, true},
		{bpf.ProbesProcessEnd{Sign: bpf.EndExec, SignTime: 5}, Exit{"exec", 5, -1, false, false, 0}, true},
		{bpf.ProbesProcessEnd{Sign: bpf.EndSignal, SignArgument: 15, SignTime: 5}, Exit{"signal 15 (SIGTERM)", 5, 143, false, false, 0}, true},
		{bpf.ProbesProcessEnd{ExitCode: 3 << 8, EndTime: 9}, Exit{"status 3", 9, 3, true, false, 0}, true},
		{bpf.ProbesProcessEnd{ExitCode: 9, EndTime: 9, Sign: bpf.EndExec}, Exit{"signal 9 (SIGKILL)", 9, 137, true, false, 0}, true},
		{bpf.ProbesProcessEnd{ExitCode: 3 << 8, EndTime: 9, Traced: 1, ExecTime: 7}, Exit{"status 3", 9, 3, true, true, 7}, true},
		{bpf.ProbesProcessEnd{ExitCode: 0x8b, EndTime: 9}, Exit{"signal 11 (SIGSEGV), core dumped", 9, 139, true, false, 0}, true},
	} {
		w := newWatcher(t, 1)
		must.Do(t, w.putEnd(1, &c.end))
		got, ok := w.exit(1)
		if !ok && !c.ok {
			continue
		}
		if diff := cmp.Diff(c.want, got); ok != c.ok || diff != "" {
			t.Errorf("%+v: %v (-want +got):\n%s", c.end, ok, diff)
		}
	}
}

func TestAuxiliary(t *testing.T) {
	vector := []byte{51, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 6}
	if got := auxiliaryValue(vector, 51, 1); got != 4096 {
		t.Errorf("it is %d", got)
	}
	if got := auxiliaryValue(vector, 6, 1); got != 1 {
		t.Errorf("a value that is cut is %d", got)
	}
	if got := signalFrame(); got < 1024 || got > 1<<20 {
		t.Errorf("a signal takes %d bytes of stack", got)
	}
}

// Both names of glibc's file are known, and others are not taken for it.
func TestFindLibc(t *testing.T) {
	for path, want := range map[string]bool{
		"/lib/libc.so.6": true, "/lib/libc-2.31.so": true, "/lib/libcuda.so.1": false, "/lib/libc.musl-x86_64.so.1": false, "/lib/libc-client.so": false,
	} {
		m, found := findLibc([]procfs.Mapping{{Path: "/bin/app"}, {Path: path}})
		if found != want || found && m.Path != path {
			t.Errorf("%s: %v, %+v", path, found, m)
		}
	}
}

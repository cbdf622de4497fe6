package record

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/callers"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/ring"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// newNewestSession makes a session of which only the newest part is kept. The test takes its events in place of a loop.
func newNewestSession(t *testing.T, written func(Result)) *session {
	t.Helper()
	s, err := newSession(Options{Program: "program", Output: filepath.Join(t.TempDir(), "run"), Say: func(line string) { t.Log(line) },
		Newest: Newest{Last: time.Hour, DiskLimit: 1 << 30, MaxFiles: 3, Conditions: []ring.Condition{{On: ring.FailedCalls}},
			Written: func(_ Options, r Result) { written(r) }}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.newest.watch.Close()
		s.cancel()
		s.discard()
	})
	s.newest.begin(s)
	return s
}

// takeNext takes the next event.
func (s *session) takeNext() event {
	e := <-s.events
	e.take(s)
	return e
}

// TestFileWaitsForCaller has a call fail whose caller is found out late, after many looks: the file's reason names the function that
// the program called. A caller that is never found out is waited for until all others are there.
func TestFileWaitsForCaller(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ caller, want string }{
		{"cudaMalloc", "cudaMalloc failed with cudaErrorMemoryAllocation in process 1, thread 2"},
		{"", "cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY in process 1, thread 2"},
	} {
		var files []string
		s := newNewestSession(t, func(r Result) { files = append(files, r.Log) })
		s.calls.callers = callers.Open(s.log.Writer, callers.Options{Epoch: func(int) uint64 { return 0 }})
		reading := make(chan struct{})
		s.calls.callers.After(func() { <-reading }) // it reads a large file
		s.log.Add(&tracelog.Function{ID: 4, Name: "cuMemAlloc_v2", Library: "driver"})
		s.log.Add(&tracelog.Call{PID: 1, TID: 2, Func: 4, Caller: 7, Enter: 1, Ret: 2})
		must.Do(t, s.log.Flush())
		for range 20 {
			s.lookAtNewest()
			if _, ok := s.takeNext().(watched); !ok || s.newest.wish == nil || s.newest.writing {
				t.Fatalf("the file does not wait: wish %+v, writing %t", s.newest.wish, s.newest.writing)
			}
		}
		if c.caller != "" {
			s.log.Add(&tracelog.Caller{ID: 7, Function: c.caller})
		}
		close(reading)
		s.takeNext() // settled
		s.lookAtNewest()
		s.takeNext() // watched
		s.takeNext() // written
		s.calls.callers.Finish()
		if len(files) != 1 {
			t.Fatalf("files %q", files)
		}
		if got := reasonOf(t, files[0]); got != c.want {
			t.Errorf("written because of %q, not of %q", got, c.want)
		}
	}
}

// reasonOf returns why a file of the newest part was written.
func reasonOf(t *testing.T, log string) (why string) {
	t.Helper()
	for _, m := range recordtest.Of[tracelog.Meta](t, recordtest.Open(t, log)) {
		if m.Key == tracelog.MetaLastWhy {
			why = m.Value
		}
	}
	return why
}

// TestFileWaitsForProcess has a person ask for a file while a process owes GPU work: the file waits for the work, or, when the
// process's time is over, says that it is missing. There are no more files than there may be.
func TestFileWaitsForProcess(t *testing.T) {
	t.Parallel()
	var files []string
	s := newNewestSession(t, func(r Result) { files = append(files, r.Log) })
	p := s.says(9, 1, 1, 1)
	p.recorded = true
	look := func(writes bool) {
		t.Helper()
		before := len(files)
		s.lookAtNewest()
		s.takeNext() // watched
		if writes {
			s.takeNext() // written
		}
		if wrote := len(files) > before; wrote != writes {
			t.Errorf("%d files after %d", len(files), before)
		}
	}
	s.want(wish{why: "SIGUSR2"}, true)
	at := s.newest.wish.at
	look(false)
	s.log.Add(&tracelog.Flushed{PID: 9, Until: at - 1})
	_ = s.log.Flush()
	look(false)
	s.log.Add(&tracelog.Flushed{PID: 9, Until: at})
	_ = s.log.Flush()
	look(true)
	s.want(wish{why: "SIGUSR2"}, true)
	look(false)
	s.newest.wish.deadline = time.Now()
	look(true)
	s.want(wish{why: "SIGUSR2"}, true)
	s.decide(notEarly, 0)
	look(false) // the file at the end has it
	for i, want := range []uint32{1, 0} {
		r := must.Get(tracelog.Open(files[i]))(t)
		for r.Next() { // to the end
		}
		if end, ok := r.End(); !ok || end.Complete != want || want == 0 && end.Reason != lateText(9) {
			t.Errorf("file %d ends with %+v", i+1, end)
		}
		r.Close()
	}
	s.newest.wish = nil
	s.newest.files = 3
	s.want(wish{why: "SIGUSR2"}, true)
	if s.newest.wish != nil {
		t.Error("a fourth file is to be written")
	}
	s.later.Wait()
	if left, err := os.ReadDir(filepath.Dir(files[0])); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestReasonOfLastFile says in the file at the end that the program has crashed, even where the crash was reason for another file
// before, as on a slow machine. It says nothing of a process that crashed long ago.
func TestReasonOfLastFile(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{"signal 11 (SIGSEGV)": "process 5 was ended by signal 11 (SIGSEGV)", "signal 15 (SIGTERM)": atTheEnd, "": atTheEnd} {
		s := newNewestSession(t, nil)
		s.program = &program{cmd: &exec.Cmd{Process: &os.Process{Pid: 5}}}
		for pid, why := range map[uint32]string{7: "signal 6 (SIGABRT)", 5: reason, 6: "signal 15 (SIGTERM)"} {
			e := cupti.End{}
			e.PID, e.Reason = pid, why
			ended{s.says(pid, 1, 1, 1), e, probe.Exit{}}.take(s)
			if crashed := s.newest.wish != nil; crashed != isCrash(why) {
				t.Errorf("ended by %q: a file is to be written: %t", why, crashed)
			}
			s.newest.wish = nil // it has been written
		}
		got := make(chan string)
		go func() { got <- s.endNewest() }()
		s.takeNext()
		if why := <-got; why != want {
			t.Errorf("ended by %q: %q, want %q", reason, why, want)
		}
	}
}

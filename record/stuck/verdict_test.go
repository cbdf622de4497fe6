package stuck

import (
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/blocked"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// The main thread comes first, also where others have smaller numbers: the kernel begins anew when it has used all.
func TestThreadNumbers(t *testing.T) {
	t.Parallel()
	l := &look{ProcessReport: ProcessReport{PID: 900}}
	for _, tid := range []uint32{900, 7, 8, 950} {
		l.Threads = append(l.Threads, Thread{TID: tid})
	}
	for i, tid := range []uint32{900, 7, 8, 950} {
		if got := l.thread(tid); got != &l.Threads[i] {
			t.Errorf("thread %d: %+v", tid, got)
		}
	}
	if got := l.thread(9); got != nil {
		t.Errorf("thread 9: %+v", got)
	}
	now := map[uint32]view{}
	for _, tid := range []uint32{8, 950, 900, 7} {
		now[tid] = view{}
	}
	l.Threads = nil
	l.take(map[uint32]view{}, now)
	var order []uint32
	for i := range l.Threads {
		order = append(order, l.Threads[i].TID)
	}
	if order[0] != 900 || order[1] != 7 || order[2] != 8 || order[3] != 950 {
		t.Errorf("order %d", order)
	}
}

// A thread that runs in a call of CUDA that waits has not moved; one in another call has.
func TestOpenCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call    *Call
		moved   string
		outcome Outcome
		text    string
	}{
		"spins":            {&Call{"cudaStreamSynchronize", 41, true}, "ran", Waiting, "the main thread has been in cudaStreamSynchronize for 41 s"},
		"polls":            {&Call{"cudaStreamSynchronize", 41, true}, "woke up", Waiting, "the main thread has been in cudaStreamSynchronize for 41 s"},
		"has returned":     {&Call{"cudaStreamSynchronize", 41, true}, "Python line", Moving, "the main thread moves"},
		"loads":            {&Call{"cuModuleLoadData", 41, false}, "ran", Moving, "the main thread moves"},
		"is in none":       {nil, "ran", Moving, "the main thread moves"},
		"sleeps in a load": {&Call{"cuModuleLoadData", 41, false}, "", Waiting, "the main thread has been in cuModuleLoadData for 41 s"},
	} {
		g := newGroup()
		l := &look{all: g, ProcessReport: ProcessReport{PID: 900, Threads: []Thread{{TID: 900, Moved: c.moved, seen: view{blocked: c.moved == ""}}}}}
		l.know(&Recorded{Calls: map[uint32]*Call{900: c.call}})
		if v := g.verdict(l); v.Outcome != c.outcome || v.Text != c.text {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A wait for GPU work that is not in the log, as CUPTI hands it over when it has ended, is one for work that does not end.
func TestOpenCallAtGPU(t *testing.T) {
	t.Parallel()
	const ends, noEnd = "the main thread has been in cudaStreamSynchronize for 4 s", "the main thread has been in cudaStreamSynchronize for 4 s, for GPU work that has not ended and is not in the log yet"
	for name, c := range map[string]struct {
		call    Call
		gpu     bool
		ended   float64 // work of a stream, so many s ago
		moved   string
		outcome Outcome
		text    string
	}{
		"waits":               {Call{"cudaStreamSynchronize", 4, true}, true, 5, "ran", Stuck, noEnd},
		"not recorded":        {Call{"cudaStreamSynchronize", 4, true}, false, 5, "ran", Waiting, ends},
		"other work ends":     {Call{"cudaStreamSynchronize", 4, true}, true, 1, "ran", Waiting, ends},
		"has returned":        {Call{"cudaStreamSynchronize", 4, true}, true, 5, "Python line", Moving, "the main thread moves"},
		"is not long in it":   {Call{"cudaStreamSynchronize", 1, true}, true, 5, "ran", Waiting, "the main thread has been in cudaStreamSynchronize for 1 s"},
		"waits for no work":   {Call{"cuModuleLoadData", 4, false}, true, 5, "", Waiting, "the main thread has been in cuModuleLoadData for 4 s"},
		"works while it does": {Call{"cuModuleLoadData", 4, false}, true, 5, "ran", Moving, "the main thread moves"},
	} {
		g := newGroup()
		l := &look{all: g, ProcessReport: ProcessReport{PID: 900, Threads: []Thread{{TID: 900, Moved: c.moved, seen: view{blocked: c.moved == ""}}}}}
		l.know(&Recorded{GPU: c.gpu, Streams: []Stream{{Name: "stream 7", Work: "k", Ended: true, Since: c.ended}}, Calls: map[uint32]*Call{900: &c.call}})
		if v := g.verdict(l); v.Outcome != c.outcome || v.Text != c.text {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A thread that is ready to run and gets no processor has not moved, and is not stuck: nothing tells what it would do.
func TestStarved(t *testing.T) {
	t.Parallel()
	at := time.Now()
	ready := func(after time.Duration, ran uint64) view {
		return view{at: at.Add(after), ran: ran, stat: procfs.ThreadStat{State: 'R', Switches: ran / 1e6}}
	}
	waits := func(after time.Duration, ran, handovers uint64) view {
		v := view{at: at.Add(after), ran: ran, blocked: true, why: blocked.Cause{Call: "futex", On: blocked.OnGIL, Holder: 901, Handovers: handovers, Timed: true}}
		v.stat = procfs.ThreadStat{State: 'S', Switches: uint64(after / time.Millisecond)}
		return v
	}
	line := func(v view, line int) view {
		v.python = []Frame{{"a.py", line, "f"}}
		return v
	}
	for name, c := range map[string]struct {
		before, now [2]view // of the thread that waits for the GIL, and of the one that has it
		outcome     Outcome
		text        string
	}{
		"its holder runs": {[2]view{waits(0, 0, 5), ready(0, 0)}, [2]view{waits(time.Second, 0, 5), ready(time.Second, 9e8)}, Stuck,
			"the main thread waits for the GIL that thread 901 () has; thread 901 () runs code of C with it and does not give it up"},
		"its holder gets no processor": {[2]view{waits(0, 0, 5), ready(0, 0)}, [2]view{waits(time.Second, 0, 5), ready(time.Second, 0)}, Waiting,
			"the main thread waits for the GIL that thread 901 () has; thread 901 () is ready to run, and had a processor for 0 % of the time"},
		"its holder gets little": {[2]view{waits(0, 0, 5), ready(0, 0)}, [2]view{waits(time.Second, 0, 5), ready(time.Second, 2e7)}, Waiting,
			"the main thread waits for the GIL that thread 901 () has; thread 901 () is ready to run, and had a processor for 2 % of the time"},
		"neither gets one": {[2]view{ready(0, 0), ready(0, 0)}, [2]view{ready(time.Second, 0), ready(time.Second, 0)}, Waiting,
			"the main thread is ready to run, and had a processor for 0 % of the time"},
		"the waiting one got none before": {[2]view{ready(0, 0), ready(0, 0)}, [2]view{waits(time.Second, 0, 5), ready(time.Second, 9e8)}, Moving, "thread 901 () moves"},
		"both wait for a processor, then one for the GIL": {[2]view{ready(0, 0), ready(0, 0)}, [2]view{waits(time.Second, 0, 5), ready(time.Second, 0)}, Waiting,
			"the main thread waits for the GIL"},
		"its holder gets little, and is at another line": {[2]view{waits(0, 0, 5), line(ready(0, 0), 7)}, [2]view{waits(time.Second, 0, 5), line(ready(time.Second, 2e7), 8)}, Moving,
			"thread 901 () moves: a.py:8 (f)"},
		"it is handed over": {[2]view{waits(0, 0, 5), ready(0, 0)}, [2]view{waits(time.Second, 0, 6), ready(time.Second, 9e8)}, Moving, "thread 901 () moves"},
	} {
		g := newGroup()
		l := &look{all: g, ProcessReport: ProcessReport{PID: 900}}
		l.take(map[uint32]view{900: c.before[0], 901: c.before[1]}, map[uint32]view{900: c.now[0], 901: c.now[1]})
		if v := g.verdict(l); v.Outcome != c.outcome || v.Text != c.text {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// The other end of a pipe or a socket that no process has which this user may look at belongs to another user's: nothing is known of that.
func TestOtherUsersEnd(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"pipe:[1]", "socket:[1]"} {
		for _, call := range []string{"read", "write"} {
			g := newGroup()
			g.pipes.ends = map[string][]end{}
			l := &look{all: g, ProcessReport: ProcessReport{PID: 900, Threads: []Thread{{TID: 900, seen: view{blocked: true, pipe: to, why: blocked.Cause{Call: call, On: "pipe"}}}}}}
			l.know(nil)
			if v := g.verdict(l); v.Outcome != Waiting {
				t.Errorf("%s of %s: %+v", call, to, v)
			}
		}
	}
}

// A process that waits for any child, and has none that runs: they ended while it was looked at.
func TestChildrenGone(t *testing.T) {
	t.Parallel()
	g := newGroup()
	waits := view{blocked: true, why: blocked.Cause{Call: "wait4"}}
	l := &look{all: g, ProcessReport: ProcessReport{PID: 900, Threads: []Thread{{TID: 900, Call: "wait4", seen: waits}}}}
	if v := g.verdict(l); v.Outcome != Waiting || v.Text != "the main thread is blocked in wait4" {
		t.Errorf("%+v", v)
	}
}

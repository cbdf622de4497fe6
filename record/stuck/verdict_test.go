package stuck

import (
	"testing"
)

// The main thread comes first, also where others have smaller numbers: the kernel begins anew when it has used all.
func TestThreadNumbers(t *testing.T) {
	t.Parallel()
	l := &look{Process: Process{PID: 900}}
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
		l := &look{all: g, Process: Process{PID: 900, Threads: []Thread{{TID: 900, Moved: c.moved, seen: view{blocked: c.moved == ""}}}}}
		l.know(&Recorded{Calls: map[uint32]*Call{900: c.call}})
		if v := g.verdict(l); v.Outcome != c.outcome || v.Text != c.text {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

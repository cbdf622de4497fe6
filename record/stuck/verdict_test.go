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

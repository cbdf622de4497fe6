package ring

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestWatch holds records against conditions, over several segments.
func TestWatch(t *testing.T) {
	function := &tracelog.Function{ID: 3, Name: "cudaMalloc", Library: "runtime"}
	call := func(c tracelog.Call) *tracelog.Call {
		c.PID, c.TID, c.Func, c.Enter = 1, 2, 3, start
		return &c
	}
	api := tracelog.API{PID: 1, TID: 2, Domain: tracelog.DomainDriver, Name: "cuMemAlloc", Start: start, Dur: 2e6, Ret: 2}
	kernel := &tracelog.Kernel{GPU: tracelog.GPU{PID: 1, Start: start, Dur: 3e6}, Name: "_Z4tickPi"}
	for name, c := range map[string]struct {
		condition Condition
		calls     tracelog.Kind
		record    tracelog.Record
		want      string
	}{
		"failed":                          {Condition{On: FailedCalls}, tracelog.KindCall, call(tracelog.Call{Ret: 2}), "cudaMalloc failed with cudaErrorMemoryAllocation in process 1, thread 2"},
		"not ready":                       {Condition{On: FailedCalls}, tracelog.KindCall, call(tracelog.Call{Ret: 600}), ""},
		"succeeded":                       {Condition{On: FailedCalls}, tracelog.KindCall, call(tracelog.Call{Dur: 1e9}), ""},
		"left":                            {Condition{On: FailedCalls}, tracelog.KindCall, call(tracelog.Call{Ret: 2, Flags: tracelog.CallNoReturn}), ""},
		"failed, by CUPTI":                {Condition{On: FailedCalls}, tracelog.KindAPI, &api, "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY in process 1, thread 2"},
		"failed, of a runtime's function": {Condition{On: FailedCalls}, tracelog.KindCall, &tracelog.Call{PID: 1, TID: 2, Func: 4, Caller: 7, Enter: start, Ret: 2}, "cudaMalloc failed with cudaErrorMemoryAllocation in process 1, thread 2"},
		"failed, for another purpose":     {Condition{On: FailedCalls}, tracelog.KindCall, &tracelog.Call{PID: 1, TID: 2, Func: 4, Caller: 8, Enter: start, Ret: 2}, "cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY in process 1, thread 2"},
		"not watched":                     {Condition{On: FailedCalls}, tracelog.KindCall, &api, ""},
		"long":                            {Condition{On: LongCalls, Limit: time.Millisecond}, tracelog.KindCall, call(tracelog.Call{Dur: 1e6 + 1}), "cudaMalloc took 1.0 ms in process 1, thread 2"},
		"not long":                        {Condition{On: LongCalls, Limit: time.Millisecond}, tracelog.KindCall, call(tracelog.Call{Dur: 1e6}), ""},
		"long, by CUPTI":                  {Condition{On: LongCalls, Limit: time.Millisecond}, tracelog.KindAPI, &api, "cuMemAlloc took 2.0 ms in process 1, thread 2"},
		"long kernel":                     {Condition{On: LongKernels, Limit: 2 * time.Millisecond}, tracelog.KindCall, kernel, "kernel tick took 3.0 ms"},
		"short kernel":                    {Condition{On: LongKernels, Limit: 3 * time.Millisecond}, tracelog.KindCall, kernel, ""},
		"kernel, not a call":              {Condition{On: LongCalls, Limit: time.Millisecond}, tracelog.KindCall, kernel, ""},
	} {
		b := newBench(t, 8*time.Second, 1<<30)
		w := NewWatch(b.ring, []Condition{c.condition}, pattern.Ranges{}, c.calls)
		for _, x := range []tracelog.Record{function, &tracelog.Function{ID: 4, Name: "cuMemAlloc_v2", Library: "driver"},
			&tracelog.Caller{ID: 7, Function: "cudaMalloc"}, &tracelog.Caller{ID: 8, Function: "cudaLaunchKernel"}} {
			b.add(x)
		}
		for range 20 { // the first segment is removed
			b.tick(second)
		}
		if why, err := look(w); why != "" || err != nil {
			t.Errorf("%s: %q, %v before the record", name, why, err)
		}
		b.add(c.record)
		b.tick(2 * second) // to the next segment
		if why, err := look(w); why != c.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, why, err, c.want)
		}
		if why, err := look(w); why != "" || err != nil {
			t.Errorf("%s: %q, %v again", name, why, err)
		}
		w.Close()
	}
}

// look says in words which condition held first, "" for none.
func look(w *Watch) (why string, err error) {
	held, err := w.Look()
	if held != nil {
		why, _ = w.Words(held)
	}
	return why, err
}

// TestWatchCallers has calls of the driver fail whose callers come later, after one look or many, or not at all. The words
// are certain when the caller is known.
func TestWatchCallers(t *testing.T) {
	b := newBench(t, 8*time.Second, 1<<30)
	w := NewWatch(b.ring, []Condition{{On: FailedCalls}}, pattern.Ranges{}, tracelog.KindCall)
	defer w.Close()
	b.add(&tracelog.Function{ID: 4, Name: "cuMemAlloc_v2", Library: "driver"})
	const driver = "cuMemAlloc_v2 failed with CUDA_ERROR_OUT_OF_MEMORY in process 1, thread 2"
	for i, c := range []struct {
		caller tracelog.Caller // that comes in the end
		want   string
		known  bool
	}{
		{tracelog.Caller{ID: 1, Function: "cudaMalloc"}, "cudaMalloc failed with cudaErrorMemoryAllocation in process 1, thread 2", true},
		{tracelog.Caller{ID: 2, Function: "cudaLaunchKernel"}, driver, true}, // which has called it for a purpose of its own
		{tracelog.Caller{ID: 9, Function: "cudaMalloc"}, driver, false},      // another one
	} {
		b.add(&tracelog.Call{PID: 1, TID: 2, Func: 4, Caller: uint32(i + 1), Enter: start, Ret: 2})
		b.tick(second)
		held, err := w.Look()
		if held == nil || err != nil {
			t.Fatalf("%+v, %v of a call that has failed", held, err)
		}
		for range i {
			if next, err := w.Look(); next != nil || err != nil {
				t.Errorf("%+v, %v once more", next, err)
			}
		}
		if why, certain := w.Words(held); why != driver || certain {
			t.Errorf("%q, certain %t, before the caller is known", why, certain)
		}
		b.add(&c.caller)
		b.tick(second)
		if next, err := w.Look(); next != nil || err != nil {
			t.Errorf("%+v, %v of a caller", next, err)
		}
		if why, certain := w.Words(held); why != c.want || certain != c.known {
			t.Errorf("%q, certain %t, want %q", why, certain, c.want)
		}
	}
}

// TestWatchClosed looks after the end of the recording.
func TestWatchClosed(t *testing.T) {
	b := newBench(t, 8*time.Second, 1<<30)
	w := NewWatch(b.ring, nil, pattern.Ranges{}, tracelog.KindCall)
	if _, err := w.Look(); err != nil {
		t.Error(err)
	}
	s, err := b.ring.Close(b.now)
	if err != nil {
		t.Error(err)
	}
	if _, err := w.Look(); err != nil {
		t.Error(err)
	}
	w.Close()
	s.Done()
	if err := s.ring.Tick(b.now); err == nil {
		t.Error("a closed ring goes on")
	}
}

// TestPace takes steps of 1 ms, of which one takes 3 ms.
func TestPace(t *testing.T) {
	p, at, id := newPace(), start, uint32(0)
	step := func(name, domain string, took uint64) string {
		id++
		m := tracelog.Marker{PID: 1, TID: 2, ID: id, Flags: tracelog.MarkerStart, Time: at, Name: name, Domain: domain}
		p.marker(&m, pattern.Ranges{Name: "step", Domain: "d"}, 2)
		at += took
		return p.marker(&tracelog.Marker{PID: 1, TID: 2, ID: id, Flags: tracelog.MarkerEnd, Time: at}, pattern.Ranges{Name: "step", Domain: "d"}, 2)
	}
	for i := range 200 {
		if why := step(fmt.Sprintf("step %d", i), "d", 1e6+uint64(i)); why != "" {
			t.Errorf("step %d: %s", i, why)
		}
	}
	if why := step("other", "d", 1e9) + step("step", "", 1e9) + step("step", "d", 2e6); why != "" {
		t.Error(why)
	}
	if why := step("step", "d", 3e6); why != "step step took 3.0 ms, 3.0 times the median" {
		t.Errorf("%q", why)
	}
	if len(p.times) != mostSteps || len(p.begun) != 0 {
		t.Errorf("%d times, %d open", len(p.times), len(p.begun))
	}
	q := newPace()
	for i := range leastSteps {
		p = q
		if why := step("step", "d", uint64(i+1)*1e9); why != "" {
			t.Errorf("%s after %s steps", why, strconv.Itoa(i))
		}
		q = p
	}
}

// TestNoFile begins no segment where none can be made: the recording goes on in the old one.
func TestNoFile(t *testing.T) {
	fails := false
	r := must.Get(New(Options{Last: time.Second, Disk: 1 << 30, Create: func() (*os.File, error) {
		if fails {
			return nil, os.ErrPermission
		}
		return os.CreateTemp(t.TempDir(), "")
	}}))(t)
	fails = true
	r.mu.Lock()
	r.segments[0].from -= second
	r.mu.Unlock()
	if err := r.Tick(r.Now()); err == nil {
		t.Error("no error")
	}
	r.Writer.Add(&tracelog.Call{PID: 1, Enter: 1})
	fails = false
	if err := r.Tick(r.Now()); err != nil {
		t.Error(err)
	}
	if s, err := r.Close(r.Now()); err != nil || len(s.segments) != 2 {
		t.Errorf("%v", err)
	}
}

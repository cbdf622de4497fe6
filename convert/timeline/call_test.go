package timeline

import (
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

func TestSliceWaits(t *testing.T) {
	t.Parallel()
	first, second := Awaited{Work: 1, Start: 10, End: 20}, Awaited{Work: 2, Stream: new(Stream), Start: 12, End: 30}
	for name, c := range map[string]struct {
		work  []uint64
		waits []Awaited
	}{
		"none":               {nil, nil},
		"none, with work":    {[]uint64{5, 6}, nil},
		"one":                {nil, []Awaited{first}},
		"one, with work":     {[]uint64{5}, []Awaited{first}},
		"two":                {nil, []Awaited{first, second}},
		"two, with work":     {[]uint64{5, 6}, []Awaited{second, first}},
		"the same one twice": {nil, []Awaited{first, first}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sl Slice
			for _, a := range c.waits {
				sl.AddWait(a)
			}
			for _, id := range c.work {
				sl.AddWork(id)
			}
			goldentest.Same(t, c.waits, sl.Waits(), "waits")
			if got := sl.Work(); !slices.Equal(got, c.work) {
				t.Errorf("work %d, want %d", got, c.work)
			}
			if sl.HasWork() != (len(c.work) > 0) {
				t.Error("a wait counts as work of the slice")
			}
		})
	}
}

// A slice that is used again has nothing of its earlier life, and that keeps what it had.
func TestSliceForget(t *testing.T) {
	t.Parallel()
	var sl Slice
	for id := range uint64(3) {
		sl.AddWork(id + 1)
		sl.AddWait(Awaited{Work: id + 10})
	}
	before := sl
	sl.Forget()
	if sl.Work() != nil || sl.Waits() != nil || sl.HasWork() {
		t.Fatalf("work %d and waits %v are left", sl.Work(), sl.Waits())
	}
	sl.AddWork(50)
	sl.AddWait(Awaited{Work: 60})
	sl.AddWork(51)
	if got := sl.Work(); !slices.Equal(got, []uint64{50, 51}) {
		t.Errorf("work %d of the second life", got)
	}
	if waits := sl.Waits(); len(waits) != 1 || waits[0].Work != 60 {
		t.Errorf("waits %v of the second life", waits)
	}
	if got := before.Work(); !slices.Equal(got, []uint64{1, 2, 3}) || len(before.Waits()) != 3 || before.Waits()[0].Work != 10 {
		t.Errorf("a copy from before has work %d and waits %v", got, before.Waits())
	}
}

// Nearly all slices have one piece of work: it takes no memory of its own.
func TestSliceFirstWorkIsFree(t *testing.T) {
	sl := new(Slice)
	n := testing.AllocsPerRun(100, func() {
		sl.Forget()
		sl.AddWork(1)
		if len(sl.Work()) != 1 {
			t.Error("one piece of work is missing")
		}
	})
	if n != 0 {
		t.Errorf("%g allocations for one piece of work", n)
	}
}

func TestErrorName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		library string
		ret     int32
		want    string
	}{
		{"runtime", 0, ""}, {"driver", 0, ""},
		{"runtime", 2, "cudaErrorMemoryAllocation"}, {"driver", 2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{"driver", 123_456, "CUresult 123456"}, {"runtime", -1, "cudaError_t -1"},
	} {
		sl := Slice{Function: &Function{Library: c.library}, Ret: c.ret}
		if got := sl.ErrorName(); got != c.want {
			t.Errorf("%d of the %s is %q, want %q", c.ret, c.library, got, c.want)
		}
	}
}

func TestSliceEnding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call       Slice
		kind, text string
		failed     bool
	}{
		"success":       {Slice{}, "", "", false},
		"error":         {Slice{Ret: 2}, "error", "cudaErrorMemoryAllocation", true},
		"unknown error": {Slice{Ret: -1}, "error", "cudaError_t -1", true},
		"not ready":     {Slice{Ret: 600}, "error", "cudaErrorNotReady", false},
		"deinitialized": {Slice{Ret: 4}, "error", "cudaErrorCudartUnloading", false},
		"unfinished":    {Slice{Flags: Unfinished, Ret: 2}, "unfinished", "had not returned when recording ended", false},
		"no return":     {Slice{Flags: NoReturn, Ret: 2}, "no_return", "left without returning", false},
	} {
		c.call.Function = &Function{Library: "runtime"}
		if kind, text := c.call.Ending(); kind != c.kind || text != c.text {
			t.Errorf("%s: ending %q, %q; want %q, %q", name, kind, text, c.kind, c.text)
		}
		if got := c.call.Failed(); got != c.failed {
			t.Errorf("%s: the call failed: %t", name, got)
		}
	}
}

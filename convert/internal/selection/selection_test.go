package selection

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

func call(name string, dur uint64) *timeline.Slice {
	return &timeline.Slice{Function: &timeline.Function{Name: name}, Start: 1000, End: 1000 + dur}
}

func kernel(mangled string, dur uint64) *timeline.Work {
	return &timeline.Work{Start: 1000, Dur: dur, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: mangled}}}
}

// The names that a glob matches, for the same list of calls.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"cudaMalloc", "cudaMalloc", true},
		{"cudaMalloc", "cudaMallocAsync", false},
		{"cudaMalloc", "xcudaMalloc", false},
		{"cudaMalloc*", "cudaMallocAsync", true},
		{"*Async", "cudaMallocAsync", true},
		{"*Async", "cudaMalloc", false},
		{"cu?emAlloc", "cuMemAlloc", true},
		{"cu[A-M]*", "cuMemAlloc", true},
		{"cu[A-M]*", "cuStreamWait", false},
		{"cudamalloc", "cudaMalloc", false},

		// A name is no path: * goes over its slashes.
		{"step*", "step/forward/attention", true},
		{"step/*/attention", "step/1/2/attention", true},
		{"*attention", "step/forward/attention", true},
		{"step?forward", "step/forward", true},
		{`step\/1`, "step/1", true},

		// What is no glob matches nothing, not even itself.
		{"[", "[", false},
		{`a\`, `a\`, false},
	} {
		s := New(Options{Name: c.glob})
		if got := s.Slice(call(c.name, 5)); got != c.want {
			t.Errorf("%q chooses the call %q: %t, want %t", c.glob, c.name, got, c.want)
		}
		if got := s.Span(&timeline.Span{Name: c.name, Start: 1, End: 2}); got != c.want {
			t.Errorf("%q chooses the span %q: %t, want %t", c.glob, c.name, got, c.want)
		}
		left := uint64(1) // a span that is left out is not counted
		if c.want {
			left = 0
		}
		if s.LeftOut != left {
			t.Errorf("%q left out %d of the call and the span %q, want %d", c.glob, s.LeftOut, c.name, left)
		}
	}
}

// Work is chosen by the title that it is shown under.
func TestWorkTitles(t *testing.T) {
	t.Parallel()
	const mangled = "_Z4axpyIfEvT_PKS0_PS0_i" // void axpy<float>(float, float const*, float*, int)
	copying := func(kind uint32) *timeline.Work {
		return &timeline.Work{Kind: timeline.MemcpyWork, Shape: &timeline.Shape{Memcpy: timeline.MemcpyShape{CopyKind: kind}}}
	}
	setting := &timeline.Work{Kind: timeline.MemsetWork, Shape: &timeline.Shape{}}
	for _, c := range []struct {
		glob string
		work *timeline.Work
		want bool
	}{
		{"axpy<float>", kernel(mangled, 1), true},
		{"axpy*", kernel(mangled, 1), true},
		{"_Z4axpy*", kernel(mangled, 1), false},
		{"void axpy*", kernel(mangled, 1), false},
		{"*float, float const*", kernel(mangled, 1), false},
		{"k", kernel("k", 1), true},
		{"(unnamed kernel)", kernel("", 1), true},
		{"Memcpy HtoD", copying(1), true},
		{"Memcpy HtoD", copying(2), false},
		{"Memset", setting, true},
	} {
		s := New(Options{Name: c.glob})
		for range 2 { // the second time the name is known
			if got := s.Work(c.work); got != c.want {
				t.Errorf("%q chooses %+v: %t, want %t", c.glob, c.work, got, c.want)
			}
		}
	}
}

func TestShortest(t *testing.T) {
	t.Parallel()
	s := New(Options{Shortest: 100})
	for dur, want := range map[uint64]bool{0: false, 99: false, 100: true, 101: true, 1 << 62: true} {
		if got := s.Slice(call("c", dur)); got != want {
			t.Errorf("a call of %d ns: %t, want %t", dur, got, want)
		}
		if got := s.Work(kernel("k", dur)); got != want {
			t.Errorf("a kernel of %d ns: %t, want %t", dur, got, want)
		}
		if got := s.Span(&timeline.Span{Start: 50, End: 50 + dur}); got != want {
			t.Errorf("a span of %d ns: %t, want %t", dur, got, want)
		}
	}
	if s.LeftOut != 4 {
		t.Errorf("%d calls and pieces of work left out, want 2 of each", s.LeftOut)
	}
}

// A span whose end is not known may turn out long enough; its name is known.
func TestOpenSpan(t *testing.T) {
	t.Parallel()
	open := &timeline.Span{Name: "step", Start: 1000, Open: true}
	for glob, want := range map[string]bool{"": true, "step": true, "other": false} {
		if got := New(Options{Name: glob, Shortest: 1e9}).Span(open); got != want {
			t.Errorf("name %q: %t, want %t", glob, got, want)
		}
	}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	if s != nil {
		t.Fatalf("a selection without limits is %+v, want nil", s)
	}
	if !s.Slice(call("c", 0)) || !s.Work(kernel("k", 0)) || !s.Span(&timeline.Span{}) {
		t.Error("nil leaves something out")
	}
}

// The callers that a glob matches: by file, by function, by both, by the whole text.
func TestCallers(t *testing.T) {
	t.Parallel()
	torch := &timeline.Caller{Module: "/usr/lib/libtorch_cuda.so", Symbol: "_ZN2at6native3addEPKfi", SymbolOffset: 0x45}
	blas := &timeline.Caller{Module: "/usr/lib/libcublasLt.so.13", Address: 0x12345}
	for _, c := range []struct {
		glob   string
		caller *timeline.Caller
		want   bool
	}{
		{"libtorch_cuda.so", torch, true},
		{"libtorch*", torch, true},
		{"/usr/lib/*", torch, false},
		{"at::native::add", torch, true},
		{"at::native::add(...)", torch, true},
		{"at::*", torch, true},
		{"add", torch, false},
		{"libtorch_cuda.so: at::native::add", torch, true},
		{"*torch*: at::native::*", torch, true},
		{"libtorch_cuda.so: at::native::add(...)+0x45", torch, true},
		{"libtorch_cuda.so: at::native::add(...)+0x46", torch, false},
		{"libcublas*", torch, false},
		{"libcublas*", blas, true},
		{"libcublasLt.so.13+0x12345", blas, true},
		{"", blas, true},
		{"", nil, true},
		{"*", blas, true},
		{"*", nil, false}, // nobody knows it
		{"[", blas, false},
	} {
		s := New(Options{Caller: c.glob})
		for range 2 { // the second answer is remembered
			if got := s.CalledFrom(c.caller); got != c.want {
				t.Errorf("%q chooses %+v: %t, want %t", c.glob, c.caller, got, c.want)
			}
		}
		sl := call("cudaMalloc", 5)
		sl.Caller = c.caller
		if got := s.Slice(sl); got != c.want {
			t.Errorf("%q chooses a call of %+v: %t, want %t", c.glob, c.caller, got, c.want)
		}
		if !s.Span(&timeline.Span{Name: "range", Start: 1, End: 2}) {
			t.Errorf("%q leaves out a range, which has no caller", c.glob)
		}
	}
	if s := New(Options{Name: "cuda*", Caller: "libcublas*", Shortest: 10}); s.Slice(&timeline.Slice{Function: &timeline.Function{Name: "cudaMalloc"}, Caller: blas, End: 5}) ||
		!s.Slice(&timeline.Slice{Function: &timeline.Function{Name: "cudaMalloc"}, Caller: blas, End: 15}) {
		t.Error("a call is chosen that does not match all, or not one that does")
	}
}

// A glob is held against each frame above a call: its file, its function, its line.
func TestPython(t *testing.T) {
	t.Parallel()
	frame := func(file, function string, line uint32, parent *timeline.Python) *timeline.Python {
		return &timeline.Python{PythonFrame: &timeline.PythonFrame{File: file, Function: function, Line: line}, Parent: parent}
	}
	cut := frame("", "(frames further out are left out)", 0, nil)
	loop := frame("/home/ann/train.py", "main", 40, cut)
	step := frame("/venv/lib/python3.12/site-packages/torch/optim/adam.py", "Adam.step", 7, loop)
	for glob, want := range map[string]bool{
		"train.py": true, "train.py:40": true, "train.py:4": false, "/home/ann/train.py": true, "/home/ann/train.py:40": true, "/home/ann/train.py:40 main": true,
		"main": true, "*.step": true, "*/torch/optim/*": true, "torch/optim/*": false, "adam.py:7": true, "(frames*": true, "[": false, "Main": false,
	} {
		s := New(Options{Python: glob})
		for _, p := range []*timeline.Python{step, step, nil} {
			c := call("cuLaunchKernel", 5)
			c.Python = p
			if got := s.Slice(c); got != (want && p != nil) {
				t.Errorf("%q chooses a call of %v: %t", glob, p, got)
			}
		}
		if !s.OfCalls() {
			t.Errorf("%q chooses work without a call", glob)
		}
	}
}

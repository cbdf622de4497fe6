package timeline

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

func TestKernelNames(t *testing.T) {
	t.Parallel()
	for mangled, want := range map[string]KernelName{
		"":       {Short: "(unnamed kernel)"},
		"kernel": {Short: "kernel", Full: "kernel"},
		"_Z4axpyfPKfPfi": {
			Short: "axpy", Full: "axpy(float, float const*, float*, int)"},
		"_Z4axpyIfEvT_PKS0_PS0_i": {
			Short: "axpy<float>", Full: "void axpy<float>(float, float const*, float*, int)"},
		"_ZN2at6native6kernelIiEEvi": {
			Short: "at::native::kernel<int>", Full: "void at::native::kernel<int>(int)"},
		"void f":   {Short: "f", Full: "void f"},
		"_Zbroken": {Short: "_Zbroken", Full: "_Zbroken"},
	} {
		names := make(KernelNames)
		for _, when := range []string{"first", "second"} {
			goldentest.Same(t, want, names.Of(mangled), "%q, %s time", mangled, when)
		}
		if len(names) != 1 {
			t.Errorf("%q: %d names are kept, want 1", mangled, len(names))
		}
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	names := make(KernelNames)
	for want, w := range map[string]Work{
		"axpy<float>":      {Kind: KernelWork, Shape: &Shape{Kernel: KernelShape{Name: "_Z4axpyIfEvT_PKS0_PS0_i"}}},
		"(unnamed kernel)": {Kind: KernelWork, Shape: &Shape{}},
		"Memcpy HtoD":      {Kind: MemcpyWork, Shape: &Shape{Memcpy: MemcpyShape{CopyKind: 1}}},
		"Memcpy DtoH":      {Kind: MemcpyWork, Shape: &Shape{Memcpy: MemcpyShape{CopyKind: 2}}, Graph: 4},
		"Memcpy unknown":   {Kind: MemcpyWork, Shape: &Shape{Memcpy: MemcpyShape{CopyKind: 1000}}},
		"Memset":           {Kind: MemsetWork, Shape: &Shape{}},
	} {
		if got := names.Title(&w); got != want {
			t.Errorf("title %q, want %q", got, want)
		}
	}
}

func TestStreamQualifier(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Stream{
		"":                   {},
		" (default)":         {Default: true},
		" (copies)":          {Name: "copies"},
		" (default, copies)": {Default: true, Name: "copies"},
	} {
		if got := s.Qualifier(); got != want {
			t.Errorf("qualifier %q, want %q", got, want)
		}
	}
}

func TestThreadTitle(t *testing.T) {
	t.Parallel()
	p := &Process{Name: "train"}
	for want, thread := range map[string]Thread{
		"":       {Process: p},
		"loader": {Process: p, Name: "loader"},
		"train":  {Process: p, Main: true},
		"main":   {Process: p, Main: true, Name: "main"},
	} {
		if got := thread.Title(); got != want {
			t.Errorf("title %q, want %q", got, want)
		}
	}
}

package probe

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Which side of the API a file is: by its name, and by what it defines.
func TestSide(t *testing.T) {
	for _, c := range []struct {
		path    string
		defines []string
		side    cudaapi.Library
		ok      bool
	}{
		{"/lib/libcuda.so.1", []string{"cuLaunchKernel", "cuInit"}, cudaapi.Driver, true},
		{"/lib/libcuda.so.1", []string{"cuInit"}, cudaapi.Driver, false},
		{"/lib/libcudart.so.13", []string{"cudaEventRecord"}, cudaapi.Runtime, true},
		{"/lib/libcudart.so.13", nil, cudaapi.Runtime, false},
		{"/bin/app", []string{"cudaMalloc"}, cudaapi.Runtime, true},
		{"/bin/app", []string{"cudaLaunchKernel"}, cudaapi.Runtime, true},
		{"/bin/app", []string{"cudaEventRecord"}, cudaapi.Runtime, false},
		{"/bin/app", []string{"cuLaunchKernel"}, cudaapi.Runtime, false}, // a program's own stub
	} {
		found := map[string]uint64{}
		for i, name := range c.defines {
			if cudaapi.ByName(name) != nil { // as Find asks for
				found[name] = uint64(i + 1)
			}
		}
		if side, functions, ok := divideSymbols(found).sideOf(c.path); ok != c.ok || ok && (side != c.side || len(functions) == 0) {
			t.Errorf("%s with %q: %v, %v, %v", c.path, c.defines, side, functions, ok)
		}
	}
}

func TestDivide(t *testing.T) {
	s := divideSymbols(map[string]uint64{registrationSymbol: 1, "cuLaunchKernel": 2, "cudaMalloc": 3})
	if s.registration != 1 || s.driver["cuLaunchKernel"] != 2 || s.runtime["cudaMalloc"] != 3 || len(s.driver)+len(s.runtime) != 2 {
		t.Errorf("divided into %+v", s)
	}
}

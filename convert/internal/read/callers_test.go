package read

import (
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

const callerLog = `function id=1 name=cuLaunchKernel library=driver args="function:handle gridX:u32 stream:handle"
function id=2 name=cuLibraryGetKernel library=driver args="kernel:handle"
function id=3 name=cudaLaunchKernel library=runtime args="function:ptr gridX:u32 shared:size"
function id=4 name=cuMemAlloc_v2 library=driver args="devPtr:ptr bytes:size"
function id=5 name=cudaMalloc library=runtime args="devPtr:ptr bytes:size"
caller id=1 function=cudaLaunchKernel module=/lib/a.so build_id=01 address=0x10 symbol=f symbol_offset=4
caller id=2 function="" module=/lib/b.so build_id="" address=0x20 symbol=""
caller id=3 function=cudaMalloc module="" build_id="" address=0x0 symbol=""
caller id=0 function=cudaMalloc module=/lib/none.so build_id="" address=0x0 symbol=""
caller id=1000000 function=cudaLaunchKernel module=/lib/a.so build_id=01 address=0x10 symbol=f symbol_offset=4
caller id=2097152 function=cudaMalloc module=/lib/none.so build_id="" address=0x0 symbol=""
`

func TestCallers(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, callerLog))
	want := map[uint32]*timeline.Caller{
		1: {Module: "/lib/a.so", BuildID: "01", Address: 0x10, Symbol: "f", SymbolOffset: 4, ID: 1},
		2: {Module: "/lib/b.so", Address: 0x20, ID: 2},
		3: nil, // the function is known, the place is not

		1000000: {Module: "/lib/a.so", BuildID: "01", Address: 0x10, Symbol: "f", SymbolOffset: 4, ID: 1},
	}
	got := make(map[uint32]*timeline.Caller)
	for _, id := range []uint32{0, 1, 2, 3, 4, 1000000, maxCallerIDs, 1<<32 - 1} {
		if at := c.Callers.ByID(id); at != nil {
			got[id] = at.Place
		}
	}
	goldentest.Same(t, want, got, "callers")
	if c.Callers.ByID(1) != c.Callers.ByID(1000000) {
		t.Error("two IDs with one content are two callers")
	}
	if !c.Callers.Any() || catalogOf(t, logtest.Assemble(t, "note time=1")).Callers.Any() {
		t.Error("callers are there without a record, or not there with some")
	}
}

// What a driver call is called by the runtime's function around it and by its result.
func TestCalled(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, callerLog))
	for _, x := range []struct {
		function, caller uint32
		ret              int32
		want             string
	}{
		{1, 1, 0, "runtime cudaLaunchKernel of cuLaunchKernel"},
		{1, 1, 701, "runtime cudaLaunchKernel of cuLaunchKernel"},
		{1, 2, 0, "driver cuLaunchKernel of "},
		{1, 3, 0, "runtime cudaMalloc of cuLaunchKernel"},
		{2, 1, 0, "driver cuLibraryGetKernel of "},
		{2, 1, 209, "runtime cudaLaunchKernel of cuLibraryGetKernel"},
		{2, 1, 600, "driver cuLibraryGetKernel of "},
		{2, 3, 209, "driver cuLibraryGetKernel of "},
		{3, 1, 0, "runtime cudaLaunchKernel of "},
		{4, 3, 0, "runtime cudaMalloc of cuMemAlloc_v2"},
		{4, 1, 0, "driver cuMemAlloc_v2 of "},
	} {
		f := c.Functions.ByID(x.function)
		called := c.Functions.Called(f, c.Callers.ByID(x.caller), x.ret)
		if got := fmt.Sprintf("%s %s of %s", called.Library, called.Name, called.Function.Driver); got != x.want {
			t.Errorf("function %d at caller %d with result %d is %s, want %s", x.function, x.caller, x.ret, got, x.want)
		}
		if called != c.Functions.Called(f, c.Callers.ByID(x.caller), x.ret) || !called.Same(f) || called.Renamed() != (called != f) {
			t.Errorf("%s is not what it was called", called.Name)
		}
	}
}

// A call of both libraries has the arguments of both; of two with one name the driver's.
func TestJoined(t *testing.T) {
	t.Parallel()
	fs := &catalogOf(t, logtest.Assemble(t, callerLog)).Functions
	runtime, driver := fs.ByID(3), fs.ByID(1)
	both := fs.Joined(runtime, driver)
	if both != fs.Joined(runtime, driver) || !both.Holds(driver) || both.Holds(fs.ByID(2)) || runtime.Holds(driver) || !both.Same(runtime) {
		t.Error("the function of both is not of these two")
	}
	var names []string
	for _, p := range both.Params {
		names = append(names, p.Name)
	}
	goldentest.Same(t, []string{"function", "gridX", "stream", "shared"}, names, "parameters")
	for want, x := range map[string][2][]uint64{
		"[1 2 3 30]": {{1, 2, 3}, {10, 20, 30}},
		"[1 2 3]":    {{1, 2, 3}, {10, 20}}, // a list that was cut
		"[1 2]":      {{1, 2}, {10, 20, 30}},
		"[5 6 7]":    {{5, 6, 7, 8}, {10, 20, 30}},
	} {
		if got := fmt.Sprint(both.JoinedArguments(x[0], x[1])); got != want {
			t.Errorf("arguments %d and %d are %s, want %s", x[0], x[1], got, want)
		}
	}
	if h, ok := both.KernelHandle([]uint64{1, 2, 3, 30}); !ok || h != 1 || both.StreamHandle([]uint64{1, 2, 3, 30}) != 3 {
		t.Errorf("the kernel's handle is %d", h)
	}
}

// What prepares a launch is part of it.
func TestPrepares(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, callerLog))
	for _, x := range []struct {
		function, caller uint32
		ret              int32
		want             bool
	}{{2, 1, 0, true}, {2, 1, 500, false}, {1, 1, 0, false}, {2, 2, 0, false}, {2, 3, 0, false}} {
		if got := c.Callers.ByID(x.caller).Prepares(c.Functions.ByID(x.function), x.ret); got != x.want {
			t.Errorf("function %d at caller %d with result %d prepares: %t", x.function, x.caller, x.ret, got)
		}
	}
}

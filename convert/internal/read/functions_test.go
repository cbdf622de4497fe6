package read

import (
	"cmp"
	"fmt"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const launchArgs = "function:handle gridX:u32 stream:handle"

// A function of the log is what its record says, with what is known of the name.
func TestFunctionByID(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `function id=5 name=cuLaunchKernel library=driver args="`+launchArgs+`"
function id=9 name=cudaMemcpy library=runtime args=dst:ptr
function id=10 name=inHouse library=driver args="count"
function id=5 name=cudaStreamSynchronize library=runtime args="stream:handle"`))
	got := func(id uint32) string {
		f := c.Functions.ByID(id)
		return fmt.Sprintf("%s %s %v launches=%t work=%t waits=%d known=%t driver=%t runtime=%t",
			f.Library, f.Name, f.Params, f.Launches, f.GPUWork, f.Waits, f.Known, f.Driver, f.Runtime)
	}
	for id, want := range map[uint32]string{
		5:  "runtime cudaStreamSynchronize [{stream handle 1}] launches=false work=false waits=2 known=true driver=false runtime=true", // its later record
		9:  "runtime cudaMemcpy [{dst ptr 0}] launches=false work=false waits=0 known=true driver=false runtime=true",
		10: "driver inHouse [{count  0}] launches=false work=false waits=0 known=false driver=true runtime=false",
		11: " function 11 [] launches=false work=false waits=0 known=false driver=false runtime=false", // the log does not have it
	} {
		if got(id) != want {
			t.Errorf("function %d is\n%s, want\n%s", id, got(id), want)
		}
	}
	if first, again := c.Functions.ByID(11), c.Functions.ByID(11); first != again {
		t.Error("a function that the log does not have is another one each time")
	}
}

// API records name functions by the text of their name; a name of both domains is two
// functions.
func TestFunctionByCallback(t *testing.T) {
	t.Parallel()
	open := logtest.Assemble(t, `function id=1 name=cuLaunchKernel library=driver
api pid=1 tid=1 domain=1 cbid=307 name=cuLaunchKernel start=1
api pid=1 tid=1 domain=2 cbid=211 name=cudaLaunchKernel start=2
api pid=1 tid=2 domain=1 cbid=307 name=cuLaunchKernel start=3`)
	c := catalogOf(t, open)
	var list []*Function
	for r := openLog(t, open); r.Next(); {
		if b := r.Block(); b.Kind == tracelog.KindAPI {
			names := b.Column("name")
			list = append(list, c.Functions.ByCallback(b, false, names.At(0)), c.Functions.ByCallback(b, true, names.At(0)))
		}
	}
	if list[0].Name != "cuLaunchKernel" || list[0].Library != "driver" || !list[0].GPUWork || !list[0].Launches || list[3].Name != "cudaLaunchKernel" || list[3].Library != "runtime" {
		t.Errorf("the functions are %+v and %+v", list[0], list[3])
	}
	if list[0] == list[1] || list[0] != list[4] || list[1] != list[5] {
		t.Error("a name of one domain is one function")
	}
	ids := make(map[uint32]bool)
	for _, f := range append(list, c.Functions.ByID(1)) {
		ids[f.ID] = true
	}
	for id := range uint32(5) {
		if !ids[id] {
			t.Errorf("no function has number %d of 5: %v", id, ids)
		}
	}
}

// A CUPTI callback and a probed symbol are one function where their names differ in their
// suffixes only.
func TestSameFunction(t *testing.T) {
	t.Parallel()
	l := newFunctions()
	for _, test := range []struct {
		library, symbol, callback string
		other                     string // the callback's library, where it is another
		want                      bool
	}{
		{"driver", "cuLaunchKernel", "cuLaunchKernel", "", true},
		{"driver", "cuMemcpyHtoD_v2", "cuMemcpyHtoD", "", true},
		{"driver", "cuMemcpyHtoD", "cuMemcpyHtoD_v2", "", true},
		{"driver", "cuLaunchKernel_ptsz", "cuLaunchKernel", "", true},
		{"driver", "cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_v2", "", true},
		{"driver", "cuLaunchKernel", "cuLaunchKernelEx", "", false},
		{"runtime", "cudaMemcpy", "cudaMemcpyAsync", "", false},
		{"driver", "cuLaunchKernel", "cuLaunchKernel", "runtime", false},
	} {
		a, b := l.make(test.symbol, test.library, ""), l.make(test.callback, cmp.Or(test.other, test.library), "")
		if a.Same(b) != test.want || b.Same(a) != test.want || !a.Same(a) {
			t.Errorf("%s and %s (%s) are one function: %v, want %v", test.symbol, test.callback, b.Library, a.Same(b), test.want)
		}
	}
}

// The kernel of a launch is the handle that the call passes. Functions that launch nothing
// have arguments of these names, too.
func TestKernelHandle(t *testing.T) {
	t.Parallel()
	l := newFunctions()
	for _, test := range []struct {
		function, params string
		args             []uint64
		want             string
	}{
		{"cuLaunchKernel", launchArgs, []uint64{7, 1, 2}, "7 true"},
		{"cuLaunchKernelEx", "gridX:u32 function:handle", []uint64{1, 8}, "8 true"},
		{"cudaLaunchKernel", "func:ptr gridX:u32", []uint64{9, 1}, "9 true"},
		{"cuLaunchGrid", "f:handle width:i32", []uint64{6, 1}, "6 true"},
		{"cuLaunch", "hfunc:handle", []uint64{5}, "5 true"},
		{"cuLaunchCooperativeKernel", "kernel:handle", []uint64{4}, "4 true"},
		{"cuLaunchKernel", "function:handle kernel:handle", []uint64{7, 8}, "7 true"}, // the first counts
		{"cuLaunchKernel", launchArgs, nil, "0 false"},                                // it was not recorded
		{"cuLaunchKernel", "gridX:u32", []uint64{1}, "0 false"},
		{"cuFuncGetAttribute", "function:handle", []uint64{7}, "0 false"},
	} {
		handle, ok := l.make(test.function, "driver", test.params).KernelHandle(test.args)
		if got := fmt.Sprint(handle, ok); got != test.want {
			t.Errorf("%s(%s)%d launches %s, want %s", test.function, test.params, test.args, got, test.want)
		}
	}
}

// A call names the stream of its argument. Without one it names none; with 0 it names a
// default stream, for which of two the suffix of its name says.
func TestStreamHandle(t *testing.T) {
	t.Parallel()
	l := newFunctions()
	for _, test := range []struct {
		function, params string
		args             []uint64
		want             StreamHandle
	}{
		{"cuLaunchKernel", launchArgs, []uint64{7, 1, 0x5000}, 0x5000},
		{"cuLaunchKernel", launchArgs, []uint64{7, 1, 0}, LegacyStream},
		{"cuLaunchKernel_ptsz", launchArgs, []uint64{7, 1, 0}, ThreadStream},
		{"cuMemcpyHtoD_v2_ptds", "stream:handle", []uint64{0}, ThreadStream},
		{"cuLaunchKernel", launchArgs, []uint64{7, 1, 1}, LegacyStream},      // CU_STREAM_LEGACY
		{"cuLaunchKernel", launchArgs, []uint64{7, 1, 2}, ThreadStream},      // CU_STREAM_PER_THREAD
		{"cuLaunchKernel_ptsz", launchArgs, []uint64{7, 1, 1}, LegacyStream}, // it names the one that is not its own
		{"cuLaunchKernel", launchArgs, []uint64{7, 1}, 0},
		{"cuMemcpyHtoD_v2", "dst:ptr src:ptr", []uint64{1, 2}, 0},
		{"cudaStreamCreate", "stream:ptr", []uint64{0x7ff}, 0}, // where the handle will be
		{"odd", "stream:handle stream:handle", []uint64{3, 4}, 3},
	} {
		if got := l.make(test.function, "driver", test.params).StreamHandle(test.args); got != test.want {
			t.Errorf("%s(%s)%d names stream %d, want %d", test.function, test.params, test.args, got, test.want)
		}
	}
}

// The traits that joining asks for are those of the name without suffixes.
func TestFunctionTraits(t *testing.T) {
	t.Parallel()
	l := newFunctions()
	got := make(map[string]cudaapi.Traits)
	for _, name := range []string{"cuLaunchKernel_ptsz", "cuGraphLaunch", "cuCtxSynchronize_v2", "cuMemAlloc_v2"} {
		got[name] = l.make(name, "driver", "").Traits
	}
	want := map[string]cudaapi.Traits{
		"cuLaunchKernel_ptsz": {Launches: true, MayWork: true},
		"cuGraphLaunch":       {LaunchesGraph: true, MayWork: true},
		"cuCtxSynchronize_v2": {Waits: cudaapi.ContextWait},
		"cuMemAlloc_v2":       {},
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("traits (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]timeline.Param{{Name: "a", Type: "u32"}, {Name: "b", Type: ""}}, l.make("f", "driver", " a:u32  b ").Params); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
}

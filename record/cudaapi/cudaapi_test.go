package cudaapi

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The table keeps its own rules.
func TestTable(t *testing.T) {
	categories := map[string]bool{"launch": true, "copy": true, "set": true, "memory": true, "stream": true, "event": true, "wait": true, "device": true}
	for i, f := range Functions(All) {
		prefix := map[Library]string{Driver: "cu", Runtime: "cuda"}[f.Library]
		rest, ok := strings.CutPrefix(f.Name, prefix)
		if !ok || rest == "" || rest[0] < 'A' || rest[0] > 'Z' {
			t.Errorf("%s is no %s function", f.Name, f.Library)
		}
		if f.ID != ID(i) || Lookup(f.ID) != f || ByName(f.Name) != f {
			t.Errorf("%s is not at its place %d, or twice in the table", f.Name, f.ID)
		}
		if !categories[f.Category] {
			t.Errorf("%s has category %q", f.Name, f.Category)
		}
		if f.Sets&All == 0 || f.Sets&Minimal != 0 && f.Sets&Default == 0 {
			t.Errorf("%s is in sets %b", f.Name, f.Sets)
		}
		if f.GPUWork && (f.Library != Driver || f.Sets&Default == 0 || f.Fallback) {
			t.Errorf("%s creates GPU work: it belongs to the driver, always", f.Name)
		}
		if f.Fallback && f.Library != Driver {
			t.Errorf("%s is no driver function", f.Name)
		}
		if len(f.Args) > tracelog.MaxArgs {
			t.Errorf("%s has %d arguments", f.Name, len(f.Args))
		}
		checkArgs(t, f)
	}
}

func checkArgs(t *testing.T, f *Function) {
	t.Helper()
	seen := map[string]bool{}
	last := -1
	for _, a := range f.Args {
		if a.Name == "" || strings.ContainsAny(a.Name, " :@*{}") || seen[a.Name] {
			t.Errorf("%s: argument %q", f.Name, a.Name)
		}
		seen[a.Name] = true
		if a.Index < last || a.Offset%a.Type.Bytes() != 0 || a.Offset != 0 && a.From != FromField {
			t.Errorf("%s: argument %s is at %d and %d", f.Name, a.Name, a.Index, a.Offset)
		}
		last = a.Index
	}
}

func TestArgSpec(t *testing.T) {
	for name, want := range map[string]string{
		"cuLaunchKernel":        "function:handle gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle",
		"cuLaunchKernelEx_ptsz": "gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle function:handle",
		"cudaMalloc":            "devPtr:ptr bytes:size",
		"cudaDeviceSynchronize": "",
		"cudaSetDevice":         "device:i32",
		"cuMemcpy3DBatchAsync":  "count:size operations:ptr flags:u64 stream:handle",
		"cuMemcpy2D_v2":         "srcType:enum srcHost:ptr srcDevice:ptr dstType:enum dstHost:ptr dstDevice:ptr width:size height:size",
	} {
		f := ByName(name)
		if f == nil {
			t.Errorf("no %s", name)
			continue
		}
		if got := ArgSpec(f); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestArgs(t *testing.T) {
	want := []Arg{
		{"count", Size, 0, FromArgument, 0},
		{"operations", Ptr, 1, FromArgument, 0},
		{"flags", U64, 3, FromArgument, 0},
		{"stream", Handle, 4, FromArgument, 0},
	}
	if diff := cmp.Diff(want, ByName("cuMemcpy3DBatchAsync").Args); diff != "" {
		t.Error(diff)
	}
	launch := ByName("cuLaunchKernelEx").Args
	if diff := cmp.Diff(Arg{"stream", Handle, 0, FromField, 32}, launch[7]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Arg{"function", Handle, 1, FromArgument, 0}, launch[8]); diff != "" {
		t.Error(diff)
	}
	if out := ByName("cudaMalloc").Args[0]; !out.Out() || out.Index != 0 {
		t.Errorf("%+v", out)
	}
}

func TestParseArgsRefuses(t *testing.T) {
	for _, text := range []string{
		"a", "a:", "a:word", "{a@0:u32", "a@0:u32}", "{a:u32}", "{a@x:u32}", "{a@-4:u32}", "{a@0:u32 {b@4:u32}}",
	} {
		if args, err := parseArgs(text); err == nil {
			t.Errorf("%q is read as %+v", text, args)
		}
	}
}

func TestSets(t *testing.T) {
	in := func(name string, sets Set) bool { return ByName(name).Sets&sets != 0 }
	if !in("cuLaunchKernel", Minimal) || !in("cuGraphLaunch_ptsz", Minimal) || in("cuMemcpyAsync", Minimal) {
		t.Error("the minimal set is not the launches")
	}
	if !in("cudaMalloc", Default) || !in("cudaStreamSynchronize", Default) || in("cudaGetDevice", Default) {
		t.Error("the default set is not work, memory and waits")
	}
	if Lookup(ID(len(functions))) != nil || ByName("cudaNothing") != nil {
		t.Error("there is a function that is not in the table")
	}
}

func TestErrorName(t *testing.T) {
	for _, c := range []struct {
		lib  Library
		code int32
		want string
	}{
		{Driver, 0, "CUDA_SUCCESS"},
		{Driver, 2, "CUDA_ERROR_OUT_OF_MEMORY"},
		{Driver, 700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
		{Driver, 999, "CUDA_ERROR_UNKNOWN"},
		{Driver, 35, "CUresult 35"},
		{Driver, -1, "CUresult -1"},
		{Runtime, 0, "cudaSuccess"},
		{Runtime, 2, "cudaErrorMemoryAllocation"},
		{Runtime, 35, "cudaErrorInsufficientDriver"},
		{Runtime, 46, "cudaErrorDevicesUnavailable"},
		{Runtime, 98, "cudaErrorInvalidDeviceFunction"},
		{Runtime, 226, "cudaErrorContained"},
		{Runtime, 719, "cudaErrorLaunchFailure"},
		{Runtime, 910, "cudaErrorGraphExecUpdateFailure"},
		{Runtime, 11, "cudaError_t 11"},
	} {
		if got := ErrorName(c.lib, c.code); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.lib, c.code, got, c.want)
		}
	}
}

func TestKindNames(t *testing.T) {
	for kind, want := range []string{"unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP", "unknown"} {
		if got := MemcpyKindName(uint32(kind)); got != want {
			t.Errorf("copy kind %d: %s", kind, got)
		}
	}
	for kind, want := range []string{"unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "DeviceStatic", "ManagedStatic", "unknown"} {
		if got := MemoryKindName(uint32(kind)); got != want {
			t.Errorf("memory kind %d: %s", kind, got)
		}
	}
	if MemcpyKindName(1<<31) != "unknown" {
		t.Error("a large kind has a name")
	}
}

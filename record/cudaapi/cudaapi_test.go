package cudaapi

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

var categories = map[string]bool{
	"launch": true, "copy": true, "memset": true, "memory": true, "ipc": true, "external": true, "stream": true, "wait": true, "event": true,
	"graph": true, "device": true, "context": true, "profiler": true, "module": true, "occupancy": true, "texture": true,
}

// Out reports whether the value is known only after the call.
func (a Arg) Out() bool { return a.From == FromOut }

// The table keeps its own rules.
func TestTable(t *testing.T) {
	for i, f := range Functions(All) {
		prefix := map[Library]string{Driver: "cu", Runtime: "cuda"}[f.Library]
		rest, ok := strings.CutPrefix(strings.TrimPrefix(f.Name, "__"), prefix)
		if !ok || rest == "" || rest[0] < 'A' || rest[0] > 'Z' {
			t.Errorf("%s is no %s function", f.Name, f.Library)
		}
		if f.ID != ID(i) || &functions[i] != f || ByName(f.Name) != f {
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
		if (f.Fallback || f.Beside) && f.Library != Driver || f.Fallback && f.Beside {
			t.Errorf("%s is no driver function, or recorded in two ways", f.Name)
		}
		if f.Within && (f.Library != Runtime || f.Sets != All) {
			t.Errorf("%s is not one of the runtime's for all calls", f.Name)
		}
		if len(f.Args) > tracelog.MaxArgs {
			t.Errorf("%s has %d arguments", f.Name, len(f.Args))
		}
		checkArgs(t, f)
		checkNaming(t, f)
	}
}

// What GPU work comes from has API records, and what loses probes has nothing that these alone give.
func TestSources(t *testing.T) {
	for _, f := range Functions(All) {
		s := f.Sources()
		if f.GPUWork != (s.Record == ForWork) || s.Record != NoPurpose && f.Library != Driver {
			t.Errorf("%s has API records for %d", f.Name, s.Record)
		}
		if s.Left != BothProbes && f.Naming != NamesByHandle && (s.Record != ForWork || f.Allocating() || slices.ContainsFunc(f.Args, Arg.Out)) {
			t.Errorf("%s needs probes", f.Name)
		}
		if waits := TraitsOf(f.Name).Waits != NoWait; waits && s.End != AtReturns {
			t.Errorf("%s waits, and has a return probe", f.Name)
		}
	}
	if names := RecordedFor(ForStreams); !slices.Contains(names, "cuStreamCreate") || slices.Contains(names, "cudaStreamCreate") {
		t.Errorf("streams are made by %q", names)
	}
}

func TestSize(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Functions(All) {
		name := f.Base()
		if at := strings.LastIndex(name, "_v"); at > 0 {
			name = name[:at]
		}
		names[name] = true
	}
	if len(names) < 200 || len(functions) < len(names) {
		t.Errorf("%d functions with %d names", len(functions), len(names))
	}
	t.Logf("%d functions, %d without other spellings", len(functions), len(names))
}

// What the default set promises.
func TestDefaultSet(t *testing.T) {
	for _, f := range Functions(All) {
		category := f.Category == "launch" || f.Category == "copy" || f.Category == "memset" || f.Category == "wait" || f.Category == "ipc"
		if inRuntime := f.Library == Runtime && !strings.Contains("wait ipc", f.Category); category && !inRuntime && f.Sets&Default == 0 && f.Name != "cuMemGetHandleForAddressRange" {
			t.Errorf("%s is not in the default set", f.Name)
		}
		if f.Category == "occupancy" && f.Sets&Default != 0 || strings.Contains(f.Name, "Query") && f.Sets&Default != 0 {
			t.Errorf("%s is in the default set", f.Name)
		}
		if strings.Contains(f.Name, "Alloc") && f.Category == "memory" && f.Sets&Default == 0 && !strings.Contains(f.Name, "Allocation") {
			t.Errorf("%s is not in the default set", f.Name)
		}
	}
}

// The names, and the forms for per-thread default streams, are those that CUPTI has
// callbacks for. Runtime functions whose prototype has changed have a callback for
// each, under the same name.
func TestNamesAreCUDAs(t *testing.T) {
	known := knownCallbacks(t)
	for _, f := range Functions(All) {
		name := f.Name
		if f.Library == Runtime {
			name = strings.Replace(strings.Replace(name, "_v2", "", 1), "_v3", "", 1)
		}
		if !known[name] && !known[f.Name] {
			t.Errorf("CUPTI does not know %s", f.Name)
		}
		if f.Name == f.Base() && ByName(f.Name+"_ptsz") == nil && known[name+"_ptsz"] || f.Name == f.Base() && ByName(f.Name+"_ptds") == nil && known[name+"_ptds"] {
			t.Errorf("%s has a form for per-thread default streams", f.Name)
		}
	}
}

var callbackLine = regexp.MustCompile(`(?m)^N\(\d+, "(.*?)(_v\d{4,})?"\)$`)

// knownCallbacks reads the lists of what a real CUPTI answered.
func knownCallbacks(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for _, list := range []string{"../../testdata/sim/api/driver_names.def", "runtime_names.def"} {
		text := must.Get(os.ReadFile(list))(t)
		for _, m := range callbackLine.FindAllStringSubmatch(string(text), -1) {
			known[m[1]] = true
		}
	}
	if len(known) < 1000 {
		t.Fatalf("%d names", len(known))
	}
	return known
}

func checkArgs(t *testing.T, f *Function) {
	t.Helper()
	seen := map[string]bool{}
	last := -1
	for _, a := range f.Args {
		if a.Name == "" || strings.ContainsAny(a.Name, " :@*{}[]") || seen[a.Name] {
			t.Errorf("%s: argument %q", f.Name, a.Name)
		}
		seen[a.Name] = true
		if a.Index < last || a.Offset%a.Type.Bytes() != 0 || a.Offset != 0 && a.From == FromArgument {
			t.Errorf("%s: argument %s is at %d and %d", f.Name, a.Name, a.Index, a.Offset)
		}
		if bytes := structBytes(f, a.Index); (a.From == FromValue) != (bytes > 0) || bytes > 0 && a.Offset+a.Type.Bytes() > bytes {
			t.Errorf("%s: %s is at %d of a struct of %d bytes", f.Name, a.Name, a.Offset, bytes)
		}
		last = a.Index
	}
}

func structBytes(f *Function, index int) int {
	for _, s := range f.Structs {
		if s.Index == index {
			return s.Bytes
		}
	}
	return 0
}

// A function that names a handle has the arguments that its Naming speaks of.
func checkNaming(t *testing.T, f *Function) {
	t.Helper()
	if f.Naming == NamesNothing {
		return
	}
	ok := len(f.Args) >= 2 && f.Args[0].Out() && f.Args[0].Type == Handle && f.Args[1].Type == Handle
	if f.Naming == NamesByText {
		ok = ok && len(f.Args) == 3 && f.Args[2].Name == "name" && f.Args[2].Type == Ptr
	}
	if !ok || f.Library != Driver || f.Fallback {
		t.Errorf("%s names a handle, with arguments %s", f.Name, ArgSpec(f))
	}
}

func TestMarked(t *testing.T) {
	marked := map[string]string{}
	for _, f := range Functions(All) {
		if f.Naming != NamesNothing || f.Range != NoRange {
			marked[f.Name] = fmt.Sprint(f.Naming, f.Range)
		}
	}
	want := map[string]string{
		"cuModuleGetFunction": "1 0", "cuLibraryGetKernel": "1 0", "cuKernelGetFunction": "2 0",
		"cuProfilerStart": "0 1", "cudaProfilerStart": "0 1", "cuProfilerStop": "0 2", "cudaProfilerStop": "0 2",
	}
	if diff := cmp.Diff(want, marked); diff != "" {
		t.Error(diff)
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
		"cudaLaunchKernel":      "function:ptr gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:size stream:handle",
		"cudaEventElapsedTime":  "milliseconds:f32 start:handle end:handle",
		"cudaMalloc3D":          "devPtr:ptr pitch:size width:size height:size depth:size",
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
	memset3D := ByName("cudaMemset3DAsync")
	if diff := cmp.Diff([]Struct{{0, 32}, {2, 24}}, memset3D.Structs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Arg{{"pitch", Size, 0, FromValue, 8}, {"value", I32, 1, FromArgument, 0}}, memset3D.Args[1:3]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Arg{"pitch", Size, 0, FromOut, 8}, ByName("cudaMalloc3D").Args[1]); diff != "" {
		t.Error(diff)
	}
	if out := ByName("cudaMalloc").Args[0]; !out.Out() || out.Index != 0 {
		t.Errorf("%+v", out)
	}
}

func TestParseArgsRefuses(t *testing.T) {
	for _, text := range []string{
		"a", "a:", "a:word", "{a@0:u32", "a@0:u32}", "}", "{a:u32}", "{a@x:u32}", "{a@-4:u32}", "{a@0:u32 {b@4:u32}}", "[", "[]", "[x a@0:u32]",
		"[-4]", "[8 a@0:u32}", "{a@0:u32]", "[8 *a@0:u32]", "[8 a:u32]", "[8", "a@0:u32]", "{[8]}", "{-", "{*a:ptr}",
	} {
		if args, _, err := parseArgs(text); err == nil {
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
	if !in("cudaEventRecord", Default) || !in("cudaEventCreate", Default) || in("cudaEventQuery", Default) || in("cudaLaunchKernel", Default) || !in("cuMemCreate", Default) {
		t.Error("the default set has calls that are frequent, or lacks what makes things")
	}
	if ByName("cudaNothing") != nil {
		t.Error("there is a function that is not in the table")
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

// What a driver call inside a runtime function does for it.
func TestCarriesOut(t *testing.T) {
	for _, c := range []struct {
		driver, runtime string
		want            bool
	}{
		{"cuLaunchKernel", "cudaLaunchKernel", true},
		{"cuLaunchKernelEx_ptsz", "cudaLaunchKernelExC_ptsz", true},
		{"cuMemcpyHtoD_v2_ptsz", "cudaMemcpy", true}, // a callback's spelling
		{"cuMemsetD8_v2", "cudaMalloc3D", true},
		{"cuGraphInstantiateWithFlags", "cudaGraphInstantiate", true},
		{"cuLaunchKernel", "ofAnotherRuntime", true},
		{"cuMemAlloc_v2", "cudaMalloc", true},
		{"cuMemFreeAsync_ptsz", "cudaFreeAsync_ptsz", true},
		{"cuLaunchHostFunc", "cudaLaunchHostFunc", true},
		{"cuCtxSynchronize", "cudaDeviceSynchronize", true},
		{"cuMemAlloc_v2", "cudaLaunchKernel", false},
		{"cuMemAlloc_v2", "ofAnotherRuntime", false},
		{"cuLibraryLoadData", "cudaLaunchKernel", false},
		{"cuLibraryGetKernel", "cudaFuncGetAttributes", false}, // several a call
		{"cuDeviceGetAttribute", "cudaGetDeviceProperties", false},
		{"cuNew", "cudaLaunchKernel", false},
		{"cudaLaunchKernel", "cudaLaunchKernel", false},
	} {
		if got := CarriesOut(c.driver, c.runtime); got != c.want {
			t.Errorf("%s carries out %s: %t", c.driver, c.runtime, got)
		}
	}
}

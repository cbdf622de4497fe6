package cudaapi

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// allocatesNothing are the functions of the driver for memory whose calls fill in an address, a handle or another value, and
// allocate nothing.
var allocatesNothing = strings.Fields(`
	cuMemHostGetDevicePointer_v2 cuMemHostGetFlags cuMemGetInfo_v2 cuMemGetAddressRange_v2
	cuMipmappedArrayGetLevel cuMemPoolGetAccess cuDeviceGetDefaultMemPool cuDeviceGetMemPool
	cuMemAddressReserve cuMemGetAccess cuMemGetAllocationGranularity cuMemGetAllocationPropertiesFromHandle
	cuMulticastCreate cuMulticastGetGranularity`)

// TestMemoryTable holds the table of memory against the functions: each row is one of the driver's, which is recorded whether there
// is a runtime or not, and has the arguments that the row names. Each function for memory whose calls fill something in is in it.
func TestMemoryTable(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, name := range allocatesNothing {
		known[name] = true
		if f := ByName(name); f == nil || memoryOf[name] != nil {
			t.Errorf("%s allocates nothing, and is in the table or no function", name)
		}
	}
	for i := range memoryRows {
		r := &memoryRows[i]
		f := ByName(r.name)
		switch {
		case known[r.name]:
			t.Errorf("%s is there twice", r.name)
		case f == nil:
			t.Errorf("%s is no function", r.name)
			continue
		case r.does <= lastAllocating && (f.Library != Driver || f.Fallback || f.Sets&Default == 0):
			t.Errorf("%s is not recorded always", r.name)
		case ReadMemory(r.name, ArgSpec(f)) == nil:
			t.Errorf("%s lacks arguments of its row: %s", r.name, ArgSpec(f))
		case (r.does == Allocates || r.does == Creates) != (r.bytes != "" && r.does < Maps), (r.does == Maps || r.does == Unmaps) && r.bytes != "bytes":
			t.Errorf("%s has bytes %q", r.name, r.bytes)
		}
		known[r.name] = true
		made := slices.Contains([]MemoryOp{Allocates, Creates, Retains, MakesPool, MakesContext, FindsContext}, r.does) && r.kind != RegisteredKind
		if at := slices.IndexFunc(f.Args, func(a Arg) bool { return a.Name == r.at }); made && (at < 0 || f.Args[at].From != FromOut) {
			t.Errorf("%s does not fill in %q", r.name, r.at)
		}
	}
	for _, f := range Functions(All) {
		fills := slices.ContainsFunc(f.Args, func(a Arg) bool { return a.From == FromOut })
		if f.Library == Driver && f.Category == "memory" && fills && !known[f.Base()] {
			t.Errorf("%s is not in the table of memory, nor among those that allocate nothing", f.Name)
		}
		if f.Allocating() != (memoryOf[f.Base()] != nil && memoryOf[f.Base()].does <= lastAllocating) {
			t.Errorf("%s: %t", f.Name, f.Allocating())
		}
		if freed := strings.Contains(f.Name, "Free") || strings.Contains(f.Name, "Destroy"); freed && f.Library == Driver && f.Category == "memory" &&
			!f.Allocating() && f.Name != "cuMemPoolDestroy" && f.Name != "cuMemAddressFree" {
			t.Errorf("%s frees nothing", f.Name)
		}
	}
}

// TestReadMemory reads what calls do from their arguments.
func TestReadMemory(t *testing.T) {
	t.Parallel()
	none := MemoryCall{}
	for _, c := range []struct {
		name string
		args []uint64
		ret  int32
		want MemoryCall // Kind 0: nothing
	}{
		{"cuMemAlloc_v2", []uint64{0x1000, 64}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: 64}},
		{"cuMemAlloc_v2", []uint64{0x1000, 64}, 2, none},
		{"cuMemAlloc_v2", []uint64{0, 64}, 0, none},
		{"cuMemAlloc_v2", []uint64{0x1000}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000}},
		{"cuMemAlloc_v2", nil, 0, none},
		{"cuMemAlloc_v2", []uint64{0x1000, math.MaxUint64}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: math.MaxInt64}},
		{"cuMemAllocPitch_v2", []uint64{0x1000, 512, 100, 3, 4}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: 1536}},
		{"cuMemAllocPitch_v2", []uint64{0x1000, 1 << 40, 100, 1 << 40, 4}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: math.MaxInt64}},
		{"cuMemAllocManaged", []uint64{0x1000, 64, 1}, 0, MemoryCall{Does: Allocates, Kind: ManagedKind, Address: 0x1000, Bytes: 64}},
		{"cuMemHostAlloc", []uint64{0x1000, 64, 1}, 0, MemoryCall{Does: Allocates, Kind: PinnedKind, Address: 0x1000, Bytes: 64}},
		{"cuMemHostRegister_v2", []uint64{0x1000, 64, 1}, 0, MemoryCall{Does: Allocates, Kind: RegisteredKind, Address: 0x1000, Bytes: 64}},
		{"cuMemAllocAsync_ptsz", []uint64{0x1000, 64, 7}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: 64, Stream: 7, Ordered: true}},
		{"cuMemAllocFromPoolAsync", []uint64{0x1000, 64, 8, 7}, 0, MemoryCall{Does: Allocates, Kind: DeviceKind, Address: 0x1000, Bytes: 64, Pool: 8, Stream: 7, Ordered: true}},
		{"cuMemFree_v2", []uint64{0x1000}, 0, MemoryCall{Does: Frees, Kind: DeviceKind, Address: 0x1000}},
		{"cuMemFree_v2", []uint64{0}, 0, none},
		{"cuMemFreeAsync", []uint64{0x1000, 7}, 0, MemoryCall{Does: Frees, Kind: DeviceKind, Address: 0x1000, Stream: 7, Ordered: true}},
		{"cuArrayCreate_v2", []uint64{9, 100, 0, 0x20, 2}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: 800}},
		{"cuArrayCreate_v2", []uint64{9, 100, 8, 0xb0, 3}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9}}, // NV12
		{"cuArray3DCreate_v2", []uint64{9, 10, 20, 3, 0x10, 4, 0}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: 4800}},
		{"cuArray3DCreate_v2", []uint64{9, 10, 20, 3, 0x10, 4, 0x40}, 0, none}, // sparse
		{"cuArray3DCreate_v2", []uint64{9, 1 << 62, 1 << 62, 3, 0x10, 4, 0}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: math.MaxInt64}},
		{"cuMipmappedArrayCreate", []uint64{9, 8, 4, 2, 0x01, 1, 0, 4}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: 64 + 8 + 2 + 1}},
		{"cuMipmappedArrayCreate", []uint64{9, 8, 4, 2, 0x01, 1, 1, 2}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: 64 + 16}}, // two layers
		{"cuMipmappedArrayCreate", []uint64{9, 8, 4, 2, 0x01, 1, 1, math.MaxUint64}, 0, MemoryCall{Does: Allocates, Kind: ArrayKind, Address: 9, Bytes: 64 + 16 + 4 + 61*2}},
		{"cuMemCreate", []uint64{5, 64, 1, 0, 1, 3, 0}, 0, MemoryCall{Does: Creates, Kind: PhysicalKind, Address: 5, Bytes: 64, Device: 3}},
		{"cuMemCreate", []uint64{5, 64, 1, 0, 3, 1, 0}, 0, MemoryCall{Does: Creates, Kind: PhysicalHostKind, Address: 5, Bytes: 64}},
		{"cuMemRetainAllocationHandle", []uint64{5, 0x1000}, 0, MemoryCall{Does: Retains, Kind: PhysicalKind, Address: 5}},
		{"cuMemRelease", []uint64{5}, 0, MemoryCall{Does: Releases, Kind: PhysicalKind, Address: 5}},
		{"cuMemMap", []uint64{0x1000, 64, 0, 5, 0}, 0, MemoryCall{Does: Maps, Kind: PhysicalKind, Address: 0x1000, Bytes: 64, Of: 5}},
		{"cuMemUnmap", []uint64{0x1000, 64}, 0, MemoryCall{Does: Unmaps, Kind: PhysicalKind, Address: 0x1000, Bytes: 64}},
		{"cuMemPoolCreate", []uint64{8, 1, 0, 1, 2}, 0, MemoryCall{Does: MakesPool, Kind: DeviceKind, Address: 8, Device: 2}},
		{"cuMemPoolCreate", []uint64{8, 1, 0, 2, 0}, 0, MemoryCall{Does: MakesPool, Kind: PinnedKind, Address: 8}},
		{"cuMemPoolCreate", []uint64{8, 2, 0, 1, 0}, 0, MemoryCall{Does: MakesPool, Kind: ManagedKind, Address: 8}},
		{"cuStreamBeginCapture_v2", []uint64{7, 0}, 0, MemoryCall{Does: BeginsCapture, Stream: 7, Ordered: true}},
		{"cuStreamBeginCapture_v2", []uint64{7, 0}, 1, none},
		{"cuStreamEndCapture", []uint64{7, 0}, 901, MemoryCall{Does: EndsCapture, Stream: 7, Ordered: true}},
		{"cuStreamEndCapture", []uint64{7, 0}, 908, none},
		{"cuCtxCreate_v2", []uint64{6, 0, 1}, 0, MemoryCall{Does: MakesContext, Address: 6, Device: 1}},
		{"cuCtxSetCurrent", []uint64{0}, 0, MemoryCall{Does: SelectsContext}},
		{"cuDevicePrimaryCtxReset_v2", []uint64{1}, 0, MemoryCall{Does: ResetsDevice, Device: 1}},
		{"cudaSetDevice", []uint64{1}, 0, MemoryCall{Does: SelectsDevice, Device: 1}},
	} {
		f := ByName(c.name)
		got, ok := ReadMemory(c.name, ArgSpec(f)).Read(c.args, c.ret)
		if !ok {
			got = none
		}
		if want := c.want; want != none && want.Device == 0 {
			c.want.Device = NoDevice
		}
		goldentest.Same(t, c.want, got, "%s %d, result %d", c.name, c.args, c.ret)
	}
	for name, spec := range map[string]string{"cudaMalloc": "devPtr:ptr bytes:size", "cuMemAlloc_v2": "bytes:size", "cuMemFree_v2": "", "cuMemMap": "devPtr:ptr bytes:size"} {
		if ReadMemory(name, spec) != nil {
			t.Errorf("%s with arguments %q is read", name, spec)
		}
	}
}

// TestWithoutMemory leaves functions out.
func TestWithoutMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set     string
		without []string
		want    []string
	}{
		{"default", nil, nil},
		{"all", nil, nil},
		{"default", []string{"cuMemFreeAsync", "cuCtx*", "cudaMalloc*"}, []string{"cuMemFreeAsync"}},
		{"default", []string{"cuMem[A-GI-Z]*", "cuMemH*", "cuArray*", "cuMip*"}, []string{"cuMemAlloc_v2", "cuMemAllocPitch_v2"}},
		{"minimal", nil, []string{"cuMemAlloc_v2", "cuMemAllocPitch_v2"}},
	} {
		chosen := must.Get(Select(c.set, nil, c.without))(t)
		got := WithoutMemory(chosen)
		if len(c.want) < 2 && !slices.Equal(got, c.want) || len(c.want) == 2 && (len(got) != 23 || !slices.Equal(got[:2], c.want)) {
			t.Errorf("%s without %q lacks %q", c.set, c.without, got)
		}
	}
}

// CUPTI's callbacks show arguments as a struct has them: each function that does something to memory is found there.
func TestShown(t *testing.T) {
	t.Parallel()
	for _, f := range Functions(All) {
		places := f.Shown()
		if f.Library == Driver && f.Allocating() && len(places) != len(f.Args) {
			t.Errorf("%s: %d places for %d arguments", f.Name, len(places), len(f.Args))
		}
		for _, p := range places {
			if p.At+p.Bytes > 255 || p.Offset > 255 || p.At%p.Bytes != 0 {
				t.Errorf("%s: %+v", f.Name, p)
			}
		}
	}
	for name, want := range map[string][]Place{
		"cuMemAllocPitch_v2":   {{0, 8, true, 0}, {8, 8, true, 0}, {16, 8, false, 0}, {24, 8, false, 0}, {32, 4, false, 0}},
		"cuMemFreeAsync_ptsz":  {{0, 8, false, 0}, {8, 8, false, 0}},
		"cuArrayCreate_v2":     {{0, 8, true, 0}, {8, 8, true, 0}, {8, 8, true, 8}, {8, 4, true, 16}, {8, 4, true, 20}},
		"cuMemHostRegister_v2": {{0, 8, false, 0}, {8, 8, false, 0}, {16, 4, false, 0}},
		"cudaMalloc":           nil,
		"cuLaunchKernel":       nil,
	} {
		if got := ByName(name).Shown(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

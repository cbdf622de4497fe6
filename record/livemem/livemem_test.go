package livemem

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// A step is a call of a function with its recorded arguments, on thread 1, or as "cuMemFree_v2/2" on another one. It takes
// from 10 n to 10 n + 5, for the nth step.
type step struct {
	function string
	args     []uint64
}

func call(function string, args ...uint64) step { return step{function, args} }

// follow follows steps, and returns the changes in words.
func follow(t *testing.T, p *ProcessMemory, steps []step) {
	t.Helper()
	for n, s := range steps {
		name, tid, _ := strings.Cut(s.function, "/")
		r := cudaapi.ReadMemory(name, cudaapi.ArgSpec(cudaapi.ByName(name)))
		if r == nil {
			t.Fatalf("%s does nothing to memory", name)
		}
		if c, ok := r.Read(s.args, 0); ok {
			start := uint64(10 * (n + 1))
			p.Call(uint32(len(tid)), &c, At(&c, start, start+5))
		}
	}
}

// words describes a change.
func words(c *Change) string {
	what := "allocates"
	if c.Released {
		what = "frees"
	}
	text := fmt.Sprintf("%d %s %#x: %d bytes, %s, device %d", c.Time, what, c.Address, c.Bytes, cudaapi.MemoryKindName(c.Kind), c.Device)
	if c.Replaces == c.Released {
		return text
	}
	if c.Released {
		return text + ", not known"
	}
	return text + ", replaces"
}

const (
	onDevice  = 1
	allocType = 1
)

func TestChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps []step
		want  []string
	}{
		"of a thread, freed by another": {
			[]step{call("cuMemAlloc_v2", 0x1000, 64), call("cuMemFree_v2/x", 0x1000)},
			[]string{"15 allocates 0x1000: 64 bytes, Device, device 0", "20 frees 0x1000: 64 bytes, Device, device 0"},
		},
		"allocated by each function, freed by another one": {
			[]step{call("cuMemAlloc_v2", 0x1000, 64), call("cuMemFreeAsync", 0x1000, 7), call("cuMemAllocAsync", 0x1000, 32, 7), call("cuMemFree_v2", 0x1000),
				call("cuMemAllocManaged", 0x2000, 16, 1), call("cuMemFree_v2", 0x2000)},
			[]string{"15 allocates 0x1000: 64 bytes, Device, device 0", "20 frees 0x1000: 64 bytes, Device, device 0",
				"35 allocates 0x1000: 32 bytes, Device, device 0", "40 frees 0x1000: 32 bytes, Device, device 0",
				"55 allocates 0x2000: 16 bytes, Managed, device 0", "60 frees 0x2000: 16 bytes, Managed, device 0"},
		},
		"a free that is missing, and one of what is not known": {
			[]step{call("cuMemAlloc_v2", 0x1000, 64), call("cuMemAlloc_v2", 0x1000, 32), call("cuMemFree_v2", 0x3000)},
			[]string{"15 allocates 0x1000: 64 bytes, Device, device 0", "25 allocates 0x1000: 32 bytes, Device, device 0, replaces",
				"30 frees 0x3000: 0 bytes, Device, device 0, not known"},
		},
		"one number for an address, registered memory, an array and physical memory": {
			[]step{call("cuMemHostAlloc", 5, 1, 0), call("cuMemHostRegister_v2", 5, 2, 0), call("cuArrayCreate_v2", 5, 4, 0, 1, 1), call("cuMemCreate", 5, 8, allocType, 0, onDevice, 0, 0),
				call("cuArrayDestroy", 5), call("cuMemRelease", 5), call("cuMemHostUnregister", 5), call("cuMemFreeHost", 5)},
			[]string{"15 allocates 0x5: 1 bytes, Pinned, device 0", "25 allocates 0x5: 2 bytes, Registered, device 0", "35 allocates 0x5: 4 bytes, Array, device 0",
				"45 allocates 0x5: 8 bytes, Physical, device 0", "50 frees 0x5: 4 bytes, Array, device 0", "60 frees 0x5: 8 bytes, Physical, device 0",
				"70 frees 0x5: 2 bytes, Registered, device 0", "80 frees 0x5: 1 bytes, Pinned, device 0"},
		},
		"physical memory lives while it is held or mapped": {
			[]step{call("cuMemCreate", 5, 8, allocType, 0, onDevice, 3, 0), call("cuMemMap", 0x1000, 8, 0, 5, 0), call("cuMemMap", 0x1008, 8, 0, 5, 0),
				call("cuMemRetainAllocationHandle", 5, 0x1000), call("cuMemRelease", 5), call("cuMemRelease", 5), call("cuMemUnmap", 0x1000, 16), call("cuMemRelease", 5)},
			[]string{"15 allocates 0x5: 8 bytes, Physical, device 3", "70 frees 0x5: 8 bytes, Physical, device 3"},
		},
		"physical memory of another process": {
			[]step{call("cuMemMap", 0x1000, 8, 0, 5, 0), call("cuMemUnmap", 0x1000, 8), call("cuMemRelease", 5)}, nil,
		},
		"a mapping in the place of another": {
			[]step{call("cuMemCreate", 5, 8, allocType, 0, onDevice, 0, 0), call("cuMemMap", 0x1000, 8, 0, 5, 0), call("cuMemRelease", 5), call("cuMemMap", 0x1000, 8, 0, 6, 0)},
			[]string{"15 allocates 0x5: 8 bytes, Physical, device 0", "45 frees 0x5: 8 bytes, Physical, device 0"},
		},
		"pools say where and what": {
			[]step{call("cuMemPoolCreate", 8, 1, 0, onDevice, 2), call("cuMemAllocFromPoolAsync", 0x1000, 64, 8, 7), call("cuMemPoolCreate", 9, 1, 0, 2, 0),
				call("cuMemAllocFromPoolAsync", 0x2000, 64, 9, 7), call("cuMemAllocFromPoolAsync", 0x3000, 64, 10, 7)},
			[]string{"25 allocates 0x1000: 64 bytes, Device, device 2", "45 allocates 0x2000: 64 bytes, Pinned, device 0", "55 allocates 0x3000: 64 bytes, Device, device 0"},
		},
		"nodes of a graph are no memory": {
			[]step{call("cuStreamBeginCapture_v2", 7, 0), call("cuMemAllocAsync", 0x1000, 64, 7), call("cuMemAllocAsync", 0x2000, 32, 6), call("cuMemFreeAsync", 0x1000, 7),
				call("cuStreamEndCapture", 7, 1), call("cuMemFreeAsync", 0x1000, 7), call("cuMemAlloc_v2", 0x1000, 16), call("cuMemFree_v2", 0x1000)},
			[]string{"35 allocates 0x2000: 32 bytes, Device, device 0", "75 allocates 0x1000: 16 bytes, Device, device 0", "80 frees 0x1000: 16 bytes, Device, device 0"},
		},
		"a thread's default stream is captured": {
			[]step{call("cuStreamBeginCapture_v2_ptsz", 0, 0), call("cuMemAllocAsync_ptsz", 0x1000, 64, 0), call("cuMemAllocAsync_ptsz/x", 0x2000, 32, 0)},
			[]string{"35 allocates 0x2000: 32 bytes, Device, device 0"},
		},
		"contexts": {
			[]step{call("cuCtxCreate_v2", 0xa, 0, 1), call("cuMemAlloc_v2", 0x1000, 1), call("cuMemAlloc_v2/x", 0x2000, 2), call("cuMemAllocAsync", 0x3000, 4, 0),
				call("cuCtxCreate_v2", 0xb, 0, 2), call("cuMemAllocHost_v2", 0x4000, 8), call("cuCtxPopCurrent_v2", 0xb), call("cuMemAlloc_v2", 0x5000, 16),
				call("cuCtxDestroy_v2", 0xa), call("cuCtxDestroy_v2", 0xb)},
			[]string{"25 allocates 0x1000: 1 bytes, Device, device 1", "35 allocates 0x2000: 2 bytes, Device, device 1", "45 allocates 0x3000: 4 bytes, Device, device 1",
				"65 allocates 0x4000: 8 bytes, Pinned, device 2", "85 allocates 0x5000: 16 bytes, Device, device 1",
				"90 frees 0x1000: 1 bytes, Device, device 1", "90 frees 0x2000: 2 bytes, Device, device 1", "90 frees 0x5000: 16 bytes, Device, device 1",
				"100 frees 0x4000: 8 bytes, Pinned, device 2"},
		},
		"devices of the runtime": {
			[]step{call("cuDevicePrimaryCtxRetain", 0xa, 0), call("cuMemAlloc_v2", 0x1000, 1), call("cuDevicePrimaryCtxRetain", 0xb, 1), call("cudaSetDevice", 1),
				call("cuMemAlloc_v2", 0x2000, 2), call("cuMemAlloc_v2/x", 0x3000, 4), call("cuCtxSetCurrent", 0xa), call("cuMemAllocAsync", 0x4000, 8, 0),
				call("cuCtxPushCurrent_v2", 0xb), call("cuMemCreate", 5, 16, allocType, 0, onDevice, 1, 0), call("cudaDeviceReset"), call("cuCtxSetCurrent", 0), call("cuDevicePrimaryCtxReset_v2", 0)},
			[]string{"25 allocates 0x1000: 1 bytes, Device, device 0", "55 allocates 0x2000: 2 bytes, Device, device 1", "65 allocates 0x3000: 4 bytes, Device, device 0",
				"85 allocates 0x4000: 8 bytes, Device, device 0", "105 allocates 0x5: 16 bytes, Physical, device 1",
				"110 frees 0x2000: 2 bytes, Device, device 1",
				"130 frees 0x1000: 1 bytes, Device, device 0", "130 frees 0x3000: 4 bytes, Device, device 0", "130 frees 0x4000: 8 bytes, Device, device 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			room := &Room{Most: 100}
			p := New(room, func(c *Change) { got = append(got, words(c)) })
			follow(t, p, c.steps)
			goldentest.Same(t, c.want, got, "result")
			check(t, p)
			if p.End(); room.used != 0 || room.bytes != 0 {
				t.Errorf("%+v after the end", room)
			}
		})
	}
}

// check holds what a process knows against itself.
func check(t *testing.T, p *ProcessMemory) {
	t.Helper()
	used, bytes := 0, uint64(0)
	for in, blocks := range p.blocks {
		for id, b := range blocks {
			used++
			bytes += b.Bytes
			if r, known := p.physical[id]; space(in) == handles && (!known || r.held <= 0 && r.mapped <= 0) {
				t.Errorf("physical memory %#x is alive with %+v", id, r)
			}
		}
	}
	if used != p.room.used || bytes != p.room.bytes || used > p.room.Most || bytes > math.MaxInt64 {
		t.Errorf("%d blocks with %d bytes are alive, the room says %+v", used, bytes, *p.room)
	}
	for h := range p.physical {
		if _, known := p.blocks[handles][h]; !known {
			t.Errorf("handle %#x without memory", h)
		}
	}
}

// FuzzCalls makes any calls in any order: what is alive is what was allocated and not freed, within the bounds. A clone goes
// on as its original does.
func FuzzCalls(f *testing.F) {
	var readers []*cudaapi.MemoryReader
	for _, fn := range cudaapi.Functions(cudaapi.All) {
		if r := cudaapi.ReadMemory(fn.Name, cudaapi.ArgSpec(fn)); r != nil {
			readers = append(readers, r)
		}
	}
	f.Add([]byte("some calls, each of eight bytes: a function, a thread, arguments"))
	f.Add(slices.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8}, 50))
	f.Fuzz(func(t *testing.T, data []byte) {
		var alive, cloned uint64
		counting := func(sum *uint64) func(*Change) {
			return func(c *Change) {
				if c.Replaces {
					*sum -= c.Replaced.Bytes
				}
				if c.Kept {
					*sum += c.Bytes
				}
			}
		}
		p := New(&Room{Most: 8}, counting(&alive))
		var clone *ProcessMemory
		for at := uint64(0); len(data) >= 8; data, at = data[8:], at+1 {
			args := make([]uint64, 8)
			for i := range args {
				args[i] = uint64(data[2+i%6] % 8)
			}
			if data[7] == 255 {
				args[1] = math.MaxUint64
			}
			c, ok := readers[int(data[0])%len(readers)].Read(args, 0)
			if !ok {
				continue
			}
			tid := uint32(data[1] % 3)
			p.Call(tid, &c, at)
			if clone != nil {
				clone.Call(tid, &c, at)
			} else if at == 20 {
				clone, cloned = p.Clone(&Room{Most: 8}, counting(&cloned)), alive
			}
			check(t, p)
		}
		if alive != p.room.bytes {
			t.Errorf("changes say that %d bytes are alive, %d are", alive, p.room.bytes)
		}
		if clone != nil && (cloned != alive || *clone.room != (Room{Most: 8, used: p.room.used, bytes: p.room.bytes, Dropped: clone.room.Dropped})) {
			t.Errorf("the clone has %d bytes, the process %d", cloned, alive)
		}
	})
}

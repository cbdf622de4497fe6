package join

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// poolRecord is a record of a local pool.
func poolRecord(operation uint32, address, size, used uint64) *tracelog.MemoryPool {
	return &tracelog.MemoryPool{Operation: operation, PoolKind: cudaapi.LocalPool, Address: address, Size: size, Used: used}
}

// fromPool is an allocation or a release from a pool.
func fromPool(operation uint32, address, bytes, pool, size, used uint64) *tracelog.Memory {
	return &tracelog.Memory{Operation: operation, MemoryKind: device, Address: address, Bytes: bytes, Pool: pool, PoolSize: size, PoolUsed: used}
}

// TestPools sums the pools of a process on each GPU. The pools of another process, and imported ones, do
// not count; memory of no known pool changes nothing; a destroyed pool and an ended process have none.
func TestPools(t *testing.T) {
	t.Parallel()
	const created, destroyed, trimmed = 1, 2, 3
	r := newMemoryRun()
	a, b := r.process("a"), r.process("b")
	a.addPool(poolRecord(created, 1, 1000, 0), 10, 0)
	a.addPool(poolRecord(created, 2, 500, 0), 20, 0)
	a.addRecord(fromPool(allocates, 0x1, 100, 1, 1000, 100), 30)
	a.addRecord(fromPool(allocates, 0x2, 2000, 1, 3000, 2100), 40) // the pool grows
	b.addRecord(fromPool(allocates, 0x1, 70, 1, 700, 70), 45)
	onOther := fromPool(allocates, 0x3, 9, 1, 90, 9)
	onOther.Device = 1
	a.addRecord(onOther, 46)                              // of the same address, on another GPU
	a.addRecord(fromPool(allocates, 0x4, 5, 1, 0, 0), 47) // CUPTI does not tell
	a.addPool(&tracelog.MemoryPool{Operation: created, PoolKind: 2, Address: 3, Size: 12345}, 48, 0)
	a.addRecord(fromPool(releases, 0x2, 2000, 1, 3000, 100), 50)
	a.addPool(poolRecord(trimmed, 1, 1000, 100), 60, 0)
	a.addPool(poolRecord(destroyed, 2, 500, 0), 70, 0)
	a.endsAt(80)
	r.finish()
	want := values{
		"a memory pools, reserved (GPU 0)": " 10=1000 20=1500 40=3500 60=1500 70=1000 80=0",
		"a memory pools, used (GPU 0)":     " 30=100 40=2100 50=100 80=0",
		"a memory pools, reserved (GPU 1)": " 46=90 80=0",
		"a memory pools, used (GPU 1)":     " 46=9 80=0",
		"b memory pools, reserved (GPU 0)": " 45=700",
		"b memory pools, used (GPU 0)":     " 45=70",
		"a device memory (GPU 0)":          " 30=100 40=2100 47=2105 50=105 80=0",
		"a device memory (GPU 1)":          " 46=9 80=0",
		"b device memory (GPU 0)":          " 45=70",
	}
	if diff := cmp.Diff(want, r.values()); diff != "" {
		t.Error(diff)
	}
	if r.Peak != 2175 {
		t.Errorf("a peak of %d: pools count with their allocations", r.Peak)
	}
}

// TestPoolsBounded keeps a bounded number of pools, whatever their sizes.
func TestPoolsBounded(t *testing.T) {
	t.Parallel()
	r := newMemoryRun()
	a := r.process("a")
	for i := range uint64(MaxMemoryPools + 3) {
		a.addPool(poolRecord(1, 1+i, 1, 0), i, 0)
	}
	a.addPool(poolRecord(1, 1, math.MaxUint64, math.MaxUint64), MaxMemoryPools+9, 0)
	a.endsAt(MaxMemoryPools + 10)
	r.finish()
	if r.DroppedPools != 3 || r.pools != 0 {
		t.Errorf("%d pools dropped, %d stay; want 3 and 0", r.DroppedPools, r.pools)
	}
	if got, want := r.values()["a memory pools, reserved (GPU 0)"], " 65535=65536 65545=9223372036854775807 65546=0"; !strings.HasSuffix(got, want) {
		t.Errorf("the sum ends with%s, want%s", got[max(0, len(got)-60):], want)
	}
}

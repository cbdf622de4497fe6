package occupancy

import (
	"fmt"
	"math"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// device is a GPU of which nothing but its compute capability is known, written as 90 for 9.0.
func device(t *testing.T, version, multiprocessors uint32) Device {
	t.Helper()
	d, ok := Of(&timeline.GPU{Major: version / 10, Minor: version % 10, Multiprocessors: multiprocessors})
	if !ok {
		t.Fatalf("compute capability %d is not known", version)
	}
	return d
}

func shape(threads, registers, shared uint32) *timeline.KernelShape {
	return &timeline.KernelShape{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{threads, 1, 1}, Registers: registers, DynamicShared: shared}
}

// Values without a remark follow from the CUDA C++ Programming Guide's limits and allocation units
// by hand. The others are what Nsight Compute showed, as people published it.
func TestOccupancy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version, threads, registers, shared uint32
		want                                string
	}{
		{50, 256, 32, 0, "8 blocks, 64 warps, 100.0 %: warps, registers; 8 8 2147483647 32"},
		{52, 128, 32, 8 << 10, "12 blocks, 48 warps, 75.0 %: shared memory; 16 16 12 32"},
		{53, 1024, 40, 0, "none"}, // a block gets half of the registers
		{53, 512, 40, 0, "3 blocks, 48 warps, 75.0 %: registers; 4 3 2147483647 32"},
		{60, 64, 40, 0, "25 blocks, 50 warps, 78.1 %: registers; 32 25 2147483647 32"}, // two parts
		{61, 64, 40, 0, "24 blocks, 48 warps, 75.0 %: registers; 32 24 2147483647 32"}, // four parts
		{61, 32, 16, 1, "32 blocks, 32 warps, 50.0 %: blocks; 64 128 384 32"},
		{62, 256, 128, 0, "2 blocks, 16 warps, 25.0 %: registers; 8 2 2147483647 32"},
		{70, 256, 255, 0, "1 blocks, 8 warps, 12.5 %: registers; 8 1 2147483647 32"},
		{70, 256, 32, 96 << 10, "1 blocks, 8 warps, 12.5 %: shared memory; 8 8 1 32"},
		{70, 256, 32, 96<<10 + 1, "none"},
		{72, 96, 32, 0, "21 blocks, 63 warps, 98.4 %: warps, registers; 21 21 2147483647 32"},
		{75, 256, 16, 0, "4 blocks, 32 warps, 100.0 %: warps; 4 16 2147483647 16"}, // Nsight: 4 by warps, 16 by registers, 16 by blocks, 100 %
		{75, 32, 16, 0, "16 blocks, 16 warps, 50.0 %: blocks; 32 128 2147483647 16"},
		{80, 512, 46, 0, "2 blocks, 32 warps, 50.0 %: registers; 4 2 164 32"}, // Nsight on an A800: 2 by registers, 4 by warps, 32 by blocks, 50 %
		{80, 128, 32, 0, "16 blocks, 64 warps, 100.0 %: warps, registers; 16 16 164 32"},
		{80, 256, 32, 163 << 10, "1 blocks, 8 warps, 12.5 %: shared memory; 8 8 1 32"},
		{86, 256, 32, 2 << 10, "6 blocks, 48 warps, 100.0 %: warps; 6 8 33 16"},
		{86, 1024, 32, 0, "1 blocks, 32 warps, 66.7 %: warps; 1 2 100 16"},
		{87, 64, 32, 0, "16 blocks, 32 warps, 66.7 %: blocks; 24 32 164 16"},
		{89, 1024, 56, 0, "1 blocks, 32 warps, 66.7 %: warps, registers; 1 1 100 24"}, // Nsight on an RTX 4060: 1 by registers, 1 by warps, 24 by blocks, 66.7 %
		{90, 128, 255, 0, "2 blocks, 8 warps, 12.5 %: registers; 16 2 228 32"},        // Nsight: 2 by registers, 12.5 %
		{90, 384, 168, 227 << 10, "1 blocks, 12 warps, 18.8 %: registers, shared memory; 5 1 1 32"},
		{90, 128, 32, 12 << 10, "16 blocks, 64 warps, 100.0 %: warps, registers; 16 16 17 32"},
		{90, 32, 16, 12 << 10, "17 blocks, 17 warps, 26.6 %: shared memory; 64 128 17 32"},
		{100, 128, 255, 98 << 10, "2 blocks, 8 warps, 12.5 %: registers, shared memory; 16 2 2 32"}, // Nsight on a B200: 2 by both, 12.5 %
		{103, 1024, 64, 0, "1 blocks, 32 warps, 50.0 %: registers; 2 1 228 32"},
		{101, 256, 32, 0, "6 blocks, 48 warps, 100.0 %: warps; 6 8 228 24"},
		{110, 32, 32, 0, "24 blocks, 24 warps, 50.0 %: blocks; 48 64 228 24"},
		{120, 256, 32, 0, "6 blocks, 48 warps, 100.0 %: warps; 6 8 100 24"},
		{121, 256, 40, 20 << 10, "4 blocks, 32 warps, 66.7 %: shared memory; 6 6 4 24"},
		{90, 1, 1, 0, "32 blocks, 32 warps, 50.0 %: blocks; 64 256 228 32"},
		{90, 1024, 0, 0, "2 blocks, 64 warps, 100.0 %: warps; 2 2147483647 228 32"},
		{90, 1025, 16, 0, "none"},
		{90, 0, 16, 0, "none"},
		{90, 32, math.MaxUint32, 0, "none"},
		{90, 32, 16, math.MaxUint32, "none"},
	} {
		d := device(t, test.version, 132)
		got := "none"
		if o, ok := d.Of(shape(test.threads, test.registers, test.shared)); ok {
			got = fmt.Sprintf("%d blocks, %d warps, %.1f %%: %v; %d %d %d %d", o.Blocks, o.Warps, 100*o.Share, o.Limits,
				o.ByWarps, o.ByRegisters, o.BySharedMemory, o.ByBlocks)
		}
		if got != test.want {
			t.Errorf("%d: %d threads, %d registers, %d bytes:\ngot  %s\nwant %s", test.version, test.threads, test.registers, test.shared, got, test.want)
		}
	}
}

func TestWaves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		grid, cluster [3]uint32
		sms           uint32
		waves, tail   float64
	}{
		{grid: [3]uint32{1056, 1, 1}, sms: 132, waves: 1},
		{grid: [3]uint32{132, 8, 2}, sms: 132, waves: 2},
		{grid: [3]uint32{1584, 1, 1}, sms: 132, waves: 1.5, tail: 0.5},
		{grid: [3]uint32{264, 1, 1}, sms: 132, waves: 0.25, tail: 0.75},
		{grid: [3]uint32{1056, 1, 1}},
		{sms: 132},
		{grid: [3]uint32{1040, 1, 1}, cluster: [3]uint32{4, 4, 1}, sms: 131, waves: 1}, // 1048 blocks are 65 clusters and a half
		{grid: [3]uint32{16, 1, 1}, cluster: [3]uint32{16, 1, 1}, sms: 1},              // no cluster fits
	} {
		d := device(t, 90, test.sms)
		k := shape(256, 32, 0)
		k.Grid, k.Cluster = test.grid, test.cluster
		o, ok := d.Of(k)
		if !ok || o.Blocks != 8 || o.Waves != test.waves || o.Tail != test.tail {
			t.Errorf("grid %v, cluster %v, %d multiprocessors: %v waves, tail %v; want %v, %v", test.grid, test.cluster, test.sms, o.Waves, o.Tail, test.waves, test.tail)
		}
	}
}

// What a log has of a GPU counts before what its compute capability implies.
func TestDevice(t *testing.T) {
	t.Parallel()
	h200 := timeline.GPU{Major: 9, Multiprocessors: 132, Limits: timeline.Limits{
		WarpSize: 32, MaxWarps: 64, MaxBlocks: 32, MaxSharedMemory: 233472, MaxRegisters: 65536, BlockThreads: 1024, BlockRegisters: 65536, BlockSharedMemory: 49152,
	}}
	recorded, ok := Of(&h200)
	if !ok || recorded != device(t, 90, 132) || recorded.OptInSharedMemory != 232448 || recorded.ReservedSharedMemory != 1024 {
		t.Errorf("%+v, %v", recorded, ok)
	}
	next := h200 // of a compute capability that is not known yet
	next.Major, next.Limits.MaxBlocks = 14, 48
	if d, ok := Of(&next); !ok || d.MaxBlocks != 48 || d.MaxWarps != 64 {
		t.Errorf("%+v, %v", d, ok)
	}
}

func TestUnknownDevice(t *testing.T) {
	t.Parallel()
	for _, gpu := range []timeline.GPU{{}, {Major: 3, Minor: 5}, {Major: 99}, {Major: 9, Limits: timeline.Limits{WarpSize: math.MaxUint32}}} {
		if d, ok := Of(&gpu); ok {
			t.Errorf("%+v: %+v", gpu, d)
		}
	}
}

// Whatever a log says, there are no more warps than a multiprocessor has.
func FuzzOccupancy(f *testing.F) {
	f.Add(uint32(9), uint32(0), uint32(132), uint32(256), uint32(32), uint32(1024), uint32(0), uint32(0))
	f.Add(uint32(12), uint32(1), uint32(1), uint32(math.MaxUint32), uint32(math.MaxUint32), uint32(math.MaxUint32), uint32(1), uint32(math.MaxUint32))
	f.Fuzz(func(t *testing.T, major, minor, sms, threads, registers, shared, warp, limit uint32) {
		gpu := timeline.GPU{Major: major, Minor: minor, Multiprocessors: sms, Limits: timeline.Limits{WarpSize: warp,
			MaxWarps: limit, MaxBlocks: limit, MaxRegisters: limit, MaxSharedMemory: limit, BlockThreads: limit, BlockRegisters: limit}}
		for range 2 {
			if d, ok := Of(&gpu); ok {
				k := shape(threads, registers, shared)
				k.StaticShared, k.Grid, k.Cluster = shared, [3]uint32{threads, threads, threads}, [3]uint32{warp, 1, 1}
				if o, ok := d.Of(k); ok && (o.Blocks == 0 || o.Warps > d.MaxWarps || !(o.Share > 0 && o.Share <= 1) || !(o.Tail >= 0 && o.Tail <= 1)) {
					t.Errorf("%+v of %+v on %+v", o, k, d)
				}
			}
			gpu.Limits = timeline.Limits{}
		}
	})
}

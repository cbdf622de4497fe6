package read

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// mergedWork returns the work of a log by stream.
func mergedWork(t testing.TB, open logtest.Opener, wanted *Wanted) map[StreamKey][]Work {
	t.Helper()
	c := numbered(t, open)
	works := NewWorks(c, wanted)
	streams := make(map[StreamKey]*Merger[Work])
	for r := openLog(t, open); r.Next(); {
		if PlacementOf(r.Block().Kind) == nil {
			continue
		}
		works.Add(r, func(pid, context, stream uint32) *Merger[Work] {
			key := StreamKey{PID: pid, Context: context, Stream: stream}
			if streams[key] == nil {
				streams[key] = works.Stream(c.Processes.Get(pid))
			}
			return streams[key]
		})
	}
	list := make(map[StreamKey][]Work)
	for key, m := range streams {
		m.Until(0, true)
		for w := m.Next(); w != nil; w = m.Next() {
			list[key] = append(list[key], *w)
		}
	}
	return list
}

// Work has what its record says, with the shape of its kind.
func TestWork(t *testing.T) {
	t.Parallel()
	const log = `kernel pid=1 device=2 context=3 stream=7 correlation=9 graph=4 graph_node=5 start=100 dur=50 name=k grid_x=1 grid_y=2 grid_z=3 block_x=4 block_y=5 block_z=6 cluster_x=7 cluster_y=8 cluster_z=9 static_shared=10 dynamic_shared=11 local_per_thread=12 registers=13
memcpy pid=1 device=2 context=3 stream=7 correlation=10 start=200 dur=60 bytes=0x100000000 copy_kind=1 src_kind=2 dst_kind=3 src_device=4 dst_device=5
memset pid=1 device=2 context=3 stream=7 correlation=11 start=300 dur=70 bytes=64 value=255
`
	kernel := timeline.KernelShape{Name: "k", Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Cluster: [3]uint32{7, 8, 9},
		StaticShared: 10, DynamicShared: 11, LocalPerThread: 12, Registers: 13}
	work := func(w timeline.Work) Work { return Work{Work: w, Device: 2} }
	want := []Work{
		work(timeline.Work{Kind: timeline.KernelWork, Start: 100, Dur: 50, Correlation: 9, Graph: 4, GraphNode: 5, Shape: &timeline.Shape{Kernel: kernel}}),
		work(timeline.Work{Kind: timeline.MemcpyWork, Start: 200, Dur: 60, Correlation: 10, Shape: &timeline.Shape{
			Memcpy: timeline.MemcpyShape{Bytes: 1 << 32, CopyKind: 1, SrcKind: 2, DstKind: 3, SrcDevice: 4, DstDevice: 5}}}),
		work(timeline.Work{Kind: timeline.MemsetWork, Start: 300, Dur: 70, Correlation: 11, Shape: &timeline.Shape{Memset: timeline.MemsetShape{Bytes: 64, Value: 255}}}),
	}
	got := mergedWork(t, logtest.Assemble(t, log), &Wanted{})[StreamKey{PID: 1, Context: 3, Stream: 7}]
	if diff := gocmp.Diff(want, got, cmpopts.IgnoreFields(timeline.Shape{}, "ID")); diff != "" {
		t.Errorf("work (-want +got):\n%s", diff)
	}
}

// Work goes to its stream; contexts and processes have streams of the same numbers.
func TestWorkOfStreams(t *testing.T) {
	t.Parallel()
	text := ""
	want := make(map[StreamKey][]uint64)
	for i := range 12 {
		key := StreamKey{PID: uint32(1 + i%2), Context: uint32(1 + i/2%2), Stream: uint32(7 + i/4%2)}
		text += fmt.Sprintf("kernel pid=%d context=%d stream=%d start=%d dur=5 name=k\n", key.PID, key.Context, key.Stream, 100+i)
		want[key] = append(want[key], uint64(100+i))
	}
	got := make(map[StreamKey][]uint64)
	for key, list := range mergedWork(t, logtest.Assemble(t, text), &Wanted{}) {
		for i := range list {
			got[key] = append(got[key], list[i].Start)
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("starts of the work (-want +got):\n%s", diff)
	}
}

// Work of a process that ran exec belongs to the program that ran when it began. Work
// without a time goes with the work before it in the log.
func TestWorkOfPrograms(t *testing.T) {
	t.Parallel()
	open := logtest.Assemble(t, `process pid=1 start=50
process pid=1 start=500
kernel pid=1 context=1 stream=7 start=0 name=unknown
kernel pid=1 context=1 stream=7 start=100 name=first
kernel pid=1 context=1 stream=7 start=0 name=first
kernel pid=1 context=1 stream=7 start=499 name=first
kernel pid=1 context=1 stream=7 start=500 name=second
kernel pid=1 context=1 stream=7 start=0 name=second
kernel pid=1 context=1 stream=8 start=0 name=first
kernel pid=1 context=1 stream=8 start=600 name=second`)
	var got []string
	all := mergedWork(t, open, &Wanted{})
	for _, stream := range []uint32{7, 8} {
		for _, w := range all[StreamKey{PID: 1, Context: 1, Stream: stream}] {
			got = append(got, fmt.Sprint(stream, " ", w.Start, " ", w.Shape.Kernel.Name, " ", w.Program))
		}
	}
	want := []string{"7 0 unknown 0", "7 0 first 0", "7 0 second 1", "7 100 first 0", "7 499 first 0", "7 500 second 1", "8 0 first 0", "8 600 second 1"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("stream, start, name and program of the work (-want +got):\n%s", diff)
	}
}

// Pieces of work that begin together keep the order of the log.
func TestWorkStartsTogether(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var parts []string
		var want []timeline.Work
		for range 12 {
			text := ""
			for range 1 + rnd.IntN(100) {
				w := timeline.Work{Start: uint64(100 + rnd.IntN(40)), Correlation: uint32(len(want) + 1)}
				text += fmt.Sprintf("kernel pid=1 context=1 stream=7 start=%d correlation=%d\n", w.Start, w.Correlation)
				want = append(want, w)
			}
			parts = append(parts, text)
		}
		slices.SortStableFunc(want, func(a, b timeline.Work) int { return int(a.Start) - int(b.Start) })
		got := mergedWork(t, logtest.Parts(t, parts...), &Wanted{})[StreamKey{PID: 1, Context: 1, Stream: 7}]
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d of %d pieces of work", seed, len(got), len(want))
		}
		for i := range want {
			if got[i].Correlation != want[i].Correlation {
				t.Fatalf("seed %d: number %d is that of call %d, want %d", seed, i, got[i].Correlation, want[i].Correlation)
			}
		}
	}
}

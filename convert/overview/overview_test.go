package overview

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// streamOf returns a stream of a rank.
func streamOf(p *timeline.Process, id uint32) *timeline.Stream {
	return &timeline.Stream{ID: id, Context: &timeline.Context{Process: p, ID: 1}}
}

func rank(n uint32) *timeline.Process {
	p := &timeline.Process{PID: 100 + n}
	p.Rank.Known, p.Rank.Number = true, n
	return p
}

var (
	gemm   = &timeline.Shape{Kernel: timeline.KernelShape{Name: "_Z4gemmPf"}}
	reduce = &timeline.Shape{Kernel: timeline.KernelShape{Name: "_Z27ncclDevKernel_AllReduce_Sumv"}}
)

func work(on *timeline.Stream, start, end uint64, shape *timeline.Shape) *timeline.WorkList {
	w := timeline.Work{Start: start, Dur: end - start, Shape: shape}
	if shape == nil {
		w.Kind, w.Shape = timeline.MemcpyWork, &timeline.Shape{}
	}
	return &timeline.WorkList{Stream: on, List: []timeline.Work{w}}
}

func text(list []Slice) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, fmt.Sprintf("%d-%d %s %d/%d/%d/%d idle %d", s.Start, s.End, s.State, s.Compute, s.Communication, s.CommunicationOverlap, s.Copies, s.Idle()))
	}
	return strings.Join(lines, "\n")
}

// Each state is there, with all times of its bins.
func TestStates(t *testing.T) {
	t.Parallel()
	o := New(make(timeline.KernelNames))
	p := rank(3)
	compute, comm := streamOf(p, 7), streamOf(p, 20)
	for _, l := range []*timeline.WorkList{
		work(compute, 1024, 2000, gemm), work(comm, 2048, 4000, reduce), work(compute, 3072, 5000, gemm), work(compute, 5120, 5888, nil), work(compute, 8192, 8200, gemm),
	} {
		o.Work(l)
	}
	o.Work(work(streamOf(rank(1), 7), 1024, 1030, gemm))
	o.Work(work(streamOf(&timeline.Process{PID: 1}, 7), 1024, 1030, gemm)) // has no rank
	rows := o.Rows()
	if len(rows) != 2 || rows[0].Process.Rank.Number != 1 || rows[1].Process.Rank.Number != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	const want = `1024-2048 compute 976/0/0/0 idle 48
2048-3072 exposed communication 0/1024/0/0 idle 0
3072-4096 communication and compute 1024/928/928/0 idle 0
4096-5120 compute 904/0/0/0 idle 120
5120-5888 copies 0/0/0/768 idle 0
5888-8192 idle 0/0/0/0 idle 2304
8192-8200 compute 8/0/0/0 idle 0`
	if diff := cmp.Diff(want, text(rows[1].Slices())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A timeline of one rank has no rows, on however many GPUs it runs.
func TestOneRank(t *testing.T) {
	t.Parallel()
	o := New(make(timeline.KernelNames))
	if rows := o.Rows(); len(rows) != 0 {
		t.Errorf("%d rows without work", len(rows))
	}
	p := rank(0)
	for gpu := range uint32(2) {
		s := streamOf(p, 7)
		s.Context.GPU = gpu
		o.Work(work(s, 100, 200, gemm))
	}
	if rows := o.Rows(); len(rows) != 0 {
		t.Errorf("%d rows of one rank", len(rows))
	}
}

// Whatever the work, the slices follow each other without gaps, are few, and their times add up to those of the statistics.
func TestSums(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o, p := New(make(timeline.KernelNames)), rank(0)
		o.Work(work(streamOf(rank(1), 7), 1, 2, gemm))
		device := activity.NewDevice(nil) // the one of the statistics
		n := 1 << rnd.IntN(15)
		span := uint64(1) << (8 + rnd.IntN(30))
		var streams []*timeline.Stream
		var lanes []*activity.Lane
		var at [3]uint64
		for i := range uint32(3) {
			streams = append(streams, streamOf(p, 7+i))
			lanes = append(lanes, device.Lane(streams[i]))
			at[i] = 5000 + rnd.Uint64N(1000)
		}
		for range n {
			i := 0 // the stream that is behind the others
			for k := range at {
				if at[k] < at[i] {
					i = k
				}
			}
			start := at[i] + rnd.Uint64N(span)/2
			end := start + rnd.Uint64N(span)
			shape, class := gemm, activity.Compute
			switch rnd.IntN(3) {
			case 1:
				shape, class = reduce, activity.Communication
			case 2:
				shape, class = nil, activity.Copy
			}
			o.Work(work(streams[i], start, end, shape))
			device.Add(lanes[i], activity.Piece{Start: start, End: end, Class: class})
			at[i] = end
		}
		device.Finish()
		r := o.Rows()[0]
		list := r.Slices()
		if most := max(leastBins, n/piecesPerBin) + 1; len(list) > most || len(list) > mostBins || r.Late != 0 {
			t.Errorf("seed %d: %d slices of %d pieces, %d late", seed, len(list), n, r.Late)
		}
		sum, next := activity.Sum{}, device.First
		for i, s := range list {
			if s.Start != next || s.End <= s.Start || i > 0 && list[i-1].State == s.State {
				t.Fatalf("seed %d: slice %d is from %d to %d, the one before ended at %d", seed, i, s.Start, s.End, next)
			}
			sum, next = sum.Plus(s.Sum), s.End
		}
		want := activity.Sum{Busy: device.Busy(), Compute: device.Compute(), Communication: device.Communication(),
			CommunicationOverlap: device.CommunicationOverlap(), Copies: device.Copies()}
		if next != device.Last && device.Last > device.First || sum != want {
			t.Errorf("seed %d: up to %d of %d, %+v, want %+v", seed, next, device.Last, sum, want)
		}
	}
}

package activity

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// streamOf returns a stream of a process.
func streamOf(p *timeline.Process, id uint32) *timeline.Stream {
	return &timeline.Stream{ID: id, Context: &timeline.Context{Process: p, ID: 1}}
}

func text(list []Slice) string {
	var lines []string
	for _, s := range list {
		lines = append(lines, fmt.Sprintf("%d-%d %s %d/%d/%d/%d idle %d", s.Start, s.End, s.State, s.Compute, s.Communication, s.CommunicationOverlap, s.Copies, s.Idle()))
	}
	return strings.Join(lines, "\n")
}

// Each state is there, with all times of its bins. Work of another process on the device is in the slices of that process.
func TestStates(t *testing.T) {
	t.Parallel()
	d := New(Options{Slices: true}).NewDevice(nil)
	p, other := &timeline.Process{PID: 3}, &timeline.Process{PID: 1}
	compute, comm, others := d.Lane(streamOf(p, 7)), d.Lane(streamOf(p, 20)), d.Lane(streamOf(other, 7))
	for _, w := range []struct {
		on         *Lane
		start, end uint64
		Class
	}{
		{compute, 1024, 2000, Compute}, {comm, 2048, 4000, Communication}, {compute, 3072, 4000, Compute}, {compute, 4000, 5000, Compute}, {compute, 5120, 5888, Copy},
		{compute, 8192, 8200, Compute}, {others, 3000, 3030, Compute},
	} {
		w.on.Add(&Piece{Start: w.start, End: w.end, Class: w.Class})
	}
	const want = `1024-2048 compute 976/0/0/0 idle 48
2048-3072 exposed communication 0/1024/0/0 idle 0
3072-4000 communication and compute 928/928/928/0 idle 0
4000-5120 compute 1000/0/0/0 idle 120
5120-5888 copies 0/0/0/768 idle 0
8192-8200 compute 8/0/0/0 idle 0`
	goldentest.Same(t, want, text(d.Parts[0].Slices()), "result")
	if got, want := text(d.Parts[1].Slices()), "3000-3030 compute 30/0/0/0 idle 0"; got != want {
		t.Errorf("the other process: %s, want %s", got, want)
	}
}

// A start-up with pauses of seconds does not swallow steps of milliseconds, whose state is what they did most.
func TestSlicesAfterStartup(t *testing.T) {
	t.Parallel()
	d, p := New(Options{Slices: true}).NewDevice(nil), new(timeline.Process)
	compute, comm := d.Lane(streamOf(p, 7)), d.Lane(streamOf(p, 20))
	const ms = 1_000_000
	for i := range uint64(5) {
		compute.Add(&Piece{Start: i * 2000 * ms, End: i*2000*ms + 1000, Class: Compute})
	}
	for i := range uint64(100) { // 30 % compute, 60 % communication
		at := 10_000*ms + i*ms
		compute.Add(&Piece{Start: at, End: at + 3*ms/10, Class: Compute})
		comm.Add(&Piece{Start: at + 3*ms/10, End: at + 9*ms/10, Class: Communication})
	}
	times := make(map[State]uint64)
	for _, s := range d.Parts[0].Slices() {
		times[s.State] += s.End - s.Start
	}
	if all := 100 * uint64(ms); times[Exposed] < all*9/10 || times[Idles] > 0 || times[Computes] > all/10 {
		t.Errorf("times by state: %v", times)
	}
}

// Whatever the work, the slices follow each other, are few, and their times add up to those of the part.
func TestSums(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		device, p := New(Options{Slices: true}).NewDevice(nil), new(timeline.Process)
		n := 1 << rnd.IntN(15)
		span := uint64(1) << (8 + rnd.IntN(30))
		var lanes []*Lane
		var at [3]uint64
		for i := range uint32(3) {
			lanes = append(lanes, device.Lane(streamOf(p, 7+i)))
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
			lanes[i].Add(&Piece{Start: start, End: end, Class: Class(rnd.IntN(3))})
			at[i] = end
		}
		device.Finish()
		list := device.Parts[0].Slices()
		if most := max(leastBins, n/piecesPerBin); len(list) > most || len(list) > mostBins || device.Late != 0 {
			t.Errorf("seed %d: %d slices of %d pieces, %d late", seed, len(list), n, device.Late)
		}
		sum, next := Sum{}, device.First
		for i, s := range list {
			if i == 0 && s.Start != next || s.Start < next || s.End <= s.Start || i > 0 && s.Start == next && list[i-1].State == s.State {
				t.Fatalf("seed %d: slice %d is from %d to %d, the one before ended at %d", seed, i, s.Start, s.End, next)
			}
			sum, next = sum.Plus(s.Sum), s.End
		}
		want := device.Until(timeline.Never)
		if next != device.Last && device.Last > device.First || sum != want {
			t.Errorf("seed %d: up to %d of %d, %+v, want %+v", seed, next, device.Last, sum, want)
		}
	}
}

package activity

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	for role, names := range map[Role][]string{
		Launching: {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaMemcpy", "cudaMemcpyAsync_ptsz", "cuMemsetD8_v2", "cudaGraphLaunch", "cuMemcpyHtoDAsync_v2"},
		WaitsAll:  {"cudaDeviceSynchronize", "cuCtxSynchronize", "cudaThreadSynchronize"},
		Waits:     {"cudaStreamSynchronize", "cuStreamSynchronize_ptsz", "cudaEventSynchronize"},
		Ordering:  {"cudaStreamWaitEvent", "cuStreamWaitEvent", "cuCtxWaitEvent"},
		Allocating: {"cudaMalloc", "cudaFree", "cudaMallocHost", "cudaHostAlloc", "cudaFreeHost", "cudaMallocManaged", "cuMemAlloc_v2", "cuMemFree_v2",
			"cudaHostRegister", "cudaHostUnregister", "cuArrayCreate_v2", "cudaMallocPitch", "cudaFreeArray"},
		Loading:   {"cuLibraryLoadData", "cuModuleLoadData", "cuModuleLoadFatBinary", "cuLinkComplete"},
		OtherRole: {"cudaMallocAsync", "cudaFreeAsync", "cuLibraryUnload", "cudaStreamCreate", "cudaEventQuery", "cuInit", "", "something", "cuMemAllocFromPoolAsync"},
	} {
		for _, name := range names {
			if got := RoleOf(name); got != role {
				t.Errorf("%s has the role %d, want %d", name, got, role)
			}
		}
	}
}

// What a thread did is found wherever one looks, and the oldest calls are forgotten, not made up.
func TestHistory(t *testing.T) {
	t.Parallel()
	room := &Room{left: 64}
	h := room.NewHistory(&timeline.Thread{})
	f := new(Functions).Add("f", "")
	for i := range uint64(100) {
		h.Add(10*i+2, 10*i+6, f)
	}
	text := func(from, to uint64) (s string) {
		for _, x := range h.during(from, to, nil) {
			what := "-"
			if x.Unknown {
				what = "?"
			} else if x.Function != nil {
				what = x.Function.Name
			}
			s += fmt.Sprintf("%s%d ", what, x.Time)
		}
		return s
	}
	for _, c := range []struct {
		from, to uint64
		want     string
	}{
		{900, 910, "-2 f4 -4 "}, {904, 905, "f1 "}, {907, 912, "-5 "}, {990, 1000, "-2 f4 ?4 "}, {400, 410, "-2 f4 -4 "},
		{340, 370, "?22 f4 -4 "}, {0, 10, "?10 "}, {2000, 2010, "?10 "}, {950, 950, ""},
	} {
		if got := text(c.from, c.to); got != c.want {
			t.Errorf("from %d to %d: %q, want %q", c.from, c.to, got, c.want)
		}
	}
	none := room.NewHistory(&timeline.Thread{}) // no room is left
	none.Add(1, 2, f)
	if list := none.during(0, 5, nil); len(list) != 1 || !list[0].Unknown || list[0].Time != 5 {
		t.Errorf("a history without room: %+v", list)
	}
	for range 3 { // calls within it
		h.Loaded()
	}
	if list := h.during(992, 996, nil); len(list) != 1 || !list[0].Function.Loads() || f.Loads() {
		t.Errorf("the call that loaded code: %+v", list)
	}
}

type gapCounter struct {
	gaps, spent uint64
	behind      int
}

func (c *gapCounter) Gap(g *Gap) {
	c.gaps += g.To - g.From
	for _, s := range g.Spent {
		c.spent += s.Time
	}
}

func (c *gapCounter) Behind(_, _ *Piece, _ [2]*Lane, _ uint64) { c.behind++ }

// Idle and busy time add up to the whole, whatever the work; and so do the causes.
func TestIdleAddsUp(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		c := new(gapCounter)
		d := New(Options{Watch: c}).NewDevice(nil)
		h := NewRoom().NewHistory(&timeline.Thread{})
		f := new(Functions).Add("f", "")
		for at := uint64(0); at < 2000; at += 10 + rnd.Uint64N(20) {
			h.Add(at, at+rnd.Uint64N(10), f)
		}
		process := []*timeline.Process{{PID: 1}, {PID: 2}}
		for id := range uint32(3) {
			lane := d.Lane(&timeline.Stream{ID: id, Context: &timeline.Context{Process: process[rnd.IntN(2)]}})
			var list []Piece
			for range rnd.IntN(20) {
				start, call := rnd.Uint64N(2000), rnd.Uint64N(2000)
				p := Piece{Start: start, End: start + rnd.Uint64N(60), Class: Class(rnd.IntN(4))}
				if rnd.IntN(4) > 0 {
					p.Launch = Launch{Thread: h, CallStart: call, CallEnd: call + 5}
				}
				list = append(list, p)
			}
			slices.SortFunc(list, func(a, b Piece) int { return cmp.Compare(a.Start, b.Start) })
			for _, p := range list {
				lane.Add(&p)
			}
		}
		d.Finish()
		if d.First == timeline.Never {
			continue
		}
		busy := d.Until(timeline.Never).Busy
		var causes, rows uint64
		for _, ns := range d.Idle.Time {
			causes += ns
		}
		for _, r := range d.Idle.Rows {
			rows += r.Seen.Time
		}
		if idle := d.Last - d.First - busy; causes != idle || rows != idle || c.gaps != idle || c.spent != d.Idle.Time[LaunchedLate] {
			t.Errorf("seed %d: idle %d, causes %d, rows %d, gaps %d, spent %d of %d", seed, idle, causes, rows, c.gaps, c.spent, d.Idle.Time[LaunchedLate])
		}
		var parts uint64
		for _, p := range d.Parts {
			parts += p.Times().Until(timeline.Never).Busy
		}
		if parts < busy || d.Parts[0].Times().Until(timeline.Never).CommunicationOverlap > busy {
			t.Errorf("seed %d: the parts are busy for %d, the device for %d", seed, parts, busy)
		}
	}
}

// Twins are a device beside many, and one by itself that gets the same work.
type twins struct {
	devices [2]*Device
	lanes   [2][3]*Lane
}

func newTwins(all *Devices) *twins {
	b := &twins{devices: [2]*Device{all.NewDevice(nil), New(Options{}).NewDevice(nil)}}
	for i, d := range b.devices {
		for id := range b.lanes[i] {
			b.lanes[i][id] = d.Lane(&timeline.Stream{ID: uint32(id), Context: &timeline.Context{Process: &timeline.Process{}}})
		}
	}
	return b
}

func (b *twins) add(lane int, p Piece) {
	for i := range b.devices {
		b.lanes[i][lane].Add(&p)
	}
}

// The pieces that wait in all devices together are bounded, and the times are those of devices by themselves: logs with two devices each
// come one after another.
func TestManyDevices(t *testing.T) {
	t.Parallel()
	const logs, pieces, most = 6, 300, 600
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		together := New(Options{})
		together.most = most
		var all []*twins
		for range logs {
			log := []*twins{newTwins(together), newTwins(together)}
			all = append(all, log...)
			for n := range uint64(pieces) {
				start := 1000 + 10*n - rnd.Uint64N(1000)
				log[rnd.IntN(2)].add(rnd.IntN(3), Piece{Start: start, End: start + rnd.Uint64N(30), Class: Class(rnd.IntN(4))})
				if together.waiting >= most {
					t.Fatalf("seed %d: %d pieces wait", seed, together.waiting)
				}
			}
		}
		waiting := 0
		for i, b := range all {
			d, free := b.devices[0], b.devices[1]
			waiting += d.order.pending
			d.Finish()
			free.Finish()
			if d.Late > 0 || d.Times != free.Times || d.First != free.First || d.Last != free.Last {
				t.Errorf("seed %d, device %d: %d late, %+v instead of %+v", seed, i, d.Late, d.Times, free.Times)
			}
		}
		if waiting >= most || waiting < most/4 || together.waiting != 0 {
			t.Errorf("seed %d: %d waited at the end, then %d", seed, waiting, together.waiting)
		}
	}
}

// However work arrives, the times in which a device is busy come in order, are those of its pieces, and do not overlap. What comes too
// late counts from the settled time on.
func TestBusyTimes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		var busy, want [500]bool
		last := uint64(0)
		d := New(Options{}).NewDevice(func(from, to uint64) {
			if from < last || to <= from {
				t.Fatalf("seed %d: busy from %d to %d after %d", seed, from, to, last)
			}
			for last = from; last < to; last++ {
				busy[last] = true
			}
		})
		lanes := []*Lane{d.Lane(nil), d.Lane(streamOf(new(timeline.Process), 1)), d.Lane(streamOf(new(timeline.Process), 2))}
		late := uint64(0)
		for range 1 + rnd.IntN(40) {
			if rnd.IntN(8) == 0 {
				d.Settle(rnd.Uint64N(200))
			}
			start := rnd.Uint64N(400)
			p := Piece{Start: start, End: start + rnd.Uint64N(40)}
			if lanes[rnd.IntN(3)].Add(&p); p.Start < d.Settled() {
				late++
			}
			for at := max(p.Start, d.Settled()); at < p.End; at++ {
				want[at] = true
			}
		}
		d.Finish()
		total := uint64(0)
		for _, is := range want {
			if is {
				total++
			}
		}
		if ns := d.Until(timeline.Never).Busy; busy != want || ns != total || d.Late != late {
			t.Errorf("seed %d: busy for %d ns, %d late, want %d and %d", seed, ns, d.Late, total, late)
		}
	}
}

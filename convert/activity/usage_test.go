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
			if got := roleOf(name); got != role {
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
		d, c := NewDevice(nil), new(gapCounter)
		d.Idle.Watch = c
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
					p.Thread, p.CallStart, p.CallEnd = h, call, call+5
				}
				list = append(list, p)
			}
			slices.SortFunc(list, func(a, b Piece) int { return cmp.Compare(a.Start, b.Start) })
			for _, p := range list {
				d.Add(lane, p)
			}
		}
		d.Finish()
		if d.First == timeline.Never {
			continue
		}
		var causes, rows uint64
		for _, ns := range d.Idle.Time {
			causes += ns
		}
		for _, r := range d.Idle.Rows {
			rows += r.Total
		}
		if idle := d.Last - d.First - d.Busy(); causes != idle || rows != idle || c.gaps != idle || c.spent != d.Idle.Time[LaunchedLate] {
			t.Errorf("seed %d: idle %d, causes %d, rows %d, gaps %d, spent %d of %d", seed, idle, causes, rows, c.gaps, c.spent, d.Idle.Time[LaunchedLate])
		}
		var parts uint64
		for _, p := range d.Parts {
			parts += p.Times().Busy()
		}
		if parts < d.Busy() || d.Parts[0].Times().CommunicationOverlap() > d.Busy() {
			t.Errorf("seed %d: the parts are busy for %d, the device for %d", seed, parts, d.Busy())
		}
	}
}

// Twins are a device of a store, and one without a store that gets the same work.
type twins struct {
	devices [2]*Device
	lanes   [2][3]*Lane
}

func newTwins(s *Store) *twins {
	b := &twins{devices: [2]*Device{NewDevice(s), NewDevice(nil)}}
	for i, d := range b.devices {
		for id := range b.lanes[i] {
			b.lanes[i][id] = d.Lane(&timeline.Stream{ID: uint32(id), Context: &timeline.Context{Process: &timeline.Process{}}})
		}
	}
	return b
}

func (b *twins) add(lane int, p Piece) {
	for i, d := range b.devices {
		d.Add(b.lanes[i][lane], p)
	}
}

// A store bounds the pieces that wait, and the times are those of devices without a store: logs with two devices each come
// one after another.
func TestStore(t *testing.T) {
	t.Parallel()
	const logs, pieces, most = 6, 300, 600
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		store := &Store{most: most}
		var all []*twins
		for range logs {
			log := []*twins{newTwins(store), newTwins(store)}
			all = append(all, log...)
			for n := range uint64(pieces) {
				start := 1000 + 10*n - rnd.Uint64N(1000)
				log[rnd.IntN(2)].add(rnd.IntN(3), Piece{Start: start, End: start + rnd.Uint64N(30), Class: Class(rnd.IntN(4))})
				if store.waiting >= most {
					t.Fatalf("seed %d: %d pieces wait", seed, store.waiting)
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
		if waiting >= most || waiting < most/4 || store.waiting != 0 {
			t.Errorf("seed %d: %d waited at the end, then %d", seed, waiting, store.waiting)
		}
	}
}

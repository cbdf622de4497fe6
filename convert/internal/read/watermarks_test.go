package read

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// lowsOf reads a log for the second time. It returns the low of some watermarks before the
// first block and behind each block of events.
func lowsOf(t testing.TB, c *Catalog, open logtest.Opener, lows Lows) []uint64 {
	t.Helper()
	list := []uint64{lows.Low()}
	for r := openLog(t, open); r.Next(); {
		c.Watermarks.Passed(r.Block())
		if PlacementOf(r.Block().Kind) != nil {
			list = append(list, lows.Low())
		}
	}
	return list
}

// Of whom watermarks are.
func thread(pid, tid uint32) func(*Catalog) Lows {
	return func(c *Catalog) Lows {
		threads := c.Watermarks.Threads(c)
		return threads.Of(ThreadKey{pid, tid})
	}
}

func stream(pid, context, id uint32) func(*Catalog) Lows {
	return func(c *Catalog) Lows { return c.Watermarks.Stream(pid, context, id) }
}

func kind(k tracelog.Kind) func(*Catalog) Lows {
	return func(c *Catalog) Lows { return c.Watermarks.Kind(k) }
}

func process(pid uint32, kinds ...tracelog.Kind) func(*Catalog) Lows {
	return func(c *Catalog) Lows { return c.Watermarks.Processes(c.Processes.PIDs, kinds...)[pid] }
}

// A low is the earliest start in the blocks that have not been read again, of the thread,
// the stream or the kind that is asked for.
func TestLows(t *testing.T) {
	t.Parallel()
	call := func(tid, enter int) string {
		return fmt.Sprintf("call pid=1 tid=%d func=#1 enter=%d dur=5\n", tid, enter)
	}
	api := func(tid, start int) string {
		return fmt.Sprintf("api pid=1 tid=%d domain=1 name=f start=%d dur=5\n", tid, start)
	}
	kernel := func(context, stream, start int) string {
		return fmt.Sprintf("kernel pid=1 context=%d stream=%d start=%d dur=5\n", context, stream, start)
	}
	for _, test := range []struct {
		name  string
		parts []string // each with blocks of its own
		of    func(*Catalog) Lows
		want  []uint64
	}{
		{"nothing is to come of a thread without blocks",
			[]string{call(2, 100)}, thread(1, 1), []uint64{never, never}},
		{"blocks in order",
			[]string{call(1, 100), call(1, 200), call(1, 300)}, thread(1, 1), []uint64{100, 200, 300, never}},
		{"a block that reaches back to before the one before it",
			[]string{call(1, 100), call(1, 300), call(1, 200)}, thread(1, 1), []uint64{100, 200, 200, never}},
		{"each block reaches back",
			[]string{call(1, 300), call(1, 200), call(1, 100)}, thread(1, 1), []uint64{100, 100, 100, never}},
		{"the earliest record of a block counts, not its first",
			[]string{call(1, 150) + call(1, 120) + call(1, 160)}, thread(1, 1), []uint64{120, never}},
		{"other threads do not matter",
			[]string{call(1, 100), call(2, 50), call(1, 200)}, thread(1, 1), []uint64{100, 200, 200, never}},
		{"a thread of another process does not matter",
			[]string{call(1, 100), "call pid=2 tid=1 func=#1 enter=50"}, thread(1, 1), []uint64{100, never, never}},
		{"calls and API records of a thread both count",
			[]string{call(1, 100), api(1, 90), call(1, 300), api(1, 200)}, thread(1, 1), []uint64{90, 90, 200, 200, never}},
		{"an API record has the namespace's number of the thread",
			[]string{"thread pid=1 tid=1 local_tid=7\nthread pid=1 tid=50 local_tid=1", call(1, 100), api(7, 90), api(1, 10)}, thread(1, 1), []uint64{90, 90, never, never}},
		{"a call of unknown start may be the earliest",
			[]string{call(1, 100), call(1, 0)}, thread(1, 1), []uint64{0, 0, never}},
		{"all blocks with a stream's work count",
			[]string{kernel(1, 7, 400), "memcpy pid=1 context=1 stream=7 start=300", "memset pid=1 context=1 stream=7 start=200"},
			stream(1, 1, 7), []uint64{200, 200, 200, never}},
		{"a stream of the same number in another context does not matter",
			[]string{kernel(1, 7, 100), kernel(2, 7, 50)}, stream(1, 1, 7), []uint64{100, never, never}},
		{"work without times does not hold others back",
			[]string{kernel(1, 7, 100), kernel(1, 7, 0) + kernel(1, 7, 300), kernel(1, 7, 0)}, stream(1, 1, 7), []uint64{100, 300, never, never}},
		{"blocks of a kind without owners are all one's",
			[]string{"marker pid=1 tid=1 time=300", "marker pid=2 tid=5 time=200"}, kind(tracelog.KindMarker), []uint64{200, 200, never}},
		{"a kind that the log does not have",
			[]string{"marker pid=1 tid=1 time=300"}, kind(tracelog.KindMemory), []uint64{never, never}},
		{"the calls of all threads of a process",
			[]string{call(1, 300), call(2, 100), "call pid=2 tid=9 func=#1 enter=50", api(3, 200)},
			process(1, tracelog.KindCall, tracelog.KindAPI), []uint64{100, 100, 200, 200, never}},
		{"the work of all streams of a process",
			[]string{kernel(1, 7, 300), kernel(2, 9, 100), call(1, 10)}, process(1, tracelog.KindKernel), []uint64{100, 100, never, never}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			open := logtest.Parts(t, test.parts...)
			c := catalogOf(t, open)
			goldentest.Same(t, test.want, lowsOf(t, c, open, test.of(c)), "lows")
		})
	}
}

// An event of unknown time may be the earliest of its kind: it is put at the beginning of the
// log. Work of unknown time is put where its call returned.
func TestLowsOfUnknownTimes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, known, unknown string
		of                   func(*Catalog) Lows
		want                 uint64
	}{
		{"call", "call pid=1 tid=1 func=#1 enter=100", "call pid=1 tid=1 func=#1", thread(1, 1), 0},
		{"api", "api pid=1 tid=1 name=f start=100", "api pid=1 tid=1 name=f", thread(1, 1), 0},
		{"overhead", "overhead pid=1 start=100", "overhead pid=1", kind(tracelog.KindOverhead), 0},
		{"marker", "marker pid=1 time=100", "marker pid=1", kind(tracelog.KindMarker), 0},
		{"memory", "memory pid=1 time=100", "memory pid=1", kind(tracelog.KindMemory), 0},
		{"memory_pool", "memory_pool pid=1 time=100", "memory_pool pid=1", kind(tracelog.KindMemoryPool), 0},
		{"kernel", "kernel pid=1 start=100", "kernel pid=1", stream(1, 0, 0), 100},
	} {
		c := catalogOf(t, logtest.Parts(t, test.known, test.unknown))
		if low := test.of(c).Low(); low != test.want {
			t.Errorf("%s: the low is %d, want %d", test.kind, low, test.want)
		}
	}
}

// A thread that has blocks of its own is named, by the recorder's number.
func TestTIDs(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `thread pid=1 tid=100 local_tid=3
call pid=1 tid=100 func=#1 enter=1
api pid=1 tid=3 domain=1 name=f start=1
api pid=1 tid=4 domain=1 name=f start=1
call pid=2 tid=5 func=#1 enter=1
kernel pid=1 context=6 stream=6 start=1`))
	threads := c.Watermarks.Threads(c)
	got := make(map[ThreadKey]int)
	threads.TIDs(func(key ThreadKey) { got[key] = len(threads.Of(key)) })
	if diff := cmp.Diff(map[ThreadKey]int{{1, 100}: 2, {1, 4}: 1, {2, 5}: 1}, got); diff != "" {
		t.Errorf("threads with the number of their watermarks (-want +got):\n%s", diff)
	}
}

// However a log grows, and however far its second reading has come meanwhile, a low is the
// earliest start in the blocks that were read once and not again.
func TestLowsInSteps(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		g := logtest.NewGrowing(t)
		first, second := g.Follow(), g.Follow()
		c := NewCatalog(nil)
		var blocks []block
		passed := 0
		for step := range 30 {
			at := 1000 + 10*step
			g.Append(fmt.Sprintf("call pid=1 tid=%d func=#1 enter=%d\n", 1+rnd.IntN(3), at+rnd.IntN(200)))
			if rnd.IntN(3) > 0 {
				take(t, c, first)
				blocks = blocksOf(t, g)
			}
			for passed < len(blocks) && rnd.IntN(3) > 0 && second.Next() {
				c.Watermarks.Passed(second.Block())
				passed++
			}
			for tid := range uint32(3) {
				want := never
				for _, b := range blocks[passed:] {
					if b.tid == tid+1 {
						want = min(want, b.from)
					}
				}
				if low := thread(1, tid+1)(c).Low(); low != want {
					t.Fatalf("seed %d, step %d, thread %d: the low is %d, want %d", seed, step, tid+1, low, want)
				}
			}
		}
	}
}

// A block has calls of a thread.
type block struct {
	tid  uint32
	from uint64
}

// blocksOf returns the blocks of calls that a log has so far.
func blocksOf(t testing.TB, g *logtest.Growing) (list []block) {
	for r := openLog(t, logtest.InMemory(g.Bytes())); r.Next(); {
		var x tracelog.Call
		x.Read(r.Block(), 0)
		list = append(list, block{x.TID, x.Enter})
	}
	return list
}

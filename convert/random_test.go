package convert

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/timeline/timelinetest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// chaos makes records of every kind with few different numbers, so that they
// meet in every way.
type chaos struct {
	*rand.Rand
	w *tracelog.Writer
}

func (c *chaos) id() uint32 { return uint32(c.IntN(4)) }

// time is often equal to others, seldom unknown or at the end of its range.
func (c *chaos) time() uint64 {
	switch c.IntN(50) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64 - uint64(c.IntN(2))
	}
	return 1000 + uint64(c.IntN(60))*50
}

func (c *chaos) dur() uint64 {
	if c.IntN(50) == 0 {
		return math.MaxUint64
	}
	return uint64(c.IntN(20)) * 25
}

func (c *chaos) gpu() tracelog.GPU {
	return tracelog.GPU{PID: c.id(), Device: c.id(), Context: c.id(), Stream: c.id(), Correlation: c.id() * c.id(),
		Graph: c.id(), Start: c.time(), Dur: c.dur()}
}

// pick is one of a list.
func pick[T any](c *chaos, list ...T) T { return list[c.IntN(len(list))] }

func (c *chaos) record() {
	w := c.w
	switch c.IntN(14) {
	case 0:
		w.Add(&tracelog.Process{PID: c.id(), Start: c.time()})
	case 1:
		w.Add(&tracelog.Thread{PID: c.id(), TID: c.id(), NamespaceTID: c.id()})
	case 2, 3:
		w.Add(&tracelog.Call{PID: c.id(), TID: c.id(), Func: c.id(), Flags: c.id(), Enter: c.time(), Dur: c.dur(), Ret: int32(c.id()), Caller: c.id(), NArgs: 1,
			Args: [tracelog.MaxArgs]uint64{uint64(c.id())}})
	case 4, 5:
		w.Add(&tracelog.API{PID: c.id(), TID: c.id(), Domain: c.id(), Name: pick(c, "cuLaunchKernel", "cudaLaunchKernel", "cudaStreamSynchronize"),
			Start: c.time(), Dur: c.dur(), Correlation: c.id() * c.id(), Caller: c.id()})
	case 6:
		w.Add(&tracelog.Kernel{GPU: c.gpu(), Name: "k"})
	case 7:
		w.Add(&tracelog.Graph{GPU: c.gpu()})
	case 8:
		w.Add(&tracelog.Sync{PID: c.id(), Type: uint32(c.IntN(6)), Context: c.id(), Stream: pick(c, c.id(), 1<<32-1), Correlation: c.id() * c.id(), Start: c.time(), Dur: c.dur()})
	case 9:
		w.Add(&tracelog.Overhead{PID: c.id(), OverheadKind: c.id(), TID: c.id(), Start: c.time(), Dur: c.dur()})
	case 10, 11:
		w.Add(&tracelog.Marker{PID: c.id(), TID: c.id(), Flags: pick[uint32](c, 0, 1, 2, 4, 6), ID: c.id() * c.id(), Time: c.time(), Domain: pick(c, "", "d")})
	case 12:
		w.Add(&tracelog.Memory{PID: c.id(), Operation: c.id(), MemoryKind: c.id() * 2, Device: c.id(), Time: c.time(), Address: uint64(c.id()), Bytes: c.Uint64()})
	case 13:
		w.Add(&tracelog.Symbol{PID: c.id(), Time: c.time(), Handle: uint64(c.id()), Of: uint64(c.id()), Name: pick(c, "", "_Z1kv")})
		w.Add(&tracelog.MemoryPool{PID: c.id(), Operation: uint32(c.IntN(6)), Time: c.time()})
		w.Add(&tracelog.ProcessEnd{PID: c.id(), Time: c.time()})
	}
}

// Records that make no sense together still make a trace whose slices nest.
func TestChaos(t *testing.T) {
	for seed := range uint64(400) {
		var log bytes.Buffer
		w, err := tracelog.NewWriter(&log, tracelog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c := &chaos{rand.New(rand.NewPCG(seed, 1)), w}
		w.Add(&tracelog.Function{ID: 0, Name: "cuLaunchKernel", Library: "driver", Args: "function:handle"})
		w.Add(&tracelog.Function{ID: 1, Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"})
		w.Add(&tracelog.Function{ID: 2, Name: "cudaLaunchKernel", Library: "runtime", Args: "function:ptr"})
		w.Add(&tracelog.Function{ID: 3, Name: "cuLibraryGetKernel", Library: "driver", Args: "kernel:handle"})
		w.Add(&tracelog.Caller{ID: 1, Function: "cudaLaunchKernel", Module: "/lib/a.so", Symbol: "f"})
		w.Add(&tracelog.Caller{ID: 2, Module: "/lib/b.so"})
		for range 10 + seed {
			c.record()
		}
		if err := w.Close(tracelog.End{Time: 5000}); err != nil {
			t.Fatal(err)
		}
		tl, s := timelineOf(t, logtest.InMemory(log.Bytes()))
		if s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Memsets+s.Graphs || s.Waits != arrows(tl) {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		traceTo(t, logtest.InMemory(log.Bytes()), TraceOptions{Compress: output.None}, io.Discard)
		files, _ := chromeFilesOf(t, logtest.InMemory(log.Bytes()), TraceOptions{})
		for _, f := range files {
			f.parse(t)
		}
	}
}

// arrows counts the work that calls waited for.
func arrows(tl *timelinetest.Timeline) (n uint64) {
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				n += uint64(len(th.Slices[i].Waits()))
			}
		}
	}
	return n
}

package tracelog

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A workload makes launches that look like those of a training loop: each is a call
// with 11 arguments, the API record around it and the kernel that it started, with
// times that scatter as measured ones do.
type workload struct {
	rnd     *rand.Rand
	names   []string
	threads []workThread
	streams []uint64 // when each is free
	next    uint32   // correlation ID
	call    Call
	api     API
	kernel  Kernel
}

type workThread struct {
	now  uint64
	step int
}

const (
	workThreads = 4
	workStreams = 8
	workKernels = 64
)

func newWorkload() *workload {
	w := &workload{rnd: rand.New(rand.NewPCG(1, 2)), threads: make([]workThread, workThreads), streams: make([]uint64, workStreams)}
	for i := range workKernels {
		w.names = append(w.names, fmt.Sprintf("_ZN2at6native29vectorized_elementwise_kernelILi%dENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_", i))
	}
	for i := range w.threads {
		w.threads[i].now = 1_000_000_000_000
	}
	return w
}

// jitter is a duration around mid, with now and then a much longer one.
func (w *workload) jitter(mid float64) uint64 {
	d := mid * (1 + 0.1*w.rnd.NormFloat64())
	if w.rnd.IntN(200) == 0 {
		d *= 5
	}
	return uint64(max(d, 1))
}

// step fills the three records of the next launch.
func (w *workload) step() {
	tid := w.rnd.IntN(workThreads)
	t := &w.threads[tid]
	t.step++
	w.next++
	which := t.step * 7 % workKernels
	if w.rnd.IntN(20) == 0 {
		which = w.rnd.IntN(workKernels)
	}
	stream := (tid*2 + t.step%2) % workStreams
	enter, dur := t.now+w.jitter(900), w.jitter(2600)
	t.now = enter + dur
	grid, block, shared := uint32(1+which%9*16), uint32(128<<(which%3)), uint32(which%4*1024)
	w.call = Call{PID: 4711, TID: uint32(4711 + tid), Func: 3, Enter: enter, Dur: dur, NArgs: 11, Args: [MaxArgs]uint64{
		0x55d0_1234_0000 + uint64(which)*0x1b0, uint64(grid), 1, 1, uint64(block), 1, 1, uint64(shared),
		0x55d0_9999_1000 + uint64(stream)*0x420, 0x7ffd_0000_1230 + uint64(t.step%3)*0x40, 0}}
	w.api = API{PID: 4711, TID: uint32(4711 + tid), Domain: DomainRuntime, CBID: 211, Name: "cudaLaunchKernel",
		Start: enter - w.jitter(400), Dur: dur + w.jitter(700), Correlation: w.next}
	start := max(w.streams[stream], t.now) + w.jitter(1200)
	length := w.jitter(3000 + 400*float64(which))
	w.streams[stream] = start + length
	w.kernel = Kernel{GPU: GPU{PID: 4711, Context: 1, Stream: uint32(7 + stream), Correlation: w.next, Start: start, Dur: length},
		Name: w.names[which], Grid: [3]uint32{grid, 1, 1}, Block: [3]uint32{block, 1, 1}, DynamicShared: shared, Registers: uint32(16 + which%40)}
}

func (w *workload) write(log *Writer) {
	w.step()
	w.call.AddTo(log)
	w.api.AddTo(log)
	w.kernel.AddTo(log)
}

// launches returns the log of n launches.
func launches(tb testing.TB, n int) []byte {
	var out bytes.Buffer
	log := must.Get(NewWriter(&out, Options{}))(tb)
	log.Add(&Function{ID: 3, Name: "cuLaunchKernel", Library: "driver", Args: "f:handle gridDimX:u32 gridDimY:u32 gridDimZ:u32 blockDimX:u32 blockDimY:u32 blockDimZ:u32 sharedMemBytes:u32 hStream:handle kernelParams:ptr extra:ptr"})
	w := newWorkload()
	for range n {
		w.write(log)
	}
	must.Do(tb, log.Close(End{Complete: 1}))
	return out.Bytes()
}

// A launch takes at most 12 bytes, call, API record and kernel together.
func TestBytesPerLaunch(t *testing.T) {
	t.Parallel()
	const n = 100_000
	log := launches(t, n)
	per := float64(len(log)) / n
	t.Logf("%.2f bytes a launch", per)
	if per > 12 {
		t.Errorf("%.2f bytes a launch", per)
	}
}

// Taking a record allocates nothing, blocks being written included.
func TestWriteAllocations(t *testing.T) {
	log, err := NewWriter(io.Discard, Options{RowsPerBlock: 512})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkload()
	for range 50_000 { // until every buffer has its size
		w.write(log)
	}
	if n := testing.AllocsPerRun(20, func() {
		for range 1000 {
			w.write(log)
		}
	}); n > 20 {
		t.Errorf("%v allocations for 3000 records", n)
	}
}

func BenchmarkWrite(b *testing.B) {
	w := newWorkload()
	calls := make([]Call, 512) // as near as what has just been received
	apis := make([]API, len(calls))
	kernels := make([]Kernel, len(calls))
	for i := range calls {
		w.step()
		calls[i], apis[i], kernels[i] = w.call, w.api, w.kernel
	}
	log := must.Get(NewWriter(io.Discard, Options{}))(b)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		k := n % len(calls)
		calls[k].AddTo(log)
		apis[k].AddTo(log)
		kernels[k].AddTo(log)
		n++
	}
	must.Do(b, log.Flush())
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(3*n), "ns/record")
}

func BenchmarkRead(b *testing.B) {
	const n = 100_000
	log := launches(b, n)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	var call Call
	var api API
	var kernel Kernel
	for b.Loop() {
		r := openBytes(b, log)
		for r.Next() {
			blk := r.Block()
			for i := range blk.N {
				switch blk.Kind {
				case KindCall:
					call.Read(blk, i)
				case KindAPI:
					api.Read(blk, i)
				case KindKernel:
					kernel.Read(blk, i)
				}
			}
		}
		must.Do(b, r.Err())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*3*n), "ns/record")
	b.ReportMetric(float64(len(log))/n, "B/launch")
}

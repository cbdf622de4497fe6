package logtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Steps describes one run of a program that makes 40 equal steps: a copy to the GPU, and a launch
// of each of eight kernels. Every tenth step ends with a wait for the device.
type Steps struct {
	Seed    uint64   // of the noise: runs with different seeds are different runs
	Noise   float64  // of times, from run to run; that within a run is larger
	Longer  float64  // by how much the third kernel takes longer: 0.1
	Malloc  bool     // each step allocates memory and frees it
	Wait    bool     // each step waits for its stream
	Kernels []string // mangled names in the place of the usual ones
}

// A stepper writes the log of a run.
type stepper struct {
	Steps
	rnd   *rand.Rand
	w     *tracelog.Writer
	scale map[string]float64 // noise of this run, by what takes the time
	now   uint64             // of the thread
	gpu   uint64             // end of the last work
	next  uint32             // correlation ID
}

// stepFunctions are the functions that the program calls, by ID.
var stepFunctions = []tracelog.Function{
	{ID: 1, Name: "cuLaunchKernel", Library: "driver", Args: "function:handle"},
	{ID: 2, Name: "cudaDeviceSynchronize", Library: "runtime"},
	{ID: 3, Name: "cudaMalloc", Library: "runtime", Args: "devPtr:ptr size:size"},
	{ID: 4, Name: "cudaFree", Library: "runtime", Args: "devPtr:ptr"},
	{ID: 5, Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"},
	{ID: 6, Name: "cuMemcpyHtoDAsync_v2", Library: "driver", Args: "dst:ptr src:ptr bytes:size"},
}

// WriteSteps returns the log of a run.
func WriteSteps(tb testing.TB, steps Steps) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := must.Get(tracelog.NewWriter(&out, tracelog.Options{}))(tb)
	const start = 1_000_000_000_000
	s := &stepper{
		Steps: steps, rnd: rand.New(rand.NewPCG(steps.Seed, 0)), w: w, scale: make(map[string]float64), now: start,
	}
	s.describe()
	for step := range 40 {
		s.step(step)
	}
	must.Do(tb, w.Close(tracelog.End{Time: s.now + 1e6, Complete: 1}))
	return out.Bytes()
}

func (s *stepper) describe() {
	s.w.Add(&tracelog.Clock{Monotonic: s.now, Realtime: 1_700_000_000_000_000_000, Boottime: s.now})
	for i := range stepFunctions {
		s.w.Add(&stepFunctions[i])
	}
	s.w.Add(&tracelog.Process{PID: 100 + uint32(s.Seed%50), Start: s.now, Exe: "/bin/train", Args: "train"})
	s.w.Add(&tracelog.Device{PID: s.pid(), Name: "NVIDIA H200", UUID: "00112233445566778899aabbccddeeff"})
	s.w.Add(&tracelog.CUPTI{PID: s.pid(), Status: "on", DriverVersion: 13000})
	for address := range uint64(4) {
		s.call(3, 20e3)
		s.memory(1, 1+address)
	}
}

// pid is the process, whose number differs from run to run.
func (s *stepper) pid() uint32 { return 100 + uint32(s.Seed%50) }

// about returns a duration near d: what takes it has noise in each run, and each time.
func (s *stepper) about(what string, d float64) uint64 {
	if s.scale[what] == 0 {
		s.scale[what] = 1 + s.Noise*s.rnd.NormFloat64()
	}
	return uint64(max(d*s.scale[what]*(1+3*s.Noise*s.rnd.NormFloat64()), 1))
}

// call makes a call of a function that takes about d ns.
func (s *stepper) call(id uint32, d float64) (enter, leave uint64) {
	enter = s.now + s.about("between", 700)
	leave = enter + s.about(stepFunctions[id-1].Name, d)
	s.w.Add(&tracelog.Call{PID: s.pid(), TID: s.pid(), Func: id, Enter: enter, Dur: leave - enter})
	s.now = leave
	return enter, leave
}

// wait waits until the GPU has nothing left to do.
func (s *stepper) wait(id uint32) {
	s.call(id, 900+float64(s.gpu-min(s.gpu, s.now)))
}

// launch makes a call that causes work of about d ns, and returns the work.
func (s *stepper) launch(id uint32, name string, d float64) tracelog.GPU {
	s.next++
	enter, leave := s.call(id, 2000)
	s.w.Add(&tracelog.API{PID: s.pid(), TID: s.pid(), Domain: tracelog.DomainDriver, Name: stepFunctions[id-1].Name,
		Start: enter + 100, Dur: max(leave-enter, 300) - 200, Correlation: s.next})
	g := tracelog.GPU{
		PID: s.pid(), Context: 1, Stream: 7, Correlation: s.next, Start: max(s.gpu, leave) + 500, Dur: s.about(name, d),
	}
	s.gpu = g.Start + g.Dur
	return g
}

func (s *stepper) memory(operation uint32, address uint64) {
	s.w.Add(&tracelog.Memory{
		PID: s.pid(), TID: s.pid(), Operation: operation, MemoryKind: 3, Time: s.now, Address: address << 20, Bytes: 1 << 20,
	})
}

func (s *stepper) step(n int) {
	at := s.now
	if s.Malloc {
		s.call(3, 20e3)
		s.memory(1, 9)
	}
	s.w.Add(&tracelog.Memcpy{GPU: s.launch(6, "copy", 3000), Bytes: 64 << 10, CopyKind: 1, SrcKind: 2, DstKind: 3})
	for i := range 8 {
		name, d := fmt.Sprintf("_Z4stepILi%dEEvPf", i), 1500+400*float64(i)
		if i < len(s.Kernels) {
			name = s.Kernels[i]
		}
		if i == 2 {
			d *= 1 + s.Longer
		}
		s.w.Add(&tracelog.Kernel{
			GPU: s.launch(1, fmt.Sprint(i), d), Name: name, Grid: [3]uint32{64, 1, 1}, Block: [3]uint32{128, 1, 1},
		})
	}
	if s.Malloc {
		s.call(4, 15e3)
		s.memory(2, 9)
	}
	if s.Wait {
		s.wait(5)
	}
	if n%10 == 9 {
		s.wait(2)
	}
	s.w.Add(&tracelog.Marker{
		PID: s.pid(), TID: s.pid(), Flags: tracelog.MarkerStart, ID: uint32(n + 1), Time: at, Name: "step",
	})
	s.w.Add(&tracelog.Marker{PID: s.pid(), TID: s.pid(), Flags: tracelog.MarkerEnd, ID: uint32(n + 1), Time: s.now})
}

package logtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Ranks describes a distributed program: what each of its ranks does, and how the clocks of its hosts run.
type Ranks struct {
	Hosts, PerHost int
	Seed           uint64
	Steps          int     // each has an all-reduce of all ranks, and one of the ranks of each host
	Drift          float64 // most that the clock of a host is off, in millionths
	WallOff        uint64  // most that a wall clock is off, in ns
	WallError      uint64  // what the kernel knows of that; 0 for a clock that is not synchronized
	Straggler      int     // a rank that is always late; -1 for none
	Late           float64 // by how much, in ns
	Idle           bool    // and its GPU does nothing meanwhile
	Apart          bool    // there is no collective of all ranks
	Kernels        int     // of each rank before each collective; 1 if it is 0

	NVTX     bool        // each step is an NVTX range
	Even     bool        // no rank takes longer than the others by more than chance
	Transfer float64     // ns that a collective takes beyond its latency
	HostLate float64     // ns by which one rank of the last host is late, its ranks in turn
	Odd      int         // a rank with a kernel of its own in each step; 0 for none
	Slow     int         // a rank whose GPU has lower clocks; 0 for none, and no clocks are sampled
	Ends     map[int]int // the log of a rank ends in a step, without its last record
	Run      string      // identity of the run
	Told     bool        // NCCL tells the number of ranks of each communicator
	Bytes    uint64      // of the message of each collective, as NCCL tells it; 0 for an NCCL that tells nothing
}

// A RankLog is the log of a rank, with the truth about the clock of its host.
type RankLog struct {
	Rank, Host int
	Data       []byte
	offset     uint64
	drift      float64

	// In collectives: how long the rank waited for others, in ns, how long all others waited for it, and how often it came
	// last.
	Waited, Awaited float64
	Last            int
}

// At converts a time in ns since the beginning of the program to the clock of the log.
func (l *RankLog) At(t float64) uint64 { return l.offset + uint64(int64(t+t*l.drift/1e6)) }

// Since converts a time of the log to ns since the beginning of the program.
func (l *RankLog) Since(at uint64) float64 { return float64(int64(at-l.offset)) / (1 + l.drift/1e6) }

// uuid is that of the rank's GPU.
func (l *RankLog) uuid(o Ranks) string { return fmt.Sprintf("%016x%016x", o.Seed, l.Rank+1) }

// rankBegin is when the program begins, in UTC.
const rankBegin = 1_700_000_000_000_000_000

// World is the communicator of all ranks, and Local that of the ranks of a host: names of kernels.
const (
	World = "_Z41ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE"
	Local = "_Z41ncclDevKernel_ReduceScatter_Sum_f32_RING24ncclDevKernelArgsStorageILm4096EE"
)

// WriteRanks returns the log of each rank.
func WriteRanks(tb testing.TB, o Ranks) (logs []*RankLog) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(o.Seed, 7))
	if o.Kernels == 0 {
		o.Kernels = 1
	}
	var writers []*rankWriter
	for host := range o.Hosts {
		offset, drift := uint64(1e12)+rnd.Uint64N(1e14), o.Drift*(2*rnd.Float64()-1)
		wall := rankBegin + rnd.Uint64N(2*o.WallOff+1) - o.WallOff
		for range o.PerHost {
			l := &RankLog{Rank: len(logs), Host: host, offset: offset, drift: drift}
			logs = append(logs, l)
			writers = append(writers, newRankWriter(tb, o, l, wall))
		}
	}
	at := make([]float64, len(logs)) // when the GPU of each rank is free
	for i := range at {
		at[i] = 1e9
	}
	for step := range o.Steps {
		compute := func() {
			for r, w := range writers {
				w.compute(rnd, &at[r], o, r, (step+r)%len(logs) == 0)
				if late := (o.Hosts-1)*o.PerHost + step%o.PerHost; r == late && o.HostLate > 0 {
					w.kernel("_Z4gemmPfS_S_i", 7, at[r], at[r]+o.HostLate)
					at[r] += o.HostLate
				}
			}
		}
		for r, w := range writers {
			if last, ends := o.Ends[r]; ends && step == last {
				w.cut()
			}
			w.begin(step, at[r])
		}
		compute()
		for host := range o.Hosts {
			collect(rnd, writers[host*o.PerHost:(host+1)*o.PerHost], at[host*o.PerHost:(host+1)*o.PerHost], Local, 20,
				o.Transfer)
		}
		compute()
		if !o.Apart {
			collect(rnd, writers, at, World, 21, o.Transfer)
		}
		for r, w := range writers {
			w.endStep(step, at[r])
		}
	}
	for i, w := range writers {
		w.end(at[i] + 1e9)
	}
	return logs
}

// collect runs a collective: each rank enters when it gets there, and leaves when the last one has been there.
func collect(rnd *rand.Rand, writers []*rankWriter, at []float64, name string, stream uint32, transfer float64) {
	last := slices.Max(at)
	latest := writers[slices.Index(at, last)].log
	latest.Last++
	for r, w := range writers {
		w.log.Waited += last - at[r]
		latest.Awaited += last - at[r]
	}
	last += 20e3 + 5e3*rnd.Float64() + transfer
	for r, w := range writers {
		left := last + 2e3*rnd.Float64()
		w.collective(name, stream, at[r], left)
		at[r] = left
	}
}

// collective logs a kernel of NCCL and the call that launches it.
func (w *rankWriter) collective(name string, stream uint32, from, to float64) {
	if w.o.Bytes == 0 || w.over {
		w.kernel(name, stream, from, to)
		return
	}
	function, communicator := "ncclAllReduce", uint64(1)
	if name == Local {
		function, communicator = "ncclReduceScatter", uint64(2+w.log.Host)
	}
	pid, id, start := uint32(1000+w.log.Rank%w.o.PerHost), 1<<20+w.next, w.log.At(from)
	if size := uint32(w.o.Hosts * w.o.PerHost); w.o.Told {
		if name == Local {
			size = uint32(w.o.PerHost)
		}
		w.tell(communicator, size)
	}
	w.w.Add(&tracelog.NCCLCall{
		PID: pid, TID: pid, Name: function, Time: start - 9500, Known: tracelog.NCCLCommunicator | tracelog.NCCLBytes,
		Communicator: communicator, Bytes: w.o.Bytes,
	})
	w.w.Add(&tracelog.Marker{
		PID: pid, TID: pid, Flags: tracelog.MarkerStart, ID: id, Time: start - 9400, Name: function, Domain: "NCCL",
	})
	w.kernel(name, stream, from, to)
	w.w.Add(&tracelog.Marker{PID: pid, TID: pid, Flags: tracelog.MarkerEnd, ID: id, Time: start - 4500, Domain: "NCCL"})
}

// tell has the log end with the end of a communicator, whose call has the number of its ranks.
func (w *rankWriter) tell(communicator uint64, size uint32) {
	if w.sizes == nil {
		w.sizes = make(map[uint64]uint32)
	}
	w.sizes[communicator] = size
}

// A rankWriter writes the log of a rank.
type rankWriter struct {
	log  *RankLog
	out  bytes.Buffer
	w    *tracelog.Writer
	tb   testing.TB
	wall uint64
	next uint32
	o    Ranks
	over bool // the log has ended

	sizes map[uint64]uint32 // communicators whose end NCCL tells
}

func newRankWriter(tb testing.TB, o Ranks, l *RankLog, wall uint64) *rankWriter {
	w := &rankWriter{log: l, tb: tb, wall: wall, o: o}
	var err error
	if w.w, err = tracelog.NewWriter(&w.out, tracelog.Options{}); err != nil {
		tb.Fatal(err)
	}
	w.clock(0)
	pid := uint32(1000 + l.Rank%o.PerHost)
	for key, value := range map[string]string{tracelog.MetaHost: fmt.Sprintf("node-%d", l.Host),
		tracelog.MetaBoot: fmt.Sprintf("boot-%d-%d", o.Seed, l.Host)} {
		w.w.Add(&tracelog.Meta{Key: key, Value: value})
	}
	if o.Run != "" {
		w.w.Add(&tracelog.Meta{Key: tracelog.MetaRun, Value: o.Run})
	}
	environment := fmt.Sprintf("RANK=%d\x00LOCAL_RANK=%d\x00WORLD_SIZE=%d", l.Rank, l.Rank%o.PerHost, o.Hosts*o.PerHost)
	w.w.Add(&tracelog.Process{PID: pid, Start: l.At(0), Exe: "/bin/train", Args: "train", Environment: environment})
	w.w.Add(&tracelog.Function{ID: 1, Name: "cuLaunchKernel", Library: "driver", Args: "function:handle"})
	w.w.Add(&tracelog.Device{PID: pid, Name: "NVIDIA H200", UUID: l.uuid(o)})
	w.w.Add(&tracelog.CUPTI{PID: pid, Status: "on", DriverVersion: 13000})
	if o.Slow > 0 {
		w.describeSamples(l.uuid(o))
	}
	return w
}

func (w *rankWriter) clock(t float64) {
	m := w.log.At(t)
	w.w.Add(&tracelog.Clock{
		Monotonic: m, Realtime: w.wall + m - w.log.offset, Boottime: m, Spread: 100, MaxError: w.o.WallError,
	})
}

// compute runs the kernels of a step. The rank whose turn it is to be the last one takes longer.
func (w *rankWriter) compute(rnd *rand.Rand, at *float64, o Ranks, rank int, last bool) {
	much := 2e6 * rnd.Float64()
	if last && !o.Even {
		much = 3e6
	}
	if o.Odd > 0 && rank == o.Odd {
		w.kernel("_Z9save_lossPf", 9, *at, *at+0.5e6)
	}
	if rank == o.Straggler && o.Idle {
		*at += o.Late
	} else if rank == o.Straggler {
		much += o.Late
	}
	for range o.Kernels {
		end := *at + (5e6+much)/float64(o.Kernels)
		w.kernel("_Z4gemmPfS_S_i", 7, *at, end)
		*at = end
	}
}

// begin logs the beginning of a step.
func (w *rankWriter) begin(step int, at float64) {
	if w.o.NVTX && !w.over {
		pid := uint32(1000 + w.log.Rank%w.o.PerHost)
		w.w.Add(&tracelog.Marker{
			PID: pid, TID: pid, Flags: tracelog.MarkerStart, ID: uint32(step + 1), Time: w.log.At(at),
			Name: fmt.Sprintf("step %d", step),
		})
	}
}

// endStep logs the end of a step, and the clock of the GPU where that is sampled.
func (w *rankWriter) endStep(step int, at float64) {
	if w.o.NVTX && !w.over {
		pid := uint32(1000 + w.log.Rank%w.o.PerHost)
		w.w.Add(&tracelog.Marker{PID: pid, TID: pid, Flags: tracelog.MarkerEnd, ID: uint32(step + 1), Time: w.log.At(at)})
	}
	if w.o.Slow > 0 && !w.over {
		w.sample(at)
	}
}

// clocks are the metrics of a GPU that are sampled.
var clocks = []metric.Metric{
	{Name: metric.NameReasons, Unit: metric.BitsOfReason, Kind: metric.Bits},
	{Name: metric.NameSMClock, Unit: metric.Hertz, Kind: metric.Level},
}

// sample logs the clock of the GPU in the last 5 ms.
func (w *rankWriter) sample(at float64) {
	s := &tracelog.Sample{Set: 1, Start: w.log.At(at - 5e6), Dur: 5e6, NValues: uint32(len(clocks))}
	hertz := 1.98e9
	if w.log.Rank == w.o.Slow {
		hertz = 1.6e9
	}
	s.Values[0], s.Values[1] = clocks[0].Store(0), clocks[1].Store(hertz)
	w.w.Add(s)
}

// describeSamples logs what is sampled.
func (w *rankWriter) describeSamples(uuid string) {
	w.w.Add(&tracelog.MetricSet{ID: 1, Source: uint32(metric.NVML), UUID: uuid, Interval: 5e6})
	for i, m := range clocks {
		w.w.Add(&tracelog.Metric{
			Set: 1, Index: uint32(i), Name: m.Name, Label: m.Name, Unit: uint32(m.Unit), ValueKind: uint32(m.Kind), Scale: 1,
		})
	}
}

// kernel logs a kernel and its launch.
func (w *rankWriter) kernel(name string, stream uint32, from, to float64) {
	if w.over {
		return
	}
	w.next++
	pid := uint32(1000 + w.log.Rank%w.o.PerHost)
	start := w.log.At(from)
	w.w.Add(&tracelog.Call{PID: pid, TID: pid, Func: 1, Enter: start - 9000, Dur: 4000, NArgs: 1})
	w.w.Add(&tracelog.API{
		PID: pid, TID: pid, Domain: tracelog.DomainDriver, CBID: 307, Name: "cuLaunchKernel", Start: start - 8500, Dur: 3000,
		Correlation: w.next,
	})
	w.w.Add(&tracelog.Kernel{GPU: tracelog.GPU{
		PID: pid, Context: 1, Stream: stream, Correlation: w.next, Start: start, Dur: w.log.At(to) - start,
	},
		Name: name, Grid: [3]uint32{24, 1, 1}, Block: [3]uint32{512, 1, 1}})
}

// cut ends the log as a crash of its host does.
func (w *rankWriter) cut() {
	must.Do(w.tb, w.w.Flush())
	w.log.Data, w.over = bytes.Clone(w.out.Bytes()), true
}

func (w *rankWriter) end(t float64) {
	if w.over {
		return
	}
	w.clock(t)
	for communicator, size := range w.sizes {
		pid := uint32(1000 + w.log.Rank%w.o.PerHost)
		w.w.Add(&tracelog.NCCLCall{
			PID: pid, TID: pid, Name: "ncclCommDestroy", Time: w.log.At(t),
			Known: tracelog.NCCLCommunicator | tracelog.NCCLRanks, Communicator: communicator, Ranks: size,
		})
	}
	must.Do(w.tb, w.w.Close(tracelog.End{Time: w.log.At(t), Complete: 1}))
	w.log.Data = w.out.Bytes()
}

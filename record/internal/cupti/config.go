package cupti

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Records is a set of groups of activity records, one bit per group.
type Records uint32

// The groups of records. Calls are always recorded.
const (
	RecordCalls Records = 1
	// RecordWork is kernels, memcpys and memsets; devices, contexts, streams, pools of memory; CUPTI's own time.
	RecordWork Records = recordsWork << 1
	RecordNVTX Records = recordsNvtx << 1 // marks, ranges and names

	DefaultRecords = RecordCalls | RecordWork | RecordNVTX
)

// A GoConfig is the answer to a process's hello: what to record, and how. A zero value means
// the default below.
type GoConfig struct {
	BufferSize    uint32        // size of a CUPTI buffer, bytes
	FlushInterval time.Duration // greatest age of a record before it is sent
	MemoryLimit   uint64        // most bytes that the library allocates in the process; at least 3 MiB
	ExitWait      time.Duration // longest time for which the process's end waits for CUPTI or a slow recorder
	Candidates    []Candidate   // places of libcupti, best first; see Locate
	NoCUPTI       bool          // report the process, but record nothing

	Records Records // a Note names each kind that CUPTI refuses
	// Calls are the functions of the runtime and the driver that get API records, in all their
	// variants. Without any: the functions that create GPU work.
	Calls []string
	// Shown are functions of the driver whose calls CUPTI's callbacks give with their arguments: those that do something
	// to memory. It takes the process's one subscription, and gives it back when a profiler in the program wants it.
	Shown        []*cudaapi.Function
	Paused       bool // record nothing before Resume
	CaptureRange bool // record between cudaProfilerStart and cudaProfilerStop only
	// OwnClock keeps CUPTI on its own clock, which is measured against CLOCK_MONOTONIC: some
	// releases give kernels no times on another clock.
	OwnClock bool
	// WatchClients makes the process itself notice another CUPTI client, for a recorder that may
	// not set probes. It takes a few FlushIntervals and needs CUPTI 13. Now and then a thread
	// of the library calls cuDeviceGetCount.
	WatchClients bool
	// Callers finds out where calls of the driver were made; by [Listener.FindCaller].
	// Calls of the runtime then have no API records: their names are found with the callers. A
	// process where that is impossible makes records of the runtime's calls, unless it shows later; a Note says so.
	Callers bool
	// Python gives API records of the driver's calls the Python frames above them, in a process with this
	// interpreter, or with one that [Server.SetPython] names later.
	Python      bool
	Interpreter *pyframes.Interpreter // nil: none is known
	// Torch gives them the operators of PyTorch, too, in a process whose functions [Server.SetTorch] names.
	Torch bool
	// Late says that CUDA has started long before. CUPTI then makes records of all calls, of which the library keeps
	// those of Calls, and none of devices and contexts. A CUPTI client that is there already stays alone.
	Late bool
	// Door says that the process's threads may be stopped outside of CUDA (package door) when CUPTI cannot be switched on
	// or off beside them.
	Door bool

	within pattern.Ranges // see Options
	steps  pattern.Numbers
}

// appendRanges encodes the pattern of NVTX ranges, nothing for none.
func appendRanges(b []byte, r pattern.Ranges) []byte {
	if r.None() {
		return b
	}
	return append(append(append(b, r.Name...), 0), r.Domain...)
}

// CheckRanges returns why the injected library cannot look for NVTX ranges.
func CheckRanges(r pattern.Ranges) error {
	switch {
	case strings.ContainsRune(r.Name+r.Domain, 0):
		return errors.New("a name has no zero byte")
	case len(appendRanges(nil, r)) > rangeMax:
		return fmt.Errorf("the name of a range, with its domain, has at most %d bytes", rangeMax-1)
	}
	return nil
}

// The defaults of a GoConfig.
const (
	DefaultBufferSize    = 256 << 10 // as quick as 1 MiB (an H200, a launch loop)
	DefaultFlushInterval = time.Second
	DefaultMemoryLimit   = 64 << 20
	DefaultExitWait      = 5 * time.Second
)

func (c GoConfig) withDefaults() GoConfig {
	if c.BufferSize == 0 {
		c.BufferSize = DefaultBufferSize
	}
	if c.FlushInterval == 0 {
		c.FlushInterval = DefaultFlushInterval
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = DefaultMemoryLimit
	}
	if c.ExitWait == 0 {
		c.ExitWait = DefaultExitWait
	}
	if c.Records == 0 {
		c.Records = DefaultRecords
	}
	return c
}

// appendGo encodes a GO. It leaves out the last candidates and calls where the GO would be
// longer than the library accepts.
func appendGo(b []byte, c GoConfig) []byte {
	paths, candidates := appendCandidates(nil, c.Candidates)
	within := appendRanges(nil, c.within)
	shown, functions := appendShown(nil, c.Shown)
	calls, named := appendCalls(nil, c.Calls, goMax-goSize-len(shown)-len(paths)-len(within))
	p := make([]byte, goSize)
	putPython(p[goPythonAt:], c.Interpreter)
	le.PutUint32(p[goBufferSizeAt:], c.BufferSize)
	le.PutUint32(p[goFlushMsAt:], uint32(c.FlushInterval/time.Millisecond))
	le.PutUint64(p[goMemoryLimitAt:], c.MemoryLimit)
	le.PutUint32(p[goExitMsAt:], uint32(c.ExitWait/time.Millisecond))
	le.PutUint32(p[goFlagsAt:], c.flags())
	le.PutUint32(p[goCandidatesAt:], candidates)
	le.PutUint32(p[goCallsAt:], named)
	le.PutUint32(p[goRecordsAt:], uint32(c.Records)>>1)
	le.PutUint32(p[goRangeLenAt:], uint32(len(within)))
	le.PutUint64(p[goFirstStepAt:], c.steps.First)
	le.PutUint32(p[goStepsAt:], c.steps.Count)
	le.PutUint32(p[goFunctionsAt:], functions)
	return appendFrame(b, msgGo, slices.Concat(p, shown, paths, calls, within))
}

func (c GoConfig) flags() uint32 {
	var flags uint32
	for _, f := range []struct {
		set  bool
		flag uint32
	}{
		{c.NoCUPTI, goNoCupti},
		{c.Paused, goPaused},
		{c.CaptureRange, goCaptureRange},
		{c.OwnClock, goOwnClock},
		{c.WatchClients, goWatchClients},
		{c.Callers, goCallers},
		{c.Late, goLate},
		{c.Python, goPython},
		{c.Torch, goTorch},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// appendShown encodes where CUPTI's callbacks find the arguments of functions. It returns their number.
func appendShown(b []byte, functions []*cudaapi.Function) ([]byte, uint32) {
	n := uint32(0)
	for _, f := range functions {
		places := f.Shown()
		if places == nil || n == functionsMax {
			continue
		}
		p := make([]byte, functionSize)
		copy(p[functionNameAt:functionIdAt-1], f.Name)
		le.PutUint32(p[functionIdAt:], uint32(f.ID))
		le.PutUint32(p[functionCountAt:], uint32(len(places)+1))
		args := p[functionArgsAt:]
		for i, a := range places {
			from := byte(fromArgument)
			if a.Out {
				from = fromPointer
			}
			copy(args[i*argumentSize:], []byte{byte(a.At), from, byte(a.Offset), byte(a.Bytes)})
		}
		args[len(places)*argumentSize+argumentFromAt] = fromContext
		b = append(b, p...)
		n++
	}
	return b, n
}

// appendCandidates encodes candidates, up to half the size of a GO. It returns their number.
func appendCandidates(b []byte, candidates []Candidate) ([]byte, uint32) {
	n := uint32(0)
	for _, c := range candidates {
		if n == candidatesMax || len(b)+8+len(c.Path) > goMax/2 {
			break
		}
		b = le.AppendUint32(b, c.Major)
		b = le.AppendUint32(b, uint32(len(c.Path)))
		b = append(b, c.Path...)
		n++
	}
	return b, n
}

// appendCalls encodes the names of calls without suffixes, each name once. It returns their
// number.
func appendCalls(b []byte, calls []string, limit int) ([]byte, uint32) {
	seen := map[string]bool{}
	for _, c := range calls {
		name := callBase(c)
		if seen[name] || len(b)+4+len(name) > limit {
			continue
		}
		seen[name] = true
		b = le.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
	}
	return b, uint32(len(seen))
}

// callBase returns a function's name without the suffixes of its variants: cuMemcpyHtoD
// for cuMemcpyHtoD_v2_ptds, cudaMalloc for cudaMalloc_v3020.
func callBase(name string) string {
	for {
		short := strings.TrimSuffix(strings.TrimSuffix(name, "_ptds"), "_ptsz")
		if stem, ok := strings.CutSuffix(strings.TrimRight(short, "0123456789"), "_v"); ok &&
			!strings.HasSuffix(short, "_v") {
			short = stem
		}
		if short == name {
			return name
		}
		name = short
	}
}

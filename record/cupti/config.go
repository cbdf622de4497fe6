package cupti

import (
	"strings"
	"time"
)

// Records is a set of groups of activity records, a bit each.
type Records uint32

// The groups of records. Work is always recorded: kernels, memcpys, memsets, the calls
// behind them, devices, contexts, streams.
const (
	RecordWork     Records = 1 << iota
	RecordSync             // calls that wait for GPU work
	RecordOverhead         // time that CUPTI and the driver take for themselves
	RecordNVTX             // marks, ranges and names
	RecordMemory           // allocations, releases and pools of memory
	RecordGraphs           // launches of graphs as a whole; their nodes are left out

	DefaultRecords = RecordWork | RecordSync | RecordOverhead | RecordNVTX | RecordMemory
)

// A GoConfig is the answer to a process's hello: what to record, and how. The defaults
// below replace zero values.
type GoConfig struct {
	BufferSize    uint32        // of a CUPTI buffer, bytes
	FlushInterval time.Duration // greatest age of a record before it is sent
	MemoryLimit   uint64        // of everything that the library allocates in the process, bytes; 3 MiB at least
	ExitWait      time.Duration // longest wait of the process's end for CUPTI or a slow recorder
	Candidates    []Candidate   // places of libcupti, best first; see Locate
	NoCUPTI       bool          // report the process alone, record nothing

	Records Records // a kind that CUPTI refuses is a Note
	// Calls are the functions of either library to make API records of, in all their
	// variants. None: the functions that create GPU work.
	Calls        []string
	Paused       bool // record nothing before Resume
	CaptureRange bool // record between cudaProfilerStart and cudaProfilerStop only
	// OwnClock leaves CUPTI its own clock, which is measured against CLOCK_MONOTONIC:
	// some releases give kernels no times on another clock.
	OwnClock bool
	// WatchRivals has the process itself notice another CUPTI client, for a recorder
	// that may set no probe. It takes a few FlushIntervals and needs CUPTI 13; now and
	// then a thread of the library calls cuDeviceGetCount.
	WatchRivals bool
}

// The defaults of a GoConfig.
const (
	DefaultBufferSize    = 1 << 20
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

// appendGo encodes a GO. Candidates and calls at the end that would make it longer than
// the library takes are left out.
func appendGo(b []byte, c GoConfig) []byte {
	paths, candidates := appendCandidates(nil, c.Candidates)
	calls, named := appendCalls(nil, c.Calls, goMax-goSize-len(paths))
	p := le.AppendUint32(nil, c.BufferSize)
	p = le.AppendUint32(p, uint32(c.FlushInterval/time.Millisecond))
	p = le.AppendUint64(p, c.MemoryLimit)
	p = le.AppendUint32(p, uint32(c.ExitWait/time.Millisecond))
	p = le.AppendUint32(p, c.flags())
	p = le.AppendUint32(p, candidates)
	p = le.AppendUint32(p, named)
	p = le.AppendUint32(p, uint32(c.Records&^RecordWork)>>1)
	p = le.AppendUint32(p, 0)
	return appendFrame(b, msgGo, append(append(p, paths...), calls...))
}

func (c GoConfig) flags() uint32 {
	var flags uint32
	for _, f := range []struct {
		set  bool
		flag uint32
	}{
		{c.NoCUPTI, goNoCUPTI},
		{c.Paused, goPaused},
		{c.CaptureRange, goCaptureRange},
		{c.OwnClock, goOwnClock},
		{c.WatchRivals, goWatchRivals},
	} {
		if f.set {
			flags |= f.flag
		}
	}
	return flags
}

// appendCandidates encodes candidates, up to half the size of a GO.
func appendCandidates(b []byte, candidates []Candidate) ([]byte, uint32) {
	n := uint32(0)
	for _, c := range candidates {
		if n == pathsMax || len(b)+8+len(c.Path) > goMax/2 {
			break
		}
		b = le.AppendUint32(b, c.Major)
		b = le.AppendUint32(b, uint32(len(c.Path)))
		b = append(b, c.Path...)
		n++
	}
	return b, n
}

// appendCalls encodes the names of calls, each once, without suffixes.
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
		if stem, ok := strings.CutSuffix(strings.TrimRight(short, "0123456789"), "_v"); ok && !strings.HasSuffix(short, "_v") {
			short = stem
		}
		if short == name {
			return name
		}
		name = short
	}
}

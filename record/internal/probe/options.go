package probe

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Defaults of Options.
const (
	// defaultBufferBytes holds 600,000 kernel launches of 112 bytes: 3 s of 200,000 launches a
	// second, if the recorder is stopped for that long.
	defaultBufferBytes = 64 << 20
	// defaultMaxThreads is the number of live threads that have called CUDA, in all processes.
	// Each takes 2 KiB of kernel memory.
	defaultMaxThreads = 4096
)

// Options are the options of Open.
type Options struct {
	Functions []*cudaapi.Function // functions to probe
	// OfFiles are functions of files that are none of CUDA's libraries, but for WithoutOfFiles. OnFunctions, if not nil,
	// is called for each file in which some are found, before the first of their events is delivered.
	OfFiles, WithoutOfFiles []pattern.Functions
	OnFunctions             func(Functions)

	// Spared are functions of which AttachSparing attaches the probes that are left (cudaapi.Sources), since somebody
	// else records their calls.
	Spared []*cudaapi.Function

	BufferBytes int // kernel memory for calls; 0 means defaultBufferBytes

	mode       attachMode // tests choose one; else the best that the kernel has
	maxThreads int        // 0 means defaultMaxThreads
	rate       uint32     // entries of functions of OfFiles in 100 ms; 0 means that of the eBPF program

	// Symbols asks for the names behind the handles that launches pass. They come from the
	// calls that make such handles, even while recording is paused.
	Symbols bool
	// Paused records nothing until Resume.
	Paused bool
	// CaptureRange records a process only from the return of its cudaProfilerStart or
	// cuProfilerStart to its cudaProfilerStop or cuProfilerStop.
	CaptureRange bool
	// CaptureNVTX records a process only while the injected library says that it is in an NVTX range.
	CaptureNVTX bool
	// OnlyOfFiles probes no functions but those of OfFiles. No other breakpoint is put into a process: _exit and exec are
	// not noticed in time, nor is a client of CUPTI.
	OnlyOfFiles bool
	// WatchExits announces that WatchExit will be called for attached processes. Open and
	// Attach then prepare it in the background, so that it takes less than a millisecond.
	WatchExits bool
	// OnCUPTIClient, if not nil, is called for each call of cuptiActivityRegisterCallbacks,
	// with its first argument and its time (ns, CLOCK_MONOTONIC): CUPTI serves the client that registered last. Run and
	// Finish call it.
	OnCUPTIClient func(pid uint32, request, at uint64)
}

// candidates lists the modes to try, best first.
func (o *Options) candidates() []attachMode {
	if o.mode != modeAuto {
		return []attachMode{o.mode}
	}
	return []attachMode{modeMulti, modeSingle}
}

// probesNothing reports whether nothing is probed in any process.
func (o *Options) probesNothing() bool { return o.OnlyOfFiles && len(o.OfFiles) == 0 }

func (o *Options) complete() error {
	if o.BufferBytes < 0 {
		return fmt.Errorf("a buffer of %d bytes makes no sense: it must have 0 (default) or more", o.BufferBytes)
	}
	o.BufferBytes = cmp.Or(o.BufferBytes, defaultBufferBytes)
	o.maxThreads = cmp.Or(o.maxThreads, defaultMaxThreads)
	if o.probesNothing() {
		o.maxThreads = 1
	}
	return nil
}

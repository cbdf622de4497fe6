package probe

import (
	"fmt"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/probe/uprobe"
)

// Defaults of Options.
const (
	// DefaultBufferBytes holds 600,000 kernel launches of 104 bytes: those of 3 s at
	// 200,000 a second, should the recorder be stopped that long.
	DefaultBufferBytes = 64 << 20
	// DefaultMaxThreads is live threads that have called CUDA, over all processes. Each
	// takes 1.4 KiB of kernel memory.
	DefaultMaxThreads = 4096
)

// Options configures a Prober.
type Options struct {
	Functions   []*cudaapi.Function // what to probe where it is found
	BufferBytes int                 // of kernel memory for calls; 0 means DefaultBufferBytes
	Mode        uprobe.Mode
	MaxThreads  int // 0 means DefaultMaxThreads

	// Symbols asks for the names behind the handles that launches pass, from the calls that
	// make such handles. They come also while recording is paused.
	Symbols bool
	// Paused begins with nothing recorded, until Resume.
	Paused bool
	// CaptureRange records a process only from the return of its cudaProfilerStart to its
	// cudaProfilerStop, of the runtime or the driver.
	CaptureRange bool
	// WatchExits says that WatchExit will be called for processes that are attached. Open
	// and Attach then prepare it in the background, so that it takes less than a
	// millisecond.
	WatchExits bool
	// OnCUPTIClient, if not nil, is told of each call of cuptiActivityRegisterCallbacks,
	// with its first argument: CUPTI serves whoever called last. Run and Finish call it.
	OnCUPTIClient func(pid uint32, request uint64)
}

func (o *Options) complete() error {
	if o.BufferBytes < 0 || o.MaxThreads < 0 {
		return fmt.Errorf("a size of %d bytes and %d threads makes no sense: both must be 0 (default) or more", o.BufferBytes, o.MaxThreads)
	}
	if o.BufferBytes == 0 {
		o.BufferBytes = DefaultBufferBytes
	}
	if o.MaxThreads == 0 {
		o.MaxThreads = DefaultMaxThreads
	}
	return nil
}

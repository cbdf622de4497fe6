package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// A Sink takes the records of all processes. A tracelog.Writer is one.
//
// Calls come from several goroutines at a time, one a process. The record belongs to
// the caller, who uses it again after the call. Times are CLOCK_MONOTONIC.
type Sink interface {
	Kernel(*tracelog.Kernel)
	Memcpy(*tracelog.Memcpy)
	Memset(*tracelog.Memset)
	API(*tracelog.API)
	Device(*tracelog.Device)
	Context(*tracelog.Context)
	Stream(*tracelog.Stream)
	Sync(*tracelog.Sync)
	Overhead(*tracelog.Overhead)
	Marker(*tracelog.Marker)
	Name(*tracelog.Name)
	Memory(*tracelog.Memory)
	MemoryPool(*tracelog.MemoryPool)
	Graph(*tracelog.Graph)
	CUPTI(*tracelog.CUPTI)
	Lost(*tracelog.Lost)
	Flushed(*tracelog.Flushed)
}

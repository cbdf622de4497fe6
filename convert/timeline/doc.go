// Package timeline is the model of what a CUDA program did, and the interface
// through which every view of it is made.
//
// Package convert reads logs, aligns their clocks and joins calls, GPU work and what lies
// around them. Its result goes in here; out comes a stream of [Event] values for a [Sink]:
// processes, GPUs, contexts and streams as they become known, the calls of each thread
// ([Slices]), the GPU work of each stream ([WorkList]), ranges beside the calls
// ([SpanBegin], [SpanEnd], [Instant]), memory ([Allocation], [CounterValue]), and what a
// person should know of the recording ([Loss], [Note]).
//
// Nothing is left to join. A piece of GPU work carries the call that caused it, a call
// carries the work that it waited for, and both name each other by [Work.ID], so that
// arrows can be drawn.
//
// Times are nanoseconds of CLOCK_MONOTONIC of the host whose clock the timeline has
// (see [Recording]); durations are nanoseconds, sizes bytes.
package timeline

import "math"

// Never is a time that does not come.
const Never = uint64(math.MaxUint64)

// End returns start + dur, or Never where the sum is no time: a hostile log may hold
// any value.
func End(start, dur uint64) uint64 {
	if dur > Never-start {
		return Never
	}
	return start + dur
}

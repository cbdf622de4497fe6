// Package timeline is the model of a CUDA program's activity, and the interface through which
// every view of it is made.
//
// Package convert makes timelines: it reads logs, aligns their clocks, and joins calls, GPU
// work and related records. A timeline is a sequence of [Event] values for a [Sink]: processes,
// GPUs, contexts and streams as they become known, the calls of each thread ([Slices]), the GPU
// work of each stream ([WorkList]), ranges beside the calls ([SpanBegin], [SpanEnd],
// [Instant]), memory ([Allocation], [TorchBlock], [CounterValue]), and remarks about the recording for people
// ([Loss], [Note]).
//
// A sink joins nothing and reads no text: facts are fields, and a [SpanEnd] has the whole span. A
// piece of GPU work carries the call that caused it, a call carries the work that it waited for, and
// both refer to each other by [Work.ID], so that a view can draw arrows.
//
// Times are nanoseconds of CLOCK_MONOTONIC of one host (see [Recording]); durations are
// nanoseconds, sizes bytes.
package timeline

import "math"

// Never is a time that does not come.
const Never = uint64(math.MaxUint64)

// End returns start + dur, or Never where the sum exceeds 64 bits: a hostile log may hold any
// value.
func End(start, dur uint64) uint64 {
	if dur > Never-start {
		return Never
	}
	return start + dur
}

// Package perfetto writes traces in Perfetto's protobuf format: slices and
// instant events on the tracks of threads and beside them, counters, work on the
// queues of GPUs, and arrows from the calls to the work that they submitted and
// from the work to the calls that waited for it.
//
// A [Writer] streams: a packet goes out soon after the call that made it, and
// what stays in memory are names. Threads, tracks and queues may be interleaved
// freely. Each of them is a packet sequence of its own with its own interned
// data and a clock in which times are distances, so times should not decrease
// within one; where they do, the trace grows but stays right.
//
// Times are nanoseconds of CLOCK_MONOTONIC, durations nanoseconds.
package perfetto

import (
	"cmp"
	"io"
)

// Options say how the times of a trace relate to the world.
type Options struct {
	// One reading of the host's clocks, taken together, in ns.
	// All are 0 when there is none; the trace then has no date.
	Monotonic, Realtime, Boottime uint64

	// Start is a time of CLOCK_MONOTONIC that no event precedes. Times are
	// written relative to it. An earlier event is right too.
	Start uint64

	// PieceBytes is how much of the events of one sort stands together: the outer slices
	// of a track, say. 0 is 1 MiB, from which gzip gains a tenth against 64 KiB; smaller
	// pieces are still in the processor's cache when they are written.
	PieceBytes int
}

// A Writer writes a trace. Its methods must not be called concurrently.
type Writer struct {
	output     output
	interner   interner
	args       buffer // of one event; argRefs are its interned strings
	argRefs    []stringRef
	kernel     buffer // the InternedComputeKernel that is encoded; kernelRefs are its interned strings
	kernelRefs []stringRef
	start      uint64            // Options.Start
	common     sequence          // of the packets without a timestamp
	processes  map[uint32]uint64 // UUIDs of their tracks, by PID
	threads    map[threadKey]*Track
	contexts   map[contextKey]uint64
	kernels    []Kernel // by KernelID - 1
	gpus       bool     // they are described
	templates  uint32   // contents of templates so far
	sequences  uint64   // so far
	uuids      uint64
	queues     uint64
}

// NewWriter returns a Writer to w. It keeps the first error of w, drops what
// comes after it, and returns it from [Writer.Err] and [Writer.Close].
func NewWriter(w io.Writer, o Options) *Writer {
	t := &Writer{
		output:    output{w: w, pieceBytes: cmp.Or(o.PieceBytes, defaultPieceBytes)},
		interner:  newInterner(),
		start:     o.Start,
		processes: make(map[uint32]uint64),
		threads:   make(map[threadKey]*Track),
		contexts:  make(map[contextKey]uint64),
	}
	t.output.packets.b = make([]byte, 0, reservedBytes)
	t.common = t.newBareSequence()
	t.snapshot(o)
	return t
}

// snapshot writes the relation of the clocks, moved to Start so that the
// snapshots of all sequences are of one time. Without MONOTONIC, BOOTTIME and
// REALTIME in the first snapshot the trace processor drops every event.
func (w *Writer) snapshot(o Options) {
	if o.Monotonic == 0 {
		o.Monotonic = o.Start
	}
	if o.Boottime == 0 {
		o.Boottime = o.Monotonic
	}
	if o.Realtime == 0 {
		o.Realtime = o.Monotonic
	}
	b := w.common.begin()
	b.uint(packetSequenceFlags, incrementalStateCleared)
	start := b.open(packetClockSnapshot)
	b.clock(clockMonotonic, o.Start, false)
	b.clock(clockBoottime, shift(o.Boottime, o.Start, o.Monotonic), false)
	b.clock(clockRealtime, shift(o.Realtime, o.Start, o.Monotonic), false)
	b.uint(snapshotPrimaryClock, clockMonotonic)
	b.close(start)
	w.common.end()
}

// shift returns t + to - from, but not less than 0.
func shift(t, to, from uint64) uint64 {
	if to < from && t < from-to {
		return 0
	}
	return t + to - from
}

// newUUID returns the UUID of a new track.
func (w *Writer) newUUID() uint64 {
	w.uuids++
	return w.uuids
}

// Close writes what is left and returns the first error. It does not close the
// underlying writer.
func (w *Writer) Close() error { return w.output.close() }

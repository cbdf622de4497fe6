package perfetto

import (
	"cmp"
	"io"
)

// Options are the clocks of a trace and the size of its pieces.
type Options struct {
	// Monotonic, Realtime and Boottime are one reading of the host's clocks, in ns. All of
	// them are 0 without a reading; the trace then has no date.
	Monotonic, Realtime, Boottime uint64

	// Start is a time of CLOCK_MONOTONIC close to the first event. Times are written relative
	// to it, so that they are short. An event may come before it.
	Start uint64

	// PieceBytes is the number of bytes that a packet sequence with events collects before
	// they are written in one piece; 0 means 1 MiB. Pieces of 1 MiB compress to a tenth less
	// than pieces of 64 KiB, which are faster to write: the processor's cache still holds them.
	PieceBytes int
}

// A Writer writes a trace. Its methods, and those of its tracks, queues and counters, must
// not be called concurrently.
type Writer struct {
	output   output
	interner interner
	start    uint64   // Options.Start
	common   sequence // of the packets without a timestamp

	processes map[uint32]uint64 // UUIDs of their tracks, by PID
	threads   map[threadKey]*Track
	contexts  map[contextKey]uint64
	kernels   []Kernel // by KernelID - 1
	gpus      bool     // they are described

	sequences uint64 // number of them, as are the next three
	uuids     uint64
	queues    uint64
	gpuGroups map[string]uint64 // numbers of the groups of GPU counters, by name
	templates uint32            // contents of templates

	args       buffer // encoded arguments of one event
	argRefs    []stringRef
	kernel     buffer // one encoded kernel
	kernelRefs []stringRef
}

// NewWriter returns a Writer to w. It keeps the first error of w, drops everything after it,
// and returns the error from [Writer.Err] and [Writer.Close].
func NewWriter(w io.Writer, o Options) *Writer {
	t := &Writer{
		output:    output{w: w, pieceBytes: cmp.Or(o.PieceBytes, defaultPieceBytes)},
		interner:  newInterner(),
		start:     o.Start,
		processes: make(map[uint32]uint64),
		threads:   make(map[threadKey]*Track),
		contexts:  make(map[contextKey]uint64),
		gpuGroups: make(map[string]uint64),
	}
	t.output.packets.b = make([]byte, 0, reservedBytes)
	t.common = t.newBareSequence()
	t.snapshot(o)
	return t
}

// snapshot writes the reading of the clocks, moved to Start so that the snapshots of all
// sequences are of one time. The trace processor drops every event unless the first snapshot
// has MONOTONIC, BOOTTIME and REALTIME.
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

// Err returns the first error so far. Nothing is written after it.
func (w *Writer) Err() error { return w.output.err }

// Close writes the rest and returns the first error. It does not close the underlying writer.
func (w *Writer) Close() error { return w.output.close() }

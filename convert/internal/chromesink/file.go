package chromesink

import (
	"cmp"
	"io"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// pieceBytes is the size of the pieces in which a file is written.
const pieceBytes = 64 << 10

// A file is the trace of a process.
type file struct {
	clock   clock
	process *timeline.Process
	out     io.Writer
	err     error // of out
	b       []byte
	more    bool               // an event has been written
	taken   map[uint32]numbers // by process number
	known   map[uint32]bool    // GPUs that have been described, by the process's number

}

// A clock converts times to those of the trace: time since a base that all traces of some months
// share, so that a double holds each ns, and the traces of several ranks have one clock.
type clock struct {
	base  uint64 // ns since 1970, 0 where the wall clock is not known
	shift uint64 // added to CLOCK_MONOTONIC, wrapping
	start uint64 // of the recording
}

// basePeriod is half of Kineto's three months. From 2^42 µs on, which is more than this and less
// than Kineto's period, a reader that multiplies microseconds by 1000 and rounds is wrong by a ns
// now and then, and drops slices that seem to overlap by that.
const basePeriod = 7_889_238e9 / 2

func newClock(r *timeline.Recording) clock {
	if r.Realtime == 0 {
		return clock{start: r.Start}
	}
	base := r.Realtime - r.Realtime%basePeriod
	return clock{base: base, shift: r.Realtime - base - r.Monotonic, start: r.Start}
}

// latest is a time later than any real one. A hostile log may hold any value.
const latest = 1 << 62

func (c *clock) at(t uint64) int64 { return int64(min(t, latest) + c.shift) }

func length(start, end uint64) int64 {
	start, end = min(start, latest), min(end, latest)
	return int64(end - min(start, end))
}

func newFile(out io.Writer, c clock, p *processFile) *file {
	f := &file{clock: c, process: p.Process, out: out, taken: make(map[uint32]numbers), known: make(map[uint32]bool)}
	f.header(p.log)
	f.processRow(p.PID, programName(p.Process), "CPU", uint64(p.PID))
	return f
}

// programName is the name of a process for people.
func programName(p *timeline.Process) string { return cmp.Or(p.Name, "process") }

func (f *file) numbers(pid uint32) numbers {
	n := f.taken[pid]
	if n == nil {
		n = make(numbers)
		f.taken[pid] = n
	}
	return n
}

// begin begins an event; end completes it. An event is one line.
func (f *file) begin(ph, cat, name string, pid, tid uint32, at uint64) object {
	o := f.open(ph, cat)
	o.string("name", name)
	f.place(&o, pid, tid, at)
	return o
}

// beginNamed begins an event whose name is JSON already.
func (f *file) beginNamed(ph, cat string, name []byte, pid, tid uint32, at uint64) object {
	o := f.open(ph, cat)
	o.raw("name", name)
	f.place(&o, pid, tid, at)
	return o
}

func (f *file) open(ph, cat string) object {
	if f.more {
		f.b = append(f.b, ',')
	}
	f.more = true
	o := object{b: append(f.b, "\n{"...)}
	o.string("ph", ph)
	if cat != "" {
		o.string("cat", cat)
	}
	return o
}

func (f *file) place(o *object, pid, tid uint32, at uint64) {
	o.uint("pid", uint64(pid))
	o.uint("tid", uint64(tid))
	o.micros("ts", f.clock.at(at))
}

func (f *file) end(o *object) {
	f.b = append(o.b, '}')
	if len(f.b) >= pieceBytes {
		f.flush()
	}
}

// slice begins a complete event and its arguments.
func (f *file) slice(cat, name string, pid, tid uint32, start, end uint64) object {
	o := f.begin("X", cat, name, pid, tid, start)
	o.micros("dur", length(start, end))
	o.begin("args")
	return o
}

// endArgs completes an event whose arguments were begun.
func (f *file) endArgs(o *object) {
	o.end()
	f.end(o)
}

// Categories of arrows.
const (
	launchArrow = "ac2g" // from a call to the work that it launched, as in Kineto's traces
	waitArrow   = "wait" // from work to a call that waited for it
)

// flow writes one end of an arrow.
func (f *file) flow(category, ph string, id uint64, pid, tid uint32, at uint64) {
	o := f.begin(ph, category, category, pid, tid, at)
	o.uint("id", id)
	if ph == "f" {
		o.string("bp", "e")
	}
	f.end(&o)
}

// meta writes a metadata event with one argument.
func (f *file) meta(kind string, pid, tid uint32, add func(args *object)) {
	o := f.begin("M", "", kind, pid, tid, f.clock.start)
	o.begin("args")
	add(&o)
	f.endArgs(&o)
}

func (f *file) processRow(pid uint32, name, label string, place uint64) {
	f.meta("process_name", pid, 0, func(a *object) { a.string("name", name) })
	f.meta("process_labels", pid, 0, func(a *object) { a.string("labels", label) })
	f.meta("process_sort_index", pid, 0, func(a *object) { a.uint("sort_index", place) })
}

func (f *file) thread(pid, tid uint32, name string, place uint32) {
	f.meta("thread_name", pid, tid, func(a *object) { a.string("name", name) })
	f.meta("thread_sort_index", pid, tid, func(a *object) { a.uint("sort_index", uint64(place)) })
}

// finish writes the end of the file.
func (f *file) finish(devices map[uint32]*gpu) error {
	f.b = append(f.b, "\n]"...)
	if len(devices) > 0 {
		f.b = append(f.b, ",\n\"deviceProperties\": ["...)
		for i, id := range slices.Sorted(maps.Keys(devices)) {
			if i > 0 {
				f.b = append(f.b, ',')
			}
			f.b = appendDevice(append(f.b, "\n{"...), id, devices[id])
		}
		f.b = append(f.b, "\n]"...)
	}
	f.b = append(f.b, "\n}\n"...)
	f.flush()
	return f.err
}

func (f *file) flush() {
	if f.err == nil && len(f.b) > 0 {
		_, f.err = f.out.Write(f.b)
	}
	f.b = f.b[:0]
}

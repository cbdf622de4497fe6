package joined

import (
	"cmp"
	"math"
	"reflect"
	"unsafe"

	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Writer takes the rows of all tables.
type Writer interface {
	// Take takes rows. They are the sink's again when it returns.
	Take(of *Partition, rows Batch)

	// Check is called after some thousand rows, and may wait. An error ends the conversion.
	Check() error

	// End is the last call and comes once. Its argument is nil after all rows of a complete timeline.
	End(err error) error
}

// A Batch is rows of a table: structs that lie one behind the other.
type Batch struct {
	Table int // index of Tables
	N     int
	first unsafe.Pointer
	size  uintptr
}

// Part returns n rows from an index on.
func (b *Batch) Part(from, n int) Batch {
	return Batch{b.Table, n, unsafe.Add(b.first, uintptr(from)*b.size), b.size}
}

// Field is a field of a row, by its offset in the struct.
func Field[F any](b *Batch, offset uintptr, row int) *F {
	return (*F)(unsafe.Add(b.first, offset+uintptr(row)*b.size))
}

// Copy copies a field of all rows.
func Copy[F any](b *Batch, offset uintptr, to []F) {
	first, size := unsafe.Add(b.first, offset), b.size
	for i := range to {
		to[i] = *(*F)(unsafe.Add(first, uintptr(i)*size))
	}
}

// Options are the options of a sink.
type Options struct {
	// Run is the run of all logs; "" is that of each log.
	Run string
	// HostPID makes the number that a process or thread has in the timeline that of its host.
	HostPID func(uint32) uint32
	// Outcome says how the recording of a log went, by the log's name. It is asked at the end.
	Outcome func(log string) Outcome
	// Part says that the timeline is a part of the logs: one that has nothing in it has no row in runs.
	Part bool
	// Gaps says that the timeline has some streams, threads, callers or names alone.
	Gaps bool
	// Named says that a person has said which NVTX ranges are steps.
	Named bool
}

// An Outcome is what is known of a log after all of it has been read.
type Outcome struct {
	First, Last uint64 // its first and last moment
	ExitStatus  int    // of the program; negative when not known
	Complete    bool
	Lacks       bool // records are missing
	Reasons     []string
	Lost        uint64
}

// betweenChecks is the number of rows after which a writer may wait.
const betweenChecks = 4096

// A Sink makes the rows of a timeline.
type Sink struct {
	options  Options
	to       Writer
	calls    []Call // memory of what is being added
	arrows   []Arrow
	work     []Work
	shapes   map[shapeKey]*shape
	ahead    uint64 // added to a time to make it one since 1970, wrapping
	start    uint64 // of the timeline
	names    timeline.KernelNames
	gpus     []timeline.GPU
	devices  map[uint32]*occupancy.Device // by GPU, those of which enough is known
	log      *logFacts                    // whose processes come; its Metadata come before them
	logs     []*logFacts
	parts    map[partKey]*part
	order    []*part
	of       map[*timeline.Process]*part
	coverage map[*timeline.MetricSet]*timeline.Coverage
	live     map[liveKey]*timeline.Allocation
	blocks   map[*timeline.Block]string // why threads were blocked, in words
	reports  *stats.Sink                // of the same timeline: its steps and findings
	rows     uint64
	checked  uint64 // rows at the latest check
	err      error
}

// New returns a sink whose rows a writer takes.
func New(o Options, to Writer) *Sink {
	s := &Sink{
		options: o, to: to, names: make(timeline.KernelNames), parts: make(map[partKey]*part),
		of:       make(map[*timeline.Process]*part),
		coverage: make(map[*timeline.MetricSet]*timeline.Coverage), devices: make(map[uint32]*occupancy.Device),
		live: make(map[liveKey]*timeline.Allocation), shapes: make(map[shapeKey]*shape),
		blocks: make(map[*timeline.Block]string), reports: stats.New(),
	}
	if o.Named {
		s.reports.NameSteps()
	}
	return s
}

// Slices is the number of rows in all tables so far.
func (s *Sink) Slices() uint64 { return s.rows }

// Take takes events.
func (s *Sink) Take(events []timeline.Event) error {
	if err := s.reports.Take(events); err != nil {
		return err
	}
	for _, e := range events {
		s.event(e)
		if s.err == nil && s.rows-s.checked >= betweenChecks {
			s.checked = s.rows
			s.err = s.to.Check()
		}
		if s.err != nil {
			return s.err
		}
	}
	return nil
}

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.slices(e)
	case *timeline.WorkList:
		s.workList(e)
	case *timeline.SpanEnd:
		s.span(e.Track, &e.Span, "range")
	case *timeline.Instant:
		s.span(e.Track, &e.Span, "mark")
	case *timeline.CounterValue:
		s.counter(e)
	case *timeline.Samples:
		s.samples(e)
	case *timeline.States:
		s.states(e)
	case *timeline.StackSamples:
		s.stackSamples(e)
	case *timeline.Recording:
		s.start = e.Start
		if e.Realtime != 0 {
			s.ahead = e.Realtime - e.Monotonic
		}
	case *timeline.GPUs:
		s.gpus = e.List
		for i := range e.List {
			if d, known := occupancy.Of(&e.List[i]); known {
				s.devices[e.List[i].Index] = &d
			}
		}
	case *timeline.Allocation:
		s.allocation(e)
	case *timeline.TorchBlock:
		s.torchBlock(e)
	case *timeline.Metadata:
		s.metadata(e)
	case *timeline.Process:
		s.process(e)
	case *timeline.Context:
		s.part(e.Process).device(e)
	}
}

// End gives the rest of the rows of a complete timeline.
func (s *Sink) End(err error) error {
	if err == nil && s.err == nil {
		s.unfreed()
		s.err = s.reports.End(nil)
		s.steps()
		s.findings()
		s.runs()
	}
	return cmp.Or(s.err, s.to.End(cmp.Or(err, s.err)))
}

// rows gives rows to the writer.
func rows[R any](p *part, list []R) {
	if len(list) > 0 {
		p.sink.to.Take(&p.Partition, Batch{
			tableOf(reflect.TypeFor[R]()), len(list), unsafe.Pointer(&list[0]), unsafe.Sizeof(list[0]),
		})
		p.sink.rows += uint64(len(list))
	}
}

// row gives a row to the writer.
func row[R any](p *part, r R) { rows(p, []R{r}) }

// tableOf is the number of the table of a row.
func tableOf(row reflect.Type) int {
	for i := range Tables {
		if Tables[i].Row == row {
			return i
		}
	}
	panic("no table has rows of " + row.String())
}

// unix is a time as a column has it.
func (s *Sink) unix(at uint64) int64 { return int64(at + s.ahead) }

// bounded is a number of 64 bits in SQL, which has no larger one than the largest int64.
func bounded(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// known is a small number that is null where it is 0.
func known(v uint32) uint32 {
	if v == 0 {
		return None
	}
	return v
}

// knownWide is a number that is null where it is 0.
func knownWide(v uint64) int64 {
	if v == 0 {
		return NoNumber
	}
	return bounded(v)
}

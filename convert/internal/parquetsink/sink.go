package parquetsink

import (
	"cmp"
	"io"
	"reflect"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet"
)

const (
	// Manifest is the file in the folder of tables that lists the others. Engines leave out names that begin with '_'.
	Manifest = "_cudatrace_files.txt"

	// groupRows is the number of rows at which a row group is full.
	groupRows = 1_000_000

	// Budget bounds the rows that wait in all tables together, and those that are being encoded, in bytes. When three quarters
	// wait, the largest buffer becomes a row group that is smaller than others. How fast rows are encoded decides nothing: the
	// files of a log are always the same.
	Budget = 128 << 20

	// betweenChecks is the number of rows after which the buffers are looked at.
	betweenChecks = 4096
)

// Options are the options of a sink.
type Options struct {
	// Create creates a file, by its path with slashes.
	Create func(path string) (io.Writer, error)
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
	// Budget replaces the constant of that name; 0 does not.
	Budget int
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

// A Sink writes the tables.
type Sink struct {
	options  Options
	encoders *parquet.Encoders
	scratch  []scratch // of each worker
	memory   memory
	calls    []joined.Call // memory of what is being added
	arrows   []joined.Arrow
	work     []joined.Work
	shapes   map[shapeKey]*shape
	ahead    uint64 // added to a time to make it one since 1970, wrapping
	start    uint64 // of the timeline
	names    timeline.KernelNames
	gpus     []timeline.GPU
	devices  map[uint32]*occupancy.Device // by GPU, those of which enough is known
	log      *logFacts                    // whose processes come; its Metadata come before them
	logs     []*logFacts
	parts    map[partition]*part
	order    []*part
	of       map[*timeline.Process]*part
	coverage map[*timeline.MetricSet]*timeline.Coverage
	live     map[liveKey]*timeline.Allocation
	blocks   map[*timeline.Block]string // why threads were blocked, in words
	reports  *stats.Sink                // of the same timeline: its steps and findings
	rows     uint64
	checked  uint64 // rows when the budget was last looked at
	err      error
}

// New returns a sink.
func New(o Options) *Sink {
	if o.Budget == 0 {
		o.Budget = Budget
	}
	e := parquet.NewEncoders()
	s := &Sink{
		options: o, encoders: e, scratch: make([]scratch, e.Workers()), names: make(timeline.KernelNames),
		parts: make(map[partition]*part), of: make(map[*timeline.Process]*part),
		coverage: make(map[*timeline.MetricSet]*timeline.Coverage), devices: make(map[uint32]*occupancy.Device), live: make(map[liveKey]*timeline.Allocation), shapes: make(map[shapeKey]*shape),
		blocks: make(map[*timeline.Block]string), reports: stats.New(),
	}
	if o.Named {
		s.reports.NameSteps()
	}
	s.memory.changed.L = &s.memory.turn
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
			s.err = s.room()
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
	case *timeline.Metadata:
		s.metadata(e)
	case *timeline.Process:
		s.process(e)
	case *timeline.Context:
		s.part(e.Process).device(e)
	}
}

// unix is a time as a column has it.
func (s *Sink) unix(at uint64) int64 { return int64(at + s.ahead) }

// part returns the rows of a process's partition.
func (s *Sink) part(p *timeline.Process) *part {
	if own := s.of[p]; own != nil {
		return own
	}
	own := s.partAt(s.partitionOf(p))
	s.of[p] = own
	return own
}

func (s *Sink) partAt(at partition) *part {
	own := s.parts[at]
	if own == nil {
		own = &part{partition: at, sink: s, buffers: make([]*buffer, len(Tables)), writers: make([]*parquet.Writer, len(Tables)), gpus: make(map[deviceKey]bool), stacks: make(map[*timeline.Python]bool), natives: make(map[*timeline.Native]bool),
			callers: make(map[*timeline.Caller]string), paths: make(map[*timeline.RangeStack]string), sequences: make(map[*timeline.Stream]int64)}
		s.parts[at], s.order = own, append(s.order, own)
	}
	return own
}

// rows adds rows to their table.
func rows[R any](p *part, list []R) {
	if len(list) > 0 {
		add(p.buffer(tableOf(reflect.TypeFor[R]())), list)
		p.sink.rows += uint64(len(list))
	}
}

// row adds a row.
func row[R any](p *part, r R) { rows(p, []R{r}) }

// room hands over the row groups that are full, and the largest ones while too many rows wait. Then it waits until those that
// are being encoded leave room.
func (s *Sink) room() error {
	for {
		largest, table, bytes, err := waiting(s.order)
		if err != nil {
			return err
		}
		if bytes <= s.options.Budget*3/4 {
			s.memory.atMost(s.options.Budget - bytes)
			return s.encoders.Err()
		}
		if err := largest.flush(table); err != nil {
			return err
		}
	}
}

// waiting hands over the row groups that are full. It returns the largest other one, and the bytes of all others.
func waiting(parts []*part) (largest *part, table, all int, err error) {
	most := 0
	for _, p := range parts {
		for i, b := range p.buffers {
			if b == nil || b.rows == 0 {
				continue
			}
			if b.rows >= groupRows {
				if err := p.flush(i); err != nil {
					return nil, 0, 0, err
				}
				continue
			}
			size := b.size()
			if all += size; size > most {
				largest, table, most = p, i, size
			}
		}
	}
	return largest, table, all, nil
}

// End writes the rest of a complete timeline. Nothing is written after it.
func (s *Sink) End(err error) error {
	if err == nil && s.err == nil {
		s.unfreed()
		s.err = s.reports.End(nil)
		s.steps()
		s.findings()
		s.runs()
		for _, p := range s.order {
			s.err = cmp.Or(s.err, p.rest())
		}
	}
	if failed := s.encoders.Wait(); err != nil || s.err != nil || failed != nil {
		return cmp.Or(s.err, failed)
	}
	for _, p := range s.order {
		if err := p.close(); err != nil {
			return err
		}
	}
	return nil
}

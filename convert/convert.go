package convert

import (
	"cmp"
	"errors"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/internal/selection"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Options are the options of a conversion. The zero Options convert everything.
type Options struct {
	Filter Filter
	// Collectives gives kernels of NCCL their parts in collectives ([timeline.Part]), where logs have several processes:
	// the logs are read once more.
	Collectives bool
	// Progress is called now and then with the finished share of the conversion, 0 to 1,
	// and the number of slices so far.
	Progress func(share float64, slices uint64)

	nested bool // the conversion looks for hangs, and does not look for them again
}

// Timeline passes the timeline of one or more logs to a sink and returns a summary of each log.
// The processes of all logs form one timeline: PIDs of different logs are made different, and
// their clocks are aligned.
//
// With a nil sink Timeline only makes the summaries. An error is an error of reading a log,
// a *SinkError, or, of SomeTimeline, ErrNothing. Damage in a log is not an error: the summary reports it.
func Timeline(logs []Log, o Options, sink timeline.Sink) ([]Summary, error) {
	c := newConversion(logs, o)
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.run(sink)
}

// SomeTimeline is Timeline where the filter must match something.
func SomeTimeline(logs []Log, o Options, sink timeline.Sink) ([]Summary, error) {
	c := newConversion(logs, o)
	if err := c.read(); err != nil {
		return nil, err
	}
	all, err := c.watch(plain{sink})
	if err == nil && c.empty() {
		err = ErrNothing
	}
	return all, err
}

// A SinkError is a failure of the sink, not of a log.
type SinkError struct{ Err error }

func (e *SinkError) Error() string { return e.Err.Error() }
func (e *SinkError) Unwrap() error { return e.Err }

// A conversion converts one or more logs.
type conversion struct {
	Options
	logs []*log
	gpus read.Inventory
	ids  join.WorkIDs
	held *join.Budget
	pids pidSpace
	seen bool // the trace has something to see

	draws         bool                 // the sink shows the parts of collectives
	communication *communication       // nil where nothing has asked for it
	meetings      *collective.Arrivals // nil where none is shown

	failed error // other than a SinkError
}

func newConversion(logs []Log, o Options) *conversion {
	c := &conversion{Options: o, held: join.DefaultBudget()}
	if c.Progress == nil {
		c.Progress = func(float64, uint64) {}
	}
	for _, l := range logs {
		c.logs = append(c.logs, &log{Log: l})
	}
	return c
}

// catalogShare is the approximate share of the time that the first reading takes.
const catalogShare = 0.12

// read does the first reading of all logs.
func (c *conversion) read() (err error) {
	none := &NoStepError{Steps: c.Filter.Steps}
	for i, l := range c.logs {
		if l.filter, err = c.Filter.resolve(l, none); err != nil {
			return err
		}
		if !none.None() && !none.matched && none.Found == 0 {
			if err := c.Filter.Steps.look(l, none); err != nil {
				return err
			}
		}
		err := l.read(func(share float64) {
			c.Progress(catalogShare*(float64(i)+share)/float64(len(c.logs)), 0)
		})
		if err != nil {
			return err
		}
	}
	if err := none.checked(); err != nil {
		return err
	}
	for _, l := range c.byRank() {
		c.gpus.Number(l.catalog)
	}
	return nil
}

// run does the second reading.
func (c *conversion) run(sink timeline.Sink) ([]Summary, error) {
	start, err := c.align()
	if err != nil {
		return nil, err
	}
	if err := c.pids.number(c.byRank()); err != nil {
		return nil, err
	}
	if sink, err = c.meeting(sink); err != nil {
		return nil, err
	}
	p := pipeline.New(sink)
	err = c.give(p, start)
	if failed := p.Close(); failed != nil {
		err = &SinkError{failed}
	}
	err = cmp.Or(err, c.unmatched())
	if sink != nil {
		if failed := sink.End(err); failed != nil && err == nil {
			err = &SinkError{failed}
		}
	}
	if err != nil {
		return nil, err
	}
	var all []Summary
	for _, l := range c.logs {
		all = append(all, c.summary(l))
		if c.meetings != nil && c.draws {
			all[len(all)-1].Collectives = &c.meetings.Shown
		}
	}
	if c.meetings != nil && c.meetings.Note() != "" {
		last := &all[len(all)-1]
		last.Notes = append(last.Notes, c.meetings.Note())
	}
	return all, nil
}

// give passes the events of all logs to a pipeline.
func (c *conversion) give(p *pipeline.Pipeline, start *timeline.Recording) error {
	p.Emit(start)
	p.Emit(&timeline.GPUs{List: c.gpus.List})
	for _, l := range c.byRank() {
		p.Convert(l.clock)
		p.Emit(l.metadata())
		l.joiner = join.New(l.catalog, p, c.joining(l))
		l.joiner.Describe()
	}
	c.giveHangs(p)
	slices := uint64(0)
	for i, l := range c.logs {
		progress := func(share float64) {
			share = (float64(i) + share) / float64(len(c.logs))
			c.Progress(catalogShare+(1-catalogShare)*share, slices+l.joiner.Found.Slices())
		}
		p.Convert(l.clock)
		err := c.remember(l)
		if err == nil {
			err = l.joiner.Run(l.Open, progress)
		}
		if err != nil {
			return err
		}
		l.noteRanges(p)
		l.found, l.joined = l.joiner.Found, l.joiner.Processes()
		l.joiner = nil // its memory is for the next log
		slices += l.found.Slices()
	}
	return nil
}

// remember has the joiner of a log know which memory was live when the time of the filter began.
func (c *conversion) remember(l *log) error {
	f := join.BeforeTime(l.filter)
	if f == nil || c.nested || l.catalog.MemorySource() == read.NoMemory {
		return nil
	}
	before := &log{Log: l.Log, filter: f}
	if err := before.read(func(float64) {}); err != nil {
		return err
	}
	if err := before.catalog.Processes.Resolve(l.Open, before.catalog.Contents); err != nil {
		return err
	}
	return l.joiner.Inherit(before.catalog, l.Open)
}

// byRank returns the logs in the order of the lowest rank that each has.
func (c *conversion) byRank() []*log {
	return slices.SortedStableFunc(slices.Values(c.logs), func(a, b *log) int {
		return a.catalog.Processes.LowestRank().Compare(b.catalog.Processes.LowestRank())
	})
}

// joining returns the options for joining a log.
func (c *conversion) joining(l *log) join.Options {
	l.chosen = selection.New(selection.Options{
		Name: c.Filter.Name, Caller: c.Filter.Caller, Python: c.Filter.Python, NVTX: c.Filter.NVTX,
		Shortest: uint64(c.Filter.MinDuration),
	})
	steps, first := c.Filter.Steps.Ranges, int64(0)
	if recorded, number := recordedSteps(l.catalog.Meta); steps.None() || steps == recorded {
		steps, first = recorded, number
	}
	return join.Options{
		Selection: l.chosen, OfCalls: len(c.Filter.TIDs) > 0 || l.chosen.OfCalls(), Filter: l.filter, Threads: l.threads,
		Steps: steps, FirstStep: first, Offset: l.offset, IDs: &c.ids, Budget: c.held, Damaged: l.damage.Count > 0,
		Clock: l.clock, Collectives: l.collectives,
	}
}

// processes is the number of processes in the timeline.
func (c *conversion) processes() (n int) {
	for _, l := range c.logs {
		n += l.catalog.Processes.Count()
	}
	return n
}

// isSinkError reports whether an error is a failure of the sink.
func isSinkError(err error) bool {
	var failed *SinkError
	return errors.As(err, &failed)
}

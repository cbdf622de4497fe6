package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/occupancy"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// busy is the reports of devices, streams and ranks, and of idle time.
type busy struct {
	clock   *clock
	gpus    map[uint32]timeline.GPU
	devices map[uint32]*deviceRow
	byID    map[*timeline.Stream]*streamRow
	streams []*streamRow
	all     *activity.Devices
}

// A workCount has the work of a device, a stream or a process.
type workCount struct {
	timeline.WorkCounts
	time uint64 // ns of the work with times
}

type deviceRow struct {
	workCount
	*activity.Device
	index           uint32
	multiprocessors uint32            // 0 when not known
	rules           *occupancy.Device // nil when not known
}

type streamRow struct {
	workCount
	*timeline.Stream
	device *deviceRow
	lane   *activity.Lane
	habits *findings.Stream   // nil in a profile
	stage  uint64             // that was marked last
	rank   *ranks.RankProcess // nil without work
	path   *critical.Stream   // likewise
	steps  *steps.Stream      // likewise
}

func newBusy(c *clock, watch activity.Watcher) busy {
	return busy{clock: c, gpus: make(map[uint32]timeline.GPU), devices: make(map[uint32]*deviceRow),
		byID: make(map[*timeline.Stream]*streamRow), all: activity.New(activity.Options{Watch: watch})}
}

// mark has the times of a process on its devices kept up to a moment, at which a stage of its start-up may end.
func (b *busy) mark(of *timeline.Process, at uint64, stage bool) {
	for _, d := range b.devices {
		for _, p := range d.Parts {
			if p.Process == of {
				p.Mark(at, stage)
			}
		}
	}
}

func (b *busy) know(list []timeline.GPU) {
	for _, g := range list {
		b.gpus[g.Index] = g
	}
}

// multiprocessors returns a device's number of multiprocessors, 0 if unknown.
func (b *busy) multiprocessors(gpu uint32) uint64 { return uint64(b.gpus[gpu].Multiprocessors) }

// ofLink is the part of what the PCIe link carries that copies of pinned memory reach.
const ofLink = 0.85

// pinnedRate returns what copies of pinned memory between the host and a device reach, in bytes a second; 0 if unknown.
func (b *busy) pinnedRate(gpu uint32) float64 {
	link := b.gpus[gpu].Link
	return ofLink * link.Rate()
}

func (b *busy) device(index uint32) *deviceRow {
	d := b.devices[index]
	if d == nil {
		g := b.gpus[index]
		d = &deviceRow{index: index, Device: b.all.NewDevice(nil), multiprocessors: g.Multiprocessors, rules: rulesOf(g)}
		b.devices[index] = d
	}
	return d
}

func (b *busy) stream(t *timeline.Stream) *streamRow {
	r := b.byID[t]
	if r == nil {
		d := b.device(t.Context.GPU)
		r = &streamRow{Stream: t, device: d, lane: d.Lane(t)}
		b.byID[t] = r
		b.streams = append(b.streams, r)
	}
	return r
}

func (c *workCount) count(w *timeline.Work) {
	c.Add(w.Kind)
	if !w.Untimed {
		c.time = sketch.Sum(c.time, w.Dur)
	}
}

func (c *workCount) join(later *workCount) {
	c.Kernels, c.Copies, c.Memsets = c.Kernels+later.Kernels, c.Copies+later.Copies, c.Memsets+later.Memsets
	c.time = sketch.Sum(c.time, later.time)
}

// countWork counts a piece of work. by is the thread that launched it, nil if that is not known.
func (r *streamRow) countWork(w *timeline.Work, c activity.Class, by *activity.History) {
	r.count(w)
	r.device.count(w)
	if !w.Untimed {
		r.lane.Add(&activity.Piece{Start: w.Start, End: timeline.End(w.Start, w.Dur), Class: c, Launch: activity.Launch{
			Thread: by, CallStart: w.Call.Start, CallEnd: w.Call.End,
			Shape: w.Shape, Python: w.Call.Python, Operator: w.Call.Operator, Kind: w.Kind, InGraph: w.Graph != 0,
		}})
	}
}

// sorted returns the devices by number, and finishes them.
func (b *busy) sorted() []*deviceRow {
	rows := make([]*deviceRow, 0, len(b.devices))
	for _, d := range b.devices {
		d.Finish()
		if d.workCount != (workCount{}) {
			rows = append(rows, d)
		}
	}
	slices.SortFunc(rows, func(a, b *deviceRow) int { return cmp.Compare(a.index, b.index) })
	return rows
}

// title names a device.
func (b *busy) title(index uint32) string {
	if n := b.gpus[index].Name; n != "" {
		return fmt.Sprintf("GPU %d: %s", index, n)
	}
	return fmt.Sprintf("GPU %d", index)
}

// columns are the columns of a time from a first moment to a last one. Times that are not exact are not known.
func (b *busy) columns(ns, first, last uint64, exact bool) (c busyColumns) {
	if first == timeline.Never {
		return c
	}
	span := last - first
	c.Span, c.First, c.Last = &span, new(b.clock.since(first)), new(b.clock.since(last))
	if exact {
		c.Busy, c.Idle, c.Share = &ns, new(span-ns), table.ShareOf(ns, span)
	}
	return c
}

// note says that times are not known, where there are such.
func note(late uint64, times string) []string {
	if late == 0 {
		return nil
	}
	return []string{times + " that are missing are not known: too much work came in another order than that of time"}
}

var streamsReport = Report{
	Name: "streams", Title: "streams with work",
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.streamTable(f.Startup) },
}

// streamCells is a row of streams.
type streamCells struct {
	Name        string `key:"name" title:"stream"`
	GPU         uint32 `key:"gpu" title:"GPU" rank:"3" unit:"id"`
	PID         uint32 `key:"pid" title:"process" rank:"3" unit:"id"`
	Stream      uint32 `key:"stream" unit:"id"`
	Context     uint32 `key:"context" unit:"id"`
	busyColumns        // as in `devices`
	workColumns        // as in `devices`
}

// streamTable returns the report of streams.
func (s *Sink) streamTable(startup bool) *table.Table {
	s.busy.sorted()
	var rows []streamCells
	late := uint64(0)
	for _, r := range s.busy.streams {
		if r.workCount == (workCount{}) {
			continue
		}
		l, c := r.lane, r.Context
		late += l.Late
		busy, from := s.laneTimes(l, startup)
		rows = append(rows, streamCells{
			r.title(), c.GPU, c.Process.PID, r.ID, c.ID,
			s.busy.columns(busy, from, l.Last, l.Late == 0), r.columns(),
		})
	}
	t := table.Of(rows)
	t.Sort("busy_ns")
	t.Notes = note(late, "busy times")
	return t
}

// laneTimes are how long a stream was busy in the steady state of its process, where that is known and it has work in it,
// and the beginning of that time; else from its first work on.
func (s *Sink) laneTimes(l *activity.Lane, startup bool) (busy, from uint64) {
	if startup || l.First == timeline.Never {
		return l.Busy.Total, l.First
	}
	from = max(s.beginning(l.Part.Process), l.First)
	before, known := l.Until(from)
	if !known || from >= l.Last {
		return l.Busy.Total, l.First
	}
	return l.Busy.Total - before, from
}

func (r *streamRow) title() string { return fmt.Sprintf("stream %d%s", r.ID, r.Qualifier()) }

var devicesReport = Report{
	Name: "devices", Title: "GPUs with work",
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.deviceTable(f.Startup) },
}

// DeviceCells is a row of devices.
type DeviceCells struct {
	Name string `key:"name" title:"GPU"`
	GPU  uint32 `key:"gpu" unit:"id"`
	busyColumns
	workColumns
	classColumns
}

// classColumns are the columns of what kinds of work a GPU did at the same time.
type classColumns struct {
	Compute *uint64 `key:"compute_ns" title:"compute" rank:"3"` // time with kernels under way
	Copy    *uint64 `key:"copy_ns" title:"copying" rank:"3"`    // time with copies under way
	Overlap *uint64 `key:"overlap_ns" title:"both" rank:"3"`    // time with both under way
	// time with kernels of NCCL or NVSHMEM under way, known by their names (`nccl*`, `nvshmem*`)
	Communication        *uint64 `key:"communication_ns"`
	CommunicationOverlap *uint64 `key:"communication_overlap_ns"` // time with these and other kernels under way
	IdleLate             *uint64 `key:"idle_late_ns"`             // `idle_ns` by its cause, as in `idle`
	IdleDependency       *uint64 `key:"idle_dependency_ns"`       // =
	IdleOtherWork        *uint64 `key:"idle_other_work_ns"`       // =
	IdleOther            *uint64 `key:"idle_other_ns"`            // =
}

func classesOf(during *activity.Sum, idle *[activity.Causes]uint64) classColumns {
	return classColumns{
		new(during.Kernels()), &during.Copies, &during.CopyOverlap, &during.Communication, &during.CommunicationOverlap,
		&idle[activity.LaunchedLate], &idle[activity.Dependency], &idle[activity.OtherWork], &idle[activity.OtherCause],
	}
}

// during are the times of the work of processes on a device, and its beginning: of one process those of its steady
// state, where that is known, else from the first work on.
func (s *Sink) during(d *deviceRow, parts []*activity.Part, startup bool) (times activity.Sum, from uint64) {
	all, first, last := d.Until(d.Last), d.First, d.Last
	if len(parts) == 1 {
		p := parts[0]
		all, first, last = p.Times().Until(p.Last), p.First, p.Last
	}
	if startup || len(parts) != 1 || first == timeline.Never {
		return all, first
	}
	from = min(max(s.beginning(parts[0].Process), first), last)
	before, known := parts[0].Until(from)
	if !known || from == last {
		return all, first
	}
	return all.Less(before), from
}

// beginning is when the part of a process begins that reports count unless the start-up counts, too: its steady state, or
// all of a process that has no start-up.
func (s *Sink) beginning(p *timeline.Process) uint64 {
	if !s.threads.process(p).staged.startsUp() {
		return 0
	}
	return s.findings.Steady(p).From
}

// deviceTable returns the report of devices.
func (s *Sink) deviceTable(startup bool) *table.Table {
	var rows []DeviceCells
	late := uint64(0)
	for _, d := range s.busy.sorted() {
		times, from := s.during(d, d.Parts, startup)
		x := DeviceCells{
			Name: s.busy.title(d.index), GPU: d.index,
			busyColumns: s.busy.columns(times.Busy, from, d.Last, d.Late == 0), workColumns: d.columns(),
		}
		if d.Late == 0 {
			idle := d.Idle.Time
			if from > d.First {
				_, steady := s.idleTimes(d)
				idle = steady.byCause()
			}
			x.classColumns = classesOf(&times, &idle)
		}
		late += d.Late
		rows = append(rows, x)
	}
	t := table.Of(rows)
	t.Notes = note(late, "busy times")
	return t
}

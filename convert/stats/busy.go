package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/critical"
	"github.com/cudatrace/cudatrace/convert/occupancy"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/steps"
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
	habits *findings.Stream // nil in a profile
	stage  uint64           // that was marked last
	rank   *ranks.Process   // nil without work
	path   *critical.Stream // likewise
	steps  *steps.Stream    // likewise
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
		d = &deviceRow{index: index, Device: b.all.NewDevice(nil), multiprocessors: b.gpus[index].Multiprocessors, rules: rulesOf(b.gpus[index])}
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

// countWork counts a piece of work. by is the thread that launched it, nil if that is not known.
func (r *streamRow) countWork(w *timeline.Work, c activity.Class, by *activity.History) {
	r.count(w)
	r.device.count(w)
	if !w.Untimed {
		r.lane.Add(&activity.Piece{Start: w.Start, End: timeline.End(w.Start, w.Dur), Class: c, Launch: activity.Launch{
			Thread: by, CallStart: w.Call.Start, CallEnd: w.Call.End, Shape: w.Shape, Python: w.Call.Python, Kind: w.Kind, InGraph: w.Graph != 0}})
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

// busyColumns are the columns of how long something was busy.
func busyColumns() []table.Column {
	return []table.Column{
		duration("busy_ns", "busy", 1), duration("idle_ns", "idle", 2), column("busy_share", "share", table.Share, 2),
		duration("span_ns", "", 0), column("first_ns", "", table.Moment, 0), column("last_ns", "", table.Moment, 0),
	}
}

// busyCells returns the cells of busyColumns. Times that are not exact are not known.
func (b *busy) busyCells(ns, first, last uint64, exact bool) []any {
	cells := make([]any, 6)
	if first == timeline.Never {
		return cells
	}
	span := last - first
	cells[3], cells[4], cells[5] = span, b.clock.since(first), b.clock.since(last)
	if exact {
		cells[0], cells[1], cells[2] = ns, span-ns, table.ShareOf(ns, span)
	}
	return cells
}

func workColumns() []table.Column {
	return []table.Column{
		count("kernels", "kernels", 4), count("copies", "copies", 5), count("sets", "sets", 6), duration("work_ns", "", 0),
	}
}

func (c *workCount) cells() []any { return []any{c.Kernels, c.Copies, c.Memsets, c.time} }

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
	table: func(s *Sink, _ Facts) *table.Table { return s.busy.streamTable() },
	Keys: []Key{
		{"name, stream, context, pid, gpu", ""},
		{"busy_ns, idle_ns, busy_share, span_ns, first_ns, last_ns, kernels, copies, sets, work_ns", "as in `devices`"},
	},
}

// streamTable returns the report of streams.
func (b *busy) streamTable() *table.Table {
	b.sorted()
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("stream"), id("gpu", "GPU", 3), id("pid", "process", 3), id("stream", "", 0), id("context", "", 0)},
		busyColumns(), workColumns())
	late := uint64(0)
	for _, r := range b.streams {
		if r.workCount == (workCount{}) {
			continue
		}
		l, c := r.lane, r.Context
		late += l.Late
		t.Rows = append(t.Rows, slices.Concat([]any{r.title(), uint64(c.GPU), uint64(c.Process.PID), uint64(r.ID), uint64(c.ID)},
			b.busyCells(l.Busy.Total, l.First, l.Last, l.Late == 0), r.cells()))
	}
	t.Sort("busy_ns")
	t.Notes = note(late, "busy times")
	return t
}

func (r *streamRow) title() string { return fmt.Sprintf("stream %d%s", r.ID, r.Qualifier()) }

var devicesReport = Report{
	Name: "devices", Title: "GPUs with work",
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, _ Facts) *table.Table { return s.busy.deviceTable() },
	Keys: []Key{
		{"name, gpu", ""},
		{"busy_ns", "time with work under way"},
		{"idle_ns", "`span_ns` less `busy_ns`"},
		{"busy_share", "`busy_ns` over `span_ns`"},
		{"span_ns, first_ns, last_ns", "from the first work to the last, and both moments"},
		{"kernels, copies, sets", "pieces of work"},
		{"work_ns", "sum of the times of all work: more than `busy_ns` where work overlaps"},
		{"compute_ns", "time with kernels under way"},
		{"copy_ns", "time with copies under way"},
		{"overlap_ns", "time with both under way"},
		{"communication_ns", "time with kernels of NCCL or NVSHMEM under way, known by their names (`nccl*`, `nvshmem*`)"},
		{"communication_overlap_ns", "time with these and other kernels under way"},
		{"idle_late_ns, idle_dependency_ns, idle_other_work_ns, idle_other_ns", "`idle_ns` by its cause, as in `idle`"},
	},
}

// deviceTable returns the report of devices.
func (b *busy) deviceTable() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("GPU"), id("gpu", "", 0)}, busyColumns(), workColumns(), []table.Column{
		duration("compute_ns", "compute", 3), duration("copy_ns", "copying", 3), duration("overlap_ns", "both", 3),
		duration("communication_ns", "", 0), duration("communication_overlap_ns", "", 0),
		duration("idle_late_ns", "", 0), duration("idle_dependency_ns", "", 0), duration("idle_other_work_ns", "", 0), duration("idle_other_ns", "", 0)})
	late := uint64(0)
	for _, d := range b.sorted() {
		more := make([]any, 9)
		if d.Late == 0 {
			i := &d.Idle.Time
			more = []any{d.Times.Kernels(), d.Times.Copies(), d.CopyOverlap(), d.Communication(), d.CommunicationOverlap(),
				i[activity.LaunchedLate], i[activity.Dependency], i[activity.OtherWork], i[activity.OtherCause]}
		}
		late += d.Late
		t.Rows = append(t.Rows, slices.Concat([]any{b.title(d.index), uint64(d.index)}, b.busyCells(d.Busy(), d.First, d.Last, d.Late == 0), d.cells(), more))
	}
	t.Notes = note(late, "busy times")
	return t
}

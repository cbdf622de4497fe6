package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// busy is the reports of devices and streams.
type busy struct {
	clock   *clock
	names   map[uint32]string // of GPUs, by index
	devices map[uint32]*deviceRow
	byID    map[*timeline.Stream]*streamRow
	streams []*streamRow
}

// A workCount has the work of a device, a stream or a process.
type workCount struct {
	timeline.WorkCounts
	time uint64 // ns of the work with times
}

type deviceRow struct {
	workCount
	sweep
	index uint32
}

type streamRow struct {
	workCount
	sweep
	*timeline.Stream
	device *deviceRow
}

func newBusy(c *clock) busy {
	return busy{clock: c, names: make(map[uint32]string), devices: make(map[uint32]*deviceRow), byID: make(map[*timeline.Stream]*streamRow)}
}

func (b *busy) gpus(list []timeline.GPU) {
	for _, g := range list {
		b.names[g.Index] = g.Name
	}
}

func (b *busy) device(index uint32) *deviceRow {
	d := b.devices[index]
	if d == nil {
		d = &deviceRow{index: index, sweep: newSweep(deviceWindow)}
		b.devices[index] = d
	}
	return d
}

func (b *busy) stream(t *timeline.Stream) *streamRow {
	r := b.byID[t]
	if r == nil {
		r = &streamRow{Stream: t, device: b.device(t.Context.GPU), sweep: newSweep(streamWindow)}
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

func (r *streamRow) take(w *timeline.Work) {
	r.count(w)
	r.device.count(w)
	if w.Untimed {
		return
	}
	p := piece{w.Start, timeline.End(w.Start, w.Dur), w.Kind}
	r.add(p)
	r.device.add(p)
}

// columns are the columns of devices and of streams behind their names.
func (b *busy) columns() []table.Column {
	return []table.Column{
		duration("busy_ns", "busy", 1), duration("idle_ns", "idle", 2), column("busy_share", "share", table.Share, 2),
		duration("span_ns", "", 0), column("first_ns", "", table.Moment, 0), column("last_ns", "", table.Moment, 0),
		count("kernels", "kernels", 4), count("copies", "copies", 5), count("sets", "sets", 6), count("graphs", "", 0),
		duration("work_ns", "", 0),
	}
}

// cells returns the cells of columns.
func (b *busy) cells(c *workCount, s *sweep) ([]any, usage) {
	u := s.usage()
	cells := []any{nil, nil, nil, nil, nil, nil, c.Kernels, c.Copies, c.Memsets, c.Graphs, c.time}
	if s.first != timeline.Never {
		cells[3], cells[4], cells[5] = u.span, b.clock.since(s.first), b.clock.since(s.last)
	}
	if u.exact && s.first != timeline.Never {
		cells[0], cells[1], cells[2] = u.busy, u.span-u.busy, share(u.busy, u.span)
	}
	return cells, u
}

// note says that busy times are not known, "" where all are.
func note(late uint64) []string {
	if late == 0 {
		return nil
	}
	return []string{"busy times that are missing are not known: too much work came in another order than that of time"}
}

// tables returns the reports of streams and of devices.
func (b *busy) tables() (streams, devices *table.Table) {
	streams = &table.Table{Name: "streams", Title: "streams with work"}
	streams.Columns = slices.Concat([]table.Column{name("stream"), id("gpu", "GPU", 3), id("pid", "process", 3), id("stream", "", 0), id("context", "", 0)}, b.columns())
	late := uint64(0)
	for _, r := range b.streams {
		if r.workCount == (workCount{}) {
			continue
		}
		cells, _ := b.cells(&r.workCount, &r.sweep)
		late += r.late
		c := r.Context
		streams.Rows = append(streams.Rows, slices.Concat([]any{r.title(), uint64(c.GPU), uint64(c.Process.PID), uint64(r.ID), uint64(c.ID)}, cells))
	}
	streams.Sort("busy_ns")
	streams.Notes = note(late)
	return streams, b.deviceTable()
}

func (r *streamRow) title() string { return fmt.Sprintf("stream %d%s", r.ID, r.Qualifier()) }

func (b *busy) deviceTable() *table.Table {
	t := &table.Table{Name: "devices", Title: "GPUs with work"}
	t.Columns = slices.Concat([]table.Column{name("GPU"), id("gpu", "", 0)}, b.columns(), []table.Column{
		duration("compute_ns", "compute", 3), duration("copy_ns", "copying", 3), duration("overlap_ns", "both", 3)})
	rows := make([]*deviceRow, 0, len(b.devices))
	for _, d := range b.devices {
		rows = append(rows, d)
	}
	slices.SortFunc(rows, func(a, b *deviceRow) int { return cmp.Compare(a.index, b.index) })
	late := uint64(0)
	for _, d := range rows {
		if d.workCount == (workCount{}) {
			continue
		}
		cells, u := b.cells(&d.workCount, &d.sweep)
		more := []any{nil, nil, nil}
		if u.exact {
			more = []any{u.kernels, u.copies, u.overlap}
		}
		late += d.late
		title := fmt.Sprintf("GPU %d", d.index)
		if n := b.names[d.index]; n != "" {
			title += ": " + n
		}
		t.Rows = append(t.Rows, slices.Concat([]any{title, uint64(d.index)}, cells, more))
	}
	t.Notes = note(late)
	return t
}

package overview

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// An Overview has the rows of a timeline.
type Overview struct {
	rows  map[key]*Row
	lanes map[*timeline.Stream]*lane
	names timeline.KernelNames
	class map[*timeline.Shape]activity.Class
}

// A key identifies a row.
type key struct {
	process *timeline.Process
	gpu     uint32
}

// A lane is a stream of a row.
type lane struct {
	*activity.Lane
	row *Row
}

// A Row is a rank on a GPU.
type Row struct {
	Process *timeline.Process
	GPU     uint32 // GPU.Index
	Late    uint64 // pieces of work that came too late to count

	device *activity.Device
	pieces uint64
	bins   bins
}

// New returns an overview without rows. names are shared with the caller.
func New(names timeline.KernelNames) *Overview {
	return &Overview{make(map[key]*Row), make(map[*timeline.Stream]*lane), names, make(map[*timeline.Shape]activity.Class)}
}

// waiting is the number of pieces of a row that wait for earlier ones of other streams.
const waiting = 1 << 12

// maxShapes bounds the shapes of kernels whose class is kept.
const maxShapes = 1 << 14

// Work takes work. That of a process without a rank is in no row.
func (o *Overview) Work(l *timeline.WorkList) {
	on, known := o.lanes[l.Stream]
	if !known {
		on = o.lane(l.Stream)
		o.lanes[l.Stream] = on
	}
	if on == nil {
		return
	}
	for i := range l.List {
		if w := &l.List[i]; !w.Untimed {
			on.row.pieces++
			on.row.device.Add(on.Lane, activity.Piece{Start: w.Start, End: timeline.End(w.Start, w.Dur), Class: o.classOf(w)})
		}
	}
}

// lane returns the lane of a stream, nil for that of a process without a rank.
func (o *Overview) lane(of *timeline.Stream) *lane {
	c := of.Context
	if !c.Process.Rank.Known {
		return nil
	}
	k := key{c.Process, c.GPU}
	r := o.rows[k]
	if r == nil {
		r = &Row{Process: c.Process, GPU: c.GPU, device: activity.NewSmallDevice(waiting)}
		r.device.Before = func(start uint64) { r.bins.reach(start, &r.device.Times) }
		o.rows[k] = r
	}
	return &lane{r.device.Lane(of), r}
}

func (o *Overview) classOf(w *timeline.Work) activity.Class {
	if w.Kind != timeline.KernelWork {
		return activity.ClassOfWork(o.names, w)
	}
	class, known := o.class[w.Shape]
	if !known {
		class = activity.ClassOfWork(o.names, w)
		if len(o.class) < maxShapes {
			o.class[w.Shape] = class
		}
	}
	return class
}

// Rows returns the rows by rank, none where all work is of one rank. All work has been taken.
func (o *Overview) Rows() []*Row {
	list := slices.SortedFunc(maps.Values(o.rows), func(a, b *Row) int {
		return cmp.Or(a.Process.Rank.Compare(b.Process.Rank), cmp.Compare(a.Process.PID, b.Process.PID), cmp.Compare(a.GPU, b.GPU))
	})
	if !slices.ContainsFunc(list, func(r *Row) bool { return r.Process.Rank != list[0].Process.Rank }) {
		return nil
	}
	return list
}

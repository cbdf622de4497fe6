package activity

import (
	"cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Options are the options of the devices of a timeline.
type Options struct {
	// Window is the number of pieces of a device that wait for earlier ones of other streams, at most; 0 for as many as
	// exact figures may need. Those of all devices together are bounded, too.
	Window int
	Watch  Watcher // nil: idle time is not explained
	Slices bool    // parts have slices
}

const (
	exactWindow = 1 << 17

	// windows of pieces wait in all devices together, at most: when a log has been read, no event says that no more work
	// of its devices comes.
	windows = 8
)

// Devices are the GPUs of a timeline.
type Devices struct {
	Options
	list    []*Device
	most    int // pieces that wait
	waiting int
	count   uint64      // pieces so far
	idle    [scales]int // idle times that the parts keep
}

// New returns a timeline's devices, none so far.
func New(o Options) *Devices {
	o.Window = cmp.Or(o.Window, exactWindow)
	return &Devices{Options: o, most: windows * o.Window}
}

// A Device is a GPU.
type Device struct {
	Times
	Parts       []*Part
	Idle        Idle
	Late        uint64 // pieces that came too late for times to be exact
	First, Last uint64 // start of the first piece, end of the last; First is timeline.Never without any

	of    *Devices
	busy  func(from, to uint64)
	order order
	used  uint64 // number of the piece of Devices that was added last
	begun bool   // a piece was taken
	// where the idle time is watched, the piece that was the last to end, of those that were taken; nil for none
	last  *behind
	two   [2]behind // last, and the piece that comes next
	only  *Part     // the part of all pieces that were taken, nil if there are several
	marks []mark    // that were not reached, by time
}

// A behind is a piece with its lane.
type behind struct {
	lane *Lane
	Piece
}

// A Part is the part of a process in a device's work.
type Part struct {
	Process     *timeline.Process
	First, Last uint64
	Pieces      uint64
	times       Times // where pieces of several parts were taken
	lanes       []*Lane
	device      *Device
	bins        bins
	stretches   stretches
	sums        []Sum // at the marks that were reached, by time
	idle        [scales]division
}

// NewDevice returns a device without work. busy is called with each time in which the device was busy: the times come
// in order and do not overlap. It may be nil.
func (s *Devices) NewDevice(busy func(from, to uint64)) *Device {
	d := &Device{First: timeline.Never, of: s, busy: busy, order: order{window: s.Window}}
	s.list = append(s.list, d)
	return d
}

// Lane adds a stream to the device; nil for work of any stream.
func (d *Device) Lane(s *timeline.Stream) *Lane {
	l := &Lane{Stream: s, First: timeline.Never}
	if s != nil {
		l.id, l.Part = s.ID, d.part(s.Context.Process)
	} else {
		l.Part = d.part(nil)
	}
	l.stages = make([]uint64, len(l.Part.idle[byStage].ends)) // it had no work yet
	l.Part.lanes = append(l.Part.lanes, l)
	return l
}

func (d *Device) part(of *timeline.Process) *Part {
	for _, p := range d.Parts {
		if p.Process == of {
			return p
		}
	}
	p := &Part{Process: of, First: timeline.Never, device: d}
	d.Parts = append(d.Parts, p)
	return p
}

// Times are the times of a part. They are exact if those of the device are.
func (p *Part) Times() *Times {
	if p.device.only == p {
		return &p.device.Times
	}
	return &p.times
}

// Late is the number of the device's pieces that came too late for the times of the part to be exact.
func (p *Part) Late() uint64 { return p.device.Late }

// Add adds a piece of work. What of it lies before the time that is settled does not count in the times of the device.
func (l *Lane) Add(p *Piece) {
	d := l.Part.device
	d.First, d.Last = min(d.First, p.Start), max(d.Last, p.End)
	l.First, l.Last = min(l.First, p.Start), max(l.Last, p.End)
	l.Part.First, l.Part.Last = min(l.Part.First, p.Start), max(l.Part.Last, p.End)
	l.Part.Pieces++
	x := span{start: p.Start, end: p.End, class: p.Class}
	if x.start < d.order.settled {
		d.Late++
		l.count(&x)
		if x.start = d.order.settled; x.start >= x.end {
			return
		}
	}
	if d.of.Watch != nil {
		x.launch = uint32(len(l.launches))
		l.launches = append(l.launches, p.Launch)
	}
	if d.order.push(l, x) {
		d.popUntil(d.order.window/2, timeline.Never)
	}
	d.of.added(d)
}

// Settled is the time before which all work is counted: earlier work comes too late.
func (d *Device) Settled() uint64 { return d.order.settled }

// Settle counts the pieces that start before a time.
func (d *Device) Settle(at uint64) {
	d.popUntil(d.order.pending, at)
	d.order.settled = max(d.order.settled, at)
}

// Finish counts all pieces.
func (d *Device) Finish() {
	d.popUntil(d.order.pending, timeline.Never)
	d.reach(timeline.Never)
}

// added counts a piece of a device. If too many wait, a device to which none was added for a long time has to take most
// of its pieces.
func (s *Devices) added(d *Device) {
	s.count++
	s.waiting++
	d.used = s.count
	if s.waiting < s.most {
		return
	}
	var idle *Device
	for _, o := range s.list {
		if o.order.pending*len(s.list) >= s.waiting/2 && (idle == nil || o.used < idle.used) {
			idle = o
		}
	}
	idle.popUntil((idle.order.pending*3+3)/4, timeline.Never)
	idle.order.clip()
}

// popUntil counts waiting pieces: the first ones, up to a number of them and a time.
func (d *Device) popUntil(n int, before uint64) {
	d.of.waiting -= d.order.popUntil(n, before, d.next)
}

// count adds a piece to the lane's own time. Pieces of one lane come by start even where those of
// several lanes do not.
func (l *Lane) count(p *span) {
	if p.start < l.horizon {
		l.Late++
		return
	}
	l.horizon = p.start
	l.Busy.Add(p.start, p.end)
}

// next counts the next piece in the order of time.
func (d *Device) next(l *Lane, p *span) {
	switch {
	case !d.begun:
		d.begun, d.only = true, l.Part
	case d.only != nil && d.only != l.Part:
		d.only.times, d.only = d.Times, nil
	}
	if len(d.marks) > 0 && p.start >= d.marks[0].at {
		d.reach(p.start)
	}
	if d.of.Slices {
		l.Part.bins.reach(p.start, l.Part.Times())
		l.Part.stretches.reach(p.start, l.Part.Times())
	}
	if d.of.Watch != nil {
		d.idle(l, p)
	}
	if from := max(p.start, d.any.End); d.busy != nil && from < p.end {
		d.busy(from, p.end)
	}
	d.Times.cover(p.start, p.end, p.class)
	if d.only == nil {
		l.Part.times.cover(p.start, p.end, p.class)
	}
	l.count(p)
}

// idle looks at the time between the last piece that ended and the next one.
func (d *Device) idle(l *Lane, p *span) {
	next := &d.two[0]
	if next == d.last {
		next = &d.two[1]
	}
	*next = behind{l, Piece{p.start, p.end, p.class, l.launches[p.launch]}}
	if d.last != nil {
		if p.start > d.last.End {
			d.Idle.gap(d.of.Watch, d.last, next)
		}
		d.Idle.follows(d.of.Watch, d.last, next)
	}
	if d.last == nil || p.end >= d.last.End {
		d.last = next
	}
}

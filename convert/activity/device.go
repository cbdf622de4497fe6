package activity

import "github.com/cudatrace/cudatrace/convert/timeline"

// A Device is a GPU.
type Device struct {
	Times
	Parts       []*Part
	Idle        Idle
	Late        uint64 // pieces that came too late for times to be exact
	First, Last uint64 // start of the first piece, end of the last; First is timeline.Never without any

	// Before is called before each piece is counted in Times, in the order of time; nil for nothing.
	Before func(start uint64)

	order order
	store *Store // nil for none
	used  uint64 // number of the store's piece that was added last
	last  behind // the piece that was the last to end, of those that were taken
	only  *Part  // the part of all pieces that were taken, nil if there are several
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
	times       Times // where pieces of several parts were taken
	device      *Device
}

// NewDevice returns a device without work. A store bounds its pieces together with those of other devices; nil does not.
func NewDevice(s *Store) *Device {
	d := &Device{First: timeline.Never, store: s}
	if s != nil {
		s.devices = append(s.devices, d)
	}
	return d
}

// NewSmallDevice returns a device of which at most a number of pieces wait for earlier ones.
func NewSmallDevice(window int) *Device {
	return &Device{First: timeline.Never, order: order{most: window}}
}

// Lane adds a stream to the device.
func (d *Device) Lane(s *timeline.Stream) *Lane {
	return &Lane{Stream: s, Part: d.part(s.Context.Process), First: timeline.Never}
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

// Add adds a piece of work.
func (d *Device) Add(l *Lane, p Piece) {
	d.First, d.Last = min(d.First, p.Start), max(d.Last, p.End)
	l.First, l.Last = min(l.First, p.Start), max(l.Last, p.End)
	l.Part.First, l.Part.Last = min(l.Part.First, p.Start), max(l.Part.Last, p.End)
	if p.Start >= d.order.horizon {
		if d.order.add(l, p) {
			d.advance(d.order.window() * 3 / 4)
		}
		if d.store != nil {
			d.store.added(d)
		}
		return
	}
	d.Late++
	l.add(&p)
}

// Finish takes all pieces that wait.
func (d *Device) Finish() { d.advance(d.order.pending) }

// advance takes pieces that wait.
func (d *Device) advance(n int) {
	d.order.advance(n, d.take)
	if d.store != nil {
		d.store.waiting -= n
	}
}

// add adds a piece to the lane's own time. Pieces of one lane come by start even where those of
// several lanes do not.
func (l *Lane) add(p *Piece) {
	if p.Start < l.horizon {
		l.Late++
		return
	}
	l.horizon = p.Start
	l.Busy.Add(p.Start, p.End)
}

// take takes the next piece in the order of time.
func (d *Device) take(l *Lane, p *Piece) {
	if d.Before != nil {
		d.Before(p.Start)
	}
	first := d.last.lane == nil
	switch {
	case first:
		d.only = l.Part
	case d.only != nil && d.only != l.Part:
		d.only.times, d.only = d.Times, nil
	}
	if !first {
		if p.Start > d.last.End {
			d.Idle.gap(&d.last, l, p)
		}
		d.Idle.follows(&d.last, l, p)
	}
	d.Times.add(p.Start, p.End, p.Class)
	if d.only == nil {
		l.Part.times.add(p.Start, p.End, p.Class)
	}
	l.add(p)
	if first || p.End >= d.last.End {
		d.last = behind{l, *p}
	}
}

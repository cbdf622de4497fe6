package pfsink

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// collectives draw how ranks waited for the one that entered a collective last, on a track beside the threads of each rank: where the
// rank waited, a slice up to the moment in which the last one entered, and a slice from there to the end of its kernel; on the
// track of the last rank a slice of its kernel, with an arrow to the second slice of each rank that waited.
//
// The UI draws an arrow to the start of a slice, from the end of a slice that started earlier, or from the start of one that did not.
// The kernels of a collective start in any order and end together, so that an arrow between two of them would lead back in
// time. These slices start at one moment, and so does the arrow.
//
// The slices are written at the end, because the last rank may come after the others.
type collectives struct {
	sink    *Sink
	met     []met // by Collective.ID
	streams map[*timeline.Stream]*[]wait
	order   []*timeline.Stream

	// The following are nil where there is nothing to draw.
	communicator, number *perfetto.ArgName
	templates            map[string]*perfetto.TrackEventTemplate
}

// A met is what is drawn of a collective.
type met struct {
	*timeline.Collective                  // nil before the first wait
	waits                uint64           // ranks that waited
	last                 *timeline.Stream // of the rank that entered last, nil where that is not shown
	end                  uint64           // of its kernel
	flow                 uint64           // id of the next arrow
}

// A wait is the kernel of a rank that waited.
type wait struct {
	collective uint32
	start, end uint64
}

func newCollectives(s *Sink) collectives {
	return collectives{sink: s, streams: make(map[*timeline.Stream]*[]wait)}
}

// take takes a kernel that is part of a collective.
func (c *collectives) take(of *timeline.Stream, w *timeline.Work) {
	p := w.Part
	end := timeline.End(w.Start, w.Dur)
	if !p.IsLast && !p.Awaits || w.Start > p.Entered || end < p.Entered { // of a part of a timeline, that moment may be in another one
		return
	}
	for uint32(len(c.met)) <= p.ID {
		c.met = append(c.met, met{})
	}
	m := &c.met[p.ID]
	if p.IsLast {
		m.last, m.end = of, end
		c.sink.shown += min(m.waits, 1)
		return
	}
	if m.Collective == nil {
		m.Collective = new(p.Collective)
		if m.last != nil {
			c.sink.shown++
		}
	}
	m.waits++
	list := c.streams[of]
	if list == nil {
		list = new([]wait)
		c.streams[of], c.order = list, append(c.order, of)
	}
	*list = append(*list, wait{p.ID, w.Start, end})
	c.sink.shown += 2
}

// write writes the slices.
func (c *collectives) write() {
	if len(c.order) == 0 {
		return
	}
	c.communicator, c.number = c.sink.w.ArgName("communicator"), c.sink.w.ArgName("collective")
	c.templates = make(map[string]*perfetto.TrackEventTemplate)
	c.writeLasts()
	for _, of := range c.order {
		track := c.track(of)
		list := *c.streams[of]
		slices.SortFunc(list, func(a, b wait) int { return cmp.Compare(a.start, b.start) })
		for i := range list {
			c.drawWait(track, &list[i])
		}
	}
}

// writeLasts writes the slices of the ranks that entered last, which stand in the trace before those that their arrows lead to. The
// collectives of a stream come in order. Tracks of one name are one track in the UI.
func (c *collectives) writeLasts() {
	tracks := make(map[*timeline.Stream]*perfetto.Track)
	var order []*perfetto.Track
	var ids []uint64
	next := uint64(1)
	for i := range c.met {
		m := &c.met[i]
		if m.waits == 0 || m.last == nil {
			continue
		}
		track := tracks[m.last]
		if track == nil {
			track = c.track(m.last)
			tracks[m.last], order = track, append(order, track)
		}
		ids = ids[:0]
		for m.flow = next; next < m.flow+m.waits; next++ {
			ids = append(ids, next)
		}
		track.BeginFlow(m.Entered, c.template(m.Operation), ids, c.numbers(m))
		track.End(m.end)
	}
	for _, track := range order {
		track.Flush()
	}
}

func (c *collectives) drawWait(track *perfetto.Track, x *wait) {
	m := &c.met[x.collective]
	track.Begin(x.start, c.template("waits for "+m.Last), 0, c.numbers(m))
	track.End(m.Entered)
	if m.last == nil {
		track.Begin(m.Entered, c.template(m.Operation), 0, c.numbers(m))
	} else {
		track.BeginFlow(m.Entered, c.template(m.Operation), []uint64{m.flow}, c.numbers(m))
		m.flow++
	}
	track.End(x.end)
}

func (c *collectives) track(of *timeline.Stream) *perfetto.Track {
	return c.sink.w.Track(perfetto.TrackInfo{Name: "collectives on " + streamOfGPU(of), PID: of.Context.Process.PID})
}

func (c *collectives) numbers(m *met) perfetto.UintArgs {
	return perfetto.UintArgs{c.communicator.Value(uint64(m.Communicator)), c.number.Value(m.Number)}
}

func (c *collectives) template(name string) *perfetto.TrackEventTemplate {
	t := c.templates[name]
	if t == nil {
		t = new(perfetto.TrackEventTemplate)
		t.Encode(c.sink.w, name, "collective", nil)
		c.templates[name] = t
	}
	return t
}

// part adds what is known of the collective that a kernel is part of.
func (s *works) part(p *timeline.Part) {
	s.args = append(s.args,
		perfetto.Uint("communicator_number", uint64(p.Communicator)),
		perfetto.Uint("collective", p.Number),
		perfetto.Uint("ranks", uint64(p.Ranks)))
	if p.Last == "" {
		return
	}
	s.args = append(s.args, perfetto.String("entered_last", p.Last), perfetto.Uint("waited_ns", p.Waited))
	switch p.Doubt {
	case 0:
	case timeline.Never:
		s.args = append(s.args, perfetto.String("clock_error", "not known"))
	default:
		s.args = append(s.args, perfetto.Uint("clock_error_ns", p.Doubt))
	}
}

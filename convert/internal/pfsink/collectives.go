package pfsink

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// collectives draw how ranks waited for the one that entered a collective last, on a track beside the threads of each
// rank: where the rank waited, a slice up to the moment in which the last one entered, with what that one did
// meanwhile, and a slice from there to the end of its kernel; on the track of the last rank a slice of its kernel, with
// an arrow from the first slice of each rank that waited, and one to its second slice. Kernels that send and receive
// have a slice without arrows: nothing tells which belong together.
//
// The UI draws an arrow to the start of a slice, from the end of a slice that started earlier, or from the start of one
// that did not. The kernels of a collective start in any order and end together, so that an arrow between two of them
// would lead back in time. These slices start at one moment, and so does the arrow.
//
// The slices are written at the end, because the last rank may come after the others.
type collectives struct {
	sink    *Sink
	drawn   []drawing // by Collective.ID
	streams map[*timeline.Stream]*[]wait
	order   []*timeline.Stream

	sent     []sliceName // of kernels that send and receive
	sendings map[sliceName]uint32

	// The following are nil where there is nothing to draw.
	templates map[sliceName]*perfetto.TrackEventTemplate
	did       map[meanwhile]uint64 // times of one rank

	hops int // see mostHops
}

// A drawing is what is drawn of a collective.
type drawing struct {
	*timeline.Collective                  // nil before the first wait
	waits                uint64           // ranks that waited
	last                 *timeline.Stream // of the rank that entered last, nil where that is not shown
	end                  uint64           // of its kernel
	flow                 uint64           // id of the next arrow
	communicator         uint64           // its hash, 0 where NCCL does not tell
	since                uint64           // start of the longest wait
	meanwhile            *meanwhile       // of the last rank, nil before it was looked for
}

// A meanwhile is what a rank did for most of a time; zero where that is not known.
type meanwhile struct {
	kind        critical.Kind
	name, place uint32 // texts of critical.Collector
}

// mostHops bounds the steps back along the paths of ranks that came last, of all collectives together.
const mostHops = 1 << 20

// A wait is the kernel of a rank that waited, or one that sends and receives.
type wait struct {
	collective uint32 // Collective.ID, or what sending returned
	start, end uint64
}

func newCollectives(s *Sink) collectives {
	return collectives{sink: s, streams: make(map[*timeline.Stream]*[]wait), sendings: make(map[sliceName]uint32)}
}

// showPart shows a kernel's part in a collective.
func (c *collectives) showPart(of *timeline.Stream, w *timeline.Work) {
	p := w.Part
	end := timeline.End(w.Start, w.Dur)
	if p.Alone {
		c.queueWait(of, wait{c.sending(sliceName{text: p.Operation, communicator: communicatorOf(w)}), w.Start, end})
		c.sink.shown++
		return
	}
	// of a part of a timeline, that moment may be in another one
	if !p.IsLast && !p.Awaits || w.Start > p.Entered || end < p.Entered {
		return
	}
	for uint32(len(c.drawn)) <= p.ID {
		c.drawn = append(c.drawn, drawing{})
	}
	m := &c.drawn[p.ID]
	if p.IsLast {
		m.last, m.end, m.communicator = of, end, cmp.Or(m.communicator, communicatorOf(w))
		c.sink.shown += min(m.waits, 1)
		return
	}
	m.communicator = cmp.Or(m.communicator, communicatorOf(w))
	if m.Collective == nil {
		m.Collective = new(p.Collective)
		if m.last != nil {
			c.sink.shown++
		}
	}
	if m.waits == 0 || w.Start < m.since {
		m.since = w.Start
	}
	m.waits++
	c.queueWait(of, wait{p.ID, w.Start, end})
	c.sink.shown += 2
}

// sends marks the number of a slice's name in wait.collective.
const sends = 1 << 31

// sending numbers the name of the slice of a kernel that sends and receives.
func (c *collectives) sending(name sliceName) uint32 {
	if len(c.sent) >= mostNames {
		name.communicator = 0
	}
	n, known := c.sendings[name]
	if !known {
		n = sends | uint32(len(c.sent))
		c.sendings[name], c.sent = n, append(c.sent, name)
	}
	return n
}

func (c *collectives) queueWait(of *timeline.Stream, x wait) {
	list := c.streams[of]
	if list == nil {
		list = new([]wait)
		c.streams[of], c.order = list, append(c.order, of)
	}
	*list = append(*list, x)
}

// communicatorOf is the hash of a kernel's communicator, 0 where NCCL does not tell.
func communicatorOf(w *timeline.Work) uint64 {
	if w.NCCL == nil {
		return 0
	}
	return w.NCCL.Communicator
}

// write writes the slices.
func (c *collectives) write() {
	if len(c.order) == 0 {
		return
	}
	c.templates, c.did = make(map[sliceName]*perfetto.TrackEventTemplate), make(map[meanwhile]uint64)
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

// writeLasts writes the slices of the ranks that entered last, which stand in the trace before those that their arrows
// lead to. The collectives of a stream come in order. Tracks of one name are one track in the UI.
func (c *collectives) writeLasts() {
	tracks := make(map[*timeline.Stream]*perfetto.Track)
	var order []*perfetto.Track
	var ids []uint64
	next := uint64(1)
	for i := range c.drawn {
		m := &c.drawn[i]
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
		name := sliceName{text: m.Operation, communicator: m.communicator}
		track.Begin(m.Entered, c.template(name), perfetto.Links{Flows: ids}, numbers(m)...)
		track.End(m.end)
	}
	for _, track := range order {
		track.Flush()
	}
}

func (c *collectives) drawWait(track *perfetto.Track, x *wait) {
	if x.collective&sends != 0 {
		track.Begin(x.start, c.template(c.sent[x.collective&^sends]), perfetto.Links{})
		track.End(x.end)
		return
	}
	m := &c.drawn[x.collective]
	waits := c.template(sliceName{"waits for " + m.Last, m.communicator, c.meanwhile(m)})
	then := c.template(sliceName{text: m.Operation, communicator: m.communicator})
	var flow perfetto.Links
	if m.last != nil {
		flow.Flows = []uint64{m.flow}
		m.flow++
	}
	track.Begin(x.start, waits, flow, numbers(m)...)
	track.End(m.Entered)
	track.Begin(m.Entered, then, flow, numbers(m)...)
	track.End(x.end)
}

// meanwhile returns what the rank that entered last did while another one waited: the largest part of the path to its
// kernel.
func (c *collectives) meanwhile(m *drawing) meanwhile {
	if m.meanwhile != nil {
		return *m.meanwhile
	}
	m.meanwhile = new(meanwhile)
	if c.sink.paths == nil || m.last == nil || c.hops >= mostHops {
		return meanwhile{}
	}
	clear(c.did)
	most := uint64(0)
	c.hops += c.sink.paths.Collector.Path(m.since, m.Entered, critical.End{Stream: m.last}, func(x *critical.Segment) {
		key := meanwhile{x.Kind, x.Name, x.Place}
		c.did[key] += x.To - x.From
		if ns := c.did[key]; ns > most && x.Kind != critical.Unknown {
			most, *m.meanwhile = ns, key
		}
	})
	return *m.meanwhile
}

func (c *collectives) track(of *timeline.Stream) *perfetto.Track {
	return c.sink.w.Track(perfetto.TrackInfo{
		Name: c.trackName(of), Group: c.sink.tracks.group(of.Context.Process, onStreams),
		Rank: streamPlace(of, 1),
	})
}

func (c *collectives) trackName(of *timeline.Stream) string {
	return c.sink.tracks.own(of.Context.Process) + "collectives on " + streamOfGPU(of)
}

func numbers(m *drawing) []perfetto.Arg {
	return []perfetto.Arg{
		perfetto.Uint("communicator_number", uint64(m.Communicator)), perfetto.Uint("collective", m.Number),
	}
}

// mostNames is the number of names of slices from which on new ones have no communicator. The work
// itself has its number.
const mostNames = 1 << 12

// A sliceName is the name of a slice with its communicator, and what the rank that it waits for did.
type sliceName struct {
	text         string
	communicator uint64
	meanwhile    meanwhile
}

func (c *collectives) template(of sliceName) *perfetto.TrackEventTemplate {
	if len(c.templates) >= mostNames {
		of.communicator = 0
	}
	t := c.templates[of]
	if t != nil {
		return t
	}
	if len(c.templates) >= 2*mostNames {
		clear(c.templates)
	}
	var args []perfetto.Arg
	if did := of.meanwhile; did.kind != critical.Unknown {
		texts := c.sink.paths.Collector
		args = append(args, perfetto.String("meanwhile", texts.Text(did.name)))
		if line := texts.Text(did.place); line != "" {
			args = append(args, perfetto.String("line", line))
		}
		args = append(args, perfetto.String("state", did.kind.String()))
	}
	if of.communicator != 0 {
		args = append(args, perfetto.Pointer("communicator", of.communicator))
	}
	t = new(perfetto.TrackEventTemplate)
	t.Encode(c.sink.w, of.text, "collective", args)
	c.templates[of] = t
	return t
}

// part adds what is known of the collective that a kernel is part of.
func (s *works) part(p *timeline.Part) {
	if p.Alone {
		return
	}
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

package convert

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// nvtxStats counts what a program marked.
type nvtxStats struct {
	ranges, marks uint64
	unmatched     uint64 // starts without an end, and ends without a start
}

// A place is where ranges are shown: a thread's track of a domain.
type place struct {
	tid    uint32
	domain string
}

// A placeLane is the track of a place, with the spans that begin at it and are not
// laid on it yet, in the order in which they begin.
type placeLane struct {
	lane
	domain  string
	pending []*Span
}

// A ranger joins the markers of a session into ranges. A range that ends on another
// thread, or crosses the end of one around it, is shown among the process's tracks.
type ranger struct {
	s       *session
	open    map[uint32]*openRange // by id
	places  map[place]*placeLane
	order   []*placeLane
	async   map[string]*spread // by domain
	domains []string
	held    int // spans that wait to be laid on a thread's track
}

// openRange is a range that has not ended.
type openRange struct {
	*Span
	tid    uint32
	domain string
}

const (
	// maxHeldSpans is how many spans a session holds back because one around them has
	// not ended; when there are more, that one is shown as what contains them.
	maxHeldSpans = 1 << 16

	// maxOpenRanges bounds the ranges that have begun and not ended.
	maxOpenRanges = 1 << 18
)

func newRanger(s *session) *ranger {
	return &ranger{s: s, open: make(map[uint32]*openRange), places: make(map[place]*placeLane), async: make(map[string]*spread)}
}

// A marker is a record of its time and session.
type marker struct {
	s *session
	tracelog.Marker
}

// before puts what ends behind what begins at the same time.
func (m *marker) before(o *marker) bool {
	return cmp.Or(cmp.Compare(m.Time, o.Time), cmp.Compare(m.Flags&tracelog.MarkerEnd, o.Flags&tracelog.MarkerEnd)) < 0
}

// markerList holds the markers that are not joined yet.
type markerList struct {
	list   []marker
	sorted int
}

// markers takes a block of NVTX markers.
func (c *converter) markers(b *tracelog.Block) {
	for i := range b.N {
		if !c.wanted(b, i) {
			continue
		}
		var m marker
		m.Marker.Read(b, i)
		m.Time, m.TID = c.timed(m.Time), c.globalTID(m.PID, m.TID)
		m.s = c.processes[m.PID].parts.at(m.Time)
		c.markerList.list = append(c.markerList.list, m)
	}
}

// advance joins the markers that lie before low.
func (l *markerList) advance(c *converter, low uint64) {
	insertSorted(l.list, l.sorted, (*marker).before)
	n := 0
	for ; n < len(l.list) && (l.list[n].Time < low || c.eof); n++ {
		s := l.list[n].s
		if s.ranger == nil {
			s.ranger = newRanger(s)
		}
		s.ranger.marker(c, &l.list[n].Marker)
	}
	kept := copy(l.list, l.list[n:])
	clear(l.list[kept:])
	l.list, l.sorted = l.list[:kept], kept
}

func (r *ranger) marker(c *converter, m *tracelog.Marker) {
	switch {
	case m.Flags&tracelog.MarkerStart != 0:
		if earlier, ok := r.open[m.ID]; ok { // its end was lost
			r.unfinished(c, earlier)
		} else if len(r.open) >= maxOpenRanges {
			c.found.nvtx.unmatched++
			return
		}
		sp := r.begin(c, m)
		sp.open, sp.kept = true, true
		r.open[m.ID] = &openRange{sp, m.TID, m.Domain}
	case m.Flags&tracelog.MarkerEnd != 0:
		o, ok := r.open[m.ID]
		if !ok { // began before recording did
			c.found.nvtx.unmatched++
			return
		}
		delete(r.open, m.ID)
		r.end(c, o, m)
	default:
		c.found.nvtx.marks++
		sp := r.begin(c, m)
		sp.End, sp.Instant = m.Time, true
	}
}

// begin puts a span where it begins.
func (r *ranger) begin(c *converter, m *tracelog.Marker) *Span {
	sp := c.spans.get()
	sp.Name, sp.Start = markerName(m), m.Time
	p := r.place(c, place{m.TID, m.Domain})
	p.pending = append(p.pending, sp)
	r.held++
	return sp
}

func (r *ranger) place(c *converter, at place) *placeLane {
	p := r.places[at]
	if p == nil {
		p = &placeLane{domain: at.domain}
		p.out = &Track{Process: r.s.Process, Name: domainTitle(at.domain), Category: categoryNVTX}
		if at.tid != 0 {
			p.out.Thread = c.thread(r.s, at.tid)
		}
		r.places[at] = p
		r.order = append(r.order, p)
	}
	return p
}

func (r *ranger) end(c *converter, o *openRange, m *tracelog.Marker) {
	c.found.nvtx.ranges++
	sp := o.Span
	sp.kept = false
	if !sp.open { // cut where the one around it ended
		return
	}
	sp.open, sp.End = false, m.Time
	if p := r.places[place{o.tid, o.domain}]; slices.Contains(p.lane.open, sp) {
		p.cutWithin(sp)
		return
	}
	if m.TID != o.tid {
		sp.Args = []Detail{{Name: "start_thread", Value: uint64(o.tid)}, {Name: "end_thread", Value: uint64(m.TID)}}
		sp.moved = true
	}
}

// cutWithin ends what was shown as lying within a span, and has not ended, with that one.
func (p *placeLane) cutWithin(outer *Span) {
	i := slices.Index(p.lane.open, outer)
	for _, sp := range p.lane.open[i+1:] {
		if sp.open || sp.End > outer.End {
			sp.open, sp.End = false, outer.End
		}
	}
}

func (r *ranger) unfinished(c *converter, o *openRange) {
	c.found.nvtx.unmatched++
	c.found.nvtx.ranges++
	o.kept = false
	if !o.open {
		return
	}
	o.open, o.End = false, max(r.s.horizon, o.Start)
	o.Args = []Detail{{Name: "unfinished", Text: "had not ended when recording did"}}
}

// finish ends what has not ended.
func (r *ranger) finish(c *converter) {
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		r.unfinished(c, r.open[id])
	}
	clear(r.open)
	r.advance(c)
	for _, p := range r.order {
		p.endAll(c)
	}
	for _, domain := range r.domains {
		r.async[domain].advance(c, never)
	}
}

// advance lays the spans of which it is known where they belong.
func (r *ranger) advance(c *converter) {
	force := r.held > maxHeldSpans
	for _, p := range r.order {
		for r.layNext(c, p, force) {
		}
	}
	for _, domain := range r.domains {
		low := uint64(never)
		for _, p := range r.order {
			if p.domain == domain && len(p.pending) > 0 && !force {
				low = min(low, p.pending[0].Start)
			}
		}
		r.async[domain].advance(c, low)
	}
}

// layNext lays the first spans of a place, all that begin together, and reports whether
// they have ended. With force a span that has not ended is laid as what contains all
// that follows until it ends.
func (r *ranger) layNext(c *converter, p *placeLane, force bool) bool {
	n := 0
	for n < len(p.pending) && p.pending[n].Start == p.pending[0].Start {
		if p.pending[n].open && !force {
			return false
		}
		n++
	}
	if n == 0 {
		return false
	}
	first := p.pending[:n]
	slices.SortStableFunc(first, func(a, b *Span) int {
		return cmp.Or(compareBool(b.open, a.open), cmp.Compare(b.End, a.End))
	})
	for _, sp := range first {
		if sp.moved || p.out.Thread == nil || !p.fits(c, sp) {
			r.aside(p.domain).add(r.ended(sp))
			continue
		}
		p.add(c, sp)
	}
	p.pending = p.pending[n:]
	r.held -= n
	return true
}

// ended makes a span that has not ended, and is in the way of too many others, last as
// long as the program.
func (r *ranger) ended(sp *Span) *Span {
	if sp.open {
		sp.open, sp.End = false, max(r.s.horizon, sp.Start)
		sp.Args = []Detail{{Name: "end", Text: "not known: shown before it ended"}}
	}
	return sp
}

// aside is where the ranges of a domain are shown that fit no thread's track.
func (r *ranger) aside(domain string) *spread {
	s := r.async[domain]
	if s == nil {
		s = newSpread(r.s.Process, domainTitle(domain), categoryNVTX)
		r.async[domain] = s
		r.domains = append(r.domains, domain)
		slices.Sort(r.domains)
	}
	return s
}

func markerName(m *tracelog.Marker) string {
	if m.Name == "" {
		return "(unnamed)"
	}
	return m.Name
}

func domainTitle(domain string) string {
	if domain == "" {
		return "NVTX"
	}
	return "NVTX: " + domain
}

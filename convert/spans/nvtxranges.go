package spans

import (
	"cmp"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// NVTXStats count what a program marked.
type NVTXStats struct {
	Ranges, Marks uint64
	Unmatched     uint64 // starts without an end, and ends without a start
}

// NVTXRanges join the markers of a program into ranges. A range that ends on another
// thread, or crosses the end of one around it, is laid on tracks of the process.
type NVTXRanges struct {
	out     *Output
	stats   *NVTXStats
	process *timeline.Process
	thread  func(tid uint32) *timeline.Thread
	horizon uint64
	open    map[uint32]*openRange // by id
	lanes   map[laneKey]*domainLane
	order   []*domainLane
	crossed map[string]*OverlapLanes // by domain
	domains []string                 // of crossed, sorted
	held    int                      // spans that wait to be laid on a thread's track
}

// A laneKey names a thread's track of a domain.
type laneKey struct {
	tid    uint32
	domain string
}

// A domainLane is such a track, with the spans that are not laid on it yet, in the order
// in which they begin.
type domainLane struct {
	lane
	domain  string
	pending []*span
}

// An openRange is a range that has not ended.
type openRange struct {
	*span
	laneKey
}

const (
	// maxHeldSpans is how many spans a program holds back because one around them has not
	// ended; when there are more, that one is shown as what contains them.
	maxHeldSpans = 1 << 16

	// maxOpenRanges bounds the ranges that have begun and not ended.
	maxOpenRanges = 1 << 18
)

// NewNVTXRanges returns the ranges of a process. What has not ended ends at the horizon;
// thread finds a thread by its host TID.
func NewNVTXRanges(out *Output, stats *NVTXStats, p *timeline.Process, horizon uint64, thread func(tid uint32) *timeline.Thread) *NVTXRanges {
	return &NVTXRanges{out: out, stats: stats, process: p, thread: thread, horizon: horizon,
		open: make(map[uint32]*openRange), lanes: make(map[laneKey]*domainLane), crossed: make(map[string]*OverlapLanes)}
}

// MarkerBefore is the order in which Marker takes markers: by time, ends behind what
// begins at the same time.
func MarkerBefore(a, b *tracelog.Marker) bool {
	return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Flags&tracelog.MarkerEnd, b.Flags&tracelog.MarkerEnd)) < 0
}

// Marker takes the next marker. Its TID is a host TID.
func (r *NVTXRanges) Marker(m *tracelog.Marker) {
	switch {
	case m.Flags&tracelog.MarkerStart != 0:
		r.start(m)
	case m.Flags&tracelog.MarkerEnd != 0:
		o, ok := r.open[m.ID]
		if !ok { // it began before recording did
			r.stats.Unmatched++
			return
		}
		delete(r.open, m.ID)
		r.end(o, m)
	default:
		r.stats.Marks++
		sp := r.begin(m)
		sp.End, sp.instant = m.Time, true
	}
}

func (r *NVTXRanges) start(m *tracelog.Marker) {
	if earlier, ok := r.open[m.ID]; ok { // its end was lost
		r.unfinished(earlier)
	} else if len(r.open) >= maxOpenRanges {
		r.stats.Unmatched++
		return
	}
	sp := r.begin(m)
	sp.Open = true
	r.open[m.ID] = &openRange{sp, laneKey{m.TID, m.Domain}}
}

// begin puts a span where it begins.
func (r *NVTXRanges) begin(m *tracelog.Marker) *span {
	sp := &span{Span: timeline.Span{Name: cmp.Or(m.Name, "(unnamed)"), Start: m.Time}}
	l := r.lane(laneKey{m.TID, m.Domain})
	l.pending = append(l.pending, sp)
	r.held++
	return sp
}

func (r *NVTXRanges) lane(key laneKey) *domainLane {
	l := r.lanes[key]
	if l == nil {
		track := &timeline.Track{Process: r.process, Name: domainTitle(key.domain), Category: timeline.NVTX}
		if key.tid != 0 {
			track.Thread = r.thread(key.tid)
		}
		l = &domainLane{lane: lane{out: r.out, track: track}, domain: key.domain}
		r.lanes[key] = l
		r.order = append(r.order, l)
	}
	return l
}

func (r *NVTXRanges) end(o *openRange, m *tracelog.Marker) {
	r.stats.Ranges++
	sp := o.span
	if !sp.Open { // cut where the one around it ended
		return
	}
	sp.Open, sp.End = false, m.Time
	if l := r.lanes[o.laneKey]; slices.Contains(l.lane.open, sp) {
		l.cutWithin(sp)
		return
	}
	if m.TID != o.tid {
		sp.Args = []timeline.Detail{{Name: "start_thread", Value: uint64(o.tid)}, {Name: "end_thread", Value: uint64(m.TID)}}
		sp.moved = true
	}
}

// cutWithin ends what was shown as lying within a span, and has not ended, with that
// span.
func (l *domainLane) cutWithin(outer *span) {
	i := slices.Index(l.lane.open, outer)
	for _, sp := range l.lane.open[i+1:] {
		if sp.Open || sp.End > outer.End {
			sp.Open, sp.End = false, outer.End
		}
	}
}

func (r *NVTXRanges) unfinished(o *openRange) {
	r.stats.Unmatched++
	r.stats.Ranges++
	if !o.Open {
		return
	}
	o.Open, o.End = false, max(r.horizon, o.Start)
	o.Args = []timeline.Detail{{Name: "unfinished", Text: "had not ended when recording did"}}
}

// Finish ends what has not ended and lays all spans.
func (r *NVTXRanges) Finish() {
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		r.unfinished(r.open[id])
	}
	clear(r.open)
	r.advance(true)
	for _, l := range r.order {
		l.endAll()
	}
}

// Advance lays the spans of which it is known where they belong.
func (r *NVTXRanges) Advance() { r.advance(false) }

func (r *NVTXRanges) advance(all bool) {
	force := r.held > maxHeldSpans
	for _, l := range r.order {
		for r.layNext(l, force) {
		}
	}
	for _, domain := range r.domains {
		low := timeline.Never
		for _, l := range r.order {
			if l.domain == domain && len(l.pending) > 0 && !force {
				low = min(low, l.pending[0].Start)
			}
		}
		r.crossed[domain].Advance(low, all)
	}
}

// layNext lays the first spans of a lane, all that begin together, and reports whether
// they have ended. With force a span that has not ended is laid as what contains all
// that follows until it ends.
func (r *NVTXRanges) layNext(l *domainLane, force bool) bool {
	n := 0
	for n < len(l.pending) && l.pending[n].Start == l.pending[0].Start {
		if l.pending[n].Open && !force {
			return false
		}
		n++
	}
	if n == 0 {
		return false
	}
	first := l.pending[:n]
	slices.SortStableFunc(first, func(a, b *span) int {
		if a.Open != b.Open {
			if a.Open {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.End, a.End)
	})
	for _, sp := range first {
		if sp.moved || l.track.Thread == nil || !l.fits(sp) {
			r.aside(l.domain).pending.Add(r.ended(sp))
			continue
		}
		l.add(sp)
	}
	l.pending = l.pending[n:]
	r.held -= n
	return true
}

// ended makes a span that has not ended, and is in the way of too many others, last as
// long as the program.
func (r *NVTXRanges) ended(sp *span) *span {
	if sp.Open {
		sp.Open, sp.End = false, max(r.horizon, sp.Start)
		sp.Args = []timeline.Detail{{Name: "end", Text: "not known: shown before it ended"}}
	}
	return sp
}

// aside returns the tracks for ranges of a domain that fit no thread's track.
func (r *NVTXRanges) aside(domain string) *OverlapLanes {
	l := r.crossed[domain]
	if l == nil {
		l = NewOverlapLanes(r.out, timeline.Track{Process: r.process, Name: domainTitle(domain), Category: timeline.NVTX})
		r.crossed[domain] = l
		r.domains = append(r.domains, domain)
		slices.Sort(r.domains)
	}
	return l
}

func domainTitle(domain string) string {
	if domain == "" {
		return "NVTX"
	}
	return "NVTX: " + domain
}

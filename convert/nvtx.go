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

// A place is where ranges are shown: a thread's track of a domain, or with tid 0
// the process's.
type place struct {
	tid    uint32
	domain string
}

// ranger joins the markers of a process into ranges.
type ranger struct {
	open    map[uint32]tracelog.Marker // starts, by id
	spans   map[place][]Span
	horizon uint64
	stats   nvtxStats
}

// nvtx gives a process and its threads their tracks of NVTX ranges. A range that
// ends on another thread, or crosses the end of one around it, is shown among the
// process's tracks.
func (l *loader) nvtx(s *session, stats *nvtxStats) {
	r := &ranger{open: make(map[uint32]tracelog.Marker), spans: make(map[place][]Span), horizon: l.horizon(s), stats: *stats}
	slices.SortStableFunc(s.markers, func(a, b tracelog.Marker) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Flags&tracelog.MarkerEnd, b.Flags&tracelog.MarkerEnd))
	})
	for i := range s.markers {
		r.marker(&s.markers[i])
	}
	s.markers = nil
	for _, id := range slices.Sorted(maps.Keys(r.open)) {
		m := r.open[id]
		r.unfinished(&m)
	}
	r.place(s.Process)
	*stats = r.stats
}

func (r *ranger) marker(m *tracelog.Marker) {
	switch {
	case m.Flags&tracelog.MarkerStart != 0:
		if earlier, ok := r.open[m.ID]; ok { // its end was lost
			r.unfinished(&earlier)
		}
		r.open[m.ID] = *m
	case m.Flags&tracelog.MarkerEnd != 0:
		start, ok := r.open[m.ID]
		if !ok { // began before recording did
			r.stats.unmatched++
			return
		}
		delete(r.open, m.ID)
		sp := Span{Name: markerName(&start), Start: start.Time, End: m.Time}
		tid := start.TID
		if m.TID != tid {
			sp.Args = []Detail{{Name: "start_thread", Value: uint64(tid)}, {Name: "end_thread", Value: uint64(m.TID)}}
			tid = 0
		}
		r.add(place{tid, start.Domain}, sp)
	default:
		r.stats.marks++
		at := place{m.TID, m.Domain}
		r.spans[at] = append(r.spans[at], Span{Name: markerName(m), Start: m.Time, End: m.Time, Instant: true})
	}
}

func (r *ranger) add(at place, sp Span) {
	r.stats.ranges++
	r.spans[at] = append(r.spans[at], sp)
}

func (r *ranger) unfinished(m *tracelog.Marker) {
	r.stats.unmatched++
	r.add(place{m.TID, m.Domain}, Span{
		Name: markerName(m), Start: m.Time, End: max(r.horizon, m.Time),
		Args: []Detail{{Name: "unfinished", Text: "had not ended when recording did"}},
	})
}

func markerName(m *tracelog.Marker) string {
	if m.Name == "" {
		return "(unnamed)"
	}
	return m.Name
}

// place makes the tracks: for each thread one per domain, and for the process
// those of what is left.
func (r *ranger) place(p *Process) {
	threads := make(map[uint32]*Thread, len(p.Threads))
	for _, th := range p.Threads {
		threads[th.TID] = th
	}
	order := slices.SortedFunc(maps.Keys(r.spans), func(a, b place) int {
		return cmp.Or(cmp.Compare(a.tid, b.tid), cmp.Compare(a.domain, b.domain))
	})
	async := make(map[string][]Span)
	for _, at := range order {
		rest := r.spans[at]
		if th := threads[at.tid]; at.tid != 0 && th != nil {
			track := &Track{PID: p.PID, Name: domainTitle(at.domain), Category: categoryNVTX}
			track.Spans, rest = nest(rest)
			th.Tracks = append(th.Tracks, track)
		}
		async[at.domain] = append(async[at.domain], rest...)
	}
	for _, domain := range slices.Sorted(maps.Keys(async)) {
		p.addTracks(domainTitle(domain), categoryNVTX, async[domain])
	}
}

func domainTitle(domain string) string {
	if domain == "" {
		return "NVTX"
	}
	return "NVTX: " + domain
}

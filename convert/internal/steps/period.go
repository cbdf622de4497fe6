package steps

import "github.com/cudatrace/cudatrace/convert/timeline"

// Limits of the search for the period of a stream's launches.
const (
	leastPeriod  = 4       // pieces of work
	leastPeriods = 5       // in the pieces that are searched
	regular      = 0.9     // part of these that lie in periods of one length
	firstSearch  = 1 << 11 // pieces; it is four times as many each further time
	lastSearch   = 1 << 15
	allSearched  = 1 << 20 // pieces of all streams together
)

// A period finds the steps of a program that does not name them: the launches on a stream repeat, and one kernel or
// copy comes once in each repetition, always after as many others. It gives up where nothing is as regular, or where a
// step has too many pieces.
type period struct {
	ids    map[*timeline.Shape]uint32
	shapes []*timeline.Shape
	seen   []uint32 // shapes of the pieces that are searched
	starts []uint64
	from   []*timeline.Python // that launched them
	search int                // pieces at which to search
	over   bool

	anchor *timeline.Shape // nil until the period is found
	length int             // pieces of a period
	since  int             // pieces since the anchor came
	bounds []uint64        // starts of the anchor
	usual  uint64          // periods of that length

	origins origins
}

// advance looks at the next piece of work. found is called with each beginning of a period.
func (p *period) advance(w *timeline.Work, room *int, found func(at uint64)) {
	if p.over || w.Untimed {
		return
	}
	if p.anchor != nil {
		if p.since++; w.Shape == p.anchor {
			p.bound(w.Start, found)
		}
		p.origins.add(&p.origins.since, origin{w.Call.Python, w.Shape})
		return
	}
	if *room == 0 {
		p.stop()
		return
	}
	*room--
	if p.ids == nil {
		p.ids, p.search = make(map[*timeline.Shape]uint32), firstSearch
	}
	id, known := p.ids[w.Shape]
	if !known {
		id = uint32(len(p.shapes))
		p.ids[w.Shape], p.shapes = id, append(p.shapes, w.Shape)
	}
	p.seen, p.starts = append(p.seen, id), append(p.starts, w.Start)
	p.from = append(p.from, w.Call.Python)
	if len(p.seen) < p.search {
		return
	}
	if p.search *= 4; !p.find(found) && len(p.seen) >= lastSearch {
		p.stop()
	}
}

func (p *period) stop() { *p = period{over: true} }

// bound takes the beginning of a period.
func (p *period) bound(at uint64, found func(at uint64)) {
	if len(p.bounds) >= Most {
		return
	}
	if len(p.bounds) > 0 && p.since == p.length {
		p.usual++
	}
	p.origins.bound(len(p.bounds) == 0)
	p.bounds, p.since = append(p.bounds, at), 0
	found(at)
}

// sure is the part of the periods that have the usual length.
func (p *period) sure() float64 {
	return float64(p.usual) / float64(max(len(p.bounds)-1, 1))
}

// A beat is how a shape comes again.
type beat struct {
	first, last, count int
	gap, votes         int    // the gap that most have
	equal              int    // gaps of that length
	before             uint64 // ns from the pieces before
}

// find searches for the period.
func (p *period) find(found func(at uint64)) bool {
	beats := make([]beat, len(p.shapes))
	for i, id := range p.seen {
		b := &beats[id]
		if b.count++; b.count == 1 {
			b.first, b.last = i, i
			continue
		}
		switch gap := i - b.last; {
		case b.votes == 0:
			b.gap, b.votes = gap, 1
		case gap == b.gap:
			b.votes++
		default:
			b.votes--
		}
		b.last = i
	}
	last := make([]int, len(beats))
	for i, id := range p.seen {
		if b := &beats[id]; i > b.first && i-last[id] == b.gap {
			b.equal++
			b.before += p.starts[i] - min(p.starts[i], p.starts[i-1])
		}
		last[id] = i
	}
	best, found1 := 0, false
	for id := range beats {
		if b := &beats[id]; b.periodic(len(p.seen)) && (!found1 || b.better(&beats[best])) {
			best, found1 = id, true
		}
	}
	if !found1 {
		return false
	}
	p.anchor, p.length = p.shapes[best], beats[best].gap
	for i, id := range p.seen {
		if p.since++; id == uint32(best) {
			p.bound(p.starts[i], found)
		}
		p.origins.add(&p.origins.since, origin{p.from[i], p.shapes[id]})
	}
	p.ids, p.shapes, p.seen, p.starts, p.from = nil, nil, nil, nil, nil
	return true
}

// periodic reports whether nearly all of the pieces between the first and the last time of a shape lie in periods of
// one length.
func (b *beat) periodic(of int) bool {
	return b.gap >= leastPeriod && b.equal >= leastPeriods && float64(b.equal) >= regular*float64(b.count-1) &&
		b.regularity() >= regular && 2*(b.last-b.first) >= of
}

func (b *beat) regularity() float64 { return float64(b.equal*b.gap) / float64(b.last-b.first) }

// better reports whether a shape marks steps better: what repeats within a step is less regular than the step. Of those
// of a period a step begins with the one before which most time passes.
func (b *beat) better(o *beat) bool {
	const grade = 20
	if x, y := int(grade*b.regularity()), int(grade*o.regularity()); x != y {
		return x > y
	}
	if b.gap != o.gap {
		return b.gap < o.gap
	}
	return b.before/uint64(b.equal) > o.before/uint64(o.equal)
}

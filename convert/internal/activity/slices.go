package activity

const (
	mostBins  = 1 << 10
	leastBins = 64

	piecesPerBin = 16 // of a row with more than leastBins slices
	firstShift   = 8  // no bin is shorter than 256 ns
)

// bins have the times up to the ends of bins of one width, which doubles when there would be too many. The state of a
// bin is the one that took most of it.
type bins struct {
	shift uint // the width is 1<<shift ns
	base  uint64
	begun bool
	ends  []Sum // of bin base+i: the times up to (base+i+1)<<shift
}

// reach ends the bins before a time. The work that starts before that time is in the times, and no other.
func (b *bins) reach(at uint64, t *Times) {
	if !b.begun {
		b.begun, b.shift, b.base = true, firstShift, at>>firstShift
	}
	for at>>b.shift >= b.base+mostBins {
		b.halve()
	}
	for n := b.base + uint64(len(b.ends)); n < at>>b.shift; n++ {
		b.ends = append(b.ends, t.Until((n+1)<<b.shift))
	}
}

// halve doubles the width of the bins.
func (b *bins) halve() {
	kept := b.ends[:0]
	for i := 1 - int(b.base&1); i < len(b.ends); i += 2 {
		kept = append(kept, b.ends[i])
	}
	b.ends, b.base, b.shift = kept, b.base>>1, b.shift+1
}

// stretches have the times of stretches of work, of pieces that lie close together. A stretch is about one width long,
// unless one piece is longer, and no gap within it is longer than half of the width, which doubles when there would be
// too many stretches. So a start-up with pauses of seconds takes few stretches, and steps of milliseconds many.
type stretches struct {
	width uint64
	list  []stretch
}

// A stretch is a time that begins and ends with work, or at the beginning or the end of a neighbour.
type stretch struct {
	start, end uint64
	until      Sum // the times up to the end; between stretches there is no work
}

// reach takes the start of a piece. The work that starts before that time is in the times, and no other.
func (r *stretches) reach(at uint64, t *Times) {
	n := len(r.list)
	if n == 0 {
		r.width, r.list = 1<<firstShift, append(r.list, stretch{start: at})
		return
	}
	last := &r.list[n-1]
	switch busy := max(last.start, t.any.End); {
	case at > busy && at-busy > r.width/2:
		last.end, last.until = busy, t.Until(busy)
	case at-last.start >= r.width:
		last.end, last.until = at, t.Until(at)
	default:
		return
	}
	if n == mostBins {
		r.widen()
	}
	r.list = append(r.list, stretch{start: at})
}

// widen doubles the width until there are fewer stretches.
func (r *stretches) widen() {
	for n := len(r.list); len(r.list) == n; {
		r.width *= 2
		kept := r.list[:1]
		for _, x := range r.list[1:] {
			if last := &kept[len(kept)-1]; x.start-last.end <= r.width/2 && x.end-last.start <= r.width {
				last.end, last.until = x.end, x.until
			} else {
				kept = append(kept, x)
			}
		}
		r.list = kept
	}
}

// A State is what a rank did most in a time.
type State uint8

// The states.
const (
	Exposed State = iota // communicated, and computed nothing
	Hidden               // communicated and computed
	Computes
	Copies // copied or set memory, and ran no kernel
	Idles
)

func (s State) String() string {
	return [...]string{"exposed communication", "communication and compute", "compute", "copies", "idle"}[s]
}

// A Slice is a time in one state.
type Slice struct {
	State
	Start, End uint64
	Sum        // times within it
}

// Idle is the time without work.
func (s *Slice) Idle() uint64 { return s.End - s.Start - s.Busy }

// stateOf is the state that took most of a slice's time.
func stateOf(s *Slice) (state State) {
	kernels := s.Compute + s.Communication - s.CommunicationOverlap
	longest := uint64(0)
	for i, ns := range [...]uint64{Exposed: s.Exposed(), Hidden: s.CommunicationOverlap,
		Computes: s.Compute - s.CommunicationOverlap, Copies: s.Busy - kernels, Idles: s.Idle()} {
		if ns > longest {
			state, longest = State(i), ns
		}
	}
	return state
}

// Slices returns what the process did on the device over time: few slices, enough to look at 64 ranks at once. There
// are at most 1,024, and at most one for 16 pieces of work of a part that has more than 64 slices. Their times are
// exact, and add up to those of the part. Between slices there is no work. The device is finished.
func (p *Part) Slices() (list []Slice) {
	p.device.Finish()
	r := &p.stretches
	n := len(r.list)
	if n == 0 {
		return nil
	}
	r.list[n-1].end, r.list[n-1].until = p.Last, p.Times().Until(p.Last)
	for uint64(len(r.list)) > max(leastBins, p.Pieces/piecesPerBin) {
		r.widen()
	}
	earlier := Sum{}
	for _, x := range r.list {
		s := Slice{Start: x.start, End: x.end, Sum: x.until.Less(earlier)}
		s.State, earlier = stateOf(&s), x.until
		if n := len(list); n > 0 && list[n-1].State == s.State && list[n-1].End == s.Start {
			list[n-1].End, list[n-1].Sum = s.End, list[n-1].Plus(s.Sum)
		} else if s.End > s.Start {
			list = append(list, s)
		}
	}
	return list
}

// Bins returns what the process did on the device in times of one length, of which there are fewer than a number.
func (p *Part) Bins(most uint64) (list []Slice) {
	p.device.Finish()
	if !p.bins.begun {
		return nil
	}
	times := p.Times()
	p.bins.reach(p.Last, times)
	for uint64(len(p.bins.ends)) >= most {
		p.bins.halve()
	}
	earlier, start := Sum{}, p.First
	add := func(end uint64, until Sum) {
		s := Slice{Start: start, End: end, Sum: until.Less(earlier)}
		if s.State = stateOf(&s); end > start {
			list = append(list, s)
		}
		earlier, start = until, end
	}
	for i, until := range p.bins.ends {
		add((p.bins.base+uint64(i)+1)<<p.bins.shift, until)
	}
	add(p.Last, times.Until(p.Last))
	return list
}

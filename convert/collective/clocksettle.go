package collective

// sweeps bounds the passes over all collectives.
const sweeps = 2000

// margin is how far a collective is to be from a contradiction, in ns: more than what rounding takes.
const margin = 3

// settle moves the lines of all hosts as little as needed until no collective contradicts them: each step moves two
// clocks to the nearest ones that a collective allows. The true clocks are allowed by all, so that no step leads away
// from them.
func (s *solver) settle() {
	for range sweeps {
		moved := false
		for _, c := range s.collectives {
			moved = s.settleOne(c) || moved
		}
		if !moved {
			return
		}
	}
}

// settleOne looks at the host that entered a collective last and at the one that left it first.
func (s *solver) settleOne(c HostParts) bool {
	var last, first *HostPart
	var entered, left float64
	for i := range c {
		p := &c[i]
		h := s.hosts[p.Host]
		if h == nil {
			continue
		}
		if at := s.time(h, p.Entered); last == nil || at > entered {
			last, entered = p, at
		}
		if at := s.time(h, p.Left); first == nil || at < left {
			first, left = p, at
		}
	}
	if last == nil || last.Host == first.Host || entered+margin <= left {
		return false
	}
	over := entered + 2*margin - left
	back, forth := s.handle(last.Host, last.Entered), s.handle(first.Host, first.Left)
	if sum := back.weight() + forth.weight(); sum > 0 {
		back.move(-over / sum)
		forth.move(over / sum)
		return true
	}
	return false
}

// A handle is a line to move at a time. A line turns about its middle, by as much as it moves there, at half of its
// length from there.
type handle struct {
	piece *fit
	x     float64 // of the time, -1 to 1 within the piece
}

func (s *solver) handle(host int, t uint64) handle {
	h := s.hosts[host]
	if h.pieces == nil {
		return handle{}
	}
	x := h.seconds(t)
	p := h.piece(x)
	return handle{p, (x - p.middle()) / p.half()}
}

func (f *fit) middle() float64 { return (f.from + f.to) / 2 }
func (f *fit) half() float64   { return max((f.to-f.from)/2, 1e-3) }

// weight is by how much a line moves at the time for one step.
func (h handle) weight() float64 {
	if h.piece == nil {
		return 0
	}
	return 1 + h.x*h.x
}

// move moves the line by a step.
func (h handle) move(by float64) {
	if p := h.piece; p != nil {
		turn := by * h.x / p.half()
		p.b += turn
		p.a += by - turn*p.middle()
	}
}

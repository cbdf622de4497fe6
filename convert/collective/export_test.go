package collective

// Move puts a stream on another host, whose clock says f(t) at the time t.
func (s *Sequence) Move(host int, f func(t uint64) uint64) {
	s.Host = host
	for i := range s.parts {
		p := &s.parts[i]
		p.Start, p.End = f(p.Start), f(p.End)
	}
}

// Bounds are the times from the first part to the end of the last one.
func (s *Sequence) Bounds() (from, to uint64) { return s.parts[0].Start, s.parts[len(s.parts)-1].End }

// Middle is the start of the part in the middle.
func (s *Sequence) Middle() uint64 { return s.parts[len(s.parts)/2].Start }

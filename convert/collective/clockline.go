package collective

import "math"

// A line is an offset in ns and a drift in ns per second. Its x is in seconds.
type line struct{ a, b float64 }

func (l line) at(x float64) float64 { return l.a + l.b*x }

// A point is where a line has to pass above or below.
type point struct{ x, y float64 }

// A pass is what the collectives demand of a line.
type pass struct {
	above, below []point
	ends         []point // where the ends of the collectives agree
}

// mostDrift is the largest drift of a clock, in ns per second: 1000 ppm. The kernel corrects at most 500 ppm.
const mostDrift = 1e6

// The searches below halve or cut by a third an interval of 2 most, down to far below a ns over days.
const (
	thirds = 110
	halves = 70
)

// A region is the lines that pass: for each drift from low to high, the offsets from floor to ceiling.
type region struct {
	*pass
	low, high float64
}

// floor is the least offset at a drift, ceiling the largest one.
func (p *pass) floor(b float64) float64 {
	a := math.Inf(-1)
	for _, q := range p.above {
		a = max(a, q.y-b*q.x)
	}
	return a
}

func (p *pass) ceiling(b float64) float64 {
	a := math.Inf(1)
	for _, q := range p.below {
		a = min(a, q.y-b*q.x)
	}
	return a
}

// region finds the lines that pass. ok is false where there is none.
func (p *pass) region() (r region, ok bool) {
	gap := func(b float64) float64 { return p.ceiling(b) - p.floor(b) }
	widest := peak(-mostDrift, mostDrift, gap)
	if !(gap(widest) >= 0) {
		return r, false
	}
	edge := func(in, out float64) float64 {
		if gap(out) >= 0 {
			return out
		}
		for range halves {
			if m := (in + out) / 2; gap(m) >= 0 {
				in = m
			} else {
				out = m
			}
		}
		return in
	}
	return region{p, edge(widest, -mostDrift), edge(widest, mostDrift)}, true
}

// peak finds the largest value of a concave function.
func peak(low, high float64, f func(float64) float64) float64 {
	for range thirds {
		a, b := low+(high-low)/3, high-(high-low)/3
		if f(a) < f(b) {
			low = a
		} else {
			high = b
		}
	}
	return (low + high) / 2
}

// highest is the line of the region that is highest at x, lowest the one that is lowest there.
func (r *region) highest(x float64) line {
	b := peak(r.low, r.high, func(b float64) float64 { return r.ceiling(b) + b*x })
	return line{r.ceiling(b), b}
}

func (r *region) lowest(x float64) line {
	b := peak(r.low, r.high, func(b float64) float64 { return -r.floor(b) - b*x })
	return line{r.floor(b), b}
}

// has reports whether a line passes.
func (p *pass) has(l line) bool {
	for _, q := range p.above {
		if l.at(q.x) < q.y {
			return false
		}
	}
	for _, q := range p.below {
		if l.at(q.x) > q.y {
			return false
		}
	}
	return true
}

// A fit is an estimate for a time, with the lines between which the clock is: at the beginning of the time, at the
// first and the last collective in it, and at its end. The lines are farthest apart at both ends, and between two of
// these times they are as far apart as on the way from one to the other.
type fit struct {
	line
	from, to float64 // the time, in seconds
	between  [4]between
}

// A between is where the lowest and the highest line are at x.
type between struct{ x, low, high float64 }

// fit estimates the line for a time.
func (r *region) fit(from, to float64) fit {
	f := fit{from: from, to: to}
	first, last := r.ends[0].x, r.ends[len(r.ends)-1].x
	var corners []line
	for i, x := range [...]float64{from, max(first, from), min(last, to), to} {
		low, high := r.lowest(x), r.highest(x)
		f.between[i] = between{x, low.at(x), high.at(x)}
		if i == 0 || i == 3 {
			corners = append(corners, low, high)
		}
	}
	if f.line = throughEnds(r.ends); r.has(f.line) {
		return f
	}
	f.line = line{}
	for _, c := range corners {
		f.a += c.a / float64(len(corners))
		f.b += c.b / float64(len(corners))
	}
	return f
}

// off is the largest distance from the estimate to a line of the region at an x.
func (f *fit) off(b *between) float64 {
	at := f.at(b.x)
	return max(b.high-at, at-b.low)
}

// error is the largest distance from the estimate to a line of the region.
func (f *fit) error() (off float64) {
	for i := range f.between {
		off = max(off, f.off(&f.between[i]))
	}
	return off
}

// throughEnds is the line along which most ends agree.
func throughEnds(ends []point) (l line) {
	var at, values []float64
	for _, e := range ends {
		at, values = append(at, e.x), append(values, e.y)
	}
	l.a, l.b = theilSen(at, values)
	return l
}

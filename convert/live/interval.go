package live

import "github.com/cudatrace/cudatrace/convert/timeline"

// An interval has the figures of an interval that is open.
type interval struct {
	Figures
	rows map[*row]*Count
}

func (i *interval) count(r *row, c Count) {
	n := i.rows[r]
	if n == nil {
		n = new(Count)
		i.rows[r] = n
	}
	n.add(c)
}

// maxOpen bounds the intervals that are open. The last one also has what is later.
const maxOpen = 64

// intervals are the open intervals, all of one length.
type intervals struct {
	start  uint64 // of the recording
	length uint64 // ns
	closed uint64 // number of intervals that have been closed
	open   []*interval
}

// number is the number of the interval that a time belongs to: not one that is closed.
func (l *intervals) number(at uint64) uint64 { return max(l.span(at), l.closed) }

// span is the number of the interval that a time lies in.
func (l *intervals) span(at uint64) uint64 { return (at - min(at, l.start)) / l.length }

// at returns the open interval that a time belongs to.
func (l *intervals) at(at uint64) *interval {
	n := int(min(l.number(at)-l.closed, maxOpen-1))
	for len(l.open) <= n {
		l.open = append(l.open, &interval{rows: make(map[*row]*Count)})
	}
	return l.open[n]
}

// begin and end are the times of an interval in ns from the start of the recording.
func (l *intervals) begin(number uint64) uint64 { return number * l.length }
func (l *intervals) end(number uint64) uint64   { return (number + 1) * l.length }

// next takes the first open interval.
func (l *intervals) next() *interval {
	l.closed++
	if len(l.open) == 0 {
		return &interval{}
	}
	i := l.open[0]
	l.open[0] = nil
	l.open = l.open[1:]
	return i
}

// skip passes intervals without events up to a number.
func (l *intervals) skip(number uint64) {
	if len(l.open) == 0 {
		l.closed = max(l.closed, number)
	}
}

// A series has a sum of ns for each of the latest intervals.
type series struct {
	values [recent]uint64
	newest uint64 // number of the newest interval
}

// recent is the number of intervals whose sums are kept: work that comes late can still count in them.
const recent = 1 << 10

// value returns the sum of an interval, nil for one that is forgotten.
func (s *series) value(number uint64) *uint64 {
	if number+recent <= s.newest {
		return nil
	}
	if number >= s.newest+recent {
		clear(s.values[:])
		s.newest = number
	}
	for s.newest < number {
		s.newest++
		s.values[s.newest%recent] = 0
	}
	return &s.values[number%recent]
}

// spread calls f with the part of a time that lies in each interval. Of a time that is longer than the
// recent intervals it leaves out the beginning.
func (l *intervals) spread(from, to uint64, f func(number, ns uint64)) {
	from, to = max(from, l.start), max(min(to, timeline.Never-l.length), l.start)
	if from >= to {
		return
	}
	first, last := l.span(from), l.span(to-1)
	if last-first >= recent {
		first = last - recent + 1
	}
	for n := first; n <= last; n++ {
		begin, end := max(from-l.start, l.begin(n)), min(to-l.start, l.end(n))
		f(n, end-begin)
	}
}

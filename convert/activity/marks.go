package activity

import (
	"cmp"
	"slices"
)

// A mark is a moment at which the times of a part are wanted.
type mark struct {
	at   uint64
	part *Part
}

// A sumAt has the times up to a moment.
type sumAt struct {
	at uint64
	Sum
}

// Mark has the part keep its times up to a moment, for [Part.Until].
func (p *Part) Mark(at uint64) {
	d := p.device
	if at < d.order.settled {
		return // too late
	}
	i := len(d.marks)
	for i > 0 && d.marks[i-1].at > at {
		i--
	}
	d.marks = slices.Insert(d.marks, i, mark{at, p})
}

// reach keeps the times at the marks up to a moment. The work that starts before that is in the times, and no other.
func (d *Device) reach(at uint64) {
	n := 0
	for ; n < len(d.marks) && d.marks[n].at <= at; n++ {
		m := d.marks[n]
		m.part.sums = append(m.part.sums, sumAt{m.at, m.part.Times().Until(m.at)})
	}
	d.marks = slices.Delete(d.marks, 0, n)
}

// Until returns the times of the part up to a moment that was marked in time. The device is finished.
func (p *Part) Until(at uint64) (s Sum, known bool) {
	i, known := slices.BinarySearchFunc(p.sums, at, func(s sumAt, at uint64) int { return cmp.Compare(s.at, at) })
	if known {
		s = p.sums[i].Sum
	}
	return s, known
}

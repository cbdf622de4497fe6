package collective

import "github.com/cudatrace/cudatrace/convert/timeline"

// A Member is a rank of a communicator.
type Member struct {
	Key                   // PID is the timeline's
	Name  string          // "rank 3"
	Clock *timeline.Clock // of its host
	Aside bool            // its work is not in the timeline, where another process may have its PID

	// Count is the number of its collectives.
	Count uint64

	of     *arrivalsOf
	starts []uint64 // of its parts, from number communicator.first on
}

// apart is by how much the clocks of two members may be wrong against each other at a time.
func (m *Member) apart(o *Member, at uint64) (ns uint64, known bool) {
	if ns, known = m.Clock.Apart(o.Clock, at); !known {
		ns = timeline.Never
	}
	return ns, known
}

// An arrivalsOf has the collectives of a communicator's members.
type arrivalsOf struct {
	number  uint32
	members []*Member
	first   uint64 // number of the first collective that is told of
	id      uint32 // of that one
	lasts   []last // who entered each last
}

// A last says who entered a collective last.
type last struct {
	entered uint64
	doubt   uint64
	member  int32 // nobody is -1
	ranks   int32
}

// Arrivals know who entered each collective last, before the timeline begins: a timeline has one log after the other.
// Memory is bounded: of very many collectives the newest are kept.
type Arrivals struct {
	Shown
	communicators []*arrivalsOf
	members       map[uint32][]*Member // by PID
}

// Shown counts the collectives that a timeline has shown.
type Shown struct {
	Communicators int
	Collectives   uint64 // of all communicators
	Untold        uint64 // those of Collectives that are not told of: there are too many
	Waits         uint64 // parts whose rank waited for the last one
	Doubtful      uint64 // those of Waits that may be errors of the clocks
	Sends         uint64 // kernels that send and receive
}

// maxParts bounds the parts of a table. A part takes 8 bytes, a collective 24.
const maxParts = 1 << 22

// NewArrivals returns the arrivals at the collectives of communicators. [Arrivals.AddPart] and [Arrivals.Settle] fill
// them.
func NewArrivals(communicators [][]*Member) *Arrivals { return newArrivals(communicators, maxParts) }

func newArrivals(communicators [][]*Member, room uint64) *Arrivals {
	t := &Arrivals{members: make(map[uint32][]*Member)}
	t.Communicators = len(communicators)
	total := uint64(0)
	for _, members := range communicators {
		total += uint64(len(members)) * countOf(members)
	}
	id := uint32(0)
	for i, members := range communicators {
		c := &arrivalsOf{number: uint32(i), members: members, id: id}
		count := countOf(members)
		if total > room {
			c.first = count - uint64(float64(count)*float64(room)/float64(total))
		}
		t.Collectives, t.Untold = t.Collectives+count, t.Untold+c.first
		c.lasts = make([]last, count-c.first)
		id += uint32(len(c.lasts))
		for _, m := range members {
			m.of = c
			m.starts = make([]uint64, 0, m.Count-min(m.Count, c.first))
			if !m.Aside {
				t.members[m.PID] = append(t.members[m.PID], m)
			}
		}
		t.communicators = append(t.communicators, c)
	}
	return t
}

// countOf is the number of collectives that members have.
func countOf(members []*Member) (n uint64) {
	for _, m := range members {
		n = max(n, m.Count)
	}
	return n
}

// AddPart adds the next part of a member: its number and its start. waits says that a rank of the collective waits for
// all others.
func (t *Arrivals) AddPart(m *Member, number, start uint64, waits bool) {
	c := m.of
	if number < c.first || number-c.first >= uint64(len(c.lasts)) || number-c.first != uint64(len(m.starts)) {
		return
	}
	m.starts = append(m.starts, start)
	if l := &c.lasts[number-c.first]; !waits {
		l.member = -1
	}
}

// Settle finds who entered each collective last. All parts have been added.
func (t *Arrivals) Settle() {
	for _, c := range t.communicators {
		for i := range c.lasts {
			c.settle(i)
		}
	}
}

func (c *arrivalsOf) settle(i int) {
	l := &c.lasts[i]
	waits := l.member >= 0
	l.member = -1
	for k, m := range c.members {
		if i >= len(m.starts) {
			continue
		}
		if l.ranks++; waits && (l.member < 0 || m.starts[i] > l.entered) {
			l.member, l.entered = int32(k), m.starts[i]
		}
	}
	if l.member < 0 {
		return
	}
	for _, m := range c.members {
		if i >= len(m.starts) {
			continue
		}
		if apart, known := m.apart(c.members[l.member], l.entered); apart > 0 && (!known || l.entered-m.starts[i] <= apart) {
			l.doubt = max(l.doubt, apart)
		}
	}
}

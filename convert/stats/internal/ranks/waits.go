package ranks

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// Waits are the times that a rank waited for others in collectives, and that others waited for it.
type Waits struct {
	Known       bool // its collectives were compared with those of other ranks
	Collectives uint64
	Last        uint64 // collectives in which it came last
	Waited      uint64 // ns
	steady      uint64 // of these, in its steady state
	lack        string // why more of its communication may be waiting, "" if none may
	Awaited     uint64 // ns that all others together waited in the collectives in which it came last
	All         uint64 // sum of Awaited of the ranks of the run
}

// A comparison says who waited for whom in one collective.
type comparison struct {
	distrust bool // the clocks of hosts contradict the collectives: they are not used

	last  int      // index of the part that came last, -1 where the clocks do not tell
	waits []uint64 // ns that each part waited
	total uint64
	late  uint64 // ns by which the last one came after all others, as estimated
	sure  uint64 // ns of late that no error of a clock explains
	ahead uint64 // likewise, after all others that are not on its host
}

// apart says by how much the times of two clocks may be wrong against each other at a time.
func (c *comparison) apart(a, b *timeline.Clock, at uint64) (ns uint64, known bool) {
	if c.distrust && a != b {
		return 0, false
	}
	return a.Apart(b, at)
}

// unsure is the error of a GPU's times, in ns.
const unsure = 2000

// compare compares the parts of a collective. It says false for parts that cannot belong together: one ended before
// another one had started.
//
// Where the clocks of the hosts are known well enough, a rank waited from its start to that of the last rank. Where
// they are not, the rank whose part is the shortest came last, and a part waited for as long as it took longer. What
// the shortest part took may be its transfer, and another part may end that much later: twice the shortest part is no
// evidence.
func (c *comparison) compare(clocks []*timeline.Clock, parts []collective.Part) bool {
	c.waits = append(c.waits[:0], make([]uint64, len(parts))...)
	latest, shortest := 0, 0
	for i, p := range parts {
		if p.Start > parts[latest].Start {
			latest = i
		}
		if length(p) < length(parts[shortest]) {
			shortest = i
		}
	}
	if !c.byStart(clocks, parts, latest) {
		return false
	}
	if c.last < 0 {
		c.byLength(clocks, parts, shortest)
	}
	c.total = 0
	for _, w := range c.waits {
		c.total = sketch.Sum(c.total, w)
	}
	return true
}

func length(p collective.Part) uint64 { return p.End - p.Start }

// byStart compares the starts of parts. The last one is known if it is later than the clocks can be wrong.
func (c *comparison) byStart(clocks []*timeline.Clock, parts []collective.Part, latest int) bool {
	last := parts[latest].Start
	c.last, c.late, c.sure, c.ahead = latest, timeline.Never, timeline.Never, timeline.Never
	for i, p := range parts {
		if i == latest {
			continue
		}
		apart, known := c.apart(clocks[i], clocks[latest], last)
		if known && last > p.End && last-p.End > sketch.Sum(apart, unsure) {
			return false
		}
		wait := min(last-p.Start, length(p)) // nobody ends before the last one has started
		c.waits[i] = wait
		if !known || wait <= apart {
			c.last = -1
			continue
		}
		c.late, c.sure = min(c.late, wait), min(c.sure, wait-apart)
		if clocks[i] != clocks[latest] {
			c.ahead = min(c.ahead, wait-apart)
		}
	}
	return true
}

// byLength compares the lengths of parts.
func (c *comparison) byLength(clocks []*timeline.Clock, parts []collective.Part, shortest int) {
	least := length(parts[shortest])
	c.last, c.late, c.ahead = shortest, timeline.Never, timeline.Never
	for i, p := range parts {
		if i == shortest {
			c.waits[i] = 0
			continue
		}
		wait := length(p) - least
		c.waits[i], c.late = wait, min(c.late, wait)
		if clocks[i] != clocks[shortest] {
			c.ahead = min(c.ahead, wait)
		}
	}
	c.ahead -= min(c.ahead, least)
	if c.sure = c.late - min(c.late, least); c.sure == 0 {
		c.last = -1
	}
}

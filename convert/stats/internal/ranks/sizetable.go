package ranks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// sizeCells is a row of message_sizes.
type sizeCells struct {
	Name string `key:"name" title:"operation"` // the operation
	// ranks of the communicator, as NCCL or else the logs tell; `null` for kernels that are not put together across ranks:
	// there the kernels of every rank count
	Members  *int    `key:"members" title:"ranks" rank:"1" unit:"id"`
	Least    *uint64 `key:"min_bytes" title:"from" rank:"1"` // smallest and largest message of the row
	Most     *uint64 `key:"max_bytes" title:"to" rank:"2"`   // =
	Count    uint64  `key:"count" title:"count" rank:"2"`
	Bytes    *uint64 `key:"bytes" title:"bytes" rank:"3"`       // sum of the messages
	Measured uint64  `key:"measured" title:"measured" rank:"4"` // collectives whose time is known; of very many a sample
	// time of the kernel of the rank that entered last, which waited for nobody; where it is uncertain who did, of the
	// shortest kernel
	Median *uint64 `key:"median_ns" title:"time" rank:"1"`
	// size per time, GB/s, in the median: *S* / *t*
	AlgBW *float64 `key:"algbw_gbps" title:"algbw GB/s" rank:"2" unit:"rate"`
	// `algbw_gbps` times a factor that makes it comparable with the links' bandwidth
	BusBW *float64 `key:"busbw_gbps" title:"busbw GB/s" rank:"1" unit:"rate"`
}

// MessageSizes returns the table of message sizes.
func (c *Collector) MessageSizes() *table.Table {
	r := c.Result()
	var rows []sizeCells
	for _, k := range slices.SortedFunc(maps.Keys(r.sizes), sizeKey.compare) {
		rows = append(rows, r.sizes[k].cells(k))
	}
	t := table.Of(rows)
	t.Sort("bytes")
	t.Top(table.MaxRows)
	t.Notes = r.sizeNotes(c)
	return t
}

func (k sizeKey) compare(o sizeKey) int {
	return cmp.Or(cmp.Compare(k.operation, o.operation), cmp.Compare(k.members, o.members), cmp.Compare(k.class, o.class),
		compareBool(k.sends, o.sends))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// cells is a row of the table.
func (x *size) cells(k sizeKey) sizeCells {
	r := sizeCells{Name: k.operation, Count: x.count, Measured: x.time.Count}
	if k.members > 0 {
		r.Members = &k.members
	}
	if k.class != unsized {
		r.Least, r.Most, r.Bytes = &x.least, &x.most, &x.bytes
	}
	if x.time.Count > 0 {
		_, bus := bandwidth(k.operation, uint64(k.members))
		rate := float64(x.rate.Percentile(50)) / 1e9
		r.Median, r.AlgBW, r.BusBW = new(x.time.Percentile(50)), &rate, new(rate*bus)
	}
	return r
}

// sizeNotes say why collectives have no size or no bandwidth.
func (r *Result) sizeNotes(c *Collector) (notes []string) {
	var silent, single uint64
	for k, x := range r.sizes {
		switch {
		case k.sends:
		case k.class == unsized:
			silent += x.count
		case k.members == 0:
			single += x.count
		}
	}
	if silent > 0 {
		notes = append(notes, "the size of "+figures.Count(silent, "collective", "collectives")+
			" is not known (docs/nvtx.md has what NCCL tells)")
	}
	if c.labels.full() {
		notes = append(notes, fmt.Sprintf("only the first %s sizes are told apart", figures.Group(maxSizes)))
	}
	if single > 0 {
		notes = append(notes, figures.Count(single, "collective", "collectives")+
			" of one rank alone: without the kernels of the other ranks its wait for them is not known, and so no bandwidth is")
	}
	for _, m := range r.communicators {
		switch {
		case m.partial != "":
			notes = append(notes, fmt.Sprintf("communicator %s has no bandwidths: %s", m.name(), m.partial))
		case m.told == 0 && !slices.ContainsFunc(m.members, func(p *RankProcess) bool { return p.Rank.Known }):
			notes = append(notes, fmt.Sprintf("communicator %s is taken to have %s, those of the logs", m.name(),
				figures.Count(len(m.members), "rank", "ranks")))
		}
	}
	return notes
}

// full reports whether sizes were not kept.
func (l *labels) full() bool { return len(l.all) >= maxSizes }

// partial says why a communicator may have members that were not found, "" if it has none, and how many of them are of
// ranks whose logs are not given, at most. alone are the lanes that are of no communicator.
func (c *Collector) partial(m *communicator, alone map[*Lane]bool) (why string, gone int) {
	first := m.members[0]
	if m.told > 0 && m.told <= len(m.members) {
		return "", 0
	}
	for _, p := range c.list {
		if p.Run != first.Run || slices.Contains(m.members, p) {
			continue
		}
		if p.tooMany() || slices.ContainsFunc(p.order, func(l *Lane) bool { return m.mayLack(l, alone[l]) }) {
			return "collectives of " + p.name() + ", which could not be put together with its own, may be a part of it", 0
		}
	}
	if gone := m.told - len(m.members); gone > 0 {
		return absent(gone, fmt.Sprintf("its %d ranks", m.told)), gone
	}
	present := make(map[uint32]bool)
	for _, p := range c.list {
		if p.Run == first.Run && p.Rank.Known {
			present[p.Rank.Number] = true
		}
	}
	if of := first.Rank.Of; first.Rank.Known && len(m.members) < int(of) && len(present) < int(of) {
		gone := int(of) - len(present)
		return absent(gone, fmt.Sprintf("the %d ranks of the job", of)) + ", and may be a part of it", gone
	}
	return "", 0
}

func absent(n int, of string) string {
	return figures.Count(n, "of "+of+" is not there", "of "+of+" are not there")
}

// mayLack reports whether a lane may be of the communicator, although it is not among its members. By NCCL's own words
// it is, or it is not; without them a lane may be that is of no other communicator.
func (m *communicator) mayLack(l *Lane, alone bool) bool {
	said, other := m.hash, l.Key.Communicator
	if said == 0 || other == 0 {
		return alone
	}
	return said == other
}

// unmatched are the lanes that are of no communicator.
func (c *Collector) unmatched(found map[string][]*collective.Communicator) map[*Lane]bool {
	alone := make(map[*Lane]bool)
	of := make(map[*collective.Sequence]bool)
	for _, list := range found {
		for _, m := range list {
			for _, s := range m.Members {
				of[s] = true
			}
		}
	}
	for _, p := range c.list {
		for _, l := range p.order {
			if !of[l.Sequence] {
				alone[l] = true
			}
		}
	}
	return alone
}

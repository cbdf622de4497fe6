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

// MessageSizes returns the table of message sizes.
func (c *Collector) MessageSizes() *table.Table {
	r := c.Result()
	t := &table.Table{Columns: []table.Column{
		{Key: "name", Title: "operation"}, {Key: "members", Title: "ranks", Unit: table.ID, Rank: 1}, {Key: "min_bytes", Title: "from", Unit: table.Bytes, Rank: 1},
		{Key: "max_bytes", Title: "to", Unit: table.Bytes, Rank: 2}, {Key: "count", Title: "count", Unit: table.Number, Rank: 2},
		{Key: "bytes", Title: "bytes", Unit: table.Bytes, Rank: 3}, {Key: "measured", Title: "measured", Unit: table.Number, Rank: 4},
		{Key: "median_ns", Title: "time", Unit: table.Duration, Rank: 1}, {Key: "algbw_gbps", Title: "algbw GB/s", Unit: table.Rate, Rank: 2},
		{Key: "busbw_gbps", Title: "busbw GB/s", Unit: table.Rate, Rank: 1},
	}}
	for _, k := range slices.SortedFunc(maps.Keys(r.sizes), sizeKey.compare) {
		t.Rows = append(t.Rows, r.sizes[k].row(k))
	}
	t.Sort("bytes")
	t.Top(maxRows)
	t.Notes = r.sizeNotes(c)
	return t
}

func (k sizeKey) compare(o sizeKey) int {
	return cmp.Or(cmp.Compare(k.operation, o.operation), cmp.Compare(k.members, o.members), cmp.Compare(k.class, o.class), compareBool(k.sends, o.sends))
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

// row is a row of the table; what is not known is nil.
func (x *size) row(k sizeKey) []any {
	row := []any{k.operation, nil, nil, nil, x.count, nil, x.time.Count, nil, nil, nil}
	if k.members > 0 {
		row[1] = uint64(k.members)
	}
	if k.class != unsized {
		row[2], row[3], row[5] = x.least, x.most, x.bytes
	}
	if x.time.Count > 0 {
		_, bus := bandwidth(k.operation, uint64(k.members))
		rate := float64(x.rate.Percentile(50)) / 1e9
		row[7], row[8], row[9] = x.time.Percentile(50), rate, rate*bus
	}
	return row
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
		notes = append(notes, "the size of "+figures.Count(silent, "collective", "collectives")+" is not known (docs/nvtx.md has what NCCL tells)")
	}
	if c.labels.full() {
		notes = append(notes, fmt.Sprintf("only the first %s sizes are told apart", figures.Group(maxSizes)))
	}
	if single > 0 {
		notes = append(notes, figures.Count(single, "collective", "collectives")+" of one rank alone: without the kernels of the other ranks its wait for them is not known, and so no bandwidth is")
	}
	for _, m := range r.communicators {
		switch {
		case m.partial != "":
			notes = append(notes, fmt.Sprintf("communicator %s has no bandwidths: %s", m.name(), m.partial))
		case m.told == 0 && !slices.ContainsFunc(m.members, func(p *Process) bool { return p.Rank.Known }):
			notes = append(notes, fmt.Sprintf("communicator %s is taken to have %s, those of the logs", m.name(), figures.Count(len(m.members), "rank", "ranks")))
		}
	}
	return notes
}

// full reports whether sizes were not kept.
func (l *labels) full() bool { return len(l.all) >= maxSizes }

// partial says why a communicator may have members that were not found, "" if it has none, and how many of them are of ranks whose logs are not given,
// at most. alone are the lanes that are of no communicator.
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

// mayLack reports whether a lane may be of the communicator, although it is not among its members. By NCCL's own words it is, or it is
// not; without them a lane may be that is of no other communicator.
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

package ranks

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// Collectives returns the table of collectives.
func (c *Collector) Collectives() *table.Table {
	r := c.Result()
	t := &table.Table{Columns: []table.Column{
		{Key: "name", Title: "kernel"}, {Key: "communicator", Title: "communicator", Unit: table.Text, Rank: 5}, {Key: "ranks"},
		{Key: "members", Title: "ranks", Unit: table.Number, Rank: 5}, {Key: "count", Title: "count", Unit: table.Number, Rank: 4},
		{Key: "total_ns", Title: "total", Unit: table.Duration, Rank: 6}, {Key: "wait_ns", Title: "waiting", Unit: table.Duration, Rank: 1},
		{Key: "wait_share", Title: "share", Unit: table.Share, Rank: 5}, {Key: "min_ns", Unit: table.Duration}, {Key: "median_ns", Title: "median", Unit: table.Duration, Rank: 7},
		{Key: "p95_ns", Unit: table.Duration}, {Key: "max_ns", Unit: table.Duration}, {Key: "wait_median_ns", Title: "wait median", Unit: table.Duration, Rank: 8},
		{Key: "wait_p95_ns", Unit: table.Duration}, {Key: "wait_max_ns", Unit: table.Duration}, {Key: "last_rank", Title: "last", Unit: table.ID, Rank: 1},
		{Key: "waited_for_share", Title: "for it", Unit: table.Share, Rank: 1}, {Key: "last_share", Title: "how often", Unit: table.Share, Rank: 3},
		{Key: "late_median_ns", Title: "by", Unit: table.Duration, Rank: 2}, {Key: "compared", Unit: table.Number}, {Key: "uncertain", Unit: table.Number}, {Key: "ties", Unit: table.Number},
		{Key: "starting", Unit: table.Number},
	}}
	for _, m := range r.communicators {
		for _, k := range m.kinds {
			row := []any{k.title, m.name(), m.ranksText(), uint64(len(m.members)), k.count, k.time}
			t.Rows = append(t.Rows, slices.Concat(row, k.cells(m)))
		}
		t.Notes = append(t.Notes, m.notes()...)
	}
	t.Rows = append(t.Rows, c.sent.rows(&c.labels, c.sorted())...)
	t.Reason = c.apart()
	t.Sort("total_ns")
	if len(r.communicators) > 1 {
		t.Columns[t.Column("communicator")].Rank = 1 // it tells rows apart
	}
	t.Notes = append(t.Notes, c.alone(r)...)
	if len(r.communicators) == 0 && len(t.Rows) > 0 && t.Reason != "" {
		t.Notes = append(t.Notes, t.Reason)
	}
	if note := c.sent.note(); note != "" {
		t.Notes = append(t.Notes, note)
	}
	if note := r.absent(); note != "" {
		t.Notes = append(t.Notes, note)
	}
	return t
}

// compared is the number of cells of what was compared.
const compared = 17

// cells are the cells of what was compared; of a kernel that does not wait for all ranks, nothing was.
func (k *kind) cells(m *communicator) []any {
	cells := make([]any, compared)
	cells[13], cells[14] = k.compared, k.uncertain
	if k.compared == 0 {
		return cells
	}
	l, w := &k.length, &k.waits
	copy(cells, []any{k.waited, table.ShareOf(k.waited, k.time), l.Min, l.Percentile(50), l.Percentile(95), l.Max, w.Percentile(50), w.Percentile(95), w.Max})
	lags, most := lagsOf(k.blame, leastLate(m.blame)), 0
	for i := range lags {
		if lags[i].awaited > lags[most].awaited {
			most = i
		}
	}
	last := &lags[most]
	cells[15], cells[16] = k.compared-k.uncertain-k.starting-uint64(last.of), k.starting
	if last.awaited == 0 {
		return cells
	}
	if p := m.members[most]; p.Rank.Known {
		cells[9] = uint64(p.Rank.Number)
	}
	cells[10] = last.share
	if len(last.late) > 0 {
		cells[11], cells[12] = table.ShareOf(uint64(len(last.late)), uint64(last.of)), middle(last.late)
	}
	return cells
}

// middle is the median of numbers.
func middle(list []uint64) uint64 {
	if len(list) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(list))[(len(list)-1)/2]
}

// notes say what is missing of a communicator.
func (m *communicator) notes() (notes []string) {
	say := func(format string, args ...any) {
		notes = append(notes, "communicator "+m.name()+": "+fmt.Sprintf(format, args...))
	}
	if step := m.Step(); step > 1 {
		say("one of %s collectives is compared; times waited are estimated from those", figures.Group(step))
	}
	if m.apart > 0 {
		say("%s left out: the parts do not belong together, because records are missing", figures.Count(m.apart, "collective is", "collectives are"))
	}
	if m.distrust {
		say("the clocks of its hosts contradict its collectives: waiting is taken from how long the parts take")
	}
	if uncertain := m.kept - m.sure; uncertain > 0 {
		say("who came last is not known in %s: the ranks came within the error of the clocks", figures.Count(uncertain, "collective", "collectives"))
	}
	most := slices.Max(m.counts)
	short := []*Process{}
	for i, n := range m.counts {
		if n < most {
			short = append(short, m.members[i])
		}
	}
	switch {
	case len(short) > 3:
		say("%d of its %d ranks have fewer collectives than the others", len(short), len(m.members))
	default:
		for _, p := range short {
			say("%s has %s of %s collectives: its log ends early, or begins late", p.name(), figures.Group(m.counts[slices.Index(m.members, p)]), figures.Group(most))
		}
	}
	return notes
}

// absent says that ranks whose kernels are not there may have come last, "" if none may.
func (r *Result) absent() string {
	var of []string
	for _, m := range r.communicators {
		if m.partial != "" {
			of = append(of, m.name())
		}
	}
	switch len(of) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("another rank may have come last: communicator %s may lack ranks (message_sizes says why)", of[0])
	}
	return fmt.Sprintf("other ranks may have come last: %d of %d communicators may lack ranks (message_sizes says why)", len(of), len(r.communicators))
}

// apart says why no collectives of different ranks were put together, "" where no rank has any.
func (c *Collector) apart() string {
	var with []*Process
	runs := make(map[string]int)
	for _, p := range c.sorted() {
		if len(p.order) > 0 {
			with = append(with, p)
			runs[p.Run]++
		}
	}
	why := "their kernels are fewer than 16, or differ because records are missing or a recording began later (docs/hosts.md has the rules)"
	switch {
	case len(with) == 0:
		return ""
	case len(with) == 1:
		why = with[0].name() + " alone has any"
	case len(runs) == len(with):
		why = "each rank is of another run"
	}
	return "no collectives of NCCL that several ranks of the logs run together: " + why
}

// alone says which collectives are of no communicator.
func (c *Collector) alone(r *Result) (notes []string) {
	streams, more := len(r.alone), 0
	var of []uint32
	for _, p := range c.sorted() {
		if p.Rank.Known && slices.ContainsFunc(p.order, func(l *Lane) bool { return r.alone[l] }) {
			of = append(of, p.Rank.Number)
		}
		if p.tooMany() {
			more++
		}
	}
	if streams > 0 && len(r.communicators) > 0 {
		whose := ""
		if len(of) > 0 {
			whose = " of " + ranks.Named(slices.Compact(of))
		}
		notes = append(notes, figures.Count(streams, "stream", "streams")+" with collectives"+whose+" could not be put together with those of other ranks (docs/hosts.md has the rules)")
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("of %s only %d streams or communicators are compared", figures.Count(more, "process", "processes"), maxLanes))
	}
	return notes
}

// Worst returns the table of the collectives in which ranks waited longest.
func (c *Collector) Worst() *table.Table {
	r := c.Result()
	t := &table.Table{Columns: []table.Column{
		{Key: "name", Title: "kernel"}, {Key: "communicator", Title: "communicator", Unit: table.Text, Rank: 3}, {Key: "at_ns", Title: "at", Unit: table.Moment, Rank: 1},
		{Key: "members", Title: "ranks", Unit: table.Number, Rank: 4}, {Key: "wait_ns", Title: "waiting", Unit: table.Duration, Rank: 1},
		{Key: "wait_max_ns", Title: "longest", Unit: table.Duration, Rank: 2}, {Key: "last_rank", Title: "last", Unit: table.ID, Rank: 1}, {Key: "late_ns", Title: "by", Unit: table.Duration, Rank: 1},
	}}
	for _, l := range r.worst {
		row := []any{l.kind.title, l.of.name(), c.clock(l.at), uint64(l.parts), l.waited, l.longest, nil, nil}
		if l.last >= 0 {
			if p := l.of.members[l.last]; p.Rank.Known {
				row[6] = uint64(p.Rank.Number)
			}
			row[7] = l.late
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// maxRows bounds the rows of a table.
const maxRows = 10_000

// A Made returns what the GPUs of a process did between two times: they computed, communicated without computing, copied and did nothing else, or did nothing.
type Made func(of *timeline.Process, from, to uint64) (ns [4]uint64, known bool)

// StepTable returns the table of steps, in their order.
func (c *Collector) StepTable(made Made) *table.Table {
	t := &table.Table{Columns: []table.Column{
		{Key: "name", Title: "step"}, {Key: "number", Unit: table.ID}, {Key: "count", Title: "ranks", Unit: table.Number, Rank: 2}, {Key: "at_ns", Title: "at", Unit: table.Moment, Rank: 3},
		{Key: "min_ns", Title: "min", Unit: table.Duration, Rank: 3}, {Key: "median_ns", Title: "median", Unit: table.Duration, Rank: 1},
		{Key: "max_ns", Title: "max", Unit: table.Duration, Rank: 1}, {Key: "spread_ns", Title: "spread", Unit: table.Duration, Rank: 1},
		{Key: "slowest_rank", Title: "slowest", Unit: table.ID, Rank: 1}, {Key: "last_rank", Title: "last", Unit: table.ID, Rank: 2}, {Key: "late_ns", Title: "by", Unit: table.Duration, Rank: 2},
		{Key: "ranks", Unit: table.ID}, {Key: "durations_ns", Unit: table.Duration},
		{Key: "compute_ns", Title: "compute", Unit: table.Duration, Rank: 2}, {Key: "exposed_ns", Title: "exposed", Unit: table.Duration, Rank: 2},
		{Key: "copy_ns", Title: "copies", Unit: table.Duration, Rank: 3}, {Key: "idle_ns", Title: "idle", Unit: table.Duration, Rank: 2}, {Key: "pid", Unit: table.ID},
	}}
	list := c.steps.sorted()
	if len(list) > maxRows {
		t.Notes = append(t.Notes, fmt.Sprintf("only the first %s steps are shown of %s", figures.Group(maxRows), figures.Group(len(list))))
		list = list[:maxRows]
	}
	for _, x := range list {
		t.Rows = append(t.Rows, c.stepRow(x, made))
	}
	if c.steps.more > 0 {
		t.Notes = append(t.Notes, figures.Count(c.steps.more, "step of a rank is", "steps of ranks are")+" left out: there are more than "+figures.Group(maxStepParts))
	}
	t.Reason = "nothing that repeats is known to be a step: --step RANGES says which NVTX ranges are steps"
	return t
}

func (c *Collector) stepRow(x *step, made Made) []any {
	lengths, sorted := x.lengths()
	first, ranks := x.parts[0].start, []uint64{}
	for _, p := range x.parts {
		first = min(first, p.start)
		if p.of.Rank.Known {
			ranks = append(ranks, uint64(p.of.Rank.Number))
		}
	}
	number := func(p *Process) any {
		if !p.Rank.Known {
			return nil
		}
		return uint64(p.Rank.Number)
	}
	var last, by any
	if p, late := x.last(); p != nil {
		last, by = number(p.of), late
	}
	n := len(sorted)
	row := []any{fmt.Sprintf("%s %d", x.name, x.number), uint64(x.number), uint64(n), c.clock(first), sorted[0], sorted[(n-1)/2], sorted[n-1], sorted[n-1] - sorted[0],
		number(x.slowest().of), last, by, ranks, lengths, nil, nil, nil, nil, uint64(x.slowest().of.PID)}
	if ns, known := made(x.slowest().of.Process, x.slowest().start, x.slowest().end); known {
		for i := range ns {
			row[len(row)-5+i] = ns[i]
		}
	}
	return row
}

// Ranks is the number of processes that are ranks of a distributed program and used a GPU.
func (c *Collector) Ranks() (n int) {
	for _, p := range c.list {
		if p.Rank.Known && p.used {
			n++
		}
	}
	return n
}

// Waits are the waits of a process.
func (c *Collector) Waits(p *Process) Waits {
	c.Result()
	return p.Waits
}

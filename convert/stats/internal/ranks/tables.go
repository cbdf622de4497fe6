package ranks

import (
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// collectiveCells is a row of collectives.
type collectiveCells struct {
	Name string `key:"name" title:"kernel"`
	// [NCCL's hash](nvtx.md#nccl) in hexadecimal; where NCCL does not tell it, a number of this report alone, which
	// another filter changes
	Communicator string `key:"communicator" title:"communicator" rank:"5"`
	Ranks        string `key:"ranks"`                          // the ranks, `0-7`, and their number
	Members      int    `key:"members" title:"ranks" rank:"5"` // =
	Count        uint64 `key:"count" title:"count" rank:"4"`
	Total        uint64 `key:"total_ns" title:"total" rank:"6"` // time of the kernels on all ranks together
	comparedColumns
}

// comparedColumns are the columns of what was compared. They are null where nothing was.
type comparedColumns struct {
	// time that all ranks together waited, and its part of `total_ns`
	Wait       *uint64  `key:"wait_ns" title:"waiting" rank:"1"`
	WaitShare  *float64 `key:"wait_share" title:"share" rank:"5"`           // =
	Min        *uint64  `key:"min_ns"`                                      // times of the kernels that were compared
	Median     *uint64  `key:"median_ns" title:"median" rank:"7"`           // =
	P95        *uint64  `key:"p95_ns"`                                      // =
	Max        *uint64  `key:"max_ns"`                                      // =
	WaitMedian *uint64  `key:"wait_median_ns" title:"wait median" rank:"8"` // times that a rank waited
	WaitP95    *uint64  `key:"wait_p95_ns"`                                 // =
	WaitMax    *uint64  `key:"wait_max_ns"`                                 // =
	// the rank for which the others waited longest, and its part of the waiting, of collectives whose last rank is known
	// and in its steady state: the figures of [`straggling_rank`](findings.md#straggling_rank-straggling_host)
	LastRank  *uint32  `key:"last_rank" title:"last rank" unit:"id"`
	WaitedFor *float64 `key:"waited_for_share" title:"for it" rank:"1"` // =
	// its part of those that are no ties; the median of how much it came after all others in these, as far as no error of
	// the clocks explains it
	LastShare *float64 `key:"last_share" title:"how often" rank:"3"`
	Late      *uint64  `key:"late_median_ns" title:"late by" rank:"2"` // =
	// collectives that were compared; of very many a sample, as a note says: waits are then estimates for all
	Compared  *uint64 `key:"compared"`
	Uncertain *uint64 `key:"uncertain"` // collectives whose last rank is not known
	// collectives whose last rank came later by less than half of the communicator's mean in the steady state: chance
	// decides who is last in most collectives of a step
	Ties *uint64 `key:"ties"`
	// collectives whose last rank was in its [start-up](findings.md#start-up-and-steady-state): they count neither as ties
	// nor for `last_rank`
	Starting *uint64 `key:"starting"`
}

// Collectives returns the table of collectives.
func (c *Collector) Collectives() *table.Table {
	r := c.Result()
	var rows []collectiveCells
	var notes []string
	for _, m := range r.communicators {
		for _, k := range m.kinds {
			rows = append(rows, collectiveCells{k.title, m.name(), m.ranksText(), len(m.members), k.count, k.time, k.compare(m)})
		}
		notes = append(notes, m.notes()...)
	}
	t := table.Of(append(rows, c.sent.rows(&c.labels, c.sorted())...))
	t.Notes, t.Reason = notes, c.apart()
	t.Sort("total_ns")
	if len(r.communicators) > 1 {
		t.SetRank(1, "communicator") // it tells rows apart
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

// compare returns the columns of what was compared; of a kernel that does not wait for all ranks, nothing was.
func (k *kind) compare(m *communicator) comparedColumns {
	x := comparedColumns{Compared: &k.compared, Uncertain: &k.uncertain}
	if k.compared == 0 {
		return x
	}
	l, w := &k.length, &k.waits
	x.Wait, x.WaitShare = &k.waited, table.ShareOf(k.waited, k.time)
	x.Min, x.Median, x.P95, x.Max = &l.Min, new(l.Percentile(50)), new(l.Percentile(95)), &l.Max
	x.WaitMedian, x.WaitP95, x.WaitMax = new(w.Percentile(50)), new(w.Percentile(95)), &w.Max
	lags, most := lagsOf(k.blame, leastLate(m.blame)), 0
	for i := range lags {
		if lags[i].awaited > lags[most].awaited {
			most = i
		}
	}
	last := &lags[most]
	x.Ties, x.Starting = new(k.compared-k.uncertain-k.starting-uint64(last.of)), &k.starting
	if last.awaited == 0 {
		return x
	}
	x.LastRank, x.WaitedFor = m.members[most].Rank.Nullable(), &last.share
	if len(last.late) > 0 {
		x.LastShare, x.Late = table.ShareOf(uint64(len(last.late)), uint64(last.of)), new(middle(last.late))
	}
	return x
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
		say("%s left out: the parts do not belong together, because records are missing",
			figures.Count(m.apart, "collective is", "collectives are"))
	}
	if m.distrust {
		say("the clocks of its hosts contradict its collectives: waiting is taken from how long the parts take")
	}
	if uncertain := m.kept - m.sure; uncertain > 0 {
		say("who came last is not known in %s: the ranks came within the error of the clocks",
			figures.Count(uncertain, "collective", "collectives"))
	}
	most := slices.Max(m.counts)
	short := []*RankProcess{}
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
			count := figures.Group(m.counts[slices.Index(m.members, p)])
			say("%s has %s of %s collectives: its log ends early, or begins late", p.name(), count, figures.Group(most))
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
	return fmt.Sprintf("other ranks may have come last: %d of %d communicators may lack ranks (message_sizes says why)",
		len(of), len(r.communicators))
}

// apart says why no collectives of different ranks were put together, "" where no rank has any.
func (c *Collector) apart() string {
	var with []*RankProcess
	runs := make(map[string]int)
	for _, p := range c.sorted() {
		if len(p.order) > 0 {
			with = append(with, p)
			runs[p.Run]++
		}
	}
	why := "their kernels are fewer than 16, or differ because records are missing or a recording began later " +
		"(docs/hosts.md has the rules)"
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
		notes = append(notes, figures.Count(streams, "stream", "streams")+" with collectives"+whose+
			" could not be put together with those of other ranks (docs/hosts.md has the rules)")
	}
	if more > 0 {
		of := figures.Count(more, "process", "processes")
		notes = append(notes, fmt.Sprintf("of %s only %d streams or communicators are compared", of, maxLanes))
	}
	return notes
}

// lateCells is a row of late_collectives.
type lateCells struct {
	Name         string `key:"name" title:"kernel"`                        // as in `collectives`
	Communicator string `key:"communicator" title:"communicator" rank:"3"` // as in `collectives`
	At           uint64 `key:"at_ns" title:"at" rank:"1" unit:"moment"`    // start of the first rank's kernel
	Members      int    `key:"members" title:"ranks" rank:"4"`             // ranks whose logs have their part
	// time that all ranks together waited, and the longest wait
	Wait    uint64 `key:"wait_ns" title:"waiting" rank:"1"`
	Longest uint64 `key:"wait_max_ns" title:"longest" rank:"2"` // =
	// the last rank, and by how much after all others
	LastRank *uint32 `key:"last_rank" title:"last rank" unit:"id"`
	Late     *uint64 `key:"late_ns" title:"late by" rank:"1"` // =
}

// Worst returns the table of the collectives in which ranks waited longest.
func (c *Collector) Worst() *table.Table {
	var rows []lateCells
	for _, l := range c.Result().worst {
		x := lateCells{
			Name: l.kind.title, Communicator: l.of.name(), At: c.clock(l.at), Members: l.parts,
			Wait: l.waited, Longest: l.longest,
		}
		if l.last >= 0 {
			x.LastRank, x.Late = l.of.members[l.last].Rank.Nullable(), &l.late
		}
		rows = append(rows, x)
	}
	return table.Of(rows)
}

// A Made returns what the GPUs of a process did between two times: they computed, communicated without computing,
// copied and did nothing else, or did nothing.
type Made func(of *timeline.Process, from, to uint64) (ns [4]uint64, known bool)

// StepCells is a row of steps.
type StepCells struct {
	Name   string `key:"name" title:"step"`                       // the step
	Number int64  `key:"number" unit:"id"`                        // =
	Count  int    `key:"count" title:"ranks" rank:"2"`            // ranks that have it
	At     uint64 `key:"at_ns" title:"at" rank:"3" unit:"moment"` // when the first rank began it
	// durations over the ranks; `spread_ns` is `max_ns` less `min_ns`
	Min     uint64  `key:"min_ns" title:"min" rank:"3"`
	Median  uint64  `key:"median_ns" title:"median" rank:"1"`               // =
	Max     uint64  `key:"max_ns" title:"max" rank:"1"`                     // =
	Spread  uint64  `key:"spread_ns" title:"spread" rank:"1"`               // =
	Slowest *uint32 `key:"slowest_rank" title:"slowest" rank:"1" unit:"id"` // the rank with `max_ns`
	// the last rank, and by how much after all others
	LastRank *uint32 `key:"last_rank" title:"last rank" rank:"2" unit:"id"`
	Late     *uint64 `key:"late_ns" title:"late by" rank:"2"` // =
	// lists: the ranks, and the step's duration on each
	Ranks     []uint64 `key:"ranks" unit:"id"`
	Durations []uint64 `key:"durations_ns"` // =
	// as in `step_kinds`, of the slowest rank's process
	Compute *uint64 `key:"compute_ns" title:"compute" rank:"2"`
	Exposed *uint64 `key:"exposed_ns" title:"exposed" rank:"2"` // =
	Copy    *uint64 `key:"copy_ns" title:"copies" rank:"3"`     // =
	Idle    *uint64 `key:"idle_ns" title:"idle" rank:"2"`       // =
	PID     uint32  `key:"pid" unit:"id"`                       // =
}

// StepTable returns the table of steps, in their order.
func (c *Collector) StepTable(made Made) *table.Table {
	var notes []string
	list := c.steps.sorted()
	if len(list) > table.MaxRows {
		shown, all := figures.Group(table.MaxRows), figures.Group(len(list))
		notes = append(notes, fmt.Sprintf("only the first %s steps are shown of %s", shown, all))
		list = list[:table.MaxRows]
	}
	rows := make([]StepCells, 0, len(list))
	for _, x := range list {
		rows = append(rows, c.stepCells(x, made))
	}
	if c.steps.more > 0 {
		left := figures.Count(c.steps.more, "step of a rank is", "steps of ranks are")
		notes = append(notes, left+" left out: there are more than "+figures.Group(maxStepParts))
	}
	t := table.Of(rows)
	t.Notes, t.Reason = notes, "nothing that repeats is known to be a step: --step RANGES says which NVTX ranges are steps"
	return t
}

func (c *Collector) stepCells(x *step, made Made) StepCells {
	lengths, sorted := x.lengths()
	n, slowest := len(sorted), x.slowest()
	r := StepCells{
		Name: fmt.Sprintf("%s %d", x.name, x.number), Number: x.number, Count: n,
		Min: sorted[0], Median: sorted[(n-1)/2], Max: sorted[n-1], Spread: sorted[n-1] - sorted[0],
		Slowest: slowest.of.Rank.Nullable(), Ranks: []uint64{}, Durations: lengths, PID: slowest.of.PID,
	}
	first := x.parts[0].start
	for _, p := range x.parts {
		first = min(first, p.start)
		if p.of.Rank.Known {
			r.Ranks = append(r.Ranks, uint64(p.of.Rank.Number))
		}
	}
	r.At = c.clock(first)
	if p, late := x.last(); p != nil {
		r.LastRank, r.Late = p.of.Rank.Nullable(), &late
	}
	if ns, known := made(slowest.of.Process, slowest.start, slowest.end); known {
		r.Compute, r.Exposed, r.Copy, r.Idle = &ns[0], &ns[1], &ns[2], &ns[3]
	}
	return r
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
func (c *Collector) Waits(p *RankProcess) Waits {
	c.Result()
	return p.Waits
}

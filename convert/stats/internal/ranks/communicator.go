package ranks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// A Result is what a comparison of the ranks gives.
type Result struct {
	communicators []*communicator
	worst         []late // collectives in which others waited longest, these first
	labels        *labels
	sizes         sizes
	alone         map[*Lane]bool // lanes that are of no communicator
}

// A communicator has the collectives of some ranks.
type communicator struct {
	*collective.Communicator
	number   int
	hash     uint64         // as NCCL names it, 0 where it does not
	members  []*RankProcess // sorted by rank
	gpus     []uint32       // of members
	index    map[*collective.Sequence]int
	clocks   []*timeline.Clock // of members
	kinds    []*kind
	apart    uint64   // collectives whose parts cannot belong together
	counts   []uint64 // collectives of each member in its log
	blame    []blame  // by member
	hosts    []blame  // by member; that of the first one on a host has the host's
	hostOf   []int    // index of the first member on the same host
	kept     uint64   // collectives that were compared
	distrust bool     // the clocks of the hosts are wrong
	sure     uint64   // those of them whose last rank is known
	told     int      // ranks that it has as NCCL tells, 0 where it does not
	partial  string   // why it may have more members, "" if it has not
	absent   int      // members, at most, whose logs are not given
}

// A kind has the collectives of one kernel.
type kind struct {
	title     string
	count     uint64 // collectives
	parts     uint64
	time      uint64              // ns of all parts
	length    sketch.Distribution // of the parts that are kept
	waits     sketch.Distribution // of the parts that are kept
	waited    uint64              // ns that all ranks waited, an estimate from those that are kept
	compared  uint64
	uncertain uint64  // those of compared whose last rank is not known
	starting  uint64  // those whose last rank was starting up: it is not blamed
	blame     []blame // by member, as that of the communicator
	waiting   bool    // no rank ends it before the last one has entered
}

// A blame is what one rank, or the ranks of one host, cost the others by coming last.
type blame struct {
	late    []uint64         // ns by which it came last in each collective, without the error of the clocks
	took    []uint64         // ns of its part in each: no absent rank came later by more
	cost    uint64           // sum of late
	awaited uint64           // ns that all others together waited for it
	at      findings.Moments // that cost most
	first   uint64
	end     uint64
}

func (b *blame) charge(at, awaited, late, took uint64) {
	if len(b.late) == 0 {
		b.first = at
	}
	b.first, b.end = min(b.first, at), max(b.end, at)
	b.cost, b.awaited = sketch.Sum(b.cost, late), sketch.Sum(b.awaited, awaited)
	b.late, b.took = append(b.late, late), append(b.took, took)
	b.at.Add(at, late)
}

// leastLate is the time by which the last rank of a collective comes after all others if the collective is no tie: half
// of the mean. Of the many collectives of a step, the first one waits for a straggler, and chance decides who is last
// in the others.
func leastLate(all []blame) uint64 {
	count, cost := uint64(0), uint64(0)
	for i := range all {
		count, cost = count+uint64(len(all[i].late)), sketch.Sum(cost, all[i].cost)
	}
	return cost / max(2*count, 1)
}

// notable are the times that are no ties.
func notable(late []uint64, least uint64) (list []uint64) {
	for _, ns := range late {
		if ns >= least {
			list = append(list, ns)
		}
	}
	return list
}

// A late is one collective.
type late struct {
	of      *communicator
	kind    *kind
	at      uint64 // when the first rank entered
	last    int    // member, -1 where it is not known
	parts   int
	waited  uint64 // by all together
	longest uint64
	late    uint64
}

// maxWorst bounds the list of single collectives.
const maxWorst = 100

// Result compares the ranks. The timeline has ended.
func (c *Collector) Result() *Result {
	if c.result != nil {
		return c.result
	}
	r := &Result{labels: &c.labels, sizes: make(sizes)}
	hosts := make(map[*timeline.Clock]int)
	sequences := make(map[string][]*collective.Sequence) // by run
	var runs []string
	lanes := make(map[*collective.Sequence]*Lane)
	for _, p := range c.sorted() {
		host, known := hosts[p.Clock]
		if !known {
			host = len(hosts)
			hosts[p.Clock] = host
		}
		p.finish(host)
		p.steady = c.steady(p.Process)
		for _, l := range p.order {
			if !l.Ordered() {
				continue
			}
			if sequences[p.Run] == nil {
				runs = append(runs, p.Run)
			}
			sequences[p.Run] = append(sequences[p.Run], l.Sequence)
			lanes[l.Sequence] = l
		}
	}
	found := make(map[string][]*collective.Communicator)
	for _, run := range runs {
		found[run] = collective.Match(sequences[run])
	}
	r.alone = c.unmatched(found)
	for _, run := range runs {
		for _, f := range found[run] {
			r.measure(c, f, lanes)
		}
	}
	for l := range r.alone {
		r.sizes.alone(r.labels, l)
	}
	r.sizes.sends(c)
	awaited := make(map[string]uint64) // by run
	for _, p := range c.list {
		awaited[p.Run] = sketch.Sum(awaited[p.Run], p.Waits.Awaited)
	}
	for _, p := range c.list {
		p.Waits.All = awaited[p.Run]
	}
	c.result = r
	return r
}

// sorted returns the processes by rank.
func (c *Collector) sorted() []*RankProcess {
	return slices.SortedStableFunc(slices.Values(c.list), func(a, b *RankProcess) int {
		return cmp.Or(a.Rank.Compare(b.Rank), cmp.Compare(a.PID, b.PID))
	})
}

// measure measures a communicator.
func (r *Result) measure(c *Collector, found *collective.Communicator, lanes map[*collective.Sequence]*Lane) {
	n := len(found.Members)
	m := &communicator{Communicator: found, number: len(r.communicators), index: make(map[*collective.Sequence]int),
		blame: make([]blame, n), hosts: make([]blame, n), hostOf: make([]int, n)}
	kinds := make(map[uint32]*kind) // by kernel
	for i, s := range found.Members {
		l := lanes[s]
		m.gpus = append(m.gpus, l.gpu)
		m.members, m.clocks, m.counts = append(m.members, l.of), append(m.clocks, l.of.Clock), append(m.counts, s.Count())
		m.index[s], m.hostOf[i] = i, slices.Index(m.clocks, l.of.Clock)
		for kernel, k := range l.kernels(r.labels) {
			if kinds[kernel] == nil {
				kinds[kernel] = &kind{title: r.labels.list[kernel].title, blame: make([]blame, n)}
			}
			x := kinds[kernel]
			x.count, x.parts, x.time = max(x.count, k.count), x.parts+k.count, sketch.Sum(x.time, k.time)
		}
	}
	m.know()
	m.partial, m.absent = c.partial(m, r.alone)
	r.sizes.count(r.labels, m)
	m.distrust = m.contradicted()
	m.Each(func(members []*collective.Sequence, parts []collective.Part) {
		r.compare(m, kinds[r.labels.all[parts[0].Label].kernel], members, parts)
	})
	for _, k := range kinds {
		m.kinds = append(m.kinds, k)
	}
	slices.SortFunc(m.kinds, func(a, b *kind) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.title, b.title))
	})
	r.communicators = append(r.communicators, m)
}

// know takes what NCCL says of the communicator.
func (m *communicator) know() {
	for _, s := range m.Members {
		m.hash = max(m.hash, s.Key.Communicator) // members that have one have the same one
	}
	for _, p := range m.members {
		m.told = max(m.told, int(p.Communicators[m.hash]))
	}
}

// What keeps ranks from being compared with others.
const (
	notGiven    = "whose logs are not given"
	notCompared = "whose collectives could not be compared"
)

// lack is why its ranks may have waited for ranks that are not among its members, "" if they have not.
func (m *communicator) lack() string {
	switch {
	case m.absent > 0:
		return notGiven
	case m.partial != "":
		return notCompared
	}
	return ""
}

// size is the number of its ranks: as NCCL tells it, else that of the members.
func (m *communicator) size() int { return max(m.told, len(m.members)) }

// name is what people call the communicator in each view: its hash. The number, where NCCL tells no hash, is of this
// view alone.
func (m *communicator) name() string {
	if m.hash != 0 {
		return hashText(m.hash)
	}
	return fmt.Sprint(m.number)
}

func hashText(h uint64) string { return fmt.Sprintf("%#x", h) }

// kernels sums up the parts of a lane by kernel.
func (l *Lane) kernels(names *labels) map[uint32]sum {
	all := make(map[uint32]sum)
	for label, k := range l.Sums {
		of := names.all[label].kernel
		x := all[of]
		all[of] = sum{x.count + k.Count, sketch.Sum(x.time, k.Time)}
	}
	return all
}

// of are the indexes and the clocks of members.
func (m *communicator) of(members []*collective.Sequence) (who []int, clocks []*timeline.Clock) {
	for _, s := range members {
		i := m.index[s]
		who, clocks = append(who, i), append(clocks, m.clocks[i])
	}
	return who, clocks
}

// contradicted reports whether most collectives cannot have been as the clocks say: those of the hosts are wrong.
func (m *communicator) contradicted() bool {
	var x comparison
	wrong, all := 0, 0
	m.Each(func(members []*collective.Sequence, parts []collective.Part) {
		_, clocks := m.of(members)
		if all++; !x.compare(clocks, parts) {
			wrong++
		}
	})
	return 2*wrong > all
}

// compare takes one collective.
func (r *Result) compare(m *communicator, k *kind, members []*collective.Sequence, parts []collective.Part) {
	x := comparison{distrust: m.distrust}
	who, clocks := m.of(members)
	if !x.compare(clocks, parts) {
		m.apart++
		return
	}
	r.sizes.measure(r.labels, m, &x, parts)
	k.waiting = true
	k.compared++
	m.kept++
	at := timeline.Never
	for i, p := range parts {
		at = min(at, p.Start)
		k.length.Add(length(p))
		k.waits.Add(x.waits[i])
		w := &m.members[who[i]].Waits
		w.Known = true
		if m.lack() != "" && w.lack != notGiven {
			w.lack = m.lack()
		}
		w.Collectives += m.Step()
		w.Waited = sketch.Sum(w.Waited, x.waits[i]*m.Step())
		if p.Start >= m.members[who[i]].steady.From {
			w.steady = sketch.Sum(w.steady, x.waits[i]*m.Step())
		}
	}
	k.waited = sketch.Sum(k.waited, x.total*m.Step())
	one := late{of: m, kind: k, at: at, last: -1, parts: len(parts), waited: x.total, longest: slices.Max(x.waits)}
	if x.last < 0 {
		k.uncertain++
	} else {
		one.last, one.late = who[x.last], x.late
		m.blameLast(k, &x, who[x.last], at, length(parts[x.last]))
	}
	r.keep(one)
}

// blameLast notes who came last.
func (m *communicator) blameLast(k *kind, x *comparison, last int, at, took uint64) {
	m.sure++
	if at < m.members[last].steady.From {
		k.starting++
		return // starting up takes the ranks more or less time
	}
	w := &m.members[last].Waits
	w.Last += m.Step()
	w.Awaited = sketch.Sum(w.Awaited, x.total*m.Step())
	m.blame[last].charge(at, x.total, x.sure, took)
	k.blame[last].charge(at, x.total, x.sure, took)
	if x.ahead != timeline.Never && x.ahead > 0 {
		m.hosts[m.hostOf[last]].charge(at, x.total, x.ahead, took)
	}
}

// keep keeps a collective if it is one of those in which others waited longest.
func (r *Result) keep(l late) {
	if l.waited == 0 || len(r.worst) == maxWorst && l.waited <= r.worst[maxWorst-1].waited {
		return
	}
	i, _ := slices.BinarySearchFunc(r.worst, l, func(a, b late) int {
		return cmp.Or(cmp.Compare(b.waited, a.waited), cmp.Compare(a.at, b.at))
	})
	if r.worst = slices.Insert(r.worst, i, l); len(r.worst) > maxWorst {
		r.worst = r.worst[:maxWorst]
	}
}

// ranksText are the ranks of the members: "0-7".
func (m *communicator) ranksText() string {
	var numbers []uint32
	for _, p := range m.members {
		if p.Rank.Known {
			numbers = append(numbers, p.Rank.Number)
		}
	}
	return ranks.Words(numbers)
}

// name is what people call a process.
func (p *RankProcess) name() string {
	if p.Rank.Known {
		return p.Rank.String()
	}
	return p.Name
}

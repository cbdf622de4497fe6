package ranks

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// Limits of the findings, beside those of package findings.
const (
	exposedShare = 0.2 // of the steady state of a rank, without what it waited for others
	moreCompute  = 0.1 // by which the compute of a rank exceeds the median
	sameKernels  = 0.8 // part of the kernels that all ranks run, from which they are said to run the same
	oftenLast    = 3   // times its share of the collectives, at most mostlyLast of them
	mostlyLast   = 0.75
	rare         = 3.2e-5 // probability of a normal value more than four standard deviations above the mean
	shortPart    = 0.1    // of the time by which a rank comes last: what its own parts take, if it waits for nobody
)

// A Load is what a rank did on a GPU in its steady state.
type Load struct {
	*RankProcess
	GPU                    uint32
	Compute, Exposed, Span uint64 // ns; in the steady state
	From                   uint64 // beginning of the steady state
	First, Last            uint64 // of all its work there
	Steps                  uint64 // of the steady state; 0 where none are known
}

// A worthwhile reports whether a cost in a time is worth a finding.
type worthwhile = func(cost, of uint64) bool

// Findings returns what is odd among the ranks. Loads are exact; kernels are all of the timeline; idle has the gaps of
// processes. With whole false records are missing, and nothing is said about communication without computing, nor about
// gaps.
func (c *Collector) Findings(worth worthwhile, loads []Load, kernels []Kernel,
	idle func(*timeline.Process) []findings.Idle, whole bool) (all []findings.Finding) {
	r := c.Result()
	if !whole {
		idle = func(*timeline.Process) []findings.Idle { return nil }
	}
	all = r.stragglers(idle, loads)
	for i := range all {
		f := &all[i]
		span := c.Process(f.Process).steady
		f.Cost = min(f.Cost, span.To-span.From)
		f.Share = float64(f.Cost) / float64(max(span.To-span.From, 1))
	}
	all = slices.DeleteFunc(all, func(f findings.Finding) bool {
		span := c.Process(f.Process).steady
		return !worth(f.Cost, span.To-span.From)
	})
	for _, run := range byRun(loads) {
		if f := exposed(worth, run); f != nil && whole {
			all = append(all, *f)
		}
		if len(run) < 2 {
			continue
		}
		same := wholeOf(run)
		if f := imbalance(worth, same, kernels); f != nil {
			all = append(all, *f)
		}
		all = append(all, oddKernels(worth, same, kernels)...)
	}
	return all
}

// byRun groups the loads of ranks by run.
func byRun(loads []Load) (runs [][]Load) {
	index := make(map[string]int)
	for _, l := range loads {
		if !l.Rank.Known || l.Span == 0 {
			continue
		}
		i, known := index[l.Run]
		if !known {
			i = len(runs)
			index[l.Run], runs = i, append(runs, nil)
		}
		runs[i] = append(runs[i], l)
	}
	return runs
}

// wholeOf are the loads that cover the time that most do: the others are of logs that begin late or end early.
func wholeOf(loads []Load) (whole []Load) {
	var firsts, lasts []uint64
	for _, l := range loads {
		firsts, lasts = append(firsts, l.First), append(lasts, l.Last)
	}
	first, last := middle(firsts), middle(lasts)
	slack := (last - min(first, last)) / 20
	for _, l := range loads {
		if l.First <= first+slack && l.Last+slack >= last {
			whole = append(whole, l)
		}
	}
	return whole
}

// stragglers are the ranks that come last in clearly more collectives than their share, and cost the others time; or
// the hosts, where several ranks of one do.
func (r *Result) stragglers(idle idleOf, loads []Load) (all []findings.Finding) {
	found := make(map[*RankProcess]straggler)
	others := make(map[*RankProcess]uint64) // ns that all others could be earlier
	var order []*RankProcess
	stepsOf := func(p *RankProcess) uint64 {
		i := slices.IndexFunc(loads, func(l Load) bool { return l.RankProcess == p })
		if i < 0 {
			return 0
		}
		return loads[i].Steps
	}
	note := func(p *RankProcess, m *communicator, f findings.Finding, who []int, hosts bool) {
		cost := f.Cost * uint64(len(m.members)-1)
		if _, again := found[p]; !again {
			order = append(order, p)
		} else if others[p] >= cost {
			return // another communicator shows more of it
		}
		found[p], others[p] = straggler{f, m, who, hosts}, cost
	}
	for _, m := range r.communicators {
		lags := lagsOf(m.blame, leastLate(m.blame))
		for i, p := range m.members {
			if m.behind(&lags[i], len(m.members), m.size()) {
				note(p, m, m.straggler(p, &lags[i], stepsOf(p)), []int{i}, false)
			}
		}
	}
	for _, m := range r.communicators {
		hosts, lags := m.hostCount(), lagsOf(m.hosts, leastLate(m.hosts))
		for i, p := range m.members {
			onHost := m.onHost(i)
			if len(onHost) < 2 || hosts < 2 || slices.ContainsFunc(onHost, func(k int) bool {
				_, known := found[m.members[k]]
				return known
			}) {
				continue
			}
			if m.behind(&lags[i], hosts, hosts) {
				note(p, m, m.slowHost(p, len(onHost), &lags[i], stepsOf(p)), onHost, true)
			}
		}
	}
	for _, p := range order {
		x := found[p]
		x.of.explain(&x.Finding, x.who, x.hosts, idle)
		x.of.doubt(&x.Finding)
		late := make(map[*timeline.Process]bool)
		for _, i := range x.who {
			late[x.of.members[i].Process] = true
		}
		x.Without = func(r *critical.Without) { r.Late(late) }
		all = append(all, x.Finding)
	}
	return all
}

// A straggler is a finding about members of a communicator, which are a host's or one alone.
type straggler struct {
	findings.Finding
	of    *communicator
	who   []int
	hosts bool
}

func (m *communicator) hostCount() (n int) {
	for i, first := range m.hostOf {
		if i == first {
			n++
		}
	}
	return n
}

// onHost are the members on the host whose first member is the given one, nil for another member.
func (m *communicator) onHost(i int) (list []int) {
	for k, first := range m.hostOf {
		if first == i {
			list = append(list, k)
		}
	}
	return list
}

// A lag is how much the others wait for one of several ranks or hosts, and how often.
type lag struct {
	*blame
	least uint64   // ns: collectives in which the last one comes less late are ties
	late  []uint64 // ns by which it came last, ties apart
	alone bool     // it waited for nobody then: no absent rank came later
	of    int      // collectives that are no ties
	share float64  // of the time that all wait, what is for it
	cost  float64  // of the time by which all could be earlier
}

// lagsOf are the lags that blames say, in their order. Collectives in which the last one comes by less than least late
// are ties.
func lagsOf(all []blame, least uint64) (lags []lag) {
	awaited, cost, of := uint64(0), uint64(0), 0
	for i := range all {
		b := &all[i]
		lags = append(lags, lag{blame: b, least: least, late: notable(b.late, least), alone: b.alone(least)})
		awaited, cost, of = sketch.Sum(awaited, b.awaited), sketch.Sum(cost, b.cost), of+len(lags[i].late)
	}
	for i := range lags {
		l := &lags[i]
		l.of, l.share, l.cost = of, float64(l.awaited)/float64(max(awaited, 1)), float64(l.blame.cost)/float64(max(cost, 1))
	}
	return lags
}

// alone reports whether its parts are short against the time by which it came last, ties apart.
func (b *blame) alone(least uint64) bool {
	late, took := 0.0, 0.0
	for i, ns := range b.late {
		if ns >= least {
			late, took = late+float64(ns), took+float64(b.took[i])
		}
	}
	return took <= shortPart*late
}

// behind reports whether one of n comes last clearly more often than the others, and costs them enough. all are n with
// those that are not given.
func (m *communicator) behind(l *lag, n, all int) bool {
	if !l.alone {
		all = n
	}
	count, even := len(l.late), 1/float64(n)
	often := min(oftenLast*even, mostlyLast)
	return 2*uint64(count)*m.Step() >= findings.LeastRepeats && float64(count) >= often*float64(l.of) && l.cost >= often &&
		l.blame.cost > 0 && byChance(count, l.of, 1/float64(all)) < rare
}

// byChance is the probability that something of probability p happens at least count times of n.
func byChance(count, n int, p float64) (sum float64) {
	choices := func(k int) float64 { // as a logarithm
		all, _ := math.Lgamma(float64(n + 1))
		in, _ := math.Lgamma(float64(k + 1))
		out, _ := math.Lgamma(float64(n - k + 1))
		return all - in - out
	}
	for k := count; k <= n; k++ {
		sum += math.Exp(choices(k) + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	return sum
}

// finding makes a finding of a lag, of a rank that makes so many steps in its steady state.
func (m *communicator) finding(kind, who string, p *RankProcess, l *lag, steps uint64, beside string) findings.Finding {
	f := findings.Finding{
		Kind: kind, Process: p.Process, Cost: l.blame.cost * m.Step(), Count: uint64(len(l.late)), First: l.first,
		Last: l.end,
	}
	f.At, f.Longest = l.at.At(), l.at.Longest()
	often := ", " + figures.Count(f.Count, "time", "times")
	if f.Count == steps {
		often = " every step"
	}
	f.Title = who + " " + figures.Duration(middle(l.late)) + " late" + often
	most := ""
	if m.lack() != "" {
		most = "up to " // an absent rank may have come shortly before
	}
	f.Evidence = fmt.Sprintf("communicator %s: last in %s of the %s in which all others wait %s or more (%s), "+
		"with %.1f %% of all waiting; all others wait for it alone for %s%s", m.name(), figures.Group(f.Count),
		figures.Count(l.of, "collective", "collectives"), figures.Duration(l.least), beside, 100*l.share, most,
		figures.Duration(f.Cost))
	if m.Step() > 1 {
		f.Evidence += ", estimated from one of " + figures.Group(m.Step()) + " collectives"
	}
	f.AtMost = m.partial != "" && !l.alone
	return f
}

// doubt says whether ranks that were not compared may have come later.
func (m *communicator) doubt(f *findings.Finding) {
	switch {
	case m.lack() == "":
	case !f.AtMost:
		f.Evidence += "; other ranks, " + m.lack() + ", do not come later: it waits for nobody"
	default:
		f.Evidence += "; other ranks, " + m.lack() + ", may come later"
		if m.absent > 0 {
			f.Try = "give the logs of all ranks; " + f.Try
		}
	}
}

func (m *communicator) straggler(p *RankProcess, l *lag, steps uint64) findings.Finding {
	even := fmt.Sprintf("of %s; an equal share would be %.0f %%", m.compared(), 100/float64(len(m.members)))
	f := m.finding("straggling_rank", p.name()+" is", p, l, steps, even)
	f.Try = "compare this rank with the others (reports ranks, kernels), its clocks (report metrics), " +
		"its data loader and the other processes of its host"
	return f
}

func (m *communicator) slowHost(p *RankProcess, on int, l *lag, steps uint64) findings.Finding {
	turns := fmt.Sprintf("of %d hosts; its %d ranks take turns", m.hostCount(), on)
	f := m.finding("straggling_host", "the ranks of host "+p.Host+" are", p, l, steps, turns)
	f.Try = "look at what the ranks of the host share: CPUs, memory bandwidth, cooling, the network adapter, other jobs"
	return f
}

// compared is the number of ranks that are compared, for people.
func (m *communicator) compared() string {
	if m.told > len(m.members) {
		return fmt.Sprintf("%d of %d ranks", len(m.members), m.told)
	}
	return fmt.Sprintf("%d ranks", len(m.members))
}

// ofLoad makes a finding of a rank's load.
func ofLoad(kind string, l *Load, cost uint64) *findings.Finding {
	gpu := l.GPU
	cost = min(cost, l.Span)
	return &findings.Finding{
		Kind: kind, Process: l.RankProcess.Process, GPU: &gpu, Cost: cost, Share: float64(cost) / float64(max(l.Span, 1)),
		Count: 1, First: l.From, Last: l.Last, At: []uint64{l.From},
	}
}

// own is the time in which a rank communicated and computed nothing, less what it waited for other ranks.
func (l *Load) own() uint64 {
	if !l.Waits.Known && l.short() {
		return 0 // it may be waiting
	}
	return l.Exposed - min(l.Exposed, l.Waits.steady)
}

// exposed finds communication during which the GPU computes nothing. What a rank waited for others in collectives is no
// cost of communication.
func exposed(worth worthwhile, loads []Load) *findings.Finding {
	worst, n, own, all := &loads[0], 0, uint64(0), uint64(0)
	for i := range loads {
		l := &loads[i]
		own, all = own+l.own(), all+l.Span
		if float64(l.own()) >= exposedShare*float64(l.Span) {
			n++
		}
		if float64(l.own())*float64(worst.Span) > float64(worst.own())*float64(l.Span) {
			worst = l
		}
	}
	if n == 0 || !worth(worst.own(), worst.Span) {
		return nil
	}
	f := ofLoad("exposed_communication", worst, worst.own())
	f.Title = fmt.Sprintf("%s communicates without computing in %.1f %% of the time", worst.name(), 100*f.Share)
	f.Evidence = fmt.Sprintf("%s of %s", figures.Duration(f.Cost), figures.Duration(worst.Span))
	if worst.Exposed > worst.own() {
		f.Evidence += fmt.Sprintf(", without %s more that it waited for other ranks",
			figures.Duration(worst.Exposed-worst.own()))
	}
	if len(loads) > 1 {
		f.Evidence += fmt.Sprintf("; %d of %d ranks in at least %.0f %%, all together in %.1f %%", n, len(loads),
			100*exposedShare, 100*float64(own)/float64(all))
	}
	f.Without = (*critical.Without).Communication
	f.Try = "overlap communication with computation (buckets of gradients, prefetching of parameters), send less, or " +
		"let fewer ranks share a parameter"
	lack := worst.Waits.lack
	switch {
	case worst.Waits.Known:
	case len(loads) == 1:
		lack = notGiven
	default:
		lack = notCompared
	}
	if f.AtMost = lack != ""; f.AtMost {
		f.Evidence += "; the cost includes waiting for other ranks, " + lack
	}
	if lack == notGiven {
		f.Try = "give the logs of all ranks, which tell how much of it is waiting; then " + f.Try
	}
	return f
}

// imbalance finds a rank that computes much longer than the others.
func imbalance(worth worthwhile, loads []Load, kernels []Kernel) *findings.Finding {
	if len(loads) < 2 {
		return nil
	}
	var list []uint64
	most, least := &loads[0], &loads[0]
	bySteps := func(a, b Load) int { return cmp.Compare(a.Steps, b.Steps) }
	fewest, mostSteps := slices.MinFunc(loads, bySteps).Steps, slices.MaxFunc(loads, bySteps).Steps
	stepless := 3*fewest < 2*mostSteps || fewest == 0 // so many more are steps of another kind
	of := func(l *Load) float64 {                     // steady states may differ by a step, or by a wait for ranks that begin later
		if stepless {
			return float64(l.Span)
		}
		return float64(l.Steps)
	}
	for i := range loads {
		l := &loads[i]
		l.Compute = uint64(float64(l.Compute) * of(&loads[0]) / of(l))
		list = append(list, l.Compute)
		if l.Compute > most.Compute {
			most = l
		}
		if l.Compute < least.Compute {
			least = l
		}
	}
	usual := middle(list)
	more := most.Compute - usual
	if float64(more) < moreCompute*float64(usual) || !worth(more, most.Span) {
		return nil
	}
	f := ofLoad("compute_imbalance", most, more)
	against := fmt.Sprintf("%s, the median of %d ranks; %s has least, %s", figures.Duration(usual), len(loads),
		least.name(), figures.Duration(least.Compute))
	than := "the median of the ranks"
	if len(loads) == 2 && most.RankProcess != least.RankProcess {
		against, than = figures.Duration(usual)+" of "+least.name(), least.name()
	}
	f.Title = fmt.Sprintf("%s computes %.0f %% longer than %s", most.name(), 100*float64(more)/float64(max(usual, 1)),
		than)
	cause, kernel := difference(most, loads, kernels, more)
	f.Evidence = fmt.Sprintf("%s against %s%s", figures.Duration(most.Compute), against, kernel)
	f.Try = "give the ranks equal parts of the work: lengths of sequences, experts, layers of a pipeline's stage"
	if cause != "" {
		f.Title += ": " + cause
		f.Try = "see why " + cause + " takes longer here; else " + f.Try
	}
	part := float64(more) / float64(most.Compute)
	f.Without = func(x *critical.Without) { x.Kernels("", part) }
	return f
}

package activity

import (
	"sort"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// An Owner is what a thread did outside of calls.
type Owner struct {
	OwnerKind
	Text     string
	By       timeline.Blocker // what blocked the thread, of Waited
	ByOthers bool             // it waited for what somebody else puts into a pipe, a socket or an eventfd
	On       string           // the kind of files or lock that it waited for, as in timeline.Block
	Holder   *timeline.Thread // that has what a blocked thread waited for; nil if unknown
}

// An OwnerKind is a kind of owner.
type OwnerKind uint8

// The kinds of owner.
const (
	RanCode      OwnerKind = iota // ran code: Python at a line, or that of a library
	Ran                           // ran, and no sample tells what
	Waited                        // was blocked, for a known reason
	WasBlocked                    // was blocked, for an unknown reason
	WaitedForCPU                  // was ready to run
	RanUnread                     // ran Python, and the line could not be read at the sample
)

// Texts of owners without a place.
const (
	NotSampled = "(on CPU, code unknown)"
	NotRead    = "(on CPU, Python line unknown)"
	NoReason   = "(blocked, reason unknown)"
	ReadyToRun = "(ready to run, no CPU free)"
)

// lookPeriod is the time between two looks of a recorder at blocked threads. Shorter blocks are seen by chance.
const lookPeriod = 10e6

// owners are the owners of all histories.
type owners struct {
	byKey             map[ownerKey]*Owner
	ran, blocked, cpu *Owner
	unread            *Owner
	other             [2]*Owner // for those without room: RanCode and Waited
}

type ownerKey struct {
	python *timeline.PythonFrame
	native *timeline.NativeFrame
	mode   timeline.SampleMode
	call   string // of a block, "" for code
	on     string
	holder *timeline.Thread
}

const maxOwners = 1 << 14

func newOwners() *owners {
	return &owners{
		byKey: make(map[ownerKey]*Owner),
		ran:   &Owner{OwnerKind: Ran, Text: NotSampled}, blocked: &Owner{OwnerKind: WasBlocked, Text: NoReason},
		cpu:    &Owner{OwnerKind: WaitedForCPU, Text: ReadyToRun},
		unread: &Owner{OwnerKind: RanUnread, Text: NotRead},
		other: [2]*Owner{
			{OwnerKind: RanCode, Text: "(running other code)"}, {OwnerKind: Waited, Text: "(blocked elsewhere)"},
		},
	}
}

// of returns the owner with a key.
func (o *owners) of(key ownerKey) *Owner {
	x := o.byKey[key]
	if x != nil {
		return x
	}
	if len(o.byKey) >= maxOwners {
		if key.call != "" {
			return o.other[1]
		}
		return o.other[0]
	}
	x = &Owner{}
	where := ""
	if key.python != nil {
		where = key.python.Short()
	}
	if key.call != "" {
		b := timeline.Block{Call: key.call, On: key.on, Holder: key.holder}
		x.OwnerKind, x.By, x.ByOthers, x.On, x.Holder = Waited, b.By(), b.ByOthers(), key.on, key.holder
		if x.Text = b.Text(); where != "" {
			x.Text = where + ", " + x.Text
		}
	} else {
		x.OwnerKind = RanCode
		if x.Text = where; where == "" && key.native != nil {
			x.Text = key.native.Text()
		}
		switch key.mode {
		case timeline.InCall:
			x.Text += ", in system calls"
		case timeline.InFault:
			x.Text += ", in page faults or interrupts"
		case timeline.InKernel:
			x.Text += ", in the kernel"
		}
	}
	o.byKey[key] = x
	return x
}

// ofBlock returns the owner of a block.
func (o *owners) ofBlock(b *timeline.Block) *Owner {
	if b == nil {
		return o.blocked
	}
	key := ownerKey{call: b.Call, on: b.On, holder: b.Holder}
	if b.Python != nil {
		key.python = b.Python.Own().PythonFrame
	}
	return o.of(key)
}

// ofSample returns the owner of what a sample shows, nil if that is not known.
func (o *owners) ofSample(s *timeline.StackSample) *Owner {
	if s.Unread {
		return o.unread
	}
	if s.Python == nil && s.Native == nil {
		return nil
	}
	key := ownerKey{mode: s.SampleMode}
	if s.Python != nil {
		key.python = s.Python.Own().PythonFrame
	} else {
		key.native = s.Native.NativeFrame
	}
	return o.of(key)
}

// Owners name what threads do, for those who need no history.
type Owners struct{ list *owners }

// NewOwners returns owners, none so far.
func NewOwners() Owners { return Owners{newOwners()} }

// OfState returns the owner of a state, nil for a thread that runs.
func (o Owners) OfState(s *timeline.State) *Owner {
	switch s.ThreadState {
	case timeline.Running:
		return nil
	case timeline.Runnable:
		return o.list.cpu
	}
	return o.list.ofBlock(s.Why)
}

// OfSample returns the owner of what a sample shows, nil if that is not known.
func (o Owners) OfSample(s *timeline.StackSample) *Owner { return o.list.ofSample(s) }

// times are the states and samples of a thread.
type times struct {
	states  []timeState
	samples []timeSample
	period  uint64
	near    [2]int // a state and a sample near those that were looked for last
}

type timeState struct {
	start, end uint64
	kind       timeline.ThreadState
	owner      *Owner // of a blocked one
}

type timeSample struct {
	at    uint64
	owner *Owner // nil if not known
}

// weight is that of a part of a block, 0 for one that is always seen: see Spent.
func (s *timeState) weight(part uint64) float64 {
	all := float64(s.end - s.start)
	if s.owner.OwnerKind != Waited {
		return 0
	}
	return max(lookPeriod-all, 0) * float64(part) / all
}

// weight is that of a sample of a time for which the thread ran, 0 if that time always has one or its line is not
// known: see Spent.
func (t *times) weight(running uint64, o *Owner) float64 {
	if o.OwnerKind == RanUnread {
		return 0
	}
	return max(float64(t.period)-float64(running), 0)
}

// States adds states of the thread. Those without room are not known.
func (h *History) States(list []timeline.State) {
	o := h.room.owners
	for i := range list {
		s := &list[i]
		if h.room.states--; h.room.states < 0 {
			return
		}
		t := timeState{start: s.Start, end: s.End, kind: s.ThreadState}
		if s.ThreadState == timeline.Blocked {
			t.owner = o.ofBlock(s.Why)
		}
		if n := len(h.times.states); n > 0 && h.times.states[n-1].end == t.start && h.times.states[n-1].kind == t.kind &&
			h.times.states[n-1].owner == t.owner {
			h.times.states[n-1].end = t.end
			h.room.states++
			continue
		}
		h.times.states = append(h.times.states, t)
	}
}

// Samples adds samples of the thread.
func (h *History) Samples(period uint64, list []timeline.StackSample) {
	h.times.period = period
	for i := range list {
		if h.room.states--; h.room.states < 0 {
			return
		}
		h.times.samples = append(h.times.samples, timeSample{list[i].Time, h.room.owners.ofSample(&list[i])})
	}
}

// first returns the index of the first of n things that ends after a time, from a place near it on.
func first(near, n int, endsBy func(i int) bool) int {
	near = min(near, n)
	for near > 0 && !endsBy(near-1) {
		near--
	}
	for near < n && endsBy(near) {
		near++
	}
	return near
}

// outside appends what the thread did outside of calls from one time to another, as far as that is known.
func (h *History) outside(from, to uint64, list []Spent) []Spent {
	t := &h.times
	begin := len(list)
	add := func(s Spent) {
		for i := begin; i < len(list); i++ {
			if list[i].Owner == s.Owner {
				list[i].Time += s.Time
				list[i].Weight += s.Weight
				list[i].Looks += s.Looks
				list[i].End = s.End
				return
			}
		}
		list = append(list, s)
	}
	i := first(t.near[0], len(t.states), func(i int) bool { return t.states[i].end <= from })
	t.near[0] = i
	at, running := from, uint64(0)
	for ; i < len(t.states) && t.states[i].start < to; i++ {
		s := &t.states[i]
		start, end := max(s.start, at), min(s.end, to)
		if start > at {
			add(Spent{Time: start - at, Start: at, End: start})
		}
		if start >= end {
			continue
		}
		x := Spent{Time: end - start, Start: start, End: end}
		switch s.kind {
		case timeline.Running:
			running += x.Time
		case timeline.Runnable:
			x.Owner = h.room.owners.cpu
			add(x)
		default:
			if x.Owner, x.Weight = s.owner, s.weight(x.Time); x.Weight > 0 {
				x.Looks = 1
			}
			add(x)
		}
		at = end
	}
	if at < to {
		add(Spent{Time: to - at, Start: at, End: to})
	}
	if running > 0 {
		h.ran(from, to, running, add)
	}
	return list
}

// ran divides the time for which a thread ran in an interval among what its samples there show.
func (h *History) ran(from, to, running uint64, add func(Spent)) {
	t := &h.times
	i := first(t.near[1], len(t.samples), func(i int) bool { return t.samples[i].at < from })
	t.near[1] = i
	n := uint64(0)
	for k := i; k < len(t.samples) && t.samples[k].at < to; k++ {
		if t.samples[k].owner != nil {
			n++
		}
	}
	if n == 0 {
		add(Spent{Owner: h.room.owners.ran, Time: running, Start: from, End: to})
		return
	}
	left := running
	for k := i; k < len(t.samples) && t.samples[k].at < to; k++ {
		if t.samples[k].owner != nil {
			part := left / n
			left, n = left-part, n-1
			add(Spent{
				Owner: t.samples[k].owner, Time: part, Start: t.samples[k].at, End: to,
				Weight: t.weight(running, t.samples[k].owner), Looks: 1,
			})
		}
	}
}

// A Stretch is a time in which a thread did one thing.
type Stretch struct {
	Start, End uint64
	Owner      *Owner  // nil if unknown
	Weight     float64 // see Spent
}

// Stretches appends what the thread did from one time to another by its states and samples, in calls as outside, in the
// order of time. A sample stands for the time since the one before it; the last one of a running thread for the rest,
// too.
func (h *History) Stretches(from, to uint64, list []Stretch) []Stretch {
	t := &h.times
	i := t.state(from)
	add := func(end uint64, o *Owner, weight float64) {
		if n := len(list); n > 0 && list[n-1].End == from && list[n-1].Owner == o {
			list[n-1].End = max(list[n-1].End, end)
			list[n-1].Weight += weight
		} else if end > from {
			list = append(list, Stretch{from, end, o, weight})
		}
		from = max(from, end)
	}
	for ; i < len(t.states) && t.states[i].start < to; i++ {
		s := &t.states[i]
		if s.start > from {
			add(s.start, nil, 0)
		}
		switch end := min(s.end, to); {
		case end <= from:
		case s.kind == timeline.Runnable:
			add(end, h.room.owners.cpu, 0)
		case s.kind != timeline.Running:
			add(end, s.owner, s.weight(end-from))
		default:
			h.sampled(from, end, add)
		}
	}
	if from < to {
		add(to, nil, 0)
	}
	return list
}

// Blocks are the times from one to another in which the thread did not run: it was blocked, or had no processor.
func (h *History) Blocks(from, to uint64) (list []Stretch) {
	t := &h.times
	for i := t.state(from); i < len(t.states) && t.states[i].start < to; i++ {
		s := &t.states[i]
		x := Stretch{Start: s.start, End: s.end, Owner: s.owner}
		switch s.kind {
		case timeline.Running:
			continue
		case timeline.Runnable:
			x.Owner = h.room.owners.cpu
		}
		list = append(list, x)
	}
	return list
}

// sampled gives the samples of a thread that ran from one time to another.
func (h *History) sampled(from, to uint64, add func(end uint64, o *Owner, weight float64)) {
	t := &h.times
	k := sort.Search(len(t.samples), func(i int) bool { return t.samples[i].at >= from })
	last := h.room.owners.ran
	for ; k < len(t.samples) && t.samples[k].at < to; k++ {
		if o := t.samples[k].owner; o != nil {
			last = o
			add(t.samples[k].at, o, t.weight(to-from, o))
		}
	}
	add(to, last, 0)
}

// Seen reports whether anything is known of what the thread did from one time to another.
func (h *History) Seen(from, to uint64) bool {
	t := &h.times
	i := t.state(from)
	return i < len(t.states) && t.states[i].start < to
}

// state returns the number of the first state that ends after a time.
func (t *times) state(at uint64) int {
	return sort.Search(len(t.states), func(i int) bool { return t.states[i].end > at })
}

package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of a log. A rank has a stream for each communicator: a few. Kernels beyond them are counted.
const (
	maxSourceProcesses = 32
	maxSequences       = 16 // of a process: streams, and communicators
)

// Most parts of a sequence that are kept, of few logs and of many.
const (
	mostParts  = 2048
	leastParts = 128
	allParts   = 1 << 18 // of all logs, with one sequence each
)

// A CollectiveSource is a log to read, as one of several.
type CollectiveSource struct {
	Open   func() (*tracelog.Reader, error)
	Host   int  // logs of one host have one clock
	Of     int  // number of logs
	Midway bool // the log may lack the first collectives of its processes

	// NamesCommunicators reports that NCCL's calls are in the log, and CUPTI's times on the common clock: the calls
	// name the communicators of kernels.
	NamesCommunicators bool

	Beyond CollectiveBounds // of ReadCollectives

	communicators communicatorsOf
	sorters       map[uint32]*collective.Sorter // by PID
	order         []*collective.Sorter
}

// A sourceProcess identifies a process of a log.
type sourceProcess struct {
	source *CollectiveSource
	pid    uint32
}

// ReadCollectives returns the sequences of the kernels of NCCL of a log. Damage is for another reading to report:
// the order of what is left means nothing, so that there are no sequences.
func ReadCollectives(s *CollectiveSource) (list []*collective.Sequence, err error) {
	if s.NamesCommunicators {
		if s.communicators, err = readCommunicators(s); err != nil {
			return nil, err
		}
	}
	most := mostParts
	if s.Of > 0 {
		most = max(leastParts, min(mostParts, allParts/s.Of)) &^ 1
	}
	s.sorters = make(map[uint32]*collective.Sorter)
	err = s.read(tracelog.Filter{}, func(k ncclKernel) {
		of := s.sorters[k.pid]
		if of == nil && len(s.order) < maxSourceProcesses {
			of = collective.NewSorter(k.pid, sourceProcess{s, k.pid}, most, maxSequences)
			s.sorters[k.pid], s.order = of, append(s.order, of)
		}
		if of == nil || !of.Add(k.name, k.at, k.communicator, k.start, k.end, 0) {
			s.Beyond.LeftOut++
		}
	})
	if err != nil {
		return nil, err
	}
	for _, of := range s.order {
		for _, x := range of.Finish() {
			if x.Host, x.Midway = s.Host, s.Midway; x.Ordered() {
				list = append(list, x)
			}
		}
	}
	return list, nil
}

// CollectiveParts reads a log again, which Read has read, and gives f all parts of some of its sequences, those of
// each by number, from 0. (A Sequence keeps some of its parts only.) Parts of one number are parts of one
// collective if their sequences are members of one communicator.
func CollectiveParts(s *CollectiveSource, of []*collective.Sequence,
	f func(of *collective.Sequence, number uint64, p collective.Part)) error {
	if len(of) == 0 {
		return nil
	}
	counters := make(map[*collective.Sequence]*collective.Counter)
	filter := tracelog.Filter{}
	for _, x := range of {
		counters[x] = collective.NewCounter(func(number uint64, p collective.Part) { f(x, number, p) })
		filter.PIDs = append(filter.PIDs, x.PID)
	}
	err := s.read(filter, func(k ncclKernel) {
		if sorter := s.sorters[k.pid]; sorter != nil {
			if c := counters[sorter.Of(k.at, k.communicator)]; c != nil {
				c.Add(k.name, k.at, k.start, k.end)
			}
		}
	})
	if err != nil {
		return err
	}
	for _, x := range of {
		counters[x].Finish()
	}
	return nil
}

// A ncclKernel is a kernel of NCCL.
type ncclKernel struct {
	name         collective.Name
	pid          uint32
	at           collective.Place
	communicator uint64 // 0 where NCCL does not name it
	start, end   uint64
}

// A kernelReading takes the kernels of a log.
type kernelReading struct {
	source *CollectiveSource
	names  map[uint64]collective.Name // by the id of the string
	take   func(k ncclKernel)
}

// read gives the kernels of NCCL that a filter selects to take.
func (s *CollectiveSource) read(f tracelog.Filter, take func(k ncclKernel)) error {
	c := &kernelReading{source: s, names: make(map[uint64]collective.Name), take: take}
	f.Kinds = []tracelog.Kind{tracelog.KindKernel}
	return readBlocks(s, f, c.block)
}

// maxKernelNames bounds the names that are kept. Programs have a few thousand kernels.
const maxKernelNames = 1 << 16

func (c *kernelReading) block(b *tracelog.Block) {
	names, starts, durs, correlations := b.Column("name"), b.Column("start"), b.Column("dur"), b.Column("correlation")
	pids, contexts, streams := b.Column("pid"), b.Column("context"), b.Column("stream")
	for i := range b.N {
		n := c.name(b, names.At(i))
		start := starts.At(i)
		if n.Kind == collective.Other || start == 0 || durs.At(i) == 0 {
			continue
		}
		pid := uint32(pids.At(i))
		c.take(ncclKernel{n, pid, collective.Place{Context: uint32(contexts.At(i)), Stream: uint32(streams.At(i))},
			c.source.communicators.of(pid, uint32(correlations.At(i))), start, start + durs.At(i)})
	}
}

func (c *kernelReading) name(b *tracelog.Block, id uint64) collective.Name {
	n, ok := c.names[id]
	if !ok {
		n = collective.NameOf(b.Text(id))
		if len(c.names) < maxKernelNames {
			c.names[id] = n
		}
	}
	return n
}

// communicatorsOf are the communicators of launches, as NCCL names them in the ranges of its calls: those of a
// process, by correlation ID.
type communicatorsOf map[uint32][]launchOfNCCL

type launchOfNCCL struct {
	correlation  uint32
	communicator uint64
}

// of returns the hash of the communicator of a launch, 0 where NCCL does not name it.
func (s communicatorsOf) of(pid, correlation uint32) uint64 {
	list := s[pid]
	i, found := slices.BinarySearchFunc(list, correlation, func(l launchOfNCCL, c uint32) int {
		return cmp.Compare(l.correlation, c)
	})
	if !found {
		return 0
	}
	return list[i].communicator
}

const (
	// mostOfNCCL bounds the calls of NCCL that are kept of a log, and the calls of CUDA in them. With more, no
	// communicator is known.
	mostOfNCCL = 1 << 22

	// reorderedEvents is the number of events of a thread that may come out of order.
	reorderedEvents = 1 << 13
)

// A ncclReading finds the communicators of launches.
type ncclReading struct {
	threads       map[ncclThreadKey]*ncclCaller
	calls         int
	useless       bool // there are too many calls, or events came in no order
	communicators communicatorsOf
	beyond        uint64 // calls, where there are too many
}

type ncclThreadKey struct{ pid, tid uint32 }

// A ncclCaller has the calls of NCCL of one thread.
type ncclCaller struct {
	early []ncclEvent
	last  uint64 // time of the latest event that was taken
	nccl  ncclThread
	open  map[uint32]*openCall // by marker ID
	calls []ncclInterval       // by time; none overlap
}

// An ncclEvent is a marker of NCCL, or the arguments of a call before its marker.
type ncclEvent struct {
	tracelog.Marker
	call *tracelog.NCCLCall // nil for a marker
}

// An openCall is a range of NCCL that has not ended.
type openCall struct {
	timeline.Range
	start uint64
}

// A ncclInterval is a part of a thread's time in which it launches kernels of a communicator.
type ncclInterval struct{ start, end, communicator uint64 }

// readCommunicators reads the communicators of the launches of a log. CUPTI's times must be on the common clock.
func readCommunicators(s *CollectiveSource) (communicatorsOf, error) {
	c := &ncclReading{threads: make(map[ncclThreadKey]*ncclCaller), communicators: make(communicatorsOf)}
	ofNCCL := tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindMarker, tracelog.KindNCCLCall}}
	if err := readBlocks(s, ofNCCL, c.events); err != nil {
		return nil, err
	}
	for _, t := range c.threads {
		c.flush(t, len(t.early))
		t.finish()
	}
	defer func() { s.Beyond.Unnamed = c.beyond }()
	if c.useless {
		return nil, nil
	}
	if err := readBlocks(s, tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindAPI}}, c.launches); err != nil {
		return nil, err
	}
	if c.useless {
		return nil, nil
	}
	for _, list := range c.communicators {
		slices.SortStableFunc(list, func(a, b launchOfNCCL) int { return cmp.Compare(a.correlation, b.correlation) })
	}
	return c.communicators, nil
}

// readBlocks gives the blocks of the kinds of a filter to take.
func readBlocks(s *CollectiveSource, f tracelog.Filter, take func(b *tracelog.Block)) error {
	r, err := s.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Select(f); err != nil {
		return err
	}
	r.Parallel(2)
	for r.Next() {
		if b := r.Block(); slices.Contains(f.Kinds, b.Kind) {
			take(b)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// events takes markers and the arguments of calls.
func (c *ncclReading) events(b *tracelog.Block) {
	pids, tids, domains := b.Column("pid"), b.Column("tid"), tracelog.Column{}
	if b.Kind == tracelog.KindMarker {
		domains = b.Column("domain")
	}
	ofNCCL := make(map[uint64]bool) // by the id of a domain
	for i := range b.N {
		var e ncclEvent
		if b.Kind == tracelog.KindNCCLCall {
			e.call = new(tracelog.NCCLCall)
			e.call.Read(b, i)
			e.Time = e.call.Time
		} else {
			id := domains.At(i)
			is, known := ofNCCL[id]
			if !known {
				is = b.Text(id) == timeline.NCCLDomain
				ofNCCL[id] = is
			}
			if !is {
				continue
			}
			e.Marker.Read(b, i)
		}
		t := c.thread(ncclThreadKey{uint32(pids.At(i)), uint32(tids.At(i))})
		if t.early = append(t.early, e); len(t.early) >= 2*reorderedEvents {
			c.flush(t, reorderedEvents)
		}
	}
}

func (c *ncclReading) thread(k ncclThreadKey) *ncclCaller {
	t := c.threads[k]
	if t == nil {
		t = &ncclCaller{open: make(map[uint32]*openCall)}
		c.threads[k] = t
	}
	return t
}

// flush takes the first events of a thread.
func (c *ncclReading) flush(t *ncclCaller, n int) {
	slices.SortStableFunc(t.early, func(a, b ncclEvent) int {
		switch {
		case markerBefore(&a.Marker, &b.Marker):
			return -1
		case markerBefore(&b.Marker, &a.Marker):
			return 1
		}
		return 0
	})
	for i := range t.early[:n] {
		c.useless = c.useless || t.early[i].Time < t.last
		t.last = t.early[i].Time
		c.applyEvent(t, &t.early[i])
	}
	t.early = append(t.early[:0], t.early[n:]...)
}

func (c *ncclReading) applyEvent(t *ncclCaller, e *ncclEvent) {
	switch {
	case c.useless:
	case e.call != nil:
		t.nccl.call(e.call)
	case e.Flags&tracelog.MarkerStart != 0:
		o := &openCall{timeline.Range{Name: e.Name, Domain: e.Domain}, e.Time}
		t.nccl.begin(&o.Range)
		t.open[e.ID] = o
	case t.open[e.ID] != nil:
		o := t.open[e.ID]
		delete(t.open, e.ID)
		if o.Group != nil && o.Group.Communicator() != 0 {
			for n := len(t.calls); n > 0 && t.calls[n-1].start >= o.start; n-- { // calls inside this one
				t.calls, c.calls = t.calls[:n-1], c.calls-1
			}
			t.calls, c.calls = append(t.calls, ncclInterval{o.start, e.Time, o.Group.Communicator()}), c.calls+1
		}
		t.nccl.end(&o.Range, e.Time)
	}
	c.bound(max(c.calls, len(t.open)))
}

// bound notes how many calls of a kind there are.
func (c *ncclReading) bound(n int) {
	if n > mostOfNCCL {
		c.useless, c.beyond = true, max(c.beyond, uint64(n))
	}
}

// finish adds the calls whose end was lost: they last up to the next one.
func (t *ncclCaller) finish() {
	for _, o := range t.open {
		if o.Group == nil || o.Group.Communicator() == 0 {
			continue
		}
		i, found := t.after(o.start)
		x := ncclInterval{o.start, timeline.Never, o.Group.Communicator()}
		if i < len(t.calls) {
			x.end = t.calls[i].start
		}
		if !found && (i == 0 || t.calls[i-1].end <= o.start) {
			t.calls = slices.Insert(t.calls, i, x)
		}
	}
}

// after returns the index of the first call that starts at a time or later, and whether one starts then.
func (t *ncclCaller) after(time uint64) (i int, found bool) {
	return slices.BinarySearchFunc(t.calls, time, func(c ncclInterval, at uint64) int { return cmp.Compare(c.start, at) })
}

// launches takes the calls of CUDA that were made in calls of NCCL. Of a call of the runtime's and that of the
// driver's in it, either may count.
func (c *ncclReading) launches(b *tracelog.Block) {
	pids, correlations, tids, starts := b.Column("pid"), b.Column("correlation"), b.Column("tid"), b.Column("start")
	for i := range b.N {
		t := c.threads[ncclThreadKey{uint32(pids.At(i)), uint32(tids.At(i))}]
		if t == nil {
			continue
		}
		if in := t.at(starts.At(i)); in != 0 {
			pid := uint32(pids.At(i))
			c.communicators[pid] = append(c.communicators[pid], launchOfNCCL{uint32(correlations.At(i)), in})
			c.bound(len(c.communicators[pid]))
		}
	}
}

// at returns the communicator whose kernels the thread launches at a time, 0 for none.
func (t *ncclCaller) at(time uint64) uint64 {
	i, found := t.after(time)
	if !found {
		i--
	}
	if i < 0 || t.calls[i].end <= time {
		return 0
	}
	return t.calls[i].communicator
}

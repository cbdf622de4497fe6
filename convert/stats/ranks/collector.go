package ranks

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Collector collects what is compared.
type Collector struct {
	Steps Steps

	names     timeline.KernelNames
	clock     func(at uint64) uint64 // ns since the start of the recording
	processes map[*timeline.Process]*Process
	list      []*Process
	run       string // of the log whose processes come
	most      int    // parts of collectives that a stream keeps

	labels labels
	sent   sends
	steps  steps
	result *Result
}

// A Process is a rank.
type Process struct {
	*timeline.Process
	Run   string // identity of the run, "" if unknown
	Index int    // in the order of their first events

	lanes   map[*timeline.Stream]*Lane
	order   []*Lane
	Waits   Waits
	tooMany bool // streams with collectives
	used    bool // it used a GPU
}

// A Lane takes the collectives of a stream.
type Lane struct {
	*collective.Stream
	of    *Process
	gpu   uint32
	kinds map[uint32]*sum // by label
}

// A sum counts the parts of one label on a stream.
type sum struct{ count, time uint64 }

const (
	allParts   = 1 << 20 // parts of collectives that are kept, of processes with fewStreams each
	mostParts  = 1 << 14 // of a stream
	leastParts = 64
	fewStreams = 4 // streams with collectives of a usual process
	maxStreams = 8 // more are left out
)

// New returns a collector.
func New(names timeline.KernelNames, since func(at uint64) uint64) *Collector {
	return &Collector{names: names, clock: since, processes: make(map[*timeline.Process]*Process), most: mostParts, sent: make(sends),
		labels: labels{kernels: make(map[kernelName]uint32), numbers: make(map[label]uint32)}}
}

// Recording takes the first event.
func (c *Collector) Recording(e *timeline.Recording) {
	c.most = min(max(allParts/(fewStreams*max(e.Processes, 1)), leastParts), mostParts) &^ 1
}

// Log takes the facts of a log: the processes that come next are its.
func (c *Collector) Log(e *timeline.Metadata) { c.run = e.Values["run"] }

// Process returns the process of a timeline's one.
func (c *Collector) Process(of *timeline.Process) *Process {
	p := c.processes[of]
	if p == nil {
		p = &Process{Process: of, Run: c.run, Index: len(c.list), lanes: make(map[*timeline.Stream]*Lane)}
		c.processes[of] = p
		c.list = append(c.list, p)
	}
	return p
}

// User returns the process that has a stream.
func (c *Collector) User(of *timeline.Stream) *Process {
	p := c.Process(of.Context.Process)
	p.used = true
	return p
}

// Collective takes a kernel of NCCL.
func (c *Collector) Collective(s *timeline.Stream, w *timeline.Work) {
	if w.Untimed || w.Dur == 0 {
		return
	}
	mangled := w.Shape.Kernel.Name
	n := collective.NameOf(mangled)
	if collective.Sends(mangled) {
		c.send(s, w)
		return
	}
	if n.Kind == collective.Other {
		return
	}
	p := c.Process(s.Context.Process)
	l := p.lane(s, c.most)
	if l == nil {
		return
	}
	label := c.labels.of(mangled, w.NCCL, c.names)
	l.Add(n, w.Start, timeline.End(w.Start, w.Dur), label)
	l.Say(communicatorOf(w.NCCL))
	k := l.kinds[label]
	if k == nil {
		k = new(sum)
		l.kinds[label] = k
	}
	k.count, k.time = k.count+1, sketch.Sum(k.time, w.Dur)
}

func (p *Process) lane(s *timeline.Stream, most int) *Lane {
	l := p.lanes[s]
	if l == nil {
		if p.tooMany = p.tooMany || len(p.lanes) >= maxStreams; p.tooMany {
			return nil
		}
		key := collective.Key{PID: p.PID, Context: s.Context.ID, Stream: s.ID}
		l = &Lane{Stream: collective.NewStream(key, p, 0, most), of: p, gpu: s.Context.GPU, kinds: make(map[uint32]*sum)}
		p.lanes[s], p.order = l, append(p.order, l)
	}
	return l
}

// communicatorOf is the hash of a communicator, 0 where NCCL does not tell.
func communicatorOf(said *timeline.NCCL) uint64 {
	if said == nil {
		return 0
	}
	return said.Communicator
}

// short says whether the process has too few collectives to be put together with others.
func (p *Process) short() bool {
	for _, l := range p.order {
		if l.Count() < collective.Least {
			return true
		}
	}
	return len(p.order) == 0
}

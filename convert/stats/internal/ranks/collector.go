package ranks

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Collector collects what is compared.
type Collector struct {
	names     timeline.KernelNames
	clock     func(at uint64) uint64 // ns since the start of the recording
	steady    func(*timeline.Process) findings.Interval
	processes map[*timeline.Process]*RankProcess
	list      []*RankProcess
	run       string // of the log whose processes come
	most      int    // parts of collectives that a stream keeps

	labels labels
	sent   sends
	steps  steps
	result *Result
}

// A RankProcess is the process of a rank.
type RankProcess struct {
	*timeline.Process
	Run   string // identity of the run, "" if unknown
	Index int    // in the order of their first events

	sorter *collective.Sorter          // nil without collectives
	gpus   map[collective.Place]uint32 // of the streams with collectives
	order  []*Lane                     // known with the result
	Waits  Waits
	steady findings.Interval // known with the result
	used   bool              // it used a GPU
}

// A Lane has the collectives of a communicator; where NCCL does not tell the communicator, those of a stream.
type Lane struct {
	*collective.Sequence
	of  *RankProcess
	gpu uint32
}

// A sum counts kernels of one label.
type sum struct{ count, time uint64 }

const (
	allParts   = 1 << 20 // parts of collectives that are kept, of processes with fewLanes each
	mostParts  = 1 << 14 // of a lane
	leastParts = 64
	fewLanes   = 4 // of a usual process
	maxLanes   = 8 // more are left out
)

// New returns a collector. The steady states of processes are wanted when all events are there.
func New(names timeline.KernelNames, since func(at uint64) uint64,
	steady func(*timeline.Process) findings.Interval) *Collector {
	return &Collector{names: names, clock: since, steady: steady, processes: make(map[*timeline.Process]*RankProcess),
		most: mostParts, sent: make(sends),
		labels: labels{kernels: make(map[kernelName]uint32), numbers: make(map[label]uint32)}}
}

// Recording takes the first event.
func (c *Collector) Recording(e *timeline.Recording) {
	c.most = min(max(allParts/(fewLanes*max(e.Processes, 1)), leastParts), mostParts) &^ 1
}

// Log takes the facts of a log: the processes that come next are its.
func (c *Collector) Log(e *timeline.Metadata) { c.run = e.Values["run"] }

// Process returns the process of a timeline's one.
func (c *Collector) Process(of *timeline.Process) *RankProcess {
	p := c.processes[of]
	if p == nil {
		p = &RankProcess{Process: of, Run: c.run, Index: len(c.list), gpus: make(map[collective.Place]uint32)}
		c.processes[of] = p
		c.list = append(c.list, p)
	}
	return p
}

// User returns the process that has a stream.
func (c *Collector) User(of *timeline.Stream) *RankProcess {
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
	if p.sorter == nil {
		p.sorter = collective.NewSorter(p.PID, p, c.most, maxLanes)
	}
	at := collective.Place{Context: s.Context.ID, Stream: s.ID}
	if p.sorter.Add(n, at, communicatorOf(w.NCCL), w.Start, timeline.End(w.Start, w.Dur),
		c.labels.of(mangled, w.NCCL, 0, c.names)) {
		p.gpus[at] = s.Context.GPU
	}
}

// tooMany reports whether the process has more lanes than are compared.
func (p *RankProcess) tooMany() bool { return p.sorter != nil && p.sorter.More }

// finish makes the lanes.
func (p *RankProcess) finish(host int) {
	if p.sorter == nil {
		return
	}
	for _, s := range p.sorter.Finish() {
		s.Host, s.Midway = host, p.Midway != 0
		p.order = append(p.order, &Lane{Sequence: s, of: p, gpu: p.gpus[s.First]})
	}
}

// communicatorOf is the hash of a communicator, 0 where NCCL does not tell.
func communicatorOf(said *timeline.NCCL) uint64 {
	if said == nil {
		return 0
	}
	return said.Communicator
}

// short reports whether the process has too few collectives to be put together with others.
func (p *RankProcess) short() bool {
	for _, l := range p.order {
		if l.Count() < collective.Least {
			return true
		}
	}
	return len(p.order) == 0
}

package join

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of a log. A rank has a stream for each communicator: a few.
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
	Tells  bool // NCCL may tell the communicators of its kernels: its calls are in the log, and CUPTI's times on the common clock

	said    launchesSaid
	sorters map[uint32]*collective.Sorter // by PID
	order   []*collective.Sorter
}

// A sourceProcess identifies a process of a log.
type sourceProcess struct {
	source *CollectiveSource
	pid    uint32
}

// ReadCollectives returns the sequences of the kernels of NCCL of a log. Damage is for another reading to report: the order of what is
// left says nothing, so that there are no sequences.
func ReadCollectives(s *CollectiveSource) (list []*collective.Sequence, err error) {
	if s.Tells {
		if s.said, err = readSaid(s); err != nil {
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
		if of != nil {
			of.Add(k.name, k.at, k.communicator, k.start, k.end, 0)
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

// CollectiveParts reads a log again, which Read has read, and gives f all parts of some of its sequences, those of each by number, from 0. (A
// Sequence keeps some of its parts only.) Parts of one number are parts of one collective if their sequences are members of one communicator.
func CollectiveParts(s *CollectiveSource, of []*collective.Sequence, f func(of *collective.Sequence, number uint64, p collective.Part)) error {
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
	communicator uint64 // 0 where NCCL does not tell it
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
	r, err := s.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	f.Kinds = []tracelog.Kind{tracelog.KindKernel}
	if err := r.Select(f); err != nil {
		return err
	}
	r.Parallel(2)
	for r.Next() {
		if b := r.Block(); b.Kind == tracelog.KindKernel {
			c.block(b)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// maxKernelNames bounds the names that are kept. Programs have a few thousand kernels.
const maxKernelNames = 1 << 16

func (c *kernelReading) block(b *tracelog.Block) {
	names, starts, durs := b.Column("name"), b.Column("start"), b.Column("dur")
	pids, contexts, streams, correlations := b.Column("pid"), b.Column("context"), b.Column("stream"), b.Column("correlation")
	for i := range b.N {
		n := c.name(b, names.At(i))
		start := starts.At(i)
		if n.Kind == collective.Other || start == 0 || durs.At(i) == 0 {
			continue
		}
		pid := uint32(pids.At(i))
		c.take(ncclKernel{n, pid, collective.Place{Context: uint32(contexts.At(i)), Stream: uint32(streams.At(i))},
			c.source.said.of(pid, uint32(correlations.At(i))), start, start + durs.At(i)})
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

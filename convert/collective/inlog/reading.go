// Package inlog finds the streams of a log that ran kernels of NCCL.
//
// Input: a log. Output: the streams, for package collective.
package inlog

import (
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxStreams bounds the streams with collectives of a log. A rank has one for each communicator: a few.
const maxStreams = 64

// Most parts of a stream that are kept, of few logs and of many.
const (
	mostParts  = 2048
	leastParts = 128
	allParts   = 1 << 18 // of all logs, with one stream each
)

// A Source is a log to read, as one of several.
type Source struct {
	Open func() (*tracelog.Reader, error)
	Host int // logs of one host have one clock
	Of   int // number of logs
}

// A process identifies a process of a log.
type process struct {
	source *Source
	pid    uint32
}

// Read returns the streams of a log that ran kernels of NCCL. Damage is for another reading to report: the order of what is
// left says nothing, so that there are no streams.
func Read(s *Source) ([]*collective.Stream, error) {
	c := newReading(s)
	c.most = mostParts
	if s.Of > 0 {
		c.most = max(leastParts, min(mostParts, allParts/s.Of)) &^ 1
	}
	if err := c.read(tracelog.Filter{}); err != nil {
		return nil, err
	}
	return c.result(), nil
}

// Parts reads a log again and gives f all parts of some of its streams, those of each stream by number, from 0. (A Stream keeps
// some of its parts only.) Parts of one number are parts of one collective if their streams are members of one communicator.
func Parts(s *Source, of []*collective.Stream, f func(of *collective.Stream, number uint64, p collective.Part)) error {
	if len(of) == 0 {
		return nil
	}
	c := newReading(s)
	c.only = true
	filter := tracelog.Filter{}
	for _, known := range of {
		again := collective.Counting(known.Key, func(number uint64, p collective.Part) { f(known, number, p) })
		c.streams[known.Key], c.order = again, append(c.order, again)
		filter.PIDs, filter.Streams = append(filter.PIDs, known.PID), append(filter.Streams, known.Key.Stream)
	}
	if err := c.read(filter); err != nil {
		return err
	}
	c.result()
	return nil
}

// A reading collects the streams of a log.
type reading struct {
	source  *Source
	streams map[collective.Key]*collective.Stream
	order   []*collective.Stream
	names   map[uint64]collective.Name // by the id of the string
	most    int
	only    bool // no other streams than those known
}

func newReading(s *Source) *reading {
	return &reading{source: s, streams: make(map[collective.Key]*collective.Stream), names: make(map[uint64]collective.Name)}
}

// read reads the kernels of a log that a filter selects.
func (c *reading) read(f tracelog.Filter) error {
	r, err := c.source.Open()
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

// maxNames bounds the names that are kept. Programs have a few thousand kernels.
const maxNames = 1 << 16

func (c *reading) block(b *tracelog.Block) {
	names, starts, durs := b.Column("name"), b.Column("start"), b.Column("dur")
	pids, contexts, streams := b.Column("pid"), b.Column("context"), b.Column("stream")
	for i := range b.N {
		n := c.name(b, names.At(i))
		start := starts.At(i)
		if n.Kind == collective.Other || start == 0 || durs.At(i) == 0 {
			continue
		}
		s := c.stream(collective.Key{PID: uint32(pids.At(i)), Context: uint32(contexts.At(i)), Stream: uint32(streams.At(i))})
		if s != nil {
			s.Add(n, start, start+durs.At(i), 0)
		}
	}
}

func (c *reading) name(b *tracelog.Block, id uint64) collective.Name {
	n, ok := c.names[id]
	if !ok {
		n = collective.NameOf(b.Text(id))
		if len(c.names) < maxNames {
			c.names[id] = n
		}
	}
	return n
}

func (c *reading) stream(k collective.Key) *collective.Stream {
	s := c.streams[k]
	if s == nil && !c.only && len(c.streams) < maxStreams {
		s = collective.NewStream(k, process{c.source, k.PID}, c.source.Host, c.most)
		c.streams[k], c.order = s, append(c.order, s)
	}
	return s
}

// result are the streams whose kernels came in order.
func (c *reading) result() (list []*collective.Stream) {
	for _, s := range c.order {
		if s.Finish() {
			list = append(list, s)
		}
	}
	return list
}

package inlog

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// mostSamples is the number of a stream's kernels whose communicator is looked for, spread over all of them. It is even.
const mostSamples = 64

// Say reads a log again for what NCCL says about the kernels of streams, and notes it at the streams. It asks for a sample of the
// kernels of each: the kernel's call, by its correlation ID, and the call of NCCL around that, on the same thread. Calls
// that end a group say nothing. CUPTI's times must be on the common clock.
func Say(s *Source, streams []*collective.Stream) error {
	c := &saying{byStream: make(map[collective.Key]*asked), byCall: make(map[callKey]*launch)}
	for _, of := range streams {
		c.byStream[of.Key] = &asked{stream: of, step: 1}
	}
	for _, pass := range []struct {
		take  func(b *tracelog.Block)
		kinds []tracelog.Kind
		then  func()
	}{
		{c.kernels, []tracelog.Kind{tracelog.KindKernel}, c.sampled},
		{c.calls, []tracelog.Kind{tracelog.KindAPI}, c.called},
		{c.ranges, []tracelog.Kind{tracelog.KindMarker, tracelog.KindNCCLCall}, c.say},
	} {
		if err := read(s, pass.kinds, pass.take); err != nil {
			return err
		}
		pass.then()
	}
	return nil
}

func read(s *Source, kinds []tracelog.Kind, take func(b *tracelog.Block)) error {
	r, err := s.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: kinds}); err != nil {
		return err
	}
	r.Parallel(2)
	for r.Next() {
		if b := r.Block(); slices.Contains(kinds, b.Kind) {
			take(b)
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return err
	}
	return nil
}

// A saying collects what NCCL says.
type saying struct {
	byStream map[collective.Key]*asked
	byCall   map[callKey]*launch
	byThread map[threadKey][]*launch // by start
}

type callKey struct{ pid, correlation uint32 }

type threadKey struct{ pid, tid uint32 }

// An asked is a stream with the sample of its kernels: every step-th one.
type asked struct {
	stream  *collective.Stream
	count   int
	step    int
	samples []uint32 // correlation IDs
}

// A launch is the call that launched a kernel of the sample, with what came last before it on its thread.
type launch struct {
	start uint64
	call  tracelog.NCCLCall // the last one
	mark  tracelog.Marker   // the last one of NCCL
}

func (c *saying) kernels(b *tracelog.Block) {
	names := make(map[uint64]bool) // kernels of NCCL, by the id of the string
	name, pids, contexts, streams, correlations := b.Column("name"), b.Column("pid"), b.Column("context"), b.Column("stream"), b.Column("correlation")
	for i := range b.N {
		of := c.byStream[collective.Key{PID: uint32(pids.At(i)), Context: uint32(contexts.At(i)), Stream: uint32(streams.At(i))}]
		if of == nil {
			continue
		}
		id := name.At(i)
		is, known := names[id]
		if !known {
			is = collective.NameOf(b.Text(id)).Kind != collective.Other
			names[id] = is
		}
		if is {
			of.add(uint32(correlations.At(i)))
		}
	}
}

func (a *asked) add(correlation uint32) {
	if a.count++; (a.count-1)%a.step != 0 {
		return
	}
	if len(a.samples) == mostSamples {
		for i := range mostSamples / 2 {
			a.samples[i] = a.samples[2*i]
		}
		a.samples, a.step = a.samples[:mostSamples/2], 2*a.step
		if (a.count-1)%a.step != 0 {
			return
		}
	}
	a.samples = append(a.samples, correlation)
}

func (c *saying) sampled() {
	for key, of := range c.byStream {
		for _, correlation := range of.samples {
			c.byCall[callKey{key.PID, correlation}] = new(launch)
		}
	}
}

// calls finds the calls of the sample. Of a call of the runtime's and that of the driver's in it, either may count.
func (c *saying) calls(b *tracelog.Block) {
	if c.byThread == nil {
		c.byThread = make(map[threadKey][]*launch)
	}
	pids, correlations, tids, starts := b.Column("pid"), b.Column("correlation"), b.Column("tid"), b.Column("start")
	for i := range b.N {
		l := c.byCall[callKey{uint32(pids.At(i)), uint32(correlations.At(i))}]
		if l == nil || l.start != 0 {
			continue
		}
		l.start = starts.At(i)
		thread := threadKey{uint32(pids.At(i)), uint32(tids.At(i))}
		c.byThread[thread] = append(c.byThread[thread], l)
	}
}

func (c *saying) called() {
	for _, list := range c.byThread {
		slices.SortFunc(list, func(a, b *launch) int { return cmp.Compare(a.start, b.start) })
	}
}

// ranges takes calls of NCCL and markers.
func (c *saying) ranges(b *tracelog.Block) {
	pids, tids, times := b.Column("pid"), b.Column("tid"), b.Column("time")
	for i := range b.N {
		l := c.next(threadKey{uint32(pids.At(i)), uint32(tids.At(i))}, times.At(i))
		switch {
		case l == nil:
		case b.Kind == tracelog.KindNCCLCall:
			if l.call.Time <= times.At(i) {
				l.call.Read(b, i)
			}
		default:
			var m tracelog.Marker
			if m.Read(b, i); m.Domain == "NCCL" && l.mark.Time <= m.Time {
				l.mark = m
			}
		}
	}
}

// next is the first launch of a thread after a time, nil without one.
func (c *saying) next(k threadKey, at uint64) *launch {
	list := c.byThread[k]
	i, _ := slices.BinarySearchFunc(list, at, func(l *launch, at uint64) int { return cmp.Compare(l.start, at) })
	if i == len(list) {
		return nil
	}
	return list[i]
}

// say notes at the streams what was found.
func (c *saying) say() {
	for key, of := range c.byStream {
		for _, correlation := range of.samples {
			of.stream.Say(c.byCall[callKey{key.PID, correlation}].communicator())
		}
	}
}

// communicator is that of the call of NCCL in which the launch was made, 0 where that is not certain: the call's range must be the
// last thing that began on the thread.
func (l *launch) communicator() uint64 {
	if l.start == 0 || l.mark.Flags&tracelog.MarkerStart == 0 || l.mark.Name != l.call.Name || l.mark.Time < l.call.Time {
		return 0
	}
	return l.call.Communicator
}

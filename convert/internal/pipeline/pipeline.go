// Package pipeline hands events to a sink on a separate goroutine: one processor joins records
// while another encodes the trace.
//
// Input: slices and pieces of GPU work, one at a time, and other events. Output: events in the
// same order. Successive slices of one thread become one event, and so does successive work of
// one stream.
package pipeline

import (
	"sync/atomic"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A Pipeline hands events on to a sink. Its methods must not be called concurrently.
type Pipeline struct {
	sink  timeline.Sink
	clock *timeline.Clock
	batch *batch
	full  chan *batch
	empty chan *batch
	done  chan struct{}
	err   atomic.Pointer[error] // the sink's first error
}

const (
	batchSize = 1 << 11 // most slices, pieces of work, or other events in a batch
	batches   = 8

	// batchSamples is the number of samples of metrics from which a batch is passed.
	batchSamples = 1 << 12
)

// A batch is a list of events, with the memory for the frequent kinds.
type batch struct {
	events []timeline.Event
	clock  *timeline.Clock // converts the times of the events; nil for none

	slices []timeline.Slice
	work   []timeline.Work
	calls  []timeline.Slices
	lists  []timeline.WorkList

	lastCalls *timeline.Slices   // the latest event, if it is slices
	lastWork  *timeline.WorkList // the latest event, if it is work
	samples   int                // of metrics
}

// New returns a pipeline to a sink. With a nil sink it drops all events. Close ends its
// goroutine.
func New(sink timeline.Sink) *Pipeline {
	p := &Pipeline{sink: sink}
	if sink == nil {
		return p
	}
	p.batch, p.done = newBatch(), make(chan struct{})
	p.full, p.empty = make(chan *batch, batches), make(chan *batch, batches)
	for range batches - 1 {
		p.empty <- newBatch()
	}
	go p.run()
	return p
}

func newBatch() *batch {
	return &batch{slices: make([]timeline.Slice, 0, batchSize), work: make([]timeline.Work, 0, batchSize)}
}

// run passes batches to the sink. After an error of the sink batches are dropped.
func (p *Pipeline) run() {
	defer close(p.done)
	for b := range p.full {
		if p.err.Load() == nil {
			if err := b.give(p.sink); err != nil {
				p.err.Store(&err)
			}
		}
		p.empty <- b
	}
}

func (b *batch) give(sink timeline.Sink) error {
	if b.clock != nil && !b.clock.Same() {
		for _, e := range b.events {
			timeline.Move(e, b.clock)
		}
	}
	return sink.Take(b.events)
}

// Convert sets the clock that converts the times of all later events.
func (p *Pipeline) Convert(c *timeline.Clock) {
	p.clock = c
	if p.sink != nil {
		p.pass()
	}
}

// Emit hands on an event.
func (p *Pipeline) Emit(e timeline.Event) {
	if p.sink == nil {
		return
	}
	b := p.batch
	b.events, b.lastCalls, b.lastWork = append(b.events, e), nil, nil
	if l, ok := e.(*timeline.Samples); ok {
		b.samples += len(l.List)
	}
	if len(b.events) >= batchSize || b.samples >= batchSamples {
		p.pass()
	}
}

// Slice hands on a call of a thread. The caller may change the slice afterwards.
func (p *Pipeline) Slice(t *timeline.Thread, sl *timeline.Slice) {
	if p.sink == nil {
		return
	}
	b := p.batch
	n := len(b.slices)
	b.slices = append(b.slices, *sl)
	if l := b.lastCalls; l != nil && l.Thread == t {
		l.List = l.List[:len(l.List)+1]
	} else {
		b.calls = append(b.calls, timeline.Slices{Thread: t, List: b.slices[n : n+1 : batchSize]})
		b.lastCalls, b.lastWork = &b.calls[len(b.calls)-1], nil
		b.events = append(b.events, b.lastCalls)
	}
	if n+1 == batchSize {
		p.pass()
	}
}

// Work hands on a piece of work of a stream. The caller may change the work afterwards.
func (p *Pipeline) Work(s *timeline.Stream, w *timeline.Work) {
	if p.sink == nil {
		return
	}
	b := p.batch
	n := len(b.work)
	b.work = append(b.work, *w)
	if l := b.lastWork; l != nil && l.Stream == s {
		l.List = l.List[:len(l.List)+1]
	} else {
		b.lists = append(b.lists, timeline.WorkList{Stream: s, List: b.work[n : n+1 : batchSize]})
		b.lastCalls, b.lastWork = nil, &b.lists[len(b.lists)-1]
		b.events = append(b.events, b.lastWork)
	}
	if n+1 == batchSize {
		p.pass()
	}
}

// pass hands on the batch and takes an empty one.
func (p *Pipeline) pass() {
	if len(p.batch.events) > 0 {
		p.full <- p.batch
		p.batch = <-p.empty
		p.batch.reset()
	}
	p.batch.clock = p.clock
}

// reset empties a batch and drops the pointers of its events.
func (b *batch) reset() {
	clear(b.events)
	b.events, b.lastCalls, b.lastWork, b.samples = b.events[:0], nil, nil, 0
	b.slices, b.work, b.calls, b.lists = b.slices[:0], b.work[:0], b.calls[:0], b.lists[:0]
}

// Err returns the sink's error, once the sink has failed. Later events are dropped.
func (p *Pipeline) Err() error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Flush hands on what is there, waits until the sink has taken it, and returns the sink's error.
func (p *Pipeline) Flush() error {
	if p.sink == nil {
		return nil
	}
	p.pass()
	var idle [batches - 1]*batch
	for i := range idle {
		idle[i] = <-p.empty
	}
	for _, b := range idle {
		p.empty <- b
	}
	return p.Err()
}

// Close hands on the rest, waits until the sink has taken it, and returns the sink's error.
func (p *Pipeline) Close() error {
	if p.sink != nil {
		p.pass()
		close(p.full)
		<-p.done
	}
	return p.Err()
}

package join

import (
	"strconv"

	"github.com/cudatrace/cudatrace/convert/internal/ordered"
	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// threadTimes hand on the states and the samples of threads, those of each thread in the order of time.
type threadTimes struct {
	catalog *read.Catalog
	program func(pid uint32, at uint64) *program
	out     *pipeline.Pipeline
	byKey   map[read.ThreadKey]*threadTime
	order   []*threadTime // in the order of first sight
	blocks  map[blockKey]*timeline.Block
	held    int    // records that wait for earlier ones
	period  uint64 // of samples, 0 if unknown
}

// A threadTime is the states and samples of one thread.
type threadTime struct {
	key     read.ThreadKey
	lows    read.Lows
	states  ordered.List[tracelog.ThreadState]
	samples ordered.List[tracelog.ThreadSample]
	end     uint64 // of the latest state
}

// A blockKey is what makes a Block.
type blockKey struct {
	call, on string
	holder   *timeline.Thread
	python   uint32
}

const (
	maxHeldTimes = 1 << 17
	maxBlocks    = 1 << 16
	maxTimes     = 1 << 12 // threads
)

func newThreadTimes(c *read.Catalog, program func(uint32, uint64) *program, out *pipeline.Pipeline) threadTimes {
	t := threadTimes{catalog: c, program: program, out: out, byKey: make(map[read.ThreadKey]*threadTime), blocks: make(map[blockKey]*timeline.Block)}
	if rate, err := strconv.ParseUint(c.Meta[tracelog.MetaSampleRate], 10, 32); err == nil && rate > 0 {
		t.period = 1e9 / rate
	}
	return t
}

// find returns the times of a thread, nil if there are too many threads.
func (t *threadTimes) find(pid, tid uint32) *threadTime {
	key := read.ThreadKey{PID: pid, TID: tid}
	k := t.byKey[key]
	if k == nil && len(t.order) < maxTimes {
		k = &threadTime{key: key, lows: t.catalog.Watermarks.ThreadTimes(pid, tid),
			states:  ordered.NewList(func(a, b *tracelog.ThreadState) bool { return a.Start < b.Start }),
			samples: ordered.NewList(func(a, b *tracelog.ThreadSample) bool { return a.Time < b.Time })}
		t.byKey[key], t.order = k, append(t.order, k)
	}
	return k
}

// readState queues the state of a row.
func (t *threadTimes) readState(b *tracelog.Block, i int) {
	var r tracelog.ThreadState
	r.Read(b, i)
	if k := t.find(r.PID, r.TID); k != nil && r.State >= tracelog.StateRunning && r.State <= tracelog.StateBlocked {
		k.states.Add(r)
		t.held++
	}
}

// readSample queues the sample of a row.
func (t *threadTimes) readSample(b *tracelog.Block, i int) {
	var r tracelog.ThreadSample
	r.Read(b, i)
	if k := t.find(r.PID, r.TID); k != nil {
		k.samples.Add(r)
		t.held++
	}
}

// advance hands on what is known to be in order; with all, or where too much waits, everything.
func (t *threadTimes) advance(all bool) {
	all = all || t.held > maxHeldTimes
	for _, k := range t.order {
		low := k.lows.Low()
		var states *timeline.States
		k.states.Drain(func(r *tracelog.ThreadState) bool { return r.Start < low || all }, func(r *tracelog.ThreadState) {
			t.held--
			s, ok := t.state(k, r)
			if !ok {
				return
			}
			thread := t.program(r.PID, r.Start).thread(r.TID)
			if states != nil && states.Thread != thread {
				t.out.Emit(states)
				states = nil
			}
			if states == nil {
				states = &timeline.States{Thread: thread}
			}
			states.List = append(states.List, s)
		})
		if states != nil {
			t.out.Emit(states)
		}
		var samples *timeline.StackSamples
		k.samples.Drain(func(r *tracelog.ThreadSample) bool { return r.Time < low || all }, func(r *tracelog.ThreadSample) {
			t.held--
			thread := t.program(r.PID, r.Time).thread(r.TID)
			if samples != nil && samples.Thread != thread {
				t.out.Emit(samples)
				samples = nil
			}
			if samples == nil {
				samples = &timeline.StackSamples{Thread: thread, Period: t.period}
			}
			samples.List = append(samples.List, t.sample(r))
		})
		if samples != nil {
			t.out.Emit(samples)
		}
	}
}

// state returns the state of a record, as far as it lies behind the one before it.
func (t *threadTimes) state(k *threadTime, r *tracelog.ThreadState) (s timeline.State, ok bool) {
	s = timeline.State{Start: max(r.Start, k.end), End: timeline.End(r.Start, r.Dur), ThreadState: timeline.ThreadState(r.State - tracelog.StateRunning), CPU: r.CPU}
	if s.Start >= s.End {
		return s, false
	}
	k.end = s.End
	if r.Call == "" {
		return s, true
	}
	key := blockKey{call: r.Call, on: r.On, python: r.Python}
	if r.Holder != 0 {
		key.holder = t.program(r.PID, r.Start).thread(r.Holder)
	}
	if s.Why = t.blocks[key]; s.Why == nil && len(t.blocks) < maxBlocks {
		s.Why = &timeline.Block{Call: r.Call, On: r.On, Holder: key.holder, Python: t.catalog.Pythons.ByID(r.Python)}
		t.blocks[key] = s.Why
	}
	return s, true
}

func (t *threadTimes) sample(r *tracelog.ThreadSample) timeline.StackSample {
	s := timeline.StackSample{Time: r.Time, Native: t.catalog.Natives.ByID(r.Native), Python: t.catalog.Pythons.ByID(r.Python), Unread: r.Flags&tracelog.SampleUnread != 0}
	switch {
	case r.Flags&tracelog.SampleCall != 0:
		s.SampleMode = timeline.InCall
	case r.Flags&tracelog.SampleFault != 0:
		s.SampleMode = timeline.InFault
	case r.Flags&tracelog.SampleKernel != 0:
		s.SampleMode = timeline.InKernel
	}
	return s
}

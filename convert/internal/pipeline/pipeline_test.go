package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A sink notes events in words. It fails from one Take on, or never.
type sink struct {
	events  []string
	takes   []int // number of events in each
	failing int   // index of the first Take that fails, -1 for none
	ends    int
}

var errSink = errors.New("the sink has failed")

func newSink() *sink { return &sink{failing: -1} }

func (s *sink) Take(events []timeline.Event) error {
	s.takes = append(s.takes, len(events))
	for _, e := range events {
		s.events = append(s.events, words(e))
	}
	if s.failing >= 0 && len(s.takes) > s.failing {
		return errSink
	}
	return nil
}

func (s *sink) End(error) error {
	s.ends++
	return nil
}

// words shows an event: a note by its time, a slice or a piece of work by its start.
func words(e timeline.Event) string {
	var b strings.Builder
	switch e := e.(type) {
	case *timeline.Note:
		fmt.Fprintf(&b, "note %d", e.Time)
	case *timeline.Slices:
		fmt.Fprintf(&b, "thread %d:", e.Thread.TID)
		for _, sl := range e.List {
			fmt.Fprintf(&b, " %d-%d", sl.Start, sl.End)
			for _, w := range sl.Waits() {
				fmt.Fprintf(&b, "(%d)", w.Start)
			}
		}
	case *timeline.WorkList:
		fmt.Fprintf(&b, "stream %d:", e.Stream.ID)
		for _, w := range e.List {
			fmt.Fprintf(&b, " %d+%d", w.Start, w.Dur)
		}
	default:
		fmt.Fprintf(&b, "%T", e)
	}
	return b.String()
}

// Two threads and two streams, by index.
var (
	threads = []*timeline.Thread{{TID: 0}, {TID: 1}}
	streams = []*timeline.Stream{{ID: 0}, {ID: 1}}
)

func note(p *Pipeline, at uint64) { p.Emit(&timeline.Note{Time: at}) }

func slice(p *Pipeline, thread int, at uint64) {
	p.Slice(threads[thread], &timeline.Slice{Start: at, End: at + 5})
}

func work(p *Pipeline, stream int, at uint64) {
	p.Work(streams[stream], &timeline.Work{Start: at, Dur: 3})
}

func TestOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		give func(p *Pipeline)
		want []string
	}{
		"nothing":    {func(p *Pipeline) {}, nil},
		"one event":  {func(p *Pipeline) { note(p, 1) }, []string{"note 1"}},
		"two events": {func(p *Pipeline) { note(p, 1); note(p, 2) }, []string{"note 1", "note 2"}},
		"slices of a thread": {
			func(p *Pipeline) { slice(p, 0, 1); slice(p, 0, 2); slice(p, 0, 3) },
			[]string{"thread 0: 1-6 2-7 3-8"},
		},
		"slices of two threads": {
			func(p *Pipeline) { slice(p, 0, 1); slice(p, 1, 2); slice(p, 1, 3); slice(p, 0, 4) },
			[]string{"thread 0: 1-6", "thread 1: 2-7 3-8", "thread 0: 4-9"},
		},
		"work of a stream": {
			func(p *Pipeline) { work(p, 0, 1); work(p, 0, 2) },
			[]string{"stream 0: 1+3 2+3"},
		},
		"work of two streams": {
			func(p *Pipeline) { work(p, 0, 1); work(p, 1, 2); work(p, 1, 3); work(p, 0, 4) },
			[]string{"stream 0: 1+3", "stream 1: 2+3 3+3", "stream 0: 4+3"},
		},
		"slices and work take turns": {
			func(p *Pipeline) { slice(p, 0, 1); work(p, 0, 2); slice(p, 0, 3); work(p, 0, 4) },
			[]string{"thread 0: 1-6", "stream 0: 2+3", "thread 0: 3-8", "stream 0: 4+3"},
		},
		"an event between slices": {
			func(p *Pipeline) { slice(p, 0, 1); note(p, 2); slice(p, 0, 3) },
			[]string{"thread 0: 1-6", "note 2", "thread 0: 3-8"},
		},
		"an event between work": {
			func(p *Pipeline) { work(p, 0, 1); note(p, 2); work(p, 0, 3) },
			[]string{"stream 0: 1+3", "note 2", "stream 0: 3+3"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink()
			p := New(s)
			c.give(p)
			if err := p.Close(); err != nil || p.Err() != nil {
				t.Fatalf("%v, %v", err, p.Err())
			}
			goldentest.Same(t, c.want, s.events, "events")
			if slices.Contains(s.takes, 0) {
				t.Errorf("the sink takes %d events", s.takes)
			}
			if s.ends != 0 {
				t.Error("the sink was ended: that is for the caller")
			}
		})
	}
}

// However many there are, nothing is lost, doubled or put out of order where one batch
// ends and the next begins.
func TestManyBatches(t *testing.T) {
	t.Parallel()
	const n = 5*batches*batchSize/2 + 7
	for name, give := range map[string]func(p *Pipeline, i int){
		"events":           func(p *Pipeline, i int) { note(p, uint64(i)) },
		"slices":           func(p *Pipeline, i int) { slice(p, 0, uint64(i)) },
		"work":             func(p *Pipeline, i int) { work(p, 0, uint64(i)) },
		"threads in turns": func(p *Pipeline, i int) { slice(p, i%2, uint64(i)) },
		"all in turns": func(p *Pipeline, i int) {
			[]func(){func() { note(p, uint64(i)) }, func() { slice(p, 0, uint64(i)) }, func() { work(p, 0, uint64(i)) }, func() { work(p, 1, uint64(i)) }}[i%4]()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &counting{t: t}
			p := New(s)
			for i := range n {
				give(p, i)
			}
			must.Do(t, p.Close())
			if s.next != n {
				t.Errorf("%d came, want %d", s.next, n)
			}
			if want := (n + batchSize - 1) / batchSize; s.takes != want {
				t.Errorf("%d batches, want %d", s.takes, want)
			}
			if len(s.memory) > batches {
				t.Errorf("the slices and the work of %d batches have memory of their own, want at most %d", len(s.memory), batches)
			}
		})
	}
}

// A counting sink checks that times are 0, 1, 2 and so on.
type counting struct {
	t      *testing.T
	next   uint64
	takes  int
	memory map[any]bool // where the lists of batches begin
}

func (c *counting) Take(events []timeline.Event) error {
	c.takes++
	n := c.next
	for i, e := range events {
		switch e := e.(type) {
		case *timeline.Note:
			c.see(e.Time)
		case *timeline.Slices:
			for k := range e.List {
				c.see(e.List[k].Start)
			}
			c.uses(i, &e.List[0])
		case *timeline.WorkList:
			for k := range e.List {
				c.see(e.List[k].Start)
			}
			c.uses(i, &e.List[0])
		}
	}
	if c.next == n {
		c.t.Error("an empty batch")
	}
	return nil
}

func (c *counting) End(error) error { return nil }

func (c *counting) see(time uint64) {
	if time != c.next {
		c.t.Errorf("%d comes in place of %d", time, c.next)
	}
	c.next = time + 1
}

// uses notes the memory of the first list of a batch.
func (c *counting) uses(index int, list any) {
	if c.memory == nil {
		c.memory = make(map[any]bool)
	}
	if index == 0 {
		c.memory[list] = true
	}
}

// The caller uses its slices and its work again.
func TestCallerKeepsItsMemory(t *testing.T) {
	t.Parallel()
	s := newSink()
	p := New(s)
	var sl timeline.Slice
	var w timeline.Work
	for i := range uint64(3) {
		sl.Start, sl.End = i, 10*i
		sl.AddWait(timeline.Awaited{Start: 100 + i})
		p.Slice(threads[0], &sl)
		sl.Forget()
	}
	for i := range uint64(2) {
		w.Start, w.Dur = i, 10*i
		p.Work(streams[0], &w)
	}
	sl, w = timeline.Slice{}, timeline.Work{}
	must.Do(t, p.Close())
	want := []string{"thread 0: 0-0(100) 1-10(101) 2-20(102)", "stream 0: 0+0 1+10"}
	goldentest.Same(t, want, s.events, "events")
}

// Each event moves by what was said last before it came.
func TestShift(t *testing.T) {
	t.Parallel()
	s := newSink()
	p := New(s)
	each := func() {
		note(p, 100)
		sl := timeline.Slice{Start: 100, End: 105}
		sl.AddWait(timeline.Awaited{Start: 90})
		p.Slice(threads[0], &sl)
		work(p, 0, 100)
	}
	each()
	p.Convert(timeline.Shifted(1000))
	p.Convert(timeline.Shifted(20))
	each()
	p.Convert(timeline.Shifted(20))
	each()
	back := ^uint64(0) - 9 // -10
	p.Convert(timeline.Shifted(back))
	each()
	p.Convert(timeline.Shifted(0))
	each()
	p.Convert(timeline.Shifted(7))
	must.Do(t, p.Close())
	want := []string{
		"note 100", "thread 0: 100-105(90)", "stream 0: 100+3",
		"note 120", "thread 0: 120-125(110)", "stream 0: 120+3",
		"note 120", "thread 0: 120-125(110)", "stream 0: 120+3",
		"note 90", "thread 0: 90-95(80)", "stream 0: 90+3",
		"note 100", "thread 0: 100-105(90)", "stream 0: 100+3",
	}
	goldentest.Same(t, want, s.events, "events")
}

// A shift holds for all batches to come and for no longer, whatever their memory was used for.
func TestShiftLasts(t *testing.T) {
	t.Parallel()
	s := newSink()
	p := New(s)
	const n = 3 * batches * batchSize
	for _, by := range []uint64{0, 1, 0} {
		p.Convert(timeline.Shifted(by))
		for range n {
			note(p, 100)
		}
	}
	must.Do(t, p.Close())
	want := slices.Concat(slices.Repeat([]string{"note 100"}, n), slices.Repeat([]string{"note 101"}, n), slices.Repeat([]string{"note 100"}, n))
	for i, e := range s.events {
		if e != want[i] {
			t.Fatalf("event %d of %d is %q, want %q", i, len(s.events), e, want[i])
		}
	}
	if len(s.events) != len(want) {
		t.Errorf("%d events, want %d", len(s.events), len(want))
	}
}

// A slow sink does not stop the caller before all batches are on their way.
func TestRunsAhead(t *testing.T) {
	t.Parallel()
	s := &slow{newSink(), make(chan struct{})}
	p := New(s)
	const n = (batches - 1) * batchSize
	for i := range n {
		note(p, uint64(i))
	}
	close(s.goOn) // the caller comes here although nothing has been taken
	if err := p.Close(); err != nil || len(s.events) != n {
		t.Errorf("%d events, %v", len(s.events), err)
	}
}

// A slow sink takes nothing before it may.
type slow struct {
	*sink
	goOn chan struct{}
}

func (s *slow) Take(events []timeline.Event) error {
	<-s.goOn
	return s.sink.Take(events)
}

func TestSinkFails(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]int{"at once": 0, "later": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSink()
			s.failing = failing
			p := New(s)
			// Every batch has come back once when all have been handed on again: the
			// error of the first is known then.
			for i := range (failing + batches + 1) * batchSize {
				note(p, uint64(i))
			}
			if err := p.Err(); err != errSink {
				t.Errorf("the error is %v while events come, want %v", err, errSink)
			}
			for i := range 3 * batches * batchSize { // dropped: nothing blocks
				slice(p, i%2, 1)
				work(p, i%2, 1)
			}
			p.Convert(timeline.Shifted(1))
			if err := p.Close(); err != errSink {
				t.Errorf("Close returns %v, want %v", err, errSink)
			}
			if len(s.takes) != failing+1 {
				t.Errorf("the sink takes %d batches, want %d", len(s.takes), failing+1)
			}
		})
	}
}

// A sink that fails with the last batch fails the Close.
func TestSinkFailsLast(t *testing.T) {
	t.Parallel()
	s := newSink()
	s.failing = 0
	p := New(s)
	note(p, 1)
	if err := p.Err(); err != nil {
		t.Errorf("an error before anything was handed on: %v", err)
	}
	if err := p.Close(); err != errSink || p.Err() != errSink {
		t.Errorf("Close returns %v and Err %v, want %v", err, p.Err(), errSink)
	}
}

func TestNoSink(t *testing.T) {
	t.Parallel()
	p := New(nil)
	for i := range uint64(2 * batchSize) {
		note(p, i)
		slice(p, 0, i)
		work(p, 0, i)
		p.Convert(timeline.Shifted(i))
	}
	if err := p.Close(); err != nil || p.Err() != nil {
		t.Errorf("%v, %v", err, p.Err())
	}
}

// Memory that waits to be used again keeps no event alive.
func TestBatchesForget(t *testing.T) {
	t.Parallel()
	p := New(newSink())
	for i := range uint64(batches + 1) {
		slice(p, 0, i)
		note(p, i)
		p.Convert(timeline.Shifted(i))
	}
	if b := p.batch; b.lastCalls != nil || b.lastWork != nil || slices.ContainsFunc(b.events[:cap(b.events)], func(e timeline.Event) bool { return e != nil }) {
		t.Errorf("an empty batch points to events: %v", b.events[:cap(b.events)])
	}
	must.Do(t, p.Close())
}

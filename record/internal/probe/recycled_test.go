package probe

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Many threads at once through little memory, again and again: each call is delivered in
// its thread's order, or lost and counted.
func TestRecycledMemory(t *testing.T) {
	t.Parallel()
	const calls = 1500
	p, target := open(t, Options{BufferBytes: 512 << 10}), startTarget(t, "driver")
	attach(t, p, target)
	o := &orderly{last: map[uint32]uint64{}}
	var over atomic.Bool
	var draining sync.WaitGroup
	draining.Go(func() {
		for !over.Load() && o.err == nil {
			if err := p.Drain(o); err != nil {
				o.err = err
			}
		}
	})
	target.run("threads", calls)
	over.Store(true)
	draining.Wait()
	if err := p.Finish(o); err != nil || o.err != nil {
		t.Fatal(err, o.err)
	}
	lost := lostCalls(t, p, tracelog.LostCallBuffer)
	if o.calls+int(lost) != 64*calls || o.calls == 0 || len(o.last) > 64 {
		t.Errorf("%d calls and %d lost of %d, by %d threads", o.calls, lost, 64*calls, len(o.last))
	}
}

// orderly is a Sink that checks that each thread's calls come in order.
type orderly struct {
	discard
	last map[uint32]uint64
	err  error
}

func (o *orderly) Call(c *tracelog.Call) {
	o.calls++
	if last, known := o.last[c.TID]; known && c.Args[1] <= last {
		o.err = fmt.Errorf("thread %d made call %d after %d", c.TID, c.Args[1], last)
	}
	o.last[c.TID] = c.Args[1]
}

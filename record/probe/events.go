package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/probe/decode"
	"github.com/cudatrace/cudatrace/record/probe/eventstore"
	"github.com/cudatrace/cudatrace/record/probe/ringbuf"
)

// A Batcher is a Sink that is told where a run of events begins and ends. It can take a lock for
// a whole run.
type Batcher interface {
	Begin()
	End()
}

// events takes events out of the buffers and delivers them.
type events struct {
	decoder  *decode.Decoder
	onClient func(pid uint32, request uint64)
	drained  atomic.Uint64 // ns: DrainedUntil

	mu    sync.Mutex
	store *eventstore.Store // nil once closed
	names *ringbuf.Reader   // kernels' names
}

// newEvents reads the store, and the ring buffer names, which has so many bytes. It closes both.
func newEvents(store *eventstore.Store, names *ebpf.Map, bytes int, d *decode.Decoder) (*events, error) {
	reader, err := ringbuf.Open(names, bytes)
	if err != nil {
		return nil, err
	}
	return &events{decoder: d, store: store, names: reader}, nil
}

func (e *events) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store == nil {
		return nil
	}
	err := errors.Join(e.store.Close(), e.names.Close())
	e.store, e.names = nil, nil
	return err
}

// drain delivers what the buffers hold at the moment.
func (e *events) drain(sink Sink) error {
	_, err := e.drainFill(sink)
	return err
}

// drainFill also returns how full the fullest buffer was, 0 to 1.
func (e *events) drainFill(sink Sink) (fill float64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store == nil {
		return 0, nil
	}
	take := func(event []byte) error { return e.decoder.Event(event, sink) }
	began := host.Monotonic()
	begin, end := func() {}, func() {}
	if b, ok := sink.(Batcher); ok {
		begin, end = b.Begin, b.End
	}
	fill, all, err := e.store.Drain(take, begin, end)
	e.tellClients()
	if err != nil {
		return fill, err
	}
	namesFill, err := e.names.Drain(take)
	if err != nil {
		return fill, err
	}
	if all {
		e.drained.Store(began)
	}
	return max(fill, namesFill), nil
}

// tellClients hands on registrations with CUPTI. No run of events is open meanwhile, as whoever
// hears of a registration may write to the sink.
func (e *events) tellClients() {
	for _, c := range e.decoder.TakeClients() {
		e.onClient(c.PID, c.Request)
	}
}

// DrainedUntil is a time, in ns of CLOCK_MONOTONIC, up to which every call that returned is
// delivered or counted as lost, but for one whose return probe was still running then. It is
// 0 before Run has looked at the buffers.
func (p *Prober) DrainedUntil() uint64 { return p.events.drained.Load() }

// Bounds of the time between two looks at the buffers.
const (
	minPause = 500 * time.Microsecond
	maxPause = 50 * time.Millisecond
)

// Run delivers calls until ctx is done. It looks at the buffers rarely while they stay nearly
// empty and often while they fill, instead of having the probed threads wake it. Finish
// delivers what is still there when ctx is done.
func (p *Prober) Run(ctx context.Context, sink Sink) error {
	pause := minPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		fill, err := p.events.drainFill(sink)
		if err != nil {
			return err
		}
		pause = nextPause(pause, fill)
		timer.Reset(pause)
	}
}

// nextPause aims at buffers that are never more than an eighth full.
func nextPause(pause time.Duration, fill float64) time.Duration {
	switch {
	case fill > 1./2:
		return minPause
	case fill > 1./8:
		return max(pause/4, minPause)
	case fill < 1./32:
		return min(pause*2, maxPause)
	}
	return pause
}

package probe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/record/host"
)

// A Batcher is a Sink that is told where a run of events begins and ends, so that it can hold a
// lock for the whole run.
type Batcher interface {
	Begin()
	End()
}

// events empties the buffers and delivers the events.
type events struct {
	decoder  *decoder
	onClient func(pid uint32, request, at uint64)
	drained  atomic.Uint64 // value of DrainedUntil

	mu    sync.Mutex
	store *eventStore      // nil once closed
	names *nameRing        // reads the names of kernels
	open  map[openKey]bool // calls that the latest look at open calls has seen; true: they were taken
}

// newEvents reads a store, and the ring buffer names of a size in bytes. Its close closes both.
func newEvents(store *eventStore, names *ebpf.Map, bytes int, d *decoder) (*events, error) {
	reader, err := openNameRing(names, bytes)
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
	err := errors.Join(e.store.close(), e.names.close())
	e.store, e.names = nil, nil
	return err
}

// drain delivers the events that are in the buffers now.
func (e *events) drain(sink Sink) error {
	_, err := e.drainFill(sink)
	return err
}

// drainFill is drain. It also returns how full the fullest buffer was, from 0 to 1.
func (e *events) drainFill(sink Sink) (fill float64, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.store == nil {
		return 0, nil
	}
	take := func(event []byte) error { return e.decoder.decode(event, sink) }
	began := host.Monotonic()
	begin, end := func() {}, func() {}
	if b, ok := sink.(Batcher); ok {
		begin, end = b.Begin, b.End
	}
	fill, all, err := e.store.drain(take, begin, end)
	e.tellClients()
	if err != nil {
		return fill, err
	}
	namesFill, err := e.names.drain(take)
	if err != nil {
		return fill, err
	}
	if all {
		e.drained.Store(began)
	}
	return max(fill, namesFill), nil
}

// Unplaced counts the calls that were delivered and whose chain was not.
func (p *Prober) Unplaced() Unplaced {
	p.events.mu.Lock()
	defer p.events.mu.Unlock()
	return p.events.decoder.unplaced()
}

// tellClients reports the registrations with CUPTI. It does so between two runs of events,
// because the receiver may write to the sink.
func (e *events) tellClients() {
	for _, c := range e.decoder.takeClients() {
		e.onClient(c.PID, c.Request, c.Time)
	}
}

// DrainedUntil is a time, in ns of CLOCK_MONOTONIC. Every call that returned before it is
// delivered or counted as lost, except a call whose return probe was still running then. It is
// 0 before Run has emptied the buffers once.
func (p *Prober) DrainedUntil() uint64 { return p.events.drained.Load() }

// Bounds of the pause between two looks at the buffers.
const (
	minPause = 500 * time.Microsecond
	maxPause = 50 * time.Millisecond
	// longest while a first launch is waited for: each one until it is seen runs into probes of the runtime, too
	tryPause = 4 * time.Millisecond
)

// Run delivers calls until ctx is done. The probed threads do not wake it: it looks at the
// buffers by itself, rarely while they stay nearly empty and often while they fill. Finish
// delivers what is left when ctx is done.
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
		if pids := p.takeReplaced(); err == nil && len(pids) > 0 {
			err = p.events.deliverOpenCalls(isReplaced(pids), p.program.maps.threads, sink)
		}
		if err != nil {
			return err
		}
		pause = nextPause(pause, fill)
		if p.releaseLaunches() {
			pause = min(pause, tryPause)
		}
		timer.Reset(pause)
	}
}

// nextPause chooses the next pause, so that no buffer is ever more than an eighth full.
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

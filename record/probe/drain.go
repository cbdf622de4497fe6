package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Drain delivers what the buffers hold at the moment and returns the number of calls.
func (p *Prober) Drain(sink Sink) (calls int, err error) {
	calls, _, err = p.drain(sink)
	return calls, err
}

// drain also returns how full the fullest buffer was, 0 to 1.
func (p *Prober) drain(sink Sink) (calls int, fill float64, err error) {
	p.draining.Lock()
	defer p.draining.Unlock()
	if p.store == nil {
		return 0, 0, nil
	}
	take := func(event []byte) error {
		n, err := p.deliver(event, sink)
		calls += n
		return err
	}
	began := host.Monotonic()
	begin, end := func() {}, func() {}
	if b, ok := sink.(Batcher); ok {
		begin, end = b.Begin, b.End
	}
	fill, complete, err := p.store.drainRuns(take, begin, end)
	p.tellWatched()
	if err != nil {
		return calls, fill, err
	}
	read, _, err := p.symbolRing.drain(take)
	if err != nil {
		return calls, fill, err
	}
	fill = max(fill, float64(read)/float64(p.symbolRing.mask+1))
	if complete {
		p.drained.Store(began)
	}
	return calls, fill, nil
}

// tellWatched tells of the calls that are watched, between the runs of events: whoever
// hears of them may want the sink.
func (p *Prober) tellWatched() {
	for i := range p.watched {
		if c := &p.watched[i]; p.watch != nil {
			p.watch(c.PID, c.TID, c.Enter, c.Args[0])
		}
	}
	p.watched = p.watched[:0]
}

// DrainedUntil is a time, in ns of CLOCK_MONOTONIC, up to which every call that
// returned is delivered or counted as lost, but for one whose return probe was still
// running then. It is 0 before the first Drain.
func (p *Prober) DrainedUntil() uint64 { return p.drained.Load() }

// deliver hands an event to the sink, and returns 1 for a call.
func (p *Prober) deliver(b []byte, sink Sink) (calls int, err error) {
	if len(b) < bpf.HeaderSize || len(b) < bpf.HeaderSize+8*int(b[26]) || b[26] > bpf.MaxArgs {
		return 0, fmt.Errorf("the buffers hold a malformed event of %d bytes", len(b))
	}
	if own := p.calibrating.Load(); own != 0 && own == binary.LittleEndian.Uint32(b[16:]) {
		return 0, nil
	}
	switch function := binary.LittleEndian.Uint16(b[24:]); {
	case b[27]&bpf.FlagThread != 0:
		p.decodeThread(b)
		sink.Thread(&p.thread)
	case b[27]&bpf.FlagSymbol != 0:
		p.decodeSymbol(b)
		sink.Symbol(&p.symbol)
	case function == calibrationCookie:
	case function == watchCookie:
		if err := p.decodeCall(b); err != nil {
			return 0, err
		}
		p.watched = append(p.watched, p.call)
	default:
		if err := p.decodeCall(b); err != nil {
			return 0, err
		}
		sink.Call(&p.call)
		return 1, nil
	}
	return 0, nil
}

// decodeThread reads an event into p.thread. Package bpf describes the layout.
func (p *Prober) decodeThread(b []byte) {
	le := binary.LittleEndian
	p.thread = tracelog.Thread{PID: le.Uint32(b[16:]), TID: le.Uint32(b[20:]), Name: commString(b[bpf.HeaderSize:])}
	if b[26] > 2 {
		if local := uint32(le.Uint64(b[bpf.HeaderSize+16:])); local != p.thread.TID {
			p.thread.LocalTID = local
		}
	}
}

func (p *Prober) decodeSymbol(b []byte) {
	le := binary.LittleEndian
	p.symbol = tracelog.Symbol{
		PID: le.Uint32(b[16:]), Time: le.Uint64(b[8:]),
		Handle: le.Uint64(b[bpf.HeaderSize:]), Of: le.Uint64(b[bpf.HeaderSize+8:]),
	}
	name := b[bpf.HeaderSize+16:]
	if n := int(le.Uint32(b[28:])); n > 0 {
		p.symbol.Name = string(name[:min(n-1, len(name))])
	}
}

func (p *Prober) decodeCall(b []byte) error {
	le := binary.LittleEndian
	c := &p.call // its arguments from NArgs on are those of an earlier call
	c.PID, c.TID, c.Func = le.Uint32(b[16:]), le.Uint32(b[20:]), uint32(le.Uint16(b[24:]))
	c.Flags, c.Ret, c.NArgs = uint32(b[27]&^bpf.FlagRaw), int32(le.Uint32(b[28:])), uint32(b[26])
	c.Enter, c.Dur = le.Uint64(b), 0
	if exit := le.Uint64(b[8:]); exit > c.Enter {
		c.Dur = exit - c.Enter
	}
	if b[27]&bpf.FlagRaw != 0 {
		return p.takeApart(c, b[bpf.HeaderSize:])
	}
	for i := range c.NArgs {
		c.Args[i] = le.Uint64(b[bpf.HeaderSize+8*i:])
	}
	return nil
}

// takeApart fills in the arguments of a plain function's call.
func (p *Prober) takeApart(c *tracelog.Call, words []byte) error {
	if c.Func < bpf.MaxFunctions {
		if how := p.plain[c.Func]; how != nil && len(words) >= 8*how.words {
			how.arguments(c, words)
			return nil
		}
	}
	return fmt.Errorf("the buffers hold a malformed call of function %d with %d bytes", c.Func, len(words))
}

// commString is the text of a thread's name, at most 16 bytes ended by NUL.
func commString(comm []byte) string {
	n := 0
	for n < min(len(comm), 16) && comm[n] != 0 {
		n++
	}
	return string(comm[:n])
}

// Bounds of the time between two looks at the buffers.
const (
	minPause = 500 * time.Microsecond
	maxPause = 50 * time.Millisecond
)

// Run delivers calls until ctx is done. It looks at the buffers rarely while they stay
// nearly empty and often while they fill, instead of having the probed threads wake it. What was recorded up to ctx's end may be still there: Finish
// delivers it.
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
		_, fill, err := p.drain(sink)
		if err != nil {
			return err
		}
		pause = nextPause(pause, fill)
		timer.Reset(pause)
	}
}

// nextPause keeps the buffers below an eighth.
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

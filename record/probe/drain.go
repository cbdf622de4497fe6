package probe

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Drain delivers what the ring buffers hold at the moment and returns the number of calls.
func (p *Prober) Drain(sink Sink) (calls int, err error) {
	calls, _, err = p.drain(sink)
	return calls, err
}

// drain also returns how full the fullest ring buffer was, 0 to 1.
func (p *Prober) drain(sink Sink) (calls int, fill float64, err error) {
	p.draining.Lock()
	defer p.draining.Unlock()
	take := func(record []byte) error {
		if isThread, err := p.decode(record); err != nil {
			return err
		} else if isThread {
			sink.Thread(&p.thread)
		} else {
			sink.Call(&p.call)
			calls++
		}
		return nil
	}
	for _, r := range p.rings {
		read, err := r.drain(take)
		if err != nil {
			return calls, fill, err
		}
		fill = max(fill, float64(read)/float64(r.mask+1))
	}
	return calls, fill, nil
}

// decode reads an event into p.call or p.thread. Package bpf describes the layout.
func (p *Prober) decode(b []byte) (isThread bool, err error) {
	if len(b) < bpf.HeaderSize || len(b) < bpf.HeaderSize+8*int(b[26]) || b[26] > bpf.MaxArgs {
		return false, fmt.Errorf("the ring buffer holds a malformed event of %d bytes", len(b))
	}
	le := binary.LittleEndian
	pid, tid, args := le.Uint32(b[16:]), le.Uint32(b[20:]), b[bpf.HeaderSize:]
	if b[27]&bpf.FlagThread != 0 {
		p.thread = tracelog.Thread{PID: pid, TID: tid, Name: commString(args)}
		return true, nil
	}
	c := &p.call
	*c = tracelog.Call{
		PID: pid, TID: tid, Func: uint32(le.Uint16(b[24:])), Flags: uint32(b[27]),
		Enter: le.Uint64(b), Ret: int32(le.Uint32(b[28:])), NArgs: uint32(b[26]),
	}
	if exit := le.Uint64(b[8:]); exit > c.Enter {
		c.Dur = exit - c.Enter
	}
	for i := range c.NArgs {
		c.Args[i] = le.Uint64(args[8*i:])
	}
	return false, nil
}

// commString is the text of a thread's name, at most 16 bytes ended by NUL.
func commString(comm []byte) string {
	n := 0
	for n < min(len(comm), 16) && comm[n] != 0 {
		n++
	}
	return string(comm[:n])
}

// Bounds of the time between two looks at the ring buffers.
const (
	minPause = 500 * time.Microsecond
	maxPause = 50 * time.Millisecond
)

// Run delivers calls until ctx is done. It looks at the ring buffers rarely while
// they stay nearly empty and often while they fill, instead of having the probed
// threads wake it. What was recorded up to ctx's end may be still there: Finish
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

// nextPause keeps the ring buffers below an eighth.
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

package cupti

import (
	"bytes"
	"math/bits"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An OpenCall is a call of the driver that a thread was in. It is as the process says.
type OpenCall struct {
	Chain        // above the call
	TID   uint32 // in the process's own PID namespace
	Start uint64 // ns, CLOCK_MONOTONIC

	name string // of the function
}

// openCalls returns the calls that the process's threads are in. Those of a process that runs on are the
// ones that they have been in since it was told to stop.
func (l *link) openCalls() []OpenCall {
	first, stopped := l.contents()
	second, _ := l.contents()
	if stopped != nil {
		first = stopped
	}
	if first == nil || second == nil {
		return nil
	}
	var calls []OpenCall
	for at := sharedCallsAt; at < sharedInDataAt; at += openSize {
		entry := first[at : at+openSize]
		if !bytes.Equal(entry, second[at:at+openSize]) {
			continue // it is being written
		}
		if c, ok := parseOpenCall(first[:sharedCallsAt], entry); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// parseOpenCall reads the entry of a thread. ok is false if the thread is in no call, or may not be.
func parseOpenCall(head, b []byte) (c OpenCall, ok bool) {
	from, places := le.Uint64(head[sharedFromAt:]), le.Uint64(head[sharedPlacesAt:])
	starts, within, ends := uint16(places), uint16(places>>16), places>>32&1 != 0
	place, at := latestPlace(b, within)
	count := le.Uint64(b[openCountAt:])
	c.TID, c.Start = le.Uint32(b[openTidAt:]), at
	switch {
	case le.Uint32(b[openSequenceAt:])%2 != 0, c.TID == 0, count == 0, count > chainMax:
		return OpenCall{}, false
	case !ends, starts>>place&1 == 0, bits.OnesCount16(starts&within) != 0:
		return OpenCall{}, false
	case at == 0, at < from, le.Uint64(b[openTimeAt:]) < at:
		return OpenCall{}, false
	}
	c.Inner, c.Epoch = le.Uint64(b[openInnerAt:]), le.Uint64(b[openEpochAt:])
	for i := range count {
		c.Addresses = append(c.Addresses, le.Uint64(b[openAddressAt+8*i:]))
	}
	return c, true
}

// latestPlace returns the place in CUPTI from which a thread's callback was called last, and when.
// Places within calls are left out. The time is 0 if two places share it.
func latestPlace(b []byte, within uint16) (place int, at uint64) {
	for i := range openPlaces {
		t := le.Uint64(b[openLastAt+8*i:])
		switch {
		case within>>i&1 != 0:
		case t > at:
			place, at = i, t
		case t == at && t != 0:
			return 0, 0
		}
	}
	return place, at
}

// A callLog knows the latest call of each thread that has a record.
type callLog struct {
	latest map[uint32]*uint64 // start, by TID
	tid    uint32             // of the record before
	start  *uint64
}

// noteCall notes a call that has a record.
func (l *callLog) noteCall(tid uint32, start uint64) {
	if l.start == nil || l.tid != tid {
		l.tid, l.start = tid, l.thread(tid)
	}
	*l.start = max(*l.start, start)
}

// maxThreads is the most threads of a process whose calls are known. Any other may have gone on.
const maxThreads = 1 << 16

func (l *callLog) thread(tid uint32) *uint64 {
	start := l.latest[tid]
	if start != nil {
		return start
	}
	if len(l.latest) >= maxThreads {
		return new(uint64)
	}
	if l.latest == nil {
		l.latest = map[uint32]*uint64{}
	}
	start = new(uint64)
	l.latest[tid] = start
	return start
}

// passed reports whether a thread has gone on after a call that began at that time.
func (l *callLog) passed(tid uint32, start uint64) bool {
	latest := l.latest[tid]
	return latest != nil && *latest >= start || latest == nil && len(l.latest) >= maxThreads
}

// openFor returns the calls that the process's threads have been in for that time or longer, each thread in one.
func (p *peer) openFor(least time.Duration) (calls []OpenCall) {
	if !p.callers || p.taken || p.broken || p.clockMoved {
		return nil
	}
	now, in := host.Monotonic(), map[uint32]bool{} // threads
	for _, c := range p.openCalls() {
		c.Start = p.shift.host(c.Start)
		if in[c.TID] || c.Start < p.hello || c.Start+uint64(least) > now || p.decoder.called.passed(c.TID, c.Start) {
			continue // it has returned, or the process lies
		}
		if c.name = p.listener.FindFunction(c); c.name != "" {
			in[c.TID] = true
			calls = append(calls, c)
		}
	}
	return calls
}

// The time for which a call has to be open so that the log has it before it returns, and that between two looks.
const (
	openAfter = time.Second
	openPause = openAfter / 2
)

// noteOpenCalls logs the calls that have not returned for a while, every now and then, each once.
func (p *peer) noteOpenCalls() {
	now, noted := host.Monotonic(), map[uint32]uint64{}
	if !p.server.openCalls || now-p.looked < uint64(openPause) {
		return
	}
	p.looked = now
	for _, c := range p.openFor(openAfter) {
		noted[c.TID] = c.Start
		if p.noted[c.TID] == c.Start {
			continue
		}
		p.decoder.sink.Add(&tracelog.OpenCall{
			PID: p.PID, TID: c.TID, Name: c.name, Enter: c.Start, Dur: host.Monotonic() - c.Start,
			Caller: p.decoder.callers.of(c.Chain),
		})
	}
	p.noted = noted
}

// addOpenCalls logs the calls that the process's threads were in when it ended, or was told to stop.
func (p *peer) addOpenCalls() {
	if p.bye != nil && p.bye.reason != byeStop {
		return
	}
	for _, c := range p.openFor(0) {
		p.decoder.sink.Add(&tracelog.API{
			PID: p.PID, TID: c.TID, Domain: tracelog.DomainDriver, Name: c.name, Start: c.Start,
			Caller: p.decoder.callers.of(c.Chain), Flags: tracelog.CallUnfinished,
		})
	}
}

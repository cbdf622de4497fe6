package cupti

import (
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A seenCall is a call that CUPTI's callback has seen begin.
type seenCall struct {
	tid, chain uint32
	start      uint64 // ns, on the process's clock
}

// The parts of a word of inject/seen.h, and the site of one that names the thread of those behind it.
const (
	seenTimeShift = seenChainBits + seenSiteBits
	noSite        = 1<<seenSiteBits - 1
)

// seenOwner is the word that says of which thread the words behind it are, and isOwner tells such words.
func seenOwner(tid uint32) uint64 { return uint64(tid)<<seenTimeShift | noSite<<seenChainBits }

func isOwner(word uint64) bool { return word&(1<<seenTimeShift-1) == noSite<<seenChainBits }

// seenCalls reads the calls of the rings. places are those in CUPTI from which its callback is called when
// a call begins, a bit each. Where none is known yet, it is the place of a thread's first word.
func seenCalls(rings [][]uint64, places uint16, now uint64) (calls []seenCall) {
	const timeBits = 64 - seenTimeShift
	for _, ring := range rings {
		tid, begins := uint32(0), places
		for _, word := range ring {
			time, site, chain := word>>seenTimeShift, word>>seenChainBits&noSite, uint32(word)&(1<<seenChainBits-1)
			if isOwner(word) {
				tid = uint32(time)
				continue
			}
			if begins == 0 && tid != 0 {
				begins = 1 << site
			}
			start := now - (now-time)&(1<<timeBits-1)
			if tid != 0 && begins>>site&1 != 0 {
				calls = append(calls, seenCall{tid, chain, start})
			}
		}
	}
	return calls
}

// addSeenCalls logs the calls that have returned and whose records CUPTI will not hand over: the process has ended, or
// another client gets them. When they returned is not known, nor what they did.
func (p *peer) addSeenCalls() {
	if !p.callers || p.broken || p.clockMoved {
		return
	}
	p.server.seen.Lock() // one process at a time, since the rings are large
	defer p.server.seen.Unlock()
	now, _ := p.contents()
	if now == nil {
		return
	}
	open := map[uint32]uint64{} // starts of calls that have not returned, by TID
	for _, c := range p.openFor(0) {
		open[c.TID] = c.Start
	}
	rings, chains := p.seen()
	names := map[uint32]string{} // by chain
	for _, c := range seenCalls(rings, uint16(le.Uint64(now[sharedPlacesAt:])), host.Monotonic()+uint64(p.shift)) {
		start := p.shift.host(c.start)
		if open[c.tid] == start || start < p.hello || p.decoder.called.passed(c.tid, start) {
			continue
		}
		chain, ok := parseKnownChain(chains, c.chain)
		if !ok {
			continue
		}
		name, known := names[c.chain]
		if !known {
			name = p.listener.FindFunction(OpenCall{Chain: chain})
			names[c.chain] = name
		}
		if f := cudaapi.ByName(name); f == nil || !f.GPUWork { // the callback is called in others that have no record, too
			continue
		}
		p.decoder.sink.Add(&tracelog.API{PID: p.PID, TID: c.tid, Domain: tracelog.DomainDriver, Name: name, Start: start,
			Caller: p.decoder.callers.of(chain)})
	}
}

// parseKnownChain reads a chain of the memory; ok is false if it is not complete.
func parseKnownChain(b []byte, number uint32) (c Chain, ok bool) {
	if number == 0 || number >= chainsMax || len(b) < chainsMax*knownChainSize {
		return Chain{}, false
	}
	b = b[number*knownChainSize:]
	count := int(le.Uint16(b[knownChainCountAt:]))
	if count == 0 || count > chainMax {
		return Chain{}, false
	}
	c = Chain{Epoch: uint64(le.Uint32(b[knownChainEpochAt:])), Inner: le.Uint64(b[knownChainInnerAt:])}
	for i := range count {
		c.Addresses = append(c.Addresses, le.Uint64(b[knownChainAddressAt+8*i:]))
	}
	return c, true
}

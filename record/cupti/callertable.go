package cupti

import "sync"

// A callerTable holds the caller records of the calls of a process, by the number of the chain of
// return addresses above the call.
type callerTable struct {
	find func(c Chain, need func(depth int)) (caller uint32) // nil: nobody wants callers
	tell func(innermost uint64, depth int)                   // tells the process

	known   [chainsMax]bool
	callers [chainsMax]uint32
	numbers map[chainKey]uint32 // by what is in the chain
	taken   int                 // bytes of memory for chains

	mu     sync.Mutex
	depths map[uint64]int // by innermost address: what the process was told last
}

// A chainKey tells chains apart.
type chainKey struct {
	epoch     uint64
	addresses [chainMax]uint64 // 0 from the chain's end on
}

func keyOf(c Chain) chainKey {
	k := chainKey{epoch: c.Epoch}
	copy(k.addresses[:], c.Addresses)
	return k
}

// of returns the ID of the caller record of a chain that may not have been sent, without a number.
func (t *callerTable) of(c Chain) uint32 {
	if number, ok := t.numbers[keyOf(c)]; ok {
		return t.callers[number]
	}
	return t.find(c, func(int) {})
}

// chainCost is the memory of a chain, bytes.
const chainCost = 256

// add finds the caller record of a chain. A chain for which there is no room has none.
func (t *callerTable) add(m *peerMemory, number uint32, c Chain) error {
	if number == 0 || number >= chainsMax || t.known[number] {
		return malformed("chain number %d, out of range or sent before", number)
	}
	t.known[number] = true
	if t.find != nil && m.take(chainCost) {
		t.taken += chainCost
		if t.numbers == nil {
			t.numbers = map[chainKey]uint32{}
		}
		t.numbers[keyOf(c)] = number
		t.callers[number] = t.find(c, func(depth int) { t.need(c.Addresses[0], min(depth, chainMax)) })
	}
	return nil
}

// release gives the memory of the chains back.
func (t *callerTable) release(m *peerMemory) { m.give(t.taken) }

// need tells the process how many addresses of the chains with an innermost address are of use, if
// that is more than it was told before.
func (t *callerTable) need(innermost uint64, depth int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if depth <= t.depths[innermost] {
		return
	}
	if t.depths == nil {
		t.depths = map[uint64]int{}
	}
	t.depths[innermost] = depth
	t.tell(innermost, depth)
}

// caller returns the ID of the caller record of a chain; chain 0 has none.
func (t *callerTable) caller(number uint32) (uint32, error) {
	if number == 0 {
		return 0, nil
	}
	if number >= chainsMax || !t.known[number] {
		return 0, malformed("chain number %d, which was never sent", number)
	}
	return t.callers[number], nil
}

const chainSize = 24 // bytes of struct ct_chain

// decodeChain adds the caller of the calls with a chain.
func decodeChain(d *decoder, b []byte) error {
	if len(b) < chainSize {
		return malformed("a chain in %d bytes", len(b))
	}
	count := le.Uint32(b[16:])
	if count == 0 || count > chainMax || int(count)*8 > len(b)-chainSize {
		return malformed("a chain of %d addresses in %d bytes", count, len(b))
	}
	addresses := make([]uint64, count)
	for i := range addresses {
		addresses[i] = le.Uint64(b[chainSize+8*i:])
	}
	return d.callers.add(d.shared, le.Uint32(b[4:]), Chain{Epoch: le.Uint64(b[8:]), Addresses: addresses})
}

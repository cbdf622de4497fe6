package decode

import (
	"encoding/binary"

	"github.com/cudatrace/cudatrace/bpf"
)

// maxChains bounds the memory for chains. The calls of later chains have no caller.
const maxChains = 1 << 20

// chains gives IDs to the chains that the eBPF program numbers by a hash.
type chains struct {
	ids    map[uint64]uint32
	recent [1 << recentBits]numberedChain // the chains used last, by the upper bits of the hash
	chain  Chain
	room   [bpf.MaxChain]uint64
}

const recentBits = 8

type numberedChain struct {
	hash uint64
	id   uint32
}

// define reads the event of a chain and asks the sink for its ID, unless the chain is known: the
// eBPF program forgets chains.
func (c *chains) define(b []byte, sink Sink) {
	le := binary.LittleEndian
	hash, n := le.Uint64(b[32:]), int(b[26])-1
	if n < 1 || n > bpf.MaxChain || c.has(hash) || len(c.ids) == maxChains {
		return
	}
	if c.ids == nil {
		c.ids = map[uint64]uint32{}
	}
	c.chain = Chain{
		PID: le.Uint32(b[16:]), Function: uint32(le.Uint16(b[24:])),
		Epoch: le.Uint64(b[bpf.HeaderSize:]), Addresses: c.room[:n],
	}
	for i := range n {
		c.room[i] = le.Uint64(b[bpf.HeaderSize+8*(1+i):])
	}
	id := sink.Chain(&c.chain)
	c.ids[hash] = id
	c.recent[hash>>(64-recentBits)] = numberedChain{hash, id}
}

func (c *chains) has(hash uint64) bool {
	_, ok := c.ids[hash]
	return ok
}

// id is the ID of a chain, 0 of an unknown one.
func (c *chains) id(hash uint64) uint32 {
	recent := &c.recent[hash>>(64-recentBits)]
	if recent.hash != hash {
		*recent = numberedChain{hash, c.ids[hash]}
	}
	return recent.id
}

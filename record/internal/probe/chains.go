package probe

import (
	"encoding/binary"

	"github.com/cudatrace/cudatrace/bpf"
)

// MaxChains bounds the memory for chains, and their IDs. The calls of later chains have no caller.
const MaxChains = 1 << 20

// chains gives IDs to the chains that the eBPF program numbers by a hash. The first event that names a chain gives
// it its ID. That may be a call: the definition lies in the buffer of the thread that met the chain first, and
// buffers are read one after the other.
type chains struct {
	ids     map[uint64]uint32
	calls   map[uint64]uint64             // calls so far of the chains that are not defined yet
	more    uint64                        // calls of chains that have no ID, because there are too many
	recent  [1 << recentBits]definedChain // the chains used last, by the upper bits of the hash
	defined Chain
	room    [bpf.MaxChain]uint64
}

const recentBits = 8

type definedChain struct {
	hash uint64
	id   uint32
}

// define reads the event of a chain and gives it to the sink, unless the chain is defined: the
// eBPF program forgets chains.
func (c *chains) define(b []byte, sink Sink) {
	le := binary.LittleEndian
	hash, n := le.Uint64(b[32:]), int(b[26])-1
	if hash == 0 || n < 1 || n > bpf.MaxChain {
		return
	}
	id := c.number(hash)
	if _, undefined := c.calls[hash]; !undefined {
		return
	}
	delete(c.calls, hash)
	c.defined = Chain{
		ID: id, PID: le.Uint32(b[16:]), Function: uint32(le.Uint16(b[24:])),
		Epoch: le.Uint64(b[bpf.HeaderSize:]), Addresses: c.room[:n],
	}
	for i := range n {
		c.room[i] = le.Uint64(b[bpf.HeaderSize+8*(1+i):])
	}
	sink.Chain(&c.defined)
}

// number returns the ID of a chain, 0 if there are too many chains.
func (c *chains) number(hash uint64) uint32 {
	if id, known := c.ids[hash]; known || len(c.ids) == MaxChains {
		return id
	}
	if c.ids == nil {
		c.ids, c.calls = map[uint64]uint32{}, map[uint64]uint64{}
	}
	id := uint32(len(c.ids) + 1)
	c.ids[hash], c.calls[hash] = id, 0
	return id
}

// id returns the ID of the chain above a call, 0 if there is none.
func (c *chains) id(hash uint64) uint32 {
	if hash == 0 {
		return 0
	}
	recent := &c.recent[hash>>(64-recentBits)]
	if recent.hash == hash {
		return recent.id
	}
	id := c.number(hash)
	if n, undefined := c.calls[hash]; undefined {
		c.calls[hash] = n + 1
		return id
	}
	if id == 0 {
		c.more++
	} else {
		*recent = definedChain{hash, id}
	}
	return id
}

// Unplaced are calls that have no caller, by the reason.
type Unplaced struct {
	Undefined uint64 // the return addresses above them were lost, or have not come yet
	More      uint64 // they were made in more places than are kept
}

// unplaced counts the calls so far that have no caller.
func (d *decoder) unplaced() Unplaced {
	u := Unplaced{More: d.chains.more}
	for _, calls := range d.chains.calls {
		u.Undefined += calls
	}
	return u
}

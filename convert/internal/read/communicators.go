package read

import (
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxCommunicators bounds the communicators of NCCL, each counted once a process. A process has a few dozen.
const maxCommunicators = 1 << 12

// Communicators are the communicators of NCCL in a log, as the calls of NCCL name them.
type Communicators struct {
	List    []*Communicator // in the order of first sight
	Further uint64          // calls of communicators beyond the bound
	byKey   map[communicatorKey]*Communicator
}

// A Communicator is a communicator in one process.
type Communicator struct {
	PID         uint32
	Hash        uint64 // which all ranks have; 0 for all communicators of an NCCL that does not tell
	Ranks, Rank uint32 // 0 where the log does not have the communicator's end, which tells them
	Calls       uint64 // collectives, sends and receives
	Bytes       uint64 // their sum
}

type communicatorKey struct {
	pid  uint32
	hash uint64
}

// learn reads a row, a call of NCCL.
func (c *Communicators) learn(b *tracelog.Block, i int) {
	var call tracelog.NCCLCall
	call.Read(b, i)
	if call.Known == 0 {
		return
	}
	of := c.of(communicatorKey{call.PID, call.Communicator})
	if of == nil {
		c.Further++
		return
	}
	if call.Known&tracelog.NCCLRanks != 0 {
		of.Ranks, of.Rank = call.Ranks, call.Rank
	}
	if call.Known&tracelog.NCCLBytes != 0 {
		of.Calls++
		of.Bytes += min(call.Bytes, math.MaxUint64-of.Bytes)
	}
}

// Sizes are the numbers of ranks of a process's communicators, by hash, as far as they are known.
func (c *Communicators) Sizes(pid uint32) (all map[uint64]uint32) {
	for _, of := range c.List {
		if of.PID != pid || of.Ranks == 0 || of.Hash == 0 {
			continue
		}
		if all == nil {
			all = make(map[uint64]uint32)
		}
		all[of.Hash] = of.Ranks
	}
	return all
}

func (c *Communicators) of(k communicatorKey) *Communicator {
	of := c.byKey[k]
	if of == nil && len(c.List) < maxCommunicators {
		if c.byKey == nil {
			c.byKey = make(map[communicatorKey]*Communicator)
		}
		of = &Communicator{PID: k.pid, Hash: k.hash}
		c.byKey[k], c.List = of, append(c.List, of)
	}
	return of
}

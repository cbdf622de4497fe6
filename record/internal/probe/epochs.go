package probe

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/bpf"
)

// Callers is the memory in which the eBPF program keeps the chains of return addresses that it
// has defined, and the epochs of processes. Its methods may be called from different goroutines; after
// Close of the Prober they do nothing.
//
// The epoch of a process is a number that no other process has had. While it stays, a return address in the
// process means the same, or has begun to mean something. The eBPF program begins an epoch where the process
// unloads a library, and where it runs another program.
type Callers struct {
	mu     sync.Mutex
	table  *bpf.ProbesCallerTable // nil once the memory is unmapped
	places map[uint32]uint32      // of processes in the table of epochs, by PID
	free   []uint32               // places that processes have left
	ended  map[uint32]uint64      // the last epochs of processes without a place: their chains may still come
	begun  uint64                 // epochs that began here
	execs  bool                   // the eBPF program hears of new programs
}

// firstPlace is the first place of a process. Place 0 belongs to the calibration, which is not reported.
const firstPlace = 1

// begin gives a process a place in the table of epochs, and an epoch.
func (c *Callers) begin(pid uint32) (place uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		return 0, errors.New("the buffers are closed")
	}
	if c.places == nil {
		c.places = map[uint32]uint32{}
	}
	delete(c.ended, pid)
	place, known := c.places[pid]
	switch {
	case known:
	case len(c.free) > 0:
		place = c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
	default:
		place = firstPlace + uint32(len(c.places))
		if place >= bpf.MaxProcesses {
			return 0, errors.New("there is no place in the table of epochs")
		}
	}
	c.places[pid] = place
	c.renew(place)
	return place, nil
}

// renew begins an epoch. The lower half of its number counts the epochs that the eBPF program begins.
func (c *Callers) renew(place uint32) {
	c.begun++
	atomic.StoreUint64(&c.table.Epochs[place], c.begun<<32)
}

// hearOfExecs sets whether the eBPF program begins an epoch where a process runs another program.
func (c *Callers) hearOfExecs(hears bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.execs = hears
}

// Replaced begins an epoch of a process that may run another program than before, unless the eBPF program has.
func (c *Callers) Replaced(pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, known := c.places[pid]; known && c.table != nil && !c.execs {
		c.renew(place)
	}
}

// end takes a process's place away, after its last call.
func (c *Callers) end(pid uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if place, known := c.places[pid]; known {
		delete(c.places, pid)
		c.free = append(c.free, place)
		if c.table == nil {
			return
		}
		if c.ended == nil || len(c.ended) == maxEnded {
			c.ended = map[uint32]uint64{}
		}
		c.ended[pid] = atomic.LoadUint64(&c.table.Epochs[place])
	}
}

// maxEnded bounds the processes whose last epochs are known.
const maxEnded = 1 << 12

// Epoch is the epoch of a process, the last one if it has ended, and 0 if it was never probed.
func (c *Callers) Epoch(pid int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	place, known := c.places[uint32(pid)]
	if !known || c.table == nil {
		return c.ended[uint32(pid)]
	}
	return atomic.LoadUint64(&c.table.Epochs[place])
}

// Need sets how many return addresses of a chain above a site are of use. Of the chains above the
// same site, the longest counts. A site is an innermost return address in a process.
func (c *Callers) Need(pid uint32, epoch, address uint64, length int) {
	hash := mix(uint64(pid)^epoch, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		return
	}
	site := &c.table.Sites[hash>>(64-siteBits)]
	known := atomic.LoadUint64(site)
	if (known^hash)&^bpf.SiteLength == 0 && known&bpf.SiteLength >= uint64(length) {
		return
	}
	atomic.StoreUint64(site, hash&^bpf.SiteLength|uint64(min(max(length, 1), bpf.MaxChain)))
}

// Callers is the memory of the chains of return addresses that were delivered to the Sink.
// After Close it does nothing.
func (p *Prober) Callers() *Callers { return p.callers }

func (c *Callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.table = nil
}

// siteBits and mix are SITE_BITS and mix of callers.h.
const siteBits = 11

func mix(hash, word uint64) uint64 {
	hash = (hash ^ word) * 0x9e3779b97f4a7c15
	return hash ^ hash>>32
}

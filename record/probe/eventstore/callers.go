package eventstore

import (
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/bpf"
)

// Callers is the memory in which the eBPF program keeps the chains of return addresses that it
// has defined. Its methods may be called from different goroutines; after Close of the store
// they do nothing.
type Callers struct {
	mu    sync.Mutex
	table *bpf.ProbesCallerTable // nil once the memory is unmapped
}

// Epoch is a number of the time. While it stays, a return address means the same, or has begun
// to mean something.
func (c *Callers) Epoch() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table == nil {
		return 0
	}
	return atomic.LoadUint64(&c.table.Epoch)
}

// Renew begins an epoch: every chain is defined again.
func (c *Callers) Renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table != nil {
		atomic.AddUint64(&c.table.Epoch, 1)
	}
}

// Need says how many return addresses of a chain above a site are of use. Of the chains above the
// same site, the longest counts. A site is an innermost return address in a process.
func (c *Callers) Need(pid uint32, epoch, address uint64, length int) {
	hash := mix(uint64(pid)|epoch<<32, address)
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

package record

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/callers"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A callerLog writes the caller records of the log. Calls name a chain of return addresses by its ID. The
// chain's record follows when the files in which the addresses lie have been read.
type callerLog struct {
	log      *tracelog.Writer
	resolver *callers.Resolver
	epoch    func(pid int) uint64
	left     atomic.Uint64 // chains that were left out, because too many waited for their records

	working sync.WaitGroup
	mu      sync.Mutex
	queue   chan newChain // nil once finished
}

// A newChain is a chain without a record yet, or news of another kind.
type newChain struct {
	news      news
	id        uint32
	pid       uint32
	epoch     uint64
	function  string // the function that was called; empty for a function of the driver that CUPTI names with the call
	addresses []uint64
	// trim, if not nil, is told how many of the addresses are of use.
	trim func(depth int)
	code callers.Mappings // of codeMapped
}

// news is a kind of news.
type news uint8

const (
	chainFound news = iota
	codeMapped      // the process may have mapped other code
	newProgram      // the process runs another program since the epoch
)

// maxNewChains is the most chains that wait for their records. Those of more calls at a time have
// none.
const maxNewChains = 1 << 14

// newCallerLog starts to write records. epoch reads a process's epoch, as callers.New wants it.
func newCallerLog(s *session, epoch func(pid int) uint64) *callerLog {
	c := &callerLog{log: s.log.Writer, epoch: epoch, queue: make(chan newChain, maxNewChains)}
	c.resolver = callers.New(epoch)
	c.resolver.Nameless = func(pid int, path string) { s.post(nameless{uint32(pid), path}) }
	c.resolver.Crowded = func() {
		s.report.miss(0, fmt.Sprintf("callers are missing: the lists of code that all processes together have mapped need more than the %s that recording allows them",
			figures.Bytes(callers.DefaultBudget)))
	}
	queue := c.queue
	c.working.Go(func() { c.write(queue) })
	return c
}

// look reads what code a process has mapped. The process may end when look has returned.
func (c *callerLog) look(pid uint32) {
	if code, ok := callers.Read(int(pid), c.epoch); ok {
		c.enqueue(newChain{news: codeMapped, pid: pid, code: code})
	}
}

// lookAgain is look for a process in a new epoch: it does nothing in the epoch of the last look. It returns that of this one.
func (c *callerLog) lookAgain(pid uint32, last uint64) (looked uint64) {
	now := c.epoch(int(pid))
	if now != last {
		c.look(pid)
	}
	return now
}

// begin looks at a process that may run another program than before under its PID.
func (c *callerLog) begin(pid uint32) (looked uint64) {
	if looked = c.epoch(int(pid)); looked == 0 {
		return 0
	}
	c.enqueue(newChain{news: newProgram, pid: pid, epoch: looked})
	c.look(pid)
	return looked
}

// add has the record of a chain written. The addresses are the caller's again when add returns.
func (c *callerLog) add(n newChain) {
	n.addresses = slices.Clone(n.addresses)
	if !c.enqueue(n) {
		c.left.Add(1)
	}
}

// enqueue returns false if the queue is full, or closed.
func (c *callerLog) enqueue(n newChain) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.queue <- n: // never, once it is nil
		return true
	default:
		return false
	}
}

// write writes the records of chains until the queue is closed.
func (c *callerLog) write(queue <-chan newChain) {
	for n := range queue {
		switch n.news {
		case chainFound:
			c.resolve(n)
		case codeMapped:
			c.resolver.Add(n.code)
		case newProgram:
			c.resolver.Replace(int(n.pid), n.epoch)
		}
	}
}

// resolve writes the record of a chain.
func (c *callerLog) resolve(n newChain) {
	found, depth := c.resolver.Find(int(n.pid), n.epoch, n.function, n.addresses)
	if n.trim != nil {
		n.trim(depth)
	}
	if found == (tracelog.Caller{}) {
		return
	}
	found.ID = n.id
	c.log.Add(&found)
}

// finish writes the records that are left. There are no more chains.
func (c *callerLog) finish() {
	c.mu.Lock()
	if c.queue != nil {
		close(c.queue)
		c.queue = nil
	}
	c.mu.Unlock()
	c.working.Wait()
	c.resolver.Close()
}

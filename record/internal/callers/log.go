package callers

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Log finds out where calls were made, and writes the caller records. Calls name a chain of return
// addresses by its ID. The chain's record follows when the files in which the addresses lie have been
// read, by a goroutine of the Log. Its methods may be called from different goroutines.
type Log struct {
	to       *tracelog.Writer
	resolver *resolver
	last     atomic.Uint32 // ID that was given last
	left     atomic.Uint64 // see Left

	working sync.WaitGroup
	mu      sync.Mutex
	queue   chan func() // nil once finished
}

// Options are the options of Open. Epoch is required. The functions must not call the Log.
type Options struct {
	// Epoch reads a process's epoch, a number that rises whenever the process may have lost a mapping: within
	// an epoch mappings are only added. It is 0 for a process that is not recorded.
	Epoch func(pid int) uint64
	// Nameless, if not nil, is called once for each process and file that holds a runtime, or may hold one,
	// whose functions nothing names: calls out of it have no caller record.
	Nameless func(pid int, path string)
	// Crowded, if not nil, is called once when there is no memory for all code that a process has mapped: calls
	// out of the rest have no caller record.
	Crowded func()
	// Last is the last of the IDs that others give to chains.
	Last uint32
}

// A Chain is the return addresses above calls, as they were in an epoch of their process.
type Chain struct {
	ID        uint32 // 0: Add gives one
	PID       uint32
	Epoch     uint64
	Function  string   // the function that was called; empty for a function of the driver that CUPTI names with the call
	Addresses []uint64 // from the innermost up
	// Need, if not nil, is called with the number of addresses that were looked at. It is one more than the
	// chain has where the next one was missing.
	Need func(depth int)
}

// maxWaiting is the most chains that wait for their records. Those of more calls at a time have none.
const maxWaiting = 1 << 14

// Open starts to write records to a log.
func Open(to *tracelog.Writer, o Options) *Log {
	l := &Log{to: to, resolver: newResolver(o), queue: make(chan func(), maxWaiting)}
	l.last.Store(o.Last)
	queue := l.queue
	l.working.Go(func() {
		for work := range queue {
			work()
		}
	})
	return l
}

// Look reads what code a process has mapped. The process may end when Look has returned.
func (l *Log) Look(pid uint32) {
	if m, ok := readMappings(int(pid), l.resolver.Epoch); ok {
		l.enqueue(func() { l.resolver.addMappings(m) })
	}
}

// LookAgain is Look for a process in a new epoch: it does nothing in the epoch of the last look. It returns
// the epoch of this look.
func (l *Log) LookAgain(pid uint32, last uint64) (looked uint64) {
	now := l.resolver.Epoch(int(pid))
	if now != last {
		l.Look(pid)
	}
	return now
}

// Begin looks at a process that may run another program than before under its PID. It returns the epoch of
// the look, 0 for a process that is not recorded.
func (l *Log) Begin(pid uint32) (looked uint64) {
	if looked = l.resolver.Epoch(int(pid)); looked == 0 {
		return 0
	}
	l.enqueue(func() { l.resolver.replace(int(pid), looked) })
	l.Look(pid)
	return looked
}

// Add has the record of a chain written, and returns the chain's ID. The addresses are the caller's again
// when Add returns.
func (l *Log) Add(c Chain) (id uint32) {
	if c.ID == 0 {
		c.ID = l.last.Add(1)
	}
	c.Addresses = slices.Clone(c.Addresses)
	if !l.enqueue(func() { l.write(c) }) {
		l.left.Add(1)
	}
	return c.ID
}

// After has a function called when the chains that were added before have their records. It returns false if too many
// wait. The function must not call the Log.
func (l *Log) After(do func()) bool { return l.enqueue(do) }

// Left returns the number of chains that have no record because too many waited for theirs.
func (l *Log) Left() uint64 { return l.left.Load() }

// DriverFunction returns the name of libcuda's exported function around a return address, as it was in the
// given epoch; "" if it is not certain. The process may have ended, if it has been looked at: libcuda stays
// where it is.
func (l *Log) DriverFunction(pid uint32, epoch, address uint64) string {
	return l.resolver.driverFunction(int(pid), epoch, address)
}

// Finish writes the records that are left. There are no more chains.
func (l *Log) Finish() {
	l.mu.Lock()
	if l.queue != nil {
		close(l.queue)
		l.queue = nil
	}
	l.mu.Unlock()
	l.working.Wait()
	l.resolver.close()
}

// enqueue returns false if the queue is full, or closed.
func (l *Log) enqueue(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.queue <- work: // never, once it is nil
		return true
	default:
		return false
	}
}

// write writes the record of a chain.
func (l *Log) write(c Chain) {
	found, depth := l.resolver.find(int(c.PID), c.Epoch, c.Function, c.Addresses)
	if c.Need != nil {
		c.Need(depth)
	}
	if found != (tracelog.Caller{}) {
		found.ID = c.ID
		l.to.Add(&found)
	}
}

package record

import (
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// callSites finds out where the calls that CUPTI records were made, from the return addresses that
// the injected libraries send.
type callSites struct {
	log   *callerLog
	epoch atomic.Uint64 // of all processes: changes when an address of one may have changed its meaning

	mu     sync.Mutex
	epochs map[uint64]uint64 // by cupti.Peer.ID: the process's own count
}

// siteEvents are told of calls whose names the return addresses do not give.
type siteEvents struct {
	refused  func(pid uint32, launch string) // as of newCallerLog
	nameless func(pid uint32, path string)   // nothing names the functions of the runtime in a file
}

// newCallSites starts to write caller records.
func newCallSites(log *tracelog.Writer, e siteEvents) *callSites {
	s := &callSites{epochs: map[uint64]uint64{}}
	s.log = newCallerLog(log, s.epoch.Load, e.refused)
	s.log.resolver.Nameless = func(pid int, path string) { e.nameless(uint32(pid), path) }
	return s
}

// begin is called at the hello of a process, which may have replaced its program.
func (s *callSites) begin(p cupti.Peer) {
	s.epoch.Add(1)
	s.log.look(p.PID)
}

// find returns the ID of the caller record of a chain, 0 for none.
func (s *callSites) find(p cupti.Peer, c cupti.Chain, need func(depth int)) (caller uint32) {
	epoch, ok := s.epochOf(p, c.Epoch)
	if !ok {
		return 0
	}
	return s.log.add(newChain{pid: p.PID, epoch: epoch, addresses: c.Addresses, trim: need})
}

// epochOf returns the common epoch for a process's own. ok is false for an epoch that is over.
func (s *callSites) epochOf(p cupti.Peer, own uint64) (epoch uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, known := s.epochs[p.ID]
	if own < last {
		return 0, false
	}
	s.epochs[p.ID] = own
	if known && own > last {
		s.epoch.Add(1)
	}
	return s.epoch.Load(), true
}

// driverTellsAll says whether the driver's calls tell all about the chosen functions. A function of the
// runtime outside the default set may call no function of the driver.
func driverTellsAll(chosen []*cudaapi.Function) bool {
	for _, f := range chosen {
		if f.Library == cudaapi.Runtime && f.Sets&(cudaapi.Default|cudaapi.Minimal) == 0 {
			return false
		}
	}
	return true
}

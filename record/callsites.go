package record

import (
	"sync"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/callers"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// callSites finds out where the calls that CUPTI records were made. The injected libraries send the
// return addresses above the calls.
type callSites struct {
	resolver *callers.Resolver
	epoch    atomic.Uint64 // of all processes together: changes when addresses of one may change their meaning

	mu     sync.Mutex
	epochs map[uint64]uint64 // by cupti.Peer.ID: the process's own count
	placed map[uint32]bool   // callers of which not only the function is known
}

func newCallSites(log *tracelog.Writer) *callSites {
	s := &callSites{epochs: map[uint64]uint64{}, placed: map[uint32]bool{}}
	s.resolver = callers.New(s.epoch.Load, func(c *tracelog.Caller) {
		log.Add(c)
		s.mu.Lock()
		s.placed[c.ID] = c.Module != ""
		s.mu.Unlock()
	})
	return s
}

// begin is called at the hello of a process, which may have run another program before.
func (s *callSites) begin(p cupti.Peer) {
	s.epoch.Add(1)
	s.resolver.Look(int(p.PID))
}

// end is called at the end of a process.
func (s *callSites) end(p cupti.Peer) {
	s.mu.Lock()
	delete(s.epochs, p.ID)
	s.mu.Unlock()
	s.resolver.Forget(int(p.PID))
}

// find returns the ID of the caller record of a chain, 0 if nothing is certain, and how many
// addresses of such chains are of use.
func (s *callSites) find(p cupti.Peer, c cupti.Chain) (caller uint32, depth int) {
	epoch, ok := s.epochOf(p, c.Epoch)
	if !ok {
		return 0, 0
	}
	caller, depth = s.resolver.Resolve(int(p.PID), epoch, "", c.Addresses)
	s.mu.Lock()
	defer s.mu.Unlock()
	if depth >= len(c.Addresses) && !s.placed[caller] {
		depth = cupti.MaxChain // the chain may have been too short
	}
	return caller, depth
}

// epochOf translates an epoch of a process. ok is false if it is over.
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

func (s *callSites) close() { s.resolver.Close() }

// runtimeAlike says whether the driver's calls tell everything about the chosen functions: a function of the
// runtime that is not in the default set may call no function of the driver.
func runtimeAlike(chosen []*cudaapi.Function) bool {
	for _, f := range chosen {
		if f.Library == cudaapi.Runtime && f.Sets&(cudaapi.Default|cudaapi.Minimal) == 0 {
			return false
		}
	}
	return true
}

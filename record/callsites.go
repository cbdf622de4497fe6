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
	log  *callerLog
	last atomic.Uint32 // ID of a chain that was given last

	mu    sync.Mutex
	begun uint64            // epochs
	peers map[uint64]*epoch // by cupti.Peer.ID
	byPID map[uint32]*epoch // of the program that runs under the PID
}

// An epoch of a process is a time in which no address of it changes its meaning.
type epoch struct {
	number uint64 // no other epoch of any process has it
	own    uint64 // as the process itself counts them
}

// firstEpoch is the epoch in which a process is at its hello, as the process itself counts.
const firstEpoch = 1

// newCallSites starts to write caller records. nameless is called when nothing names the functions of the runtime in
// a file of a process.
func newCallSites(log *tracelog.Writer, nameless func(pid uint32, path string)) *callSites {
	s := &callSites{peers: map[uint64]*epoch{}, byPID: map[uint32]*epoch{}}
	s.log = newCallerLog(log, s.now)
	s.log.resolver.Nameless = func(pid int, path string) { nameless(uint32(pid), path) }
	return s
}

// begin is called at the hello of a process, which may have replaced its program.
func (s *callSites) begin(p cupti.Peer) {
	s.mu.Lock()
	e := &epoch{own: firstEpoch}
	s.renew(e)
	s.peers[p.ID], s.byPID[p.PID] = e, e
	s.mu.Unlock()
	s.log.begin(p.PID)
}

// renew gives an epoch the next number.
func (s *callSites) renew(e *epoch) {
	s.begun++
	e.number = s.begun
}

// end forgets a process, after its last call.
func (s *callSites) end(p cupti.Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPID[p.PID] == s.peers[p.ID] {
		delete(s.byPID, p.PID)
	}
	delete(s.peers, p.ID)
}

// now returns the number of a process's epoch, 0 of a process that is not recorded.
func (s *callSites) now(pid int) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.byPID[uint32(pid)]; e != nil {
		return e.number
	}
	return 0
}

// function returns the name of the driver's function around a return address of a process, "" if it is not certain.
func (s *callSites) function(p cupti.Peer, inner uint64) string {
	s.mu.Lock()
	number := uint64(0)
	if e := s.peers[p.ID]; e != nil {
		number = e.number
	}
	s.mu.Unlock()
	return s.log.resolver.DriverFunction(int(p.PID), number, inner)
}

// find returns the ID of the caller record of a chain, 0 for none.
func (s *callSites) find(p cupti.Peer, c cupti.Chain, need func(depth int)) (caller uint32) {
	epoch, ok := s.epochOf(p, c.Epoch)
	if !ok {
		return 0
	}
	caller = s.last.Add(1)
	s.log.add(newChain{id: caller, pid: p.PID, epoch: epoch, addresses: c.Addresses, trim: need})
	return caller
}

// epochOf returns the number of a process's epoch for its own count. ok is false for an epoch that is over.
func (s *callSites) epochOf(p cupti.Peer, own uint64) (number uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.peers[p.ID]
	if e == nil || own < e.own {
		return 0, false
	}
	if own > e.own {
		e.own = own
		s.renew(e)
	}
	return e.number, true
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

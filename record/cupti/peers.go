package cupti

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// peersMax is the most processes that are connected at a time. It bounds the memory that each one
// takes beside its share of a peerMemory, about 410 KiB with the memory that it shares.
const peersMax = 1024

// A peerSet is the set of connected processes.
type peerSet struct {
	mu     sync.Mutex
	change sync.Cond // all has changed
	all    map[uint64]*peer
	lastID uint64
	closed bool           // add refuses further processes
	active sync.WaitGroup // one goroutine per peer
}

func newPeerSet() *peerSet {
	s := &peerSet{all: map[uint64]*peer{}}
	s.change.L = &s.mu
	return s
}

// add gives a process its ID and returns true. After close, and while the set is full, it returns
// false.
func (s *peerSet) add(p *peer) (added, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = len(s.all) >= peersMax; s.closed || full {
		return false, full && !s.closed
	}
	s.lastID++
	p.ID = s.lastID
	s.all[p.ID] = p
	s.active.Add(1)
	return true, false
}

// has says whether a process is connected.
func (s *peerSet) has(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if p.known.Load() == pid {
			return true
		}
	}
	return false
}

func (s *peerSet) remove(p *peer) {
	s.mu.Lock()
	delete(s.all, p.ID)
	s.change.Broadcast()
	s.mu.Unlock()
	s.active.Done()
}

// close makes add refuse further processes.
func (s *peerSet) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// wait waits until the set is empty or the time is over, and returns how many are left.
func (s *peerSet) wait(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	timer := time.AfterFunc(timeout, s.wake)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) > 0 && time.Now().Before(over) {
		s.change.Wait()
	}
	return len(s.all)
}

func (s *peerSet) wake() {
	s.mu.Lock()
	s.change.Broadcast()
	s.mu.Unlock()
}

// each calls a function for all processes, each on a goroutine of its own, and waits.
func (s *peerSet) each(f func(*peer)) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	var done sync.WaitGroup
	for _, p := range all {
		done.Go(func() { f(p) })
	}
	done.Wait()
}

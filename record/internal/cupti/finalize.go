package cupti

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/internal/door"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// How long the library in a process may take for the steps before and in cuptiFinalize, and how long the recorder tries to
// have the process's threads outside of CUDA.
const (
	readyMost  = 3 * time.Second
	locksMost  = 10 * time.Millisecond
	finishMost = 5 * time.Second
	doorMost   = 3 * time.Second
	doorPause  = 20 * time.Millisecond // between tries; it grows
	doorLook   = 50 * time.Microsecond
)

// For relieve: how often it looks, when CUPTI has waited too long, how long threads are stopped at most, and how often
// that is tried.
const (
	starvedLook  = 10 * time.Millisecond
	starvedAfter = 100 * time.Millisecond
	starvedSaid  = 1500 * time.Millisecond // without the door
	starvedMost  = 500 * time.Millisecond
	starvedTries = 20
)

var (
	errNotReady = errors.New("CUPTI did not end its records in time, or another tool uses it")
	errLocked   = errors.New("a thread that was stopped held a lock that CUPTI may need")
	errRefused  = errors.New("cuptiFinalize failed, or another tool uses CUPTI")
	errSlow     = errors.New("cuptiFinalize did not return in time, and the program's threads went on: it may crash")
	errGraphs   = errors.New("CUDA graphs that were, or may have been, launched while it was recorded would fail without CUPTI")
	errStarved  = errors.New("CUPTI waited for something else, too")
)

// FinalizeAll ends recording in all processes and takes CUPTI out of them, so that calls of CUDA take as long again as
// before. Each process's threads are stopped for that (package door), for some ms. StopAll must follow. The error of a
// process whose CUPTI stays says why.
func (s *Server) FinalizeAll() map[uint32]error {
	var mu sync.Mutex
	var all sync.WaitGroup
	failed := map[uint32]error{}
	s.peers.each(func(p *peer) {
		if pid := p.known.Load(); pid != 0 {
			all.Go(func() {
				if err := p.finalize(int(pid)); err != nil {
					mu.Lock()
					failed[pid] = err
					mu.Unlock()
				}
			})
		}
	})
	all.Wait()
	return failed
}

// door is the state of the library at the door, CT_DOOR_* of inject/wire.h; doorOver if its process has ended. A process
// that still waits for GO will come to the door, too.
func (l *link) door() uint32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.going && !l.ended {
		return 0
	}
	if l.memory == nil || l.memory.ended() {
		return doorOver
	}
	return l.memory.word(sharedDoorAt).Load()
}

// moveDoor changes it, unless the library has.
func (l *link) moveDoor(from, to uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.memory == nil {
		return false
	}
	word := l.memory.word(sharedDoorAt)
	changed := word.CompareAndSwap(from, to)
	futexWake(word)
	return changed
}

// leaveDoor waits until the library has left a state, and returns the new one; the same one when the time is over.
func (l *link) leaveDoor(state uint32, limit time.Duration) uint32 {
	is := l.door()
	for late := time.Now().Add(limit); is == state && time.Now().Before(late); is = l.door() {
		time.Sleep(doorLook)
	}
	return is
}

func (l *link) finalize(pid int) error {
	l.tell(msgFinalize, nil)
	switch l.leaveDoor(0, readyMost) {
	case doorOver:
		return nil
	case doorReady:
	case doorGraphs:
		return errGraphs
	default:
		_ = l.moveDoor(0, doorOver) || l.moveDoor(doorReady, doorOver) // or the library would wait, deaf to STOP
		return errNotReady
	}
	var err error
	pause := doorPause
	for late := time.Now().Add(doorMost); time.Now().Before(late); time.Sleep(pause) {
		if err = l.shut(pid, l.finalizeStopped); !errors.Is(err, door.ErrInside) && !errors.Is(err, errLocked) {
			break
		}
		pause += pause / 2
	}
	l.moveDoor(doorReady, doorOver)
	if l.door() == doorOver && errors.Is(err, os.ErrNotExist) {
		return nil // it has ended
	}
	return err
}

// shut is door.Shut. A thread has one tracer at a time.
func (l *link) shut(pid int, do func() error) error {
	l.shutting.Lock()
	defer l.shutting.Unlock()
	return door.Shut(pid, do)
}

// finalizeStopped has the library call cuptiFinalize, while the program's threads are stopped.
func (l *link) finalizeStopped() error {
	if !l.moveDoor(doorReady, doorStopped) {
		return errRefused // the program ends
	}
	if l.leaveDoor(doorStopped, locksMost) == doorStopped && l.moveDoor(doorStopped, doorReady) {
		return errLocked
	}
	switch l.leaveDoor(doorBegun, finishMost) {
	case doorBegun:
		return errSlow
	case doorDone:
		return nil
	case doorGraphs:
		return errGraphs
	}
	return errRefused
}

// relieve has CUPTI come through where it is switched on or off beside threads that launch without pause. It waits for
// locks that they take again and again, for ever with eight of them (H200, CUPTI 13.0.1). So once it has waited too
// long, they are stopped outside of CUDA until it is through. That cannot harm CUPTI: they hold no lock of CUDA's there,
// and to it are threads that happen not to call CUDA for a while. If it does not help, all goes on as without.
// Where threads may not be stopped, a line says what would help.
func (p *peer) relieve(over <-chan struct{}) {
	var since time.Time
	look := time.NewTicker(starvedLook)
	defer look.Stop()
	for tries := 0; ; {
		select {
		case <-over:
			return
		case <-look.C:
		}
		switch {
		case !p.switching():
			since, tries = time.Time{}, 0
			continue
		case since.IsZero():
			since = time.Now()
		}
		if waits := time.Since(since); waits < starvedAfter || !p.stoppable && waits < starvedSaid || tries == starvedTries {
			continue
		}
		if !p.shares(p.PID) {
			return // it runs another program, and will not say that the call has ended
		}
		if !p.stoppable {
			tries = starvedTries
			p.listener.Note(tracelog.NoteWarning, fmt.Sprintf("process %d: CUPTI goes on or off late, or never: it waits for "+
				"threads that launch without pause; with --detach they are stopped for it", p.PID))
			continue
		}
		err := p.shut(int(p.PID), p.awaitSwitch)
		if tries++; err != nil && !errors.Is(err, door.ErrInside) && !errors.Is(err, errStarved) {
			tries = starvedTries
		}
		if err != nil && tries == starvedTries && p.switching() {
			p.listener.Note(NoteRemark, fmt.Sprintf("process %d: CUPTI goes on or off late, or never: it waits for "+
				"threads that launch without pause: %s", p.PID, errno.Words(err)))
		}
	}
}

// switching reports whether a call of CUPTI that switches records is in progress.
func (l *link) switching() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory != nil && !l.memory.ended() && l.memory.word(sharedSwitchingAt).Load() != 0
}

// awaitSwitch waits for the end of such calls, while the program's threads are stopped.
func (l *link) awaitSwitch() error {
	for late := time.Now().Add(starvedMost); l.switching(); time.Sleep(doorLook) {
		if time.Now().After(late) {
			return errStarved
		}
	}
	return nil
}

package cupti

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
)

// TestFinalizeBeforeGo ends recording while a process still waits for the recorder's answer.
func TestFinalizeBeforeGo(t *testing.T) {
	t.Parallel()
	must.BeRoot(t)
	s := newStage(t, Options{}, GoConfig{})
	s.audience.mu.Lock() // which its hello waits for
	c := s.converse(t, "phases")
	waits := func() (is bool) {
		s.server.peers.each(func(p *peer) { is = p.known.Load() != 0 })
		return is
	}
	must.Wait(t, waits, func() string { return "no process has connected" })
	finalized := make(chan map[uint32]error)
	go func() { finalized <- s.server.FinalizeAll() }()
	select {
	case <-finalized:
		t.Error("it does not wait for the process")
	case <-time.After(20 * time.Millisecond):
	}
	s.audience.mu.Unlock()
	if failed := <-finalized; len(failed) != 1 { // the program's libcupti has no cuptiFinalize
		t.Errorf("%v", failed)
	}
	if left := s.server.StopAll(patience); left != 0 {
		t.Errorf("%d processes did not stop", left)
	}
	c.finish(s)
}

// TestNoReliefForAnotherProgram leaves the threads of a process alone that runs another program now. It did so while CUPTI
// was switched, so the word that says so stays.
func TestNoReliefForAnotherProgram(t *testing.T) {
	t.Parallel()
	m, process := newProcess(t, testHub(t))
	process.word(sharedSwitchingAt).Store(1)
	cmd := exec.Command("cat")
	pipetest.Start(t, cmd)
	p := &peer{Peer: Peer{PID: uint32(cmd.Process.Pid)}, link: link{memory: m}, stoppable: true}
	p.shutting.Lock() // as while they are stopped
	defer p.shutting.Unlock()
	over := make(chan struct{})
	go func() { p.relieve(nil); close(over) }()
	select {
	case <-over:
	case <-time.After(time.Minute):
		t.Error("its threads are to be stopped")
	}
}

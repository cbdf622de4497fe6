package cupti

import (
	"os/exec"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/pipetest"
)

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

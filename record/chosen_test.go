package record

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// ranked starts a process of a rank that lives as long as the test. It has said something: right after exec the kernel
// shows no environment yet.
func ranked(t *testing.T, rank string) uint32 {
	t.Helper()
	cmd := exec.Command("sh", "-c", "echo ready; read line")
	cmd.Env = []string{"RANK=" + rank, "WORLD_SIZE=4"}
	if _, err := cmd.StdinPipe(); err != nil { // else it ends at once
		t.Fatal(err)
	}
	stdout := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return uint32(cmd.Process.Pid)
}

// TestChosenAgain records a process that has the PID of one that was left out. The other's rank is still told.
func TestChosenAgain(t *testing.T) {
	t.Parallel()
	list := must.Get(ranks.ParseList("0"))(t)
	s := &session{opts: Options{Ranks: list}, events: make(chan event), over: make(chan struct{})}
	go func() {
		for e := range s.events {
			e.take(s)
		}
	}()
	if pid := ranked(t, "3"); s.Wants(cupti.Peer{PID: pid}) || !s.isLeft(pid) {
		t.Error("rank 3 is recorded")
	}
	pid := ranked(t, "0")
	s.tell(leaves{pid: pid, start: 1, at: 1, rank: ranks.Rank{Number: 3, Of: 4, Known: true}})
	if !s.Wants(cupti.Peer{PID: pid}) {
		t.Error("rank 0 is left out")
	}
	s.tell(question(func() { s.says(pid, 2, 2, 1) }))
	if s.isLeft(pid) {
		t.Error("rank 0 is left out")
	}
	close(s.events)
	if got := s.others(&s.opts.Ranks); got != "rank 3 is not among --ranks 0" {
		t.Errorf("got %q", got)
	}
}

package probe

import (
	"testing"

	"github.com/cudatrace/cudatrace/bpf"
)

// Each process has an epoch that no other process has had, and a place that no other process has at the same time.
func TestEpochs(t *testing.T) {
	c := &Callers{table: &bpf.ProbesCallerTable{}}
	had, places := map[uint64]bool{0: true}, map[uint32]bool{0: true}
	begin := func(pid uint32) uint32 {
		place, err := c.begin(pid)
		if err != nil || had[c.Epoch(int(pid))] || c.table.Epochs[place] != c.Epoch(int(pid)) {
			t.Fatalf("process %d: place %d with epoch %d, %v", pid, place, c.Epoch(int(pid)), err)
		}
		had[c.Epoch(int(pid))] = true
		return place
	}
	const most = bpf.MaxProcesses - firstPlace
	for pid := range uint32(most) {
		if place := begin(pid + 1); places[place] {
			t.Fatalf("two processes have place %d", place)
		} else {
			places[place] = true
		}
	}
	if place, err := c.begin(most + 1); err == nil {
		t.Errorf("one process too many has place %d", place)
	}
	c.end(most + 1)
	last := c.Epoch(7)
	c.end(7)
	if c.Epoch(7) != last || last == 0 || c.Epoch(most+1) != 0 {
		t.Error("a process has another epoch after its end than before")
	}
	if place := begin(7); place != begin(7) {
		t.Error("a process has another place than before")
	}
	before := c.Epoch(8)
	c.Replaced(7)
	if had[c.Epoch(7)] || c.Epoch(8) != before {
		t.Error("one process's new epoch is no new one, or another's")
	}
	c.hearOfExecs(true)
	c.Replaced(8)
	if c.Epoch(8) != before {
		t.Error("an epoch begins twice")
	}
	c.close()
	c.Replaced(7)
	if _, err := c.begin(9); err == nil || c.Epoch(7) != 0 {
		t.Errorf("after the end: epoch %d, %v", c.Epoch(7), err)
	}
}

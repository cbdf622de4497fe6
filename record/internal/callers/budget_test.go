package callers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// manyMappings are of files with long paths, which begin with a text.
func manyMappings(pid int, epoch uint64, begin string, count int) mappings {
	m := mappings{pid: pid, epoch: epoch}
	for i := range count {
		m.code = append(m.code, procfs.Mapping{From: uint64(i+1) << 12, To: uint64(i+2) << 12, Path: fmt.Sprintf("/%s/%d/%s", begin, i, strings.Repeat("x", 1000))})
	}
	return m
}

// TestMappingsOfAllProcesses has many processes map more code than is kept: the memory is bounded, and the process that
// was used least recently gives way. A process that maps more than all of it is told once.
func TestMappingsOfAllProcesses(t *testing.T) {
	t.Parallel()
	r := newResolver(Options{Epoch: func(int) uint64 { return 1 }})
	r.budget.most = 1_490_000
	crowded := 0
	r.Crowded = func() { crowded++ }
	for pid := range 50 { // of one program
		r.addMappings(manyMappings(pid, 1, "shared", 50))
		r.addMappings(manyMappings(pid, 1, "shared", 50))
	}
	if crowded != 0 || len(r.budget.paths) != 50 {
		t.Errorf("told %d times, %d paths", crowded, len(r.budget.paths))
	}
	for pid := range 50 {
		for epoch := range uint64(2 * maxSnapshots) {
			r.addMappings(manyMappings(pid, 2+epoch, fmt.Sprintf("of %d in %d", pid, epoch), 50))
			if r.budget.taken > r.budget.most {
				t.Fatalf("%d bytes are taken", r.budget.taken)
			}
		}
	}
	if crowded != 0 || r.processes[48] == nil || r.processes[47] != nil || len(r.processes[49].snapshots) != maxSnapshots {
		t.Errorf("told %d times, %d processes are left", crowded, len(r.processes))
	}
	r.find(48, 2*maxSnapshots+1, "cuLaunchKernel", []uint64{0x1000}) // 49 gives way
	r.addMappings(manyMappings(50, 1, "another", 450))
	if r.processes[48] == nil || r.processes[49] != nil {
		t.Error("a process gives way that was used before another one")
	}
	for range 2 {
		r.addMappings(manyMappings(50, 1, "large", 2000))
	}
	s := r.processes[50].at(1)
	if crowded != 1 || !s.cut || len(r.processes) != 1 {
		t.Errorf("told %d times, cut %t, %d processes", crowded, s.cut, len(r.processes))
	}
	if _, mapped, ok := s.place(0x7fffffff0000); !mapped || ok {
		t.Errorf("an address that was left out: mapped %t, found %t", mapped, ok)
	}
	r.makeRoom(0)
	if r.budget.taken != 0 || len(r.budget.paths) != 0 {
		t.Errorf("%d bytes and %d paths stay", r.budget.taken, len(r.budget.paths))
	}
}

// TestCrowdedCaller finds no caller where there was no memory for the mappings.
func TestCrowdedCaller(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.library("first")
	l, m, pid := newLog(t), reserve(t), os.Getpid()
	defer m.hide(unix.PROT_NONE)
	m.show(first)
	l.budget.most = 0
	chain := []uint64{m.returnAddress(first, "first")}
	if id, _ := l.Resolve(pid, 1, "cuLaunchKernel", chain); l.callers[id].Symbol != "" {
		t.Errorf("called by %q", l.callers[id].Symbol)
	}
}

// TestLongSymbols remembers frames with long symbols.
func TestLongSymbols(t *testing.T) {
	t.Parallel()
	var c moduleCache
	c.modules = map[procfs.Content]*module{}
	for i := range 4 {
		f := must.Get(os.Create(filepath.Join(t.TempDir(), fmt.Sprint(i))))(t)
		content, err := procfs.ContentOf(f)
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		c.modules[content] = &module{cache: &c, frames: map[uint64]*frame{}}
	}
	long := strings.Repeat("x", 16<<10)
	for address := range uint64(3000) {
		for _, m := range c.modules {
			c.remember(m, address, &frame{symbols: []elfsym.Symbol{{Name: long}}})
		}
		kept := 0
		for _, m := range c.modules {
			kept += len(m.frames) * len(long)
		}
		if kept > maxNames {
			t.Fatalf("%d bytes are kept", kept)
		}
	}
}

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/recordtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A life is what one program of testdata/sim/prog/lives.c says of itself: its struct life.
type life struct {
	PID, Initialised, How uint32
	Killed                uint32 // PID of the child that it has killed
	Begun, Returned       uint64 // launches
}

// How a program means to end.
const (
	byExit = iota + 1
	byUnderscoreExit
	byExec
	byTERM
	bySEGV
	byKILL
)

// meant says how the end of each is logged: the reason, and the exit status where the process ends.
var meant = map[uint32]struct {
	reason string
	status int32
}{
	byExit:           {"exit", 3},
	byUnderscoreExit: {"_exit", 4},
	byExec:           {"exec", -1},
	byTERM:           {"signal 15", 143},
	bySEGV:           {"signal 11", 139},
	byKILL:           {"signal 9", 137},
}

const mostLives, lifeSize, livesAt = 256, 32, 64

// readLives reads what the programs say, each PID's in their order.
func readLives(t *testing.T, path string) map[uint32][]life {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	lives := map[uint32][]life{}
	for i := range binary.LittleEndian.Uint32(data) {
		var l life
		must.Do(t, binary.Read(bytes.NewReader(data[livesAt+lifeSize*i:]), binary.LittleEndian, &l))
		lives[l.PID] = append(lives[l.PID], l)
	}
	return lives
}

// A logged is what the log has of one program of a process.
type logged struct {
	from           uint64 // ns
	calls, kernels uint64
	ends           []tracelog.ProcessEnd
}

// readLogged reads what a log has, each PID's in the order of time.
func readLogged(t *testing.T, path string) map[uint32][]*logged {
	t.Helper()
	all := map[uint32][]*logged{}
	var calls []tracelog.API
	var kernels []tracelog.Kernel
	var ends []tracelog.ProcessEnd
	recordtest.Each(t, recordtest.Open(t, path), func(r tracelog.Record) {
		switch r := r.(type) {
		case *tracelog.Process:
			all[r.PID] = append(all[r.PID], &logged{from: r.Start})
		case *tracelog.API: // launches have no probes
			calls = append(calls, *r)
		case *tracelog.Kernel:
			kernels = append(kernels, *r)
		case *tracelog.ProcessEnd:
			ends = append(ends, *r)
		}
	})
	for _, programs := range all {
		slices.SortFunc(programs, func(a, b *logged) int { return int(int64(a.from - b.from)) })
	}
	at := func(pid uint32, time uint64) *logged {
		programs := all[pid]
		for i := len(programs) - 1; i >= 0; i-- {
			if programs[i].from <= time {
				return programs[i]
			}
		}
		t.Errorf("nobody owns what process %d did at %d", pid, time)
		return &logged{}
	}
	for _, c := range calls {
		if strings.HasPrefix(c.Name, "cuLaunchKernel") {
			at(c.PID, c.Start).calls++
		}
	}
	latest := map[uint32]*logged{}
	for _, k := range kernels {
		switch { // one that had not ended has no times: it is of the program of those before
		case k.Start != 0:
			latest[k.PID] = at(k.PID, k.Start)
		case latest[k.PID] == nil:
			latest[k.PID] = all[k.PID][0]
		}
		latest[k.PID].kernels++
	}
	for n, e := range ends { // those of a PID are in the order of its programs
		before := 0
		for _, other := range ends[:n] {
			if other.PID == e.PID {
				before++
			}
		}
		if before < len(all[e.PID]) {
			all[e.PID][before].ends = append(all[e.PID][before].ends, e)
		} else {
			t.Errorf("process %d ended once too often: %+v", e.PID, e)
		}
	}
	return all
}

// TestLives records programs whose threads run other programs by exec, start children, end in every way and are killed, at
// random, and holds the log against what the programs say. CUDATRACE_LIVES is the number of recordings, of seeds from 1 on, or
// one seed behind a #.
func TestLives(t *testing.T) {
	t.Parallel()
	first, rounds := 1, 6
	if text := os.Getenv("CUDATRACE_LIVES"); text != "" {
		number, one := strings.CutPrefix(text, "#")
		n := must.Get(strconv.Atoi(number))(t)
		if first, rounds = 1, n; one {
			first, rounds = n, 1
		}
	}
	programs := 0
	for seed := first; seed < first+rounds; seed++ {
		programs += liveOnce(t, seed)
	}
	t.Logf("seeds %d to %d: %d programs", first, first+rounds-1, programs)
}

func liveOnce(t *testing.T, seed int) (programs int) {
	t.Helper()
	dir := t.TempDir()
	said := filepath.Join(dir, "said")
	must.Do(t, os.WriteFile(said, make([]byte, livesAt+mostLives*lifeSize), 0o600))
	base := filepath.Join(dir, "run")
	out, _ := exec.Command("cudatrace", "record", "--no-convert", "-o", base, sim("lives"), "-s", strconv.Itoa(seed), "-d", "3", "-r", said).CombinedOutput()
	lives, all := readLives(t, said), readLogged(t, base+".cudatrace")
	killed := map[uint32]bool{}
	for _, programs := range lives {
		for _, l := range programs {
			killed[l.Killed] = true
		}
	}
	var r recording
	r.read(t, base+".cudatrace")
	calls, kernels, good := uint64(0), uint64(0), true
	fail := func(format string, args ...any) {
		t.Errorf("seed %d: %s", seed, fmt.Sprintf(format, args...))
		good = false
	}
	for pid, said := range lives {
		programs += len(said)
		for i, l := range said {
			if i >= len(all[pid]) {
				if l.Initialised != 0 {
					fail("process %d, program %d: the log has %d programs", pid, i, len(all[pid]))
				}
				continue
			}
			got := all[pid][i]
			calls, kernels = calls+got.calls, kernels+got.kernels
			if got.calls < l.Returned || got.calls > l.Begun || got.kernels > got.calls {
				fail("process %d, program %d: %d calls and %d kernels; it began %d launches, of which %d returned",
					pid, i, got.calls, got.kernels, l.Begun, l.Returned)
			}
			if len(got.ends) != 1 {
				fail("process %d, program %d: it has %d ends", pid, i, len(got.ends))
				continue
			}
			e, want := got.ends[0], meant[l.How]
			meant := strings.HasPrefix(e.Reason, want.reason) || e.Reason == fmt.Sprintf("status %d", want.status) // once it is gone
			last := i == len(said)-1 || said[i+1].Initialised == 0                                                 // one that is killed before it uses CUDA was never met
			if unexpected := killed[pid] && last; !unexpected && (!meant || e.Status != want.status) {
				fail("process %d, program %d ended by %q with status %d, want %q, %d", pid, i, e.Reason, e.Status, want.reason, want.status)
			}
			if quiet := l.How == byExit; e.Complete != 0 && (quiet && got.kernels != got.calls || e.Kernels != got.kernels) {
				fail("process %d, program %d: complete, with %d kernels of %d calls, and %d counted", pid, i, got.kernels, got.calls, e.Kernels)
			}
			reasons := strings.Join(r.Reasons, "\n")
			if e.Complete == 0 && !strings.Contains(reasons, fmt.Sprintf("process %d ", pid)) && !strings.Contains(reasons, "likewise") {
				fail("process %d, program %d: what is missing of it is not said: %q", pid, i, r.Reasons)
			}
		}
		if len(all[pid]) > len(said) {
			fail("process %d has %d programs, and said of %d", pid, len(all[pid]), len(said))
		}
	}
	if r.Complete && calls-kernels > r.AtEnd+r.Unfinished { // other threads launched while one ended the process
		fail("the log is complete without the kernels of %d launches, and says so of %d", calls-kernels, r.AtEnd+r.Unfinished)
	}
	if !good {
		t.Logf("%s\n%+v", out, lives)
	}
	return programs
}

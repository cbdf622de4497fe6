package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// Each call has the chain of return addresses above it, in every mode. The chain is delivered once, in
// front of the calls.
func TestChains(t *testing.T) {
	t.Parallel()
	for _, mode := range []attachMode{modeMulti, modeSingle} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			p, target := open(t, Options{mode: mode, Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
			attach(t, p, target)
			above := target.run("chain", 0)
			for range 20 {
				target.run("chain", 0)
			}
			target.run("launches", 20)
			r := finish(t, p)
			if len(r.chains) != 2 || len(r.calls) != 41 {
				t.Fatalf("%d chains of %d calls", len(r.chains), len(r.calls))
			}
			for i, c := range r.byEntry() {
				if want := uint32(1 + i/21); c.Caller != want {
					t.Errorf("call %d has chain %d, want %d", i, c.Caller, want)
				}
			}
			first, second := r.chains[0], r.chains[1]
			if got := fmt.Sprintf("%#x", first.Addresses[2]); got != above || first.Addresses[0] != second.Addresses[0] {
				t.Errorf("chains %#x and %#x, and the program says that %s is above the first function", first.Addresses, second.Addresses, above)
			}
			if cudaapi.ByID(cudaapi.ID(first.Function)).Name != "cuLaunchKernel" || first.PID != uint32(target.pid) || len(first.Addresses) > bpf.MaxChain {
				t.Errorf("chain %+v", first)
			}
		})
	}
}

// Each call of a thread has a chain that is delivered, also where another thread met the chain first.
func TestChainsOfThreads(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
	attach(t, p, target)
	r := &recorder{}
	for range 5 {
		target.run("threads", 20)
		must.Do(t, p.Drain(r))
		target.run("unloads", 1) // a new epoch: the chains are defined anew
	}
	defined := map[uint32]bool{}
	for _, c := range r.chains {
		defined[c.ID] = true
	}
	for _, c := range r.calls {
		if !defined[c.Caller] {
			t.Fatalf("a call has chain %d, which is not delivered", c.Caller)
		}
	}
	if len(r.calls) != 5*64*20 || p.Unplaced() != (Unplaced{}) {
		t.Errorf("%d calls, %+v", len(r.calls), p.Unplaced())
	}
}

// Where the buffers are too full for a chain's addresses, its calls are counted, until a later call delivers them.
func TestChainInFullBuffers(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{BufferBytes: 64 << 10, Functions: cudaapi.Functions(cudaapi.Default)}), startTarget(t, "shared")
	attach(t, p, target)
	target.run("copies", 3000)
	target.run("hold", 7) // meets a chain when there is no room for its addresses
	r := &recorder{}
	must.Do(t, p.Drain(r))
	target.run("release", 0) // and is recorded when there is room again
	must.Do(t, p.Drain(r))
	held := r.named("cudaLaunchKernel")
	if len(held) != 1 || held[0].Caller == 0 || p.Unplaced() != (Unplaced{Undefined: 1}) {
		t.Fatalf("calls %+v; %+v", held, p.Unplaced())
	}
	target.run("hold", 7)
	target.run("release", 0)
	finished := finish(t, p)
	again := finished.named("cudaLaunchKernel")
	if len(again) != 1 || again[0].Caller != held[0].Caller || p.Unplaced() != (Unplaced{}) {
		t.Errorf("calls %+v after %+v; %+v", again, held, p.Unplaced())
	}
}

// A chain has as many addresses as are of use above its site, and is defined anew in a new epoch, which
// begins where a library is unloaded: not where dlclose leaves it in the process.
func TestChainLengthAndEpoch(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
	attach(t, p, target)
	r := &recorder{}
	drain := func() {
		must.Do(t, p.Drain(r))
	}
	target.run("chain", 0)
	drain()
	first := r.chains[0]
	need := func(n int) { p.Callers().Need(first.PID, p.Callers().Epoch(target.pid), first.Addresses[0], n) }
	need(1)
	target.run("chain", 0)
	target.run("launches", 3)
	need(2)
	need(1) // the longest counts
	target.run("chain", 0)
	drain()
	before := p.Callers().Epoch(target.pid)
	target.run("unloads", 3)
	if got := p.Callers().Epoch(target.pid) - before; got != 6 {
		t.Errorf("%d epochs begin with 3 libraries that go, want one before and one after each", got)
	}
	target.run("chain", 0)
	drain()
	var lengths []string
	for _, c := range r.chains {
		lengths = append(lengths, strconv.Itoa(len(c.Addresses)))
		if !slices.Equal(c.Addresses, first.Addresses[:len(c.Addresses)]) {
			t.Errorf("chain %#x, want the beginning of %#x", c.Addresses, first.Addresses)
		}
	}
	whole := strconv.Itoa(len(first.Addresses))
	if got, want := strings.Join(lengths, " "), whole+" 1 2 "+whole; got != want {
		t.Errorf("chains of %s addresses, want %s", got, want)
	}
	var callers []uint32
	for _, c := range r.calls {
		callers = append(callers, c.Caller)
	}
	if want := []uint32{1, 2, 2, 2, 2, 3, 4}; !slices.Equal(callers, want) {
		t.Errorf("the calls have chains %d, want %d", callers, want)
	}
	if got := r.chains[3].Epoch; got != before+6 {
		t.Errorf("the last chain is of epoch %d, want %d", got, before+6)
	}
}

// A library that was loaded by dlmopen begins an epoch, too, when it is unloaded.
func TestEpochOfOtherLists(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
	attach(t, p, target)
	before := p.Callers().Epoch(target.pid)
	target.run("unloads-elsewhere", 1)
	if got := p.Callers().Epoch(target.pid); got == before {
		t.Error("the epoch goes on")
	}
}

// A process begins epochs where it unloads libraries and where it runs another program. No other process is
// concerned: its chains are not defined anew.
func TestEpochOfEachProcess(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p := open(t, Options{mode: m, Functions: cudaapi.Functions(cudaapi.Minimal)})
		one, other := startTarget(t, "driver"), startTarget(t, "driver")
		attach(t, p, one)
		attach(t, p, other)
		epoch := func(target *target) uint64 { return p.Callers().Epoch(target.pid) }
		first, quiet := epoch(one), epoch(other)
		one.run("chain", 0)
		other.run("chain", 0)
		one.run("unloads", 2)
		one.run("chain", 0)
		other.run("chain", 0)
		unloaded := epoch(one)
		one.begin("again", 0)
		if line := one.line(); line != "ready" {
			t.Fatal(line)
		}
		replaced := epoch(one)
		one.run("chain", 0)
		other.run("chain", 0)
		if first == 0 || unloaded != first+4 || replaced <= unloaded || epoch(other) != quiet || quiet == first {
			t.Errorf("epochs %#x, %#x and %#x of one process, %#x and %#x of the other", first, unloaded, replaced, quiet, epoch(other))
		}
		r := finish(t, p)
		epochs := map[uint32][]uint64{}
		for _, c := range r.chains {
			epochs[c.PID] = append(epochs[c.PID], c.Epoch)
		}
		want := map[uint32][]uint64{uint32(one.pid): {first, unloaded, replaced}, uint32(other.pid): {quiet}}
		goldentest.Same(t, want, epochs, "epochs of chains")
		for _, c := range r.calls {
			if c.Caller == 0 || r.chains[c.Caller-1].PID != c.PID {
				t.Errorf("%+v has a chain of another process", c)
			}
		}
	})
}

// A call at the top of a stack loses nothing, although the chains of its thread reach further elsewhere.
func TestChainAtTopOfStack(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{Functions: cudaapi.Functions(cudaapi.Minimal)}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("chain", 0)
	target.run("fiber", 0)
	r := finish(t, p)
	calls := r.byEntry()
	if len(calls) != 2 || len(r.chains) != 2 {
		t.Fatalf("%d calls, %d chains", len(calls), len(r.chains))
	}
	above, last := calls[0], calls[1]
	if last.Caller != 2 || r.chains[1].Addresses[0] != r.chains[0].Addresses[0] {
		t.Errorf("the call has chain %d, of %#x", last.Caller, r.chains)
	}
	above.Args[1] = 77 // gridX
	if last.Args != above.Args || last.NArgs != above.NArgs {
		t.Errorf("arguments %d, want %d", last.Args, above.Args)
	}
	if lost, err := p.LostSince(); err != nil || len(lost) != 0 {
		t.Errorf("lost: %v (%v)", lost, err)
	}
}

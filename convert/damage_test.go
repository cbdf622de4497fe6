package convert

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Calls whose records were in a damaged block are not said to be those of another CUPTI client.
func TestRecordsInDamage(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("../testdata/gpu/logs/streams.cudatrace")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for at := len(whole) / 40; at < len(whole); at += len(whole) / 40 {
		log := bytes.Clone(whole)
		log[at] ^= 1
		_, sum := timelineOf(t, logtest.InMemory(log))
		reasons := strings.Join(sum.Reasons, "; ")
		if strings.Contains(reasons, "another CUPTI client") {
			t.Errorf("damage at byte %d: %s", at, reasons)
		}
		if strings.Contains(reasons, "no record from CUPTI: it may be in the part that the log lacks") {
			found++
		}
	}
	if found == 0 {
		t.Error("no damage hides the record of a call")
	}
}

// Arguments and shapes are those of their records, however the log stores them: a few
// numbers, which bytes pick, or so many that none do.
func TestManyArguments(t *testing.T) {
	t.Parallel()
	for _, different := range []int{1, 3, 100, 300, 5000} {
		var out bytes.Buffer
		w, err := tracelog.NewWriter(&out, tracelog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.Add(&tracelog.Process{PID: 1})
		w.Add(&tracelog.Function{ID: 1, Name: "cuLaunchKernel", Library: "driver", Args: "f:handle x:u32 stream:handle"})
		rnd := rand.New(rand.NewPCG(1, uint64(different)))
		var args [][]uint64
		var grids []uint32
		for i := range 20_000 {
			k := uint64(rnd.IntN(different))
			list := []uint64{0x7000 + k*64, k % 7, 0x9000 + uint64(rnd.IntN(3))}[:2+i%2]
			args, grids = append(args, list), append(grids, uint32(k+1))
			call := tracelog.Call{PID: 1, TID: 1, Func: 1, Enter: uint64(1000 + 100*i), Dur: 50, NArgs: uint32(len(list))}
			copy(call.Args[:], list)
			call.AddTo(w)
			w.Add(&tracelog.Kernel{GPU: tracelog.GPU{PID: 1, Context: 1, Stream: 7, Start: uint64(1010 + 100*i), Dur: 10},
				Name: "k", Grid: [3]uint32{grids[i], 1, 1}, Block: [3]uint32{32, 1, 1}})
		}
		if err := w.Close(tracelog.End{Time: 5e6, Complete: 1}); err != nil {
			t.Fatal(err)
		}
		tl, _ := timelineOf(t, logtest.InMemory(out.Bytes()))
		calls, work := tl.Processes[0].Threads[0].Slices, tl.Processes[0].Streams[0].Work
		if len(calls) != len(args) || len(work) != len(args) {
			t.Fatalf("%d slices and %d kernels of %d", len(calls), len(work), len(args))
		}
		for i := range args {
			if got := calls[i].Args; !slices.Equal(got, args[i]) {
				t.Fatalf("%d different: call %d has arguments %v, want %v", different, i, got, args[i])
			}
			if got := work[i].Shape.Kernel.Grid[0]; got != grids[i] {
				t.Fatalf("%d different: kernel %d has a grid of %d, want %d", different, i, got, grids[i])
			}
		}
	}
}

// A block that sequential reading leaves out is left out everywhere, also where the index names it: its
// process is in no catalog.
func TestIndexOfDroppedBlock(t *testing.T) {
	t.Parallel()
	log, err := logtest.Assembled("process pid=1 start=1\n" +
		"call pid=1 tid=1 func=#1 enter=100 dur=5\ncall pid=2 tid=2 func=#1 enter=200 dur=5\n" +
		"kernel pid=3 context=1 stream=7 start=300 dur=5\nmemory pid=4 operation=1 time=400\nend complete=1")
	if err != nil {
		t.Fatal(err)
	}
	dropped := 0
	for at := 16; at < len(log)-24; at += 24 + int(binary.LittleEndian.Uint32(log[at+12:])) {
		if log[at+4] != 2 { // no block of records
			continue
		}
		bad := bytes.Clone(log)
		binary.LittleEndian.PutUint32(bad[at+8:], 0) // the number of the first block
		_, sum := timelineOf(t, logtest.InMemory(logtest.Mended(bad)))
		if !sum.Damaged {
			t.Errorf("nothing is said of the block at byte %d", at)
		}
		dropped++
	}
	if dropped < 5 {
		t.Errorf("%d blocks were dropped", dropped)
	}
}

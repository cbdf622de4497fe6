package convert

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// Calls whose records were in a damaged block are not said to be those of another CUPTI client.
func TestRecordsInDamage(t *testing.T) {
	t.Parallel()
	whole := must.Get(os.ReadFile("../testdata/gpu/logs/streams.cudatrace"))(t)
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

// A block that sequential reading leaves out is left out everywhere, also where the index names it: its
// process is in no catalog.
func TestIndexOfDroppedBlock(t *testing.T) {
	t.Parallel()
	log := must.Get(logtest.Assembled("process pid=1 start=1\n" +
		"call pid=1 tid=1 func=#1 enter=100 dur=5\ncall pid=2 tid=2 func=#1 enter=200 dur=5\n" +
		"kernel pid=3 context=1 stream=7 start=300 dur=5\nmemory pid=4 operation=1 time=400\nend complete=1"))(t)
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

// No recorder notes the entry alone of a call that allocates. In a log that was made so, it allocates nothing.
func TestEntryOfAllocation(t *testing.T) {
	t.Parallel()
	got, all := joinedTimelines(t, Options{}, `meta key=memory value=calls
process pid=50 start=1 exe=/bin/app args=app
device pid=50 id=0 name=GPU memory=1000000
function id=1 name=cuMemAlloc_v2 library=driver args="devPtr:ptr bytes:size"
call pid=50 tid=50 func=cuMemAlloc_v2 enter=1010 dur=0 flags=4 ret=0 args: devPtr=4096 bytes=1000
`)
	if all[0].Pairs != 1 || len(got.Processes[0].Allocations) != 0 {
		t.Errorf("%d pairs, allocations %+v", all[0].Pairs, got.Processes[0].Allocations)
	}
}

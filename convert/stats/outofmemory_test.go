package stats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
)

// The latest call of a process that found no memory says who held it then, the largest first, and what would have made
// room. What was freed before, is on another GPU, or is memory of the host does not count.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	const head = `meta key=memory value=calls
process pid=50 start=100
device pid=50 id=0 name=G uuid=0a memory=1000
device pid=50 id=1 name=G uuid=01 memory=1000
context pid=50 id=1 device=0
context pid=50 id=2 device=1
function id=1 name=cuMemAlloc_v2 library=driver args="devPtr:ptr bytes:size"
function id=2 name=cuMemFree_v2 library=driver args="devPtr:ptr"
function id=3 name=cuMemHostAlloc library=driver args="hostPtr:ptr bytes:size flags:u32"
function id=4 name=cuMemCreate library=driver args="allocation:handle bytes:size type:enum handleTypes:enum locationType:enum location:i32 flags:u64"
caller id=1 module=/lib/model.so address=0x10
caller id=2 module=/lib/step.so address=0x20
`
	at := uint64(1000)
	call := func(function string, caller, ret int, args string) string {
		at += 100
		return fmt.Sprintf("call pid=50 tid=50 func=%s enter=%d dur=10 ret=%d caller=%d args: %s\n", function, at, ret, caller, args)
	}
	model, step := call("cuMemAlloc_v2", 1, 0, "devPtr=4096 bytes=600"), call("cuMemAlloc_v2", 2, 0, "devPtr=8192 bytes=200")
	freed := call("cuMemAlloc_v2", 2, 0, "devPtr=12288 bytes=150") + call("cuMemFree_v2", 0, 0, "devPtr=12288")
	elsewhere := call("cuMemHostAlloc", 0, 0, "hostPtr=64 bytes=9000 flags=0") +
		call("cuMemCreate", 0, 0, "allocation=5 bytes=900 type=1 handleTypes=0 locationType=1 location=1 flags=0")
	refused := func(bytes int) string {
		return call("cuMemAlloc_v2", 2, 2, fmt.Sprintf("devPtr=0 bytes=%d", bytes))
	}
	// 900 bytes of the GPU are in use when the call fails. A sample has twice that and 1.
	const sampled = `metric_set id=1 source=1 device=0 uuid=0a interval=200
metric set=1 index=0 name=memory_used label="Memory used" unit=2 value_kind=3 scale=1
sample set=1 start=1050 dur=0 nvalues=1 value0=1401
sample set=1 start=1250 dur=0 nvalues=1 value0=1801
sample set=1 start=9000 dur=0 nvalues=1 value0=1901
gpu_user uuid=0a user=99 name=python3 from=1000 to=9000 bytes=64
`
	mapped := call("cuMemCreate", 2, 0, "allocation=6 bytes=150 type=1 handleTypes=0 locationType=1 location=0 flags=0")
	for name, c := range map[string]struct{ log, rows, note string }{
		"others":      {sampled + model + refused(500), "600 true", "GPU 0, which has 1000 B; by NVML 300 B more were in use, of CUDA itself and process 99 (python3), which had at most 64 B; "},
		"mapped":      {model + mapped + refused(700), "600 false, 150 false", "; 150 B of these are mapped by handles (cuMemCreate, PyTorch's expandable segments); the 2"},
		"again":       {model + refused(300) + refused(300) + refused(200) + call("cuMemAlloc_v2", 2, 0, "devPtr=16384 bytes=90"), "600 true", ", the last of 3 such calls; 600 B were held"},
		"none":        {model + call("cuMemAlloc_v2", 2, 1, "devPtr=0 bytes=1"), "", ""},
		"of the host": {model + call("cuMemHostAlloc", 0, 2, "hostPtr=0 bytes=9000 flags=0"), "", ""},
		"one row":     {model + step + freed + elsewhere + refused(300), "600 true, 200 false", "; 600 B held by model.so since "},
		"together":    {model + step + refused(700), "600 false, 200 false", "; the 2 largest rows together would have made room"},
		"too much":    {model + step + refused(801), "600 false, 200 false", "; 800 B were held on GPU 0, which has 1000 B"},
		"the last":    {model + refused(300) + step + refused(150), "600 true, 200 true", ", the last of 2 such calls; 800 B were held"},
		"nothing":     {refused(2000), "<nil> <nil>", "; 0 B were held on GPU 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := convert.Log{Name: "log", Open: logtest.Assemble(t, head+c.log)}
			tables := byName(taking(t, stats.New(), convert.Options{}, log), stats.Facts{})
			r, f := tables["out_of_memory"], tables["findings"]
			query := cell(f, f.Rows[0], "query").(string)
			if leads := strings.Contains(query, "--report errors,out_of_memory"); leads != (len(r.Rows) > 0) || leads && strings.Contains(query, "--process") {
				t.Errorf("the first finding leads to who held memory in all processes: %v; %q", leads, query)
			}
			var rows []string
			for _, row := range r.Rows {
				rows = append(rows, fmt.Sprint(cell(r, row, "bytes"), " ", cell(r, row, "makes_room")))
			}
			if got := strings.Join(rows, ", "); got != c.rows || !strings.Contains(strings.Join(r.Notes, "\n"), c.note) {
				t.Errorf("rows %s, want %s; notes %q, want %q", got, c.rows, r.Notes, c.note)
			}
		})
	}
}

// Of a context that was made before the recording CUPTI says nothing: its memory is on the GPU of the process's work, or
// on the first one.
func TestMemoryOfOldContexts(t *testing.T) {
	t.Parallel()
	const head = `meta key=memory value=callbacks
process pid=50 start=100
function id=1 name=cuMemAlloc_v2 library=driver args="devPtr:ptr bytes:size cuptiContext:u32"
`
	work := func(device int) string {
		return fmt.Sprintf("device pid=50 id=%d name=G%d memory=1000\n"+
			"kernel pid=50 device=%d context=%d stream=7 correlation=1 start=1400 dur=10 name=k\n",
			device, device, device, device+1)
	}
	const asks = "call pid=50 tid=50 func=cuMemAlloc_v2 enter=2000 dur=10 ret=0 args: devPtr=4096 bytes=600 cuptiContext=4\n"
	for name, c := range map[string]struct {
		log string
		gpu uint32 // as the process numbers it
	}{
		"of its work":      {work(3) + asks, 3},
		"of several":       {work(0) + work(3) + asks, 0},
		"a known context":  {work(0) + work(3) + "context pid=50 id=4 device=3\n" + asks, 3},
		"a context of two": {work(0) + "context pid=50 id=4 device=0\n" + work(3) + asks, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := stats.New()
			log := convert.Log{Name: "log", Open: logtest.Assemble(t, head+c.log)}
			all := must.Get(convert.Timeline([]convert.Log{log}, convert.Options{}, sink))(t)
			r := sink.Tables(stats.Facts{})[slices.Index(stats.Names(), "memory")]
			index, n := cell(r, r.Rows[0], "gpu"), 0
			for _, g := range all[0].GPUList {
				if fmt.Sprint(g.Index) == fmt.Sprint(index) && g.Name == fmt.Sprint("G", c.gpu) {
					n++
				}
			}
			if n != 1 {
				t.Errorf("memory is on GPU %v, want the process's %d: %+v", index, c.gpu, all[0].GPUList)
			}
		})
	}
}

package read

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// inventoryText shows the GPUs of a timeline, and the number of each device of each log.
func inventoryText(v *Inventory, logs []*Catalog) string {
	var lines []string
	for _, g := range v.List {
		lines = append(lines, fmt.Sprintf("GPU %d: %q %q first %d/%d", g.Index, g.Name, g.UUID, g.PID, g.Device))
	}
	for i, c := range logs {
		for pid := range uint32(5) {
			for device := range uint32(5) {
				if index, used := c.GPUs.Index(pid, device); used {
					lines = append(lines, fmt.Sprintf("log %d: %d/%d is %d", i, pid, device, index))
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// GPUs are numbered by process and device, over all logs. A UUID is one GPU, whatever
// processes call it; a device on which nothing happened has no number.
func TestInventory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		logs []string
		want string
	}{
		{"a device without events", []string{"device pid=1 id=0 name=A uuid=aa"}, ""},
		{"devices in the order of their numbers", []string{`device pid=1 id=1 name=B uuid=bb
device pid=1 id=0 name=A uuid=aa
kernel pid=1 device=1 start=5
memory pid=1 device=0 time=9`},
			`GPU 0: "A" "aa" first 1/0
GPU 1: "B" "bb" first 1/1
log 0: 1/0 is 0
log 0: 1/1 is 1`},
		{"processes in the order of their first record", []string{`process pid=2 start=1
process pid=1 start=1
device pid=1 id=0 name=A uuid=aa
device pid=2 id=0 name=B uuid=bb
kernel pid=1 device=0 start=5
kernel pid=2 device=0 start=6`},
			`GPU 0: "B" "bb" first 2/0
GPU 1: "A" "aa" first 1/0
log 0: 1/0 is 1
log 0: 2/0 is 0`},
		{"two processes that number one GPU differently", []string{`device pid=1 id=0 name=A uuid=aa
device pid=2 id=3 name=A uuid=aa
kernel pid=1 device=0 start=5
kernel pid=2 device=3 start=6`},
			`GPU 0: "A" "aa" first 1/0
log 0: 1/0 is 0
log 0: 2/3 is 0`},
		{"GPUs without a UUID are all different", []string{`device pid=1 id=0 name=A uuid=00000000000000000000000000000000
device pid=2 id=0 name=A
memory_pool pid=1 device=0 time=5
kernel pid=2 device=0 start=6
kernel pid=3 device=0 start=6`},
			`GPU 0: "A" "" first 1/0
GPU 1: "A" "" first 2/0
GPU 2: "" "" first 3/0
log 0: 1/0 is 0
log 0: 2/0 is 1
log 0: 3/0 is 2`},
		{"a GPU of two logs", []string{`device pid=1 id=0 name=A uuid=aa
device pid=1 id=1 name=B uuid=bb
kernel pid=1 device=0 start=5
kernel pid=1 device=1 start=5`, `device pid=1 id=0 name=C uuid=cc
device pid=1 id=1 name=B uuid=bb
kernel pid=1 device=0 start=5
kernel pid=1 device=1 start=5`},
			`GPU 0: "A" "aa" first 1/0
GPU 1: "B" "bb" first 1/1
GPU 2: "C" "cc" first 1/0
log 0: 1/0 is 0
log 0: 1/1 is 1
log 1: 1/0 is 2
log 1: 1/1 is 1`},
		{"what the program calls a device", []string{`device pid=1 id=0 name=A uuid=aa
name pid=1 object_kind=3 id=0 name=left
kernel pid=1 device=0 start=5`},
			`GPU 0: "A (left)" "aa" first 1/0
log 0: 1/0 is 0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var v Inventory
			var logs []*Catalog
			for _, log := range test.logs {
				c := catalogOf(t, logtest.Assemble(t, log))
				v.Number(c)
				logs = append(logs, c)
			}
			goldentest.Same(t, test.want, inventoryText(&v, logs), "GPUs")
		})
	}
}

// Blocks with events of several devices name all of them.
func TestDevicesOfBlocks(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Parts(t,
		"kernel pid=1 device=2 start=5\nkernel pid=1 device=1 start=5\nkernel pid=1 device=2 start=6",
		"memory pid=1 device=0 time=5\nmemory pid=2 device=0 time=5"))
	var v Inventory
	v.Number(c)
	want := "GPU 0: \"\" \"\" first 1/0\nGPU 1: \"\" \"\" first 1/1\nGPU 2: \"\" \"\" first 1/2\nGPU 3: \"\" \"\" first 2/0\n" +
		"log 0: 1/0 is 0\nlog 0: 1/1 is 1\nlog 0: 1/2 is 2\nlog 0: 2/0 is 3"
	goldentest.Same(t, want, inventoryText(&v, []*Catalog{c}), "GPUs")
	if !c.GPUs.Uses(3) || c.GPUs.Uses(4) {
		t.Error("the log uses GPU 3 and no GPU 4")
	}
}

// A GPU of the timeline has what the log says of the device.
func TestGPUFacts(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `device pid=1 id=2 name=old uuid=ab
device pid=1 id=2 name=H200 uuid=ab major=9 minor=1 multiprocessors=132 memory=1000 bandwidth=77 l2_cache=1 clock=2 copy_engines=3 ecc=1 warp_size=32 max_warps=4 max_blocks=5 max_shared=6 max_registers=7 block_registers=8 block_shared=9 block_threads=10 pci=0000:18:00.0 pcie_generation=1 pcie_width=8 pcie_max_generation=5 pcie_max_width=16
memset pid=1 device=2 start=5`))
	var v Inventory
	v.Number(c)
	want := []timeline.GPU{{Index: 0, PID: 1, Device: 2, Name: "H200", UUID: "ab", Major: 9, Minor: 1, Multiprocessors: 132, Memory: 1000, Bandwidth: 77,
		L2Cache: 1, Clock: 2, CopyEngines: 3, ECC: true,
		Limits: timeline.Limits{WarpSize: 32, MaxWarps: 4, MaxBlocks: 5, MaxSharedMemory: 6, MaxRegisters: 7, BlockRegisters: 8, BlockSharedMemory: 9, BlockThreads: 10},
		Link:   timeline.Link{Address: "0000:18:00.0", Generation: 1, Width: 8, MaxGeneration: 5, MaxWidth: 16}}}
	goldentest.Same(t, want, v.List, "GPUs")
}

// Streams are listed by process, context and number; a later record replaces one of the
// same stream or context.
func TestStreamsAndContexts(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `stream pid=2 context=1 id=7
stream pid=1 context=2 id=7
stream pid=1 context=1 id=13
stream pid=1 context=1 id=9 priority=-1
stream pid=1 context=1 id=9 priority=-5
context pid=1 id=1 device=0 null_stream=7
context pid=1 id=1 device=4 null_stream=9`))
	want := []StreamKey{{1, 1, 9}, {1, 1, 13}, {1, 2, 7}, {2, 1, 7}}
	goldentest.Same(t, want, c.GPUs.StreamKeys(), "streams")
	if s := c.GPUs.Streams[StreamKey{1, 1, 9}]; s.Priority != -5 {
		t.Errorf("stream 9 is %+v", s)
	}
	if x := c.GPUs.Contexts[ContextKey{1, 1}]; x.Device != 4 || x.NullStream != 9 || len(c.GPUs.Contexts) != 1 {
		t.Errorf("contexts are %+v", c.GPUs.Contexts)
	}
}

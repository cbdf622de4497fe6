package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// TestCapturedOfRecordings checks the captured calls of the graphs of real recordings. In graphs.cu each line launches a kernel
// of its own, k<LINE>, whose host stub makes the call; a PyTorch program's line N launches a grid of 4*(N-3) blocks.
func TestCapturedOfRecordings(t *testing.T) {
	stub := func(w *timeline.Work) bool {
		return w.Kind != timeline.KernelWork || w.Captured.Caller != nil && strings.Contains(w.Captured.Caller.Symbol, w.Shape.Kernel.Name)
	}
	line := func(w *timeline.Work) bool {
		return w.Call.Python != nil && strings.HasSuffix(w.Call.Python.File, "/lines.py") && w.Shape.Kernel.Grid[0] == 4*(w.Call.Python.Line-3)
	}
	for _, test := range []struct {
		name  string
		nodes int
		right func(*timeline.Work) bool
	}{
		{"child", 24, stub},
		{"cond", 24, stub},
		{"copies", 28, stub},
		{"update", 84, stub},
		{"python", 40_000, line},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tl, _ := timelineOf(t, Path(fmt.Sprintf("../testdata/gpu/logs/graphs/%s.cudatrace", test.name)).Open)
			nodes := 0
			for _, p := range tl.Processes {
				for _, q := range p.Streams {
					for i := range q.Work {
						w := &q.Work[i]
						if w.Graph == 0 {
							continue
						}
						nodes++
						if w.Captured == nil || !test.right(w) {
							t.Fatalf("node %#x, %s: captured by %q", w.GraphNode, w.Shape.Kernel.Name, w.CapturedBy())
						}
					}
				}
			}
			if nodes != test.nodes {
				t.Errorf("%d nodes, want %d", nodes, test.nodes)
			}
		})
	}
}

// A handle of an executable graph is used again and again: each graph's work has the launch of its own capture, however far
// ahead of the work the calls are.
func TestCapturedAnew(t *testing.T) {
	t.Parallel()
	const graphs = 2000
	var calls, work strings.Builder
	calls.WriteString(`function id=1 name=cuLaunchKernel library=driver args="function:handle gridX:u32 gridY:u32 gridZ:u32 blockX:u32 blockY:u32 blockZ:u32 shared:u32 stream:handle"
function id=2 name=cudaStreamBeginCapture library=runtime args="stream:handle mode:enum"
function id=3 name=cudaStreamEndCapture library=runtime args="stream:handle graph:handle"
function id=4 name=cudaGraphInstantiate library=runtime args="graphExec:handle graph:handle"
function id=5 name=cuGraphLaunch library=driver args="graphExec:handle stream:handle"
function id=6 name=cudaGraphExecDestroy library=runtime args="graphExec:handle"
process pid=12 ppid=11 start=100 exe=/tmp/app args=./app
context pid=12 id=1 device=0 null_stream=7
symbol pid=12 time=200 handle=0x51 name=_Z1av
`)
	for i := range graphs {
		at := 1000 * (i + 1)
		call := func(after int, name, args string) {
			fmt.Fprintf(&calls, "call pid=12 tid=12 func=%s enter=%d dur=8 ret=0 args: %s\n", name, at+after, args)
		}
		api := func(after int, cbid, name string, correlation int) {
			fmt.Fprintf(&calls, "api pid=12 tid=12 domain=1 cbid=%s name=%s start=%d dur=4 correlation=%d ret=0\n", cbid, name, at+after+2, correlation)
		}
		call(0, "cudaStreamBeginCapture", "stream=32 mode=0")
		call(10, "cuLaunchKernel", "function=81 gridX=3 gridY=1 gridZ=1 blockX=32 blockY=1 blockZ=1 shared=0 stream=32")
		api(10, "307", "cuLaunchKernel", 2*i+1)
		call(20, "cudaStreamEndCapture", "stream=32 graph=112")
		call(30, "cudaGraphInstantiate", "graphExec=144 graph=112")
		call(40, "cuGraphLaunch", "graphExec=144 stream=32")
		api(40, "514", "cuGraphLaunch", 2*i+2)
		call(50, "cudaGraphExecDestroy", "graphExec=144")
		fmt.Fprintf(&work, "kernel pid=12 context=1 stream=7 correlation=%d graph=%d graph_node=%d start=%d dur=5 name=_Z1av grid_x=3 grid_y=1 grid_z=1 block_x=32 block_y=1 block_z=1\n",
			2*i+2, i+2, (i+2)<<32, at+100)
	}
	tl, _ := timelineOf(t, logtest.Assemble(t, calls.String()+work.String()+"process_end pid=12 time=3000000 status=0 complete=1\nend time=3000100 complete=1\n"))
	for i, w := range tl.Processes[0].Streams[0].Work {
		if want := uint64(1000*(i+1) + 10); w.Captured == nil || w.Captured.Start != want {
			t.Fatalf("graph %d: captured by %q, want the call at %d", w.Graph, w.CapturedBy(), want)
		}
	}
	if n := len(tl.Processes[0].Streams[0].Work); n != graphs {
		t.Errorf("%d pieces of work", n)
	}
}

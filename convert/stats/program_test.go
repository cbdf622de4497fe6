package stats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A program writes the log of a made-up program: one thread that makes calls, one after the other,
// and a GPU with 132 multiprocessors whose streams run their work in order.
type program struct {
	log         strings.Builder
	now         uint64            // of the thread
	free        map[uint32]uint64 // end of the last work of a stream
	functions   map[string]int
	correlation int
	pid         int
	ranges      int
	line        int            // of the Python program that makes the calls; 0 for none
	operator    int            // of PyTorch, likewise
	stacks      map[string]int // Python stacks, by their frames
}

const us, ms = uint64(1_000), uint64(1_000_000)

func newProgram() *program {
	p := &program{pid: 10, now: 10 * ms, free: make(map[uint32]uint64), functions: make(map[string]int)}
	fmt.Fprintln(&p.log, "process pid=10 start=1000 exe=/bin/app args=app\ncupti pid=10 status=on")
	fmt.Fprintln(&p.log, `device pid=10 id=0 name=G uuid=00112233445566778899aabbccddeeff multiprocessors=132 bandwidth=4916000000 pcie_generation=5 pcie_width=16`)
	fmt.Fprintln(&p.log, "context pid=10 id=1 device=0 null_stream=7")
	return p
}

// within has calls made in an operator of PyTorch from now on, at a line of a package or without Python frames.
func (p *program) within(id int, name string, framed bool) {
	fmt.Fprintf(&p.log, "operator_stack id=%d parent=0 name=%s scope=0\n", id, name)
	if p.operator, p.line = id, 0; framed {
		p.line = 300
		fmt.Fprintf(&p.log, "python_frame id=300 file=/venv/lib/python3.12/site-packages/torch/y.py function=g line=8\npython_stack id=300 frame=300\n")
	}
}

// python has calls made at lines of a Python program from now on, of a package that a line of the program calls.
func (p *program) python(line int) {
	p.line = line
	fmt.Fprintf(&p.log, "python_frame id=%[1]d file=/home/ann/train.py function=step line=%[1]d\npython_stack id=%[2]d frame=%[1]d\n", line, 100+line)
	fmt.Fprintf(&p.log, "python_frame id=%[2]d file=/venv/lib/python3.12/site-packages/torch/x.py function=f line=9\npython_stack id=%[3]d parent=%[2]d frame=%[2]d\n", line, 100+line, 200+line)
	p.line = 200 + line
}

// cpu passes time outside of CUDA.
// torch asks PyTorch's allocator for memory, which then has handed out and reserved so much; failed is 1 if it had
// none.
func (p *program) torch(bytes, allocated, reserved uint64, failed int) {
	p.now += us
	fmt.Fprintf(&p.log, "torch_memory pid=10 tid=10 time=%d address=%#x bytes=%d allocated=%d reserved=%d flags=%d "+
		"python=%d\n", p.now, p.now*uint64(1-failed), bytes, allocated, reserved, failed, 100+p.line)
}

func (p *program) cpu(ns uint64) { p.now += ns }

// call makes a call that creates no GPU work.
func (p *program) call(name string, ns uint64) { p.returns(name, ns, 0) }

// returns makes a call with a result.
func (p *program) returns(name string, ns uint64, result int) {
	p.called(name, p.now, ns, result)
	p.now += ns
}

func (p *program) called(name string, at, ns uint64, result int) {
	if _, known := p.functions[name]; !known {
		id := len(p.functions) + 1
		p.functions[name] = id
		library := "runtime"
		if strings.HasPrefix(name, "cuM") || strings.HasPrefix(name, "cuL") || strings.HasPrefix(name, "cuC") {
			library = "driver"
		}
		fmt.Fprintf(&p.log, "function id=%d name=%s library=%s args=\"\"\n", id, name, library)
	}
	fmt.Fprintf(&p.log, "call pid=10 tid=10 func=%s enter=%d dur=%d ret=%d\n", name, at, ns, result)
	if p.line > 0 { // the driver's call within
		fmt.Fprintf(&p.log, "api pid=10 tid=10 domain=1 cbid=243 name=cuMemAlloc_v2 start=%d dur=%d correlation=%d python=%d operators=%d\n", at+1, ns-2, 1<<20+p.now/us, p.line, p.operator)
	}
}

// wait makes a call that returns when all streams have ended their work.
func (p *program) wait(name string) {
	until := p.now + us
	for _, end := range p.free {
		until = max(until, end+5*us)
	}
	p.call(name, until-p.now)
}

// work makes a call that puts work on a stream; the work starts 2 µs after the call, or after the
// stream's earlier work.
func (p *program) work(function string, stream uint32, call, ns uint64, record string) {
	p.at(function, stream, call, ns, record, 0)
}

// at is work that does not start before a time.
func (p *program) at(function string, stream uint32, call, ns uint64, record string, least uint64) {
	p.correlation++
	cbid := map[string]int{"cudaLaunchKernel": 211, "cudaMemcpyAsync": 41, "cudaMemcpy": 31, "cudaMemset": 47, "cudaMemsetAsync": 51, "cudaGraphLaunch": 311}[function]
	fmt.Fprintf(&p.log, "api pid=10 tid=10 domain=2 cbid=%d name=%s start=%d dur=%d correlation=%d python=%d operators=%d\n", cbid, function, p.now, call, p.correlation, p.line, p.operator)
	start := max(p.now+call+2*us, p.free[stream]+us, least)
	kind, fields, _ := strings.Cut(record, " ")
	fmt.Fprintf(&p.log, "%s pid=10 context=1 stream=%d correlation=%d start=%d dur=%d %s\n", kind, stream, p.correlation, start, ns, fields)
	p.free[stream] = start + ns
	p.now += call
}

// kernel launches a kernel.
func (p *program) kernel(stream uint32, ns uint64, blocks int) {
	p.work("cudaLaunchKernel", stream, 5*us, ns, grid("work", blocks))
}

func grid(name string, blocks int) string {
	return fmt.Sprintf("kernel name=%s grid_x=%d grid_y=1 grid_z=1 block_x=128 block_y=1 block_z=1", name, blocks)
}

// Kinds of memory, and directions.
const (
	fromPageable = "copy_kind=1 src_kind=1 dst_kind=3"
	fromPinned   = "copy_kind=1 src_kind=2 dst_kind=3"
	toPinned     = "copy_kind=2 src_kind=3 dst_kind=2"
)

// copy makes a copy; a synchronous one, or one of pageable memory, waits for its end.
func (p *program) copy(function string, stream uint32, bytes int, how string) {
	ns := uint64(bytes)/32 + us // 32 GB/s
	call := 4 * us
	if how == fromPageable {
		call = ns + 3*us
	}
	p.work(function, stream, call, ns, fmt.Sprintf("memcpy bytes=%d %s", bytes, how))
}

// set sets memory; the call of a synchronous set takes as long as a launch and the set.
func (p *program) set(function string, ns uint64) {
	call := 4 * us
	if function == "cudaMemset" {
		call += ns
	}
	p.work(function, 7, call, ns, "memset bytes=1048576 value=0")
}

// bytes ends the log.
func (p *program) bytes(t testing.TB) []byte {
	t.Helper()
	end := p.now
	for _, e := range p.free {
		end = max(end, e)
	}
	fmt.Fprintf(&p.log, "process_end pid=10 time=%d status=0 complete=1\nend time=%d complete=1\n", end+ms, end+2*ms)
	data := must.Get(logtest.Assembled(strings.ReplaceAll(p.log.String(), "pid=10 ", fmt.Sprintf("pid=%d ", p.pid))))(t)
	return data
}

// asLog is the log of the program so far.
func (p *program) asLog(t testing.TB) convert.Log {
	t.Helper()
	return convert.Log{Name: "log", Open: logtest.InMemory(p.bytes(t))}
}

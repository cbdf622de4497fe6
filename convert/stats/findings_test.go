package stats_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// stepping makes steps, each with something and a kernel.
func (p *program) stepping(do func()) {
	times(20, func(i int) {
		p.ranged(fmt.Sprint("step ", i), "", func() {
			do()
			p.kernel(7, ms, 200)
			p.wait("cudaStreamSynchronize")
		})
	})
}

// times does something a number of times.
func times(n int, do func(i int)) {
	for i := range n {
		do(i)
	}
}

// sampledHabits are programs with sampled metrics.
var sampledHabits = []habit{
	{"few SMs", func(p *program) { p.steady("work"); p.pm(100, 12, 0, 1e9, 1e9, 0) }, "idle_sms"},
	{"nearly: few SMs where a kernel runs half of the time", func(p *program) { p.steady("work"); p.pm(50, 12, 0, 1e9, 1e9, 0) }, ""},
	{"nearly: few SMs on a GPU that another process uses", func(p *program) {
		p.steady("work")
		p.pm(100, 12, 0, 1e9, 1e9, 0)
		p.other()
	}, ""},
	{"matrix products without tensor cores", func(p *program) { p.steady("hgemm_fp16"); p.pm(100, 90, 0, 1e9, 1e9, 0) }, "unused_tensor_cores"},
	{"nearly: with tensor cores", func(p *program) { p.steady("hgemm_fp16"); p.pm(100, 90, 60, 1e9, 1e9, 0) }, ""},
	{"nearly: products of single precision", func(p *program) { p.steady("sgemm"); p.pm(100, 90, 0, 1e9, 1e9, 0) }, ""},
	{"DRAM-bound", func(p *program) { p.steady("work"); p.pm(100, 90, 0, 2.1e12, 2.1e12, 0) }, "dram_bound"},
	{"nearly: half of the bandwidth of DRAM", func(p *program) { p.steady("work"); p.pm(100, 90, 0, 1.2e12, 1.2e12, 0) }, ""},
	{"PCIe-bound", func(p *program) {
		p.steady("work")
		p.copy("cudaMemcpyAsync", 7, big, fromPinned)
		p.pm(100, 90, 0, 1e9, 1e9, 57.5e9)
	}, "pcie_bound"},
	{"nearly: half of the bandwidth of PCIe", func(p *program) { p.steady("work"); p.pm(100, 90, 0, 1e9, 1e9, 30e9) }, ""},
	{"clocks lowered by power", func(p *program) { p.steady("work"); p.nvml(metric.PowerCap, 10, 20) }, "clocks_lowered"},
	{"nearly: clocks lowered for a moment", func(p *program) { p.steady("work"); p.nvml(metric.PowerCap, 10, 11) }, ""},
	{"nearly: an idle GPU has low clocks", func(p *program) { p.steady("work"); p.nvml(metric.Idle, 0, 100) }, ""},
}

// steady keeps the GPU busy for 100 ms.
func (p *program) steady(kernel string) {
	times(100, func(int) { p.work("cudaLaunchKernel", 7, 5*us, ms, grid(kernel, 200)) })
}

const gpuUUID = "00112233445566778899aabbccddeeff"

// sampled adds samples of the GPU, one each ms of the program, and before and after it.
func (p *program) sampled(source metric.Source, metrics []metric.Metric, values func(i int) []float64) {
	fmt.Fprintf(&p.log, "metric_set id=%d source=%d device=0 uuid=%s interval=1000000\n", source, source, gpuUUID)
	for i, m := range metrics {
		fmt.Fprintf(&p.log, "metric set=%d index=%d name=%s label=%s unit=%d value_kind=%d scale=1\n", source, i, m.Name, m.Name, m.Unit, m.Kind)
	}
	for i := range 150 {
		fmt.Fprintf(&p.log, "sample set=%d start=%d dur=%d nvalues=%d", source, uint64(i)*ms+1, ms, len(metrics))
		for k, v := range values(i) {
			fmt.Fprintf(&p.log, " value%d=%d", k, metrics[k].Store(v))
		}
		fmt.Fprintln(&p.log)
	}
}

// pm adds samples of PM sampling.
func (p *program) pm(compute, sm, tensor, read, write, pcie float64) {
	percent := func(name string) metric.Metric {
		return metric.Metric{Name: name, Unit: metric.Percent, Kind: metric.Percentage}
	}
	rate := func(name string) metric.Metric {
		return metric.Metric{Name: name, Unit: metric.BytesPerSec, Kind: metric.Rate}
	}
	p.sampled(metric.PM, []metric.Metric{
		percent(metric.NameComputeActive), percent(metric.NameSMActive), percent(metric.NameTensor),
		rate(metric.NameDRAMRead), rate(metric.NameDRAMWrite), rate(metric.NamePCIeRead), rate(metric.NamePCIeWrite),
	}, func(int) []float64 { return []float64{compute, sm, tensor, read, write, pcie, 1e6} })
}

// nvml adds samples of clocks, which a reason lowers from one sample to another.
func (p *program) nvml(r metric.Reason, from, to int) {
	p.sampled(metric.NVML, []metric.Metric{
		{Name: metric.NameReasons, Unit: metric.BitsOfReason, Kind: metric.Bits}, {Name: metric.NameSMClock, Unit: metric.Hertz, Kind: metric.Level},
	}, func(i int) []float64 {
		if i >= from+10 && i < to+10 {
			return []float64{float64(r), 1.2e9}
		}
		return []float64{0, 1.98e9}
	})
}

// other is another process on the GPU.
func (p *program) other() {
	fmt.Fprintf(&p.log, "gpu_user uuid=%s user=99 name=other from=%d to=%d\n", gpuUUID, 20*ms, 30*ms)
}

// A habit is a program that has a finding, or nearly has it.
type habit struct {
	name string
	run  func(p *program)
	want string // kinds of the findings, those that cost most first
}

const big = 1 << 20 // bytes; 33 µs

// Each finding has a program that shows it, and some that nearly do.
var habits = []habit{
	{"large copies of pageable memory", func(p *program) {
		times(10, func(int) { p.copy("cudaMemcpy", 7, big, fromPageable); p.kernel(7, 50*us, 200) })
	}, "pageable_copies"},
	{"a GPU that is idle while memory that is copied is made ready", func(p *program) {
		p.stepping(func() { p.work("cudaMemcpy", 7, 3*ms, 100*us, "memcpy bytes=8388608 "+fromPageable) })
	}, "pageable_copies"},
	{"a GPU that is idle while memory is allocated many times", func(p *program) {
		p.stepping(func() {
			times(5, func(int) {
				p.call("cudaMalloc", 300*us)
				p.call("cudaFree", 300*us)
			})
		})
	}, "gaps"},
	{"large copies of pageable memory by an Async function", func(p *program) {
		times(10, func(int) { p.copy("cudaMemcpyAsync", 7, big, fromPageable); p.kernel(7, 50*us, 200) })
	}, "pageable_copies"},
	{"nearly: of pinned memory", func(p *program) {
		times(10, func(int) { p.copy("cudaMemcpyAsync", 7, big, fromPinned); p.kernel(7, 50*us, 200) })
	}, ""},
	{"nearly: one in a program with other things to do", func(p *program) {
		p.copy("cudaMemcpy", 7, big, fromPageable)
		times(100, func(int) { p.kernel(7, 500*us, 200) })
	}, ""},
	{"nearly: copies of a few bytes, between kernels", func(p *program) {
		times(50, func(int) { p.copy("cudaMemcpy", 7, 64, fromPageable); p.kernel(7, 50*us, 200) })
	}, ""},

	{"a thread without a processor in each step", func(p *program) { p.stepping(func() { p.state(300*us, "state=2") }) }, "critical_path idle_gpu"},
	{"a thread that waits for a pipe in each step", func(p *program) { p.stepping(func() { p.state(300*us, "state=3 call=read on=pipe") }) }, "critical_path"},
	{"a copy before each step's kernel", func(p *program) { p.stepping(func() { p.copy("cudaMemcpyAsync", 7, 16<<20, fromPinned) }) }, "critical_path"},
	{"nearly: without a processor for a short time", func(p *program) { p.stepping(func() { p.state(50*us, "state=2") }) }, ""},
	{"nearly: without a processor while the GPU works", func(p *program) {
		p.stepping(func() {
			p.kernel(7, 900*us, 200)
			p.state(300*us, "state=2")
		})
	}, ""},

	{"small copies in a row", func(p *program) {
		times(10, func(int) {
			times(30, func(int) { p.copy("cudaMemcpyAsync", 7, 256, fromPinned) })
			p.kernel(7, 500*us, 200)
		})
	}, "small_copies"},
	{"nearly: one small copy a step", func(p *program) {
		times(300, func(int) { p.copy("cudaMemcpyAsync", 7, 256, fromPinned); p.kernel(7, 20*us, 200) })
	}, ""},
	{"nearly: three in a row", func(p *program) {
		times(100, func(int) {
			times(3, func(int) { p.copy("cudaMemcpyAsync", 7, 256, fromPinned) })
			p.kernel(7, 50*us, 200)
		})
	}, ""},
	{"nearly: both directions in turn", func(p *program) {
		times(300, func(i int) { p.copy("cudaMemcpyAsync", 7, 256, []string{fromPinned, toPinned}[i%2]); p.cpu(us) })
	}, "idle_gpu"},
	{"nearly: large copies in a row", func(p *program) {
		times(300, func(int) { p.copy("cudaMemcpyAsync", 7, big, fromPinned) })
	}, ""},

	{"synchronous sets", func(p *program) {
		times(50, func(int) { p.set("cudaMemset", 10*us); p.kernel(7, 50*us, 200) })
	}, "synchronous_sets"},
	{"nearly: asynchronous sets", func(p *program) {
		times(50, func(int) { p.set("cudaMemsetAsync", 10*us); p.kernel(7, 50*us, 200) })
	}, ""},
	{"nearly: a few synchronous sets at the start", func(p *program) {
		times(19, func(int) { p.set("cudaMemset", 10*us) })
		times(50, func(int) { p.kernel(7, 50*us, 200) })
	}, ""},

	{"waits for the device in a loop", func(p *program) {
		times(40, func(int) { p.kernel(7, 50*us, 200); p.wait("cudaDeviceSynchronize"); p.cpu(10 * us) })
	}, "device_waits"},
	{"nearly: waits for the stream", func(p *program) {
		times(40, func(int) { p.kernel(7, 50*us, 200); p.wait("cudaStreamSynchronize"); p.cpu(10 * us) })
	}, "idle_gpu"},
	{"nearly: rare waits for the device", func(p *program) {
		times(40, func(int) { times(50, func(int) { p.kernel(7, 50*us, 200) }); p.wait("cudaDeviceSynchronize") })
	}, ""},
	{"nearly: waits for the device that has nothing more to do", func(p *program) {
		times(40, func(int) { p.kernel(7, 400*us, 200) })
		times(40, func(int) { p.wait("cudaDeviceSynchronize") })
	}, ""},
	{"nearly: waits for the device of another thread, behind which there is work", func(p *program) {
		times(40, func(int) { p.kernel(7, 400*us, 200) })
		times(10, func(int) { p.call("cudaEventQuery", us) })
		times(40, func(int) { p.called("cudaDeviceSynchronize", p.now, us/2, 0); p.kernel(7, 400*us, 200) })
	}, ""},

	{"gaps", func(p *program) {
		times(5, func(int) { p.kernel(7, 5*ms, 200); p.cpu(20 * ms) })
	}, "gaps"},
	{"nearly: short gaps", func(p *program) {
		times(20, func(int) { p.kernel(7, 500*us, 200); p.cpu(900 * us) })
	}, "idle_gpu"},
	{"nearly: a GPU that idles for a sixth of the time", func(p *program) {
		times(20, func(int) { p.kernel(7, 500*us, 200); p.cpu(580 * us) })
	}, ""},
	{"nearly: a busy CPU beside a busy GPU", func(p *program) {
		p.kernel(7, ms, 200)
		times(20, func(int) { p.kernel(7, 5*ms, 200); p.cpu(4 * ms) })
	}, ""},
	{"nearly: a long start and a long end", func(p *program) {
		p.call("cudaMalloc", 100*ms)
		times(5, func(int) { p.kernel(7, 5*ms, 200) })
		p.wait("cudaDeviceSynchronize")
		p.cpu(100 * ms)
		p.call("cudaFree", ms)
	}, ""},

	{"tiny kernels", func(p *program) { times(2000, func(int) { p.kernel(7, 2*us, 10) }) }, "tiny_kernels"},
	{"nearly: tiny kernels that are launched ahead", func(p *program) {
		p.kernel(7, 50*ms, 10)
		times(2000, func(int) { p.kernel(7, 2*us, 10) })
	}, ""},
	{"nearly: few tiny kernels", func(p *program) { times(900, func(int) { p.kernel(7, 2*us, 10) }) }, "idle_gpu"},
	{"nearly: kernels longer than their launch", func(p *program) { times(2000, func(int) { p.kernel(7, 6*us, 10) }) }, ""},
	{"nearly: tiny kernels of graphs", func(p *program) {
		times(1000, func(int) {
			p.work("cudaGraphLaunch", 7, 5*us, 2*us, grid("node", 10)+" graph=4 graph_node=17179869185")
		})
	}, "idle_gpu"},
	{"nearly: tiny kernels, each behind a wait", func(p *program) {
		times(2000, func(int) { p.kernel(7, 2*us, 10); p.wait("cudaStreamSynchronize") })
	}, "idle_gpu"},

	{"streams that take turns", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(int) { p.turns(100*us, 40) })
	}, "serial_streams"},
	{"nearly: kernels that fill the GPU", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(int) { p.turns(100*us, 100) })
	}, ""},
	{"nearly: streams that wait for each other", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(int) { p.call("cudaStreamWaitEvent", us); p.turns(100*us, 40) })
	}, ""},
	{"nearly: a log without other calls", func(p *program) { times(40, func(int) { p.turns(100*us, 40) }); p.unprobed() }, ""},
	{"nearly: work that is launched after the other stream's end", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(i int) { p.kernel(uint32(13+i%2), 100*us, 40); p.cpu(120 * us) })
	}, ""},
	{"nearly: streams that overlap", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(i int) { p.kernel(uint32(13+i%2), 100*us, 40) })
	}, ""},
	{"nearly: two copies of one direction", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(int) { p.copies(fromPinned, fromPinned) })
	}, ""},
	{"copies of both directions that take turns", func(p *program) {
		p.call("cudaStreamCreate", us)
		times(40, func(int) { p.copies(fromPinned, toPinned) })
	}, "serial_streams"},

	{"code is loaded in the middle", func(p *program) {
		times(20, func(int) { p.kernel(7, 100*us, 200); p.cpu(110 * us) })
		p.loadingLaunch("late", 600*us)
		times(20, func(int) { p.kernel(7, 100*us, 200); p.cpu(110 * us) })
	}, "first_use"},
	{"a first launch that takes long", func(p *program) {
		times(20, func(int) { p.kernel(7, 100*us, 200); p.cpu(50 * us) })
		p.work("cudaLaunchKernel", 7, 3*ms, 100*us, grid("late", 200))
	}, "first_use"},
	{"nearly: a later launch that takes long", func(p *program) {
		times(40, func(int) { p.kernel(7, 100*us, 200); p.cpu(50 * us) })
		p.work("cudaLaunchKernel", 7, 3*ms, 100*us, grid("work", 200))
	}, "gaps"},
	{"nearly: code is loaded at the start", func(p *program) {
		p.call("cuLibraryLoadData", 50*ms)
		p.loadingLaunch("early", 10*ms)
		times(40, func(int) { p.kernel(7, 100*us, 200); p.cpu(50 * us) })
	}, ""},
	{"nearly: code is loaded while the GPU works", func(p *program) {
		p.kernel(7, 20*ms, 200)
		p.loadingLaunch("other", 10*ms)
	}, ""},

	{"PyTorch runs out of memory", func(p *program) {
		p.python(7)
		p.torch(1<<30, 1<<30, 2<<30, 0)
		p.kernel(7, ms, 200)
		p.torch(4<<30, 1<<30, 2<<30, 1)
	}, "pytorch_out_of_memory"},
	{"nearly: PyTorch has memory", func(p *program) {
		p.python(7)
		p.torch(1<<30, 1<<30, 2<<30, 0)
		p.kernel(7, ms, 200)
	}, ""},

	{"allocation in the loop", func(p *program) {
		times(40, func(int) { p.call("cudaMalloc", 20*us); p.kernel(7, 100*us, 200); p.call("cudaFree", 10*us) })
	}, "allocation_in_loop"},
	{"nearly: from a pool", func(p *program) {
		times(40, func(int) { p.call("cudaMallocAsync", us); p.kernel(7, 100*us, 200); p.call("cudaFreeAsync", us) })
	}, ""},
	{"nearly: many before the loop and after it", func(p *program) {
		times(200, func(int) { p.call("cudaMalloc", 20*us) })
		times(40, func(int) { p.kernel(7, 100*us, 200) })
		times(200, func(int) { p.call("cudaFree", 20*us) })
	}, ""},

	{"failing calls", func(p *program) {
		p.returns("cudaMalloc", 20*us, 2)
		p.kernel(7, 100*us, 200)
	}, "failing_calls"},
	{"nearly: answers", func(p *program) {
		p.returns("cudaStreamQuery", us, 600)
		p.returns("cudaPointerGetAttributes", us, 1)
		p.returns("cudaGetLastError", us, 2)
		p.returns("cudaDeviceEnablePeerAccess", us, 704)
		p.returns("cudaHostRegister", us, 712)
		p.kernel(7, 100*us, 200)
	}, ""},
	{"nearly: NCCL asks for kernels of other GPUs", func(p *program) {
		p.asks("/usr/lib/libnccl.so.2", "cuLibraryGetKernel", 209)
		p.kernel(7, 100*us, 200)
	}, ""},
	{"NCCL's other failures", func(p *program) {
		p.asks("/usr/lib/libnccl.so.2", "cuLibraryGetKernel", 500)
		p.kernel(7, 100*us, 200)
	}, "failing_calls"},
	{"others ask for kernels of other GPUs", func(p *program) {
		p.asks("/tmp/app", "cuLibraryGetKernel", 209)
		p.kernel(7, 100*us, 200)
	}, "failing_calls"},
	{"nearly: what is not freed", func(p *program) {
		times(30, func(int) { p.call("cudaMalloc", 20*us) })
		p.log.WriteString("memory pid=10 tid=10 operation=1 memory_kind=3 device=0 context=1 time=10000000 address=4096 bytes=1073741824\n")
		p.kernel(7, 100*us, 200)
	}, ""},
	{"two habits, the one that costs more first", func(p *program) {
		times(40, func(int) {
			p.copy("cudaMemcpy", 7, big, fromPageable)
			p.kernel(7, 50*us, 200)
			p.wait("cudaStreamSynchronize")
			p.call("cudaMalloc", 100*us)
		})
	}, "allocation_in_loop pageable_copies idle_gpu"},
}

// turns puts a kernel on each of two streams; the second waits for the first though both are
// launched.
func (p *program) turns(ns uint64, blocks int) {
	p.kernel(13, ns, blocks)
	p.at("cudaLaunchKernel", 14, 5*us, ns, grid("work", blocks), p.free[13]+us)
	p.wait("cudaStreamSynchronize")
}

// unprobed takes the calls out of the log that create no GPU work.
func (p *program) unprobed() {
	text := p.log.String()
	p.log.Reset()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "call ") {
			p.log.WriteString(line)
		}
	}
}

// copies puts a copy on each of two streams; the second waits for the first.
func (p *program) copies(a, b string) {
	p.copy("cudaMemcpyAsync", 13, 4*big, a)
	p.at("cudaMemcpyAsync", 14, 4*us, 130*us, "memcpy bytes=4194304 "+b, p.free[13]+us)
	p.wait("cudaStreamSynchronize")
}

// loadingLaunch launches a kernel whose code is loaded within the call.
func (p *program) loadingLaunch(kernel string, ns uint64) {
	p.called("cuLibraryLoadData", p.now+us, ns-2*us, 0)
	p.work("cudaLaunchKernel", 7, ns, 100*us, grid(kernel, 200))
}

// asks makes a call, from a file's code, that returns a result.
func (p *program) asks(file, function string, result int) {
	fmt.Fprintf(&p.log, "caller id=1 function=%s module=%s build_id=0123 address=0x12345 symbol=\"\"\n", function, file)
	p.returns(function, 3*us, result)
	text := strings.TrimSuffix(p.log.String(), "\n")
	p.log.Reset()
	p.log.WriteString(text + " caller=1\n")
}

// query is the form of the query of a finding.
var query = regexp.MustCompile(`^cudatrace stats LOG --report (\S+)(?: --process (\d+))?(?: --from (\S+) --to (\S+))?$`)

// Programs have these findings. The query of each finding shows its evidence: the reports have rows of the process
// and the time that it names.
func TestFindings(t *testing.T) {
	t.Parallel()
	for _, h := range slices.Concat(habits, sampledHabits) {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			h.run(p)
			log := p.asLog(t)
			reports := func(f convert.Filter) map[string]*table.Table {
				return byName(taking(t, stats.NewShort(), convert.Options{Filter: f}, log), stats.Facts{})
			}
			found := reports(convert.Filter{})["findings"]
			var kinds []string
			for _, row := range found.Rows {
				if row.Cells[0] != findings.Startup {
					kinds = append(kinds, row.Cells[0].(string))
				}
			}
			if got := strings.Join(kinds, " "); got != h.want {
				t.Errorf("findings %q, want %q", got, h.want)
			}
			if h.want == "" {
				return
			}
			for _, row := range found.Rows {
				words := query.FindStringSubmatch(cell(found, row, "query").(string))
				if words == nil || words[2] != "10" {
					t.Fatalf("%s: query %q", row.Cells[0], cell(found, row, "query"))
				}
				f := convert.Filter{PIDs: []uint32{10}}
				if words[3] != "" {
					from, err1 := time.ParseDuration(words[3])
					to, err2 := time.ParseDuration(words[4])
					if err1 != nil || err2 != nil || from >= to {
						t.Fatal(words)
					}
					f.From, f.To = from, to
				}
				shown := reports(f)
				for name := range strings.SplitSeq(words[1], ",") {
					if name == "callers" || name == "memory" { // what such a log has not recorded
						continue
					}
					if r := shown[name]; r == nil || len(r.Rows) == 0 {
						t.Errorf("%s: %q shows no %s", row.Cells[0], words[0], name)
					}
				}
			}
		})
	}
}

// Every kind of finding has a program that shows it.
func TestEveryFinding(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{findings.Startup: true} // TestStartup
	for _, h := range slices.Concat(habits, sampledHabits) {
		for _, kind := range strings.Fields(h.want) {
			shown[kind] = true
		}
	}
	for _, h := range rankHabits {
		for _, kind := range strings.Fields(h.want) {
			shown[kind] = true
		}
	}
	for _, kind := range findings.Kinds {
		if !shown[kind.Name] {
			t.Errorf("no program shows %s", kind.Name)
		}
	}
}

// Recordings on a real GPU have these findings, the first one first. Of the other logs none costs enough time.
func TestFindingsOfRecordings(t *testing.T) {
	t.Parallel()
	gpu := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join("..", "..", "testdata", "gpu", "logs", name+".cudatrace"))
		}
		return paths
	}
	want := map[string][]string{
		"train":                  {"launch-bound: 32,090 kernels are shorter than their launch", "start-up of 2.9 s"},
		"nvtx":                   {"launch-bound: 7,252 kernels are shorter than their launch", "start-up of 4.6 s"},
		"streams":                nil, // well-made: asynchronous copies of pinned memory, rare waits
		"nccl":                   {"outside of CUDA calls: GPU 1 (rank 1) is idle 19 times, for up to 3.4 ms", "start-up of 5.6 s", "outside of CUDA calls: GPU 0 (rank 0) is idle 17 times, for up to 3.4 ms"},
		"nccl-rank0":             {"outside of CUDA calls: GPU 0 (rank 0) is idle 17 times, for up to 3.4 ms", "rank 0 communicates without computing in 29.6 % of the time", "start-up of 5.6 s"},
		"nccl-rank1":             {"outside of CUDA calls: GPU 1 (rank 1) is idle 19 times, for up to 3.4 ms", "start-up of 5.1 s"}, // 15 %
		"conditional/if":         {"start-up of 112.1 ms"},                                                                          // a program that ends as soon as it has begun
		"conditional/*":          {"start-up of 116.3 ms"},                                                                          // one after the other: the GPU is idle between them
		"conditional/cupti-bare": {"start-up of 5.1 ms"},
	}
	logs := map[string][]string{"nccl": gpu("nccl-rank0", "nccl-rank1")}
	for _, name := range []string{"train", "nvtx", "streams", "nccl-rank0", "nccl-rank1"} {
		logs[name] = gpu(name)
	}
	conditional, err := filepath.Glob(gpu("conditional/*")[0])
	if err != nil || len(conditional) == 0 {
		t.Fatal(conditional, err)
	}
	logs["conditional/*"] = conditional
	for _, path := range conditional {
		logs["conditional/"+strings.TrimSuffix(filepath.Base(path), ".cudatrace")] = []string{path}
	}
	for name, paths := range logs {
		titles, known := want[name]
		r := tablesOf(t, paths...)["findings"]
		var got []string
		for _, row := range r.Rows {
			got = append(got, cell(r, row, "title").(string))
			if c := cell(r, row, "confidence"); c != "certain" && c != "likely" {
				t.Errorf("%s: %s has the confidence %q", name, row.Cells[1], c)
			}
			if share := cell(r, row, "share"); share != nil && !(share.(float64) >= 0.01 && share.(float64) <= 1) {
				t.Errorf("%s: %s has the share %v", name, row.Cells[1], share)
			}
		}
		switch {
		case known && !slices.Equal(got, titles):
			t.Errorf("%s: findings %q, want %q", name, got, titles)
		case !known && (len(got) != 1 || !strings.HasPrefix(got[0], "start-up of ")):
			t.Errorf("%s: findings %q, want the start-up alone", name, got)
		}
	}
	for name, tables := range everyTable(t) {
		if strings.HasPrefix(name, "h200-") {
			continue
		}
		for _, row := range tables["findings"].Rows {
			if name == "threads" && row.Cells[0] == "gaps" { // a quarter of the time is not known: there is no verdict
				if text := fmt.Sprint(row.Cells...); !strings.Contains(text, "train.py:41 main, blocked in poll on a pipe 60.0 ms") || !strings.Contains(text, "see what the CPU does") {
					t.Errorf("threads: finding %s", text)
				}
				continue
			}
			if name == "torchmemory" && row.Cells[0] == "pytorch_out_of_memory" {
				continue
			}
			if row.Cells[0] != "failing_calls" && row.Cells[0] != findings.Startup {
				t.Errorf("%s: finding %v", name, row)
			}
		}
	}
}

// Start-up is told once, by what it is made of, and no finding counts what belongs to it.
func TestStartup(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.call("cuDevicePrimaryCtxRetain", 100*ms)
	p.call("cudaMalloc", 2*ms)
	p.kernel(7, ms, 200)
	times(200, func(int) { p.set("cudaMemsetAsync", us) }) // more than a quarter of all work, as libraries set and copy when they start
	p.cpu(500 * ms)
	p.loadingLaunch("late", 50*ms)
	times(30, func(int) { p.copy("cudaMemcpy", 7, big, fromPageable) })
	p.call("cudaGraphInstantiate", 20*ms)
	p.work("cudaGraphLaunch", 7, 5*us, 900*us, grid("work", 10)+" graph=4 graph_node=17179869185")
	start := p.now
	times(300, func(int) { p.kernel(7, 900*us, 200); p.cpu(600 * us) })
	times(30, func(int) { p.call("cudaFree", 10*ms) })
	r := p.reports(t, false)["findings"]
	if len(r.Rows) != 1 {
		t.Fatalf("findings %v", r.Rows)
	}
	row := r.Rows[0]
	const want = "from the first call to the end of what is done for the first time: making contexts 100.0 ms, loading code 50.0 ms, capturing graphs 20.0 ms, allocating 2.0 ms, other things 501.9 ms"
	if got := cell(r, row, "evidence"); row.Cells[0] != findings.Startup || got != want || cell(r, row, "cost_ns").(uint64) != start-10*ms || cell(r, row, "share") != nil {
		t.Errorf("%v\n%q, want\n%q", row, got, want)
	}
	if !strings.Contains(cell(r, row, "try").(string), "outside of these calls") {
		t.Errorf("try %q", cell(r, row, "try"))
	}
}

// A share is one of the steady state: not of the start-up, nor of the time in which the GPU is another process'.
func TestShares(t *testing.T) {
	t.Parallel()
	s := stats.New()
	var list []convert.Log
	for i := range 2 {
		p := newProgram()
		p.pid, p.now = 11+i, 10*ms+uint64(i)*5_000*ms // one after the other
		p.kernel(7, ms, 200)
		p.cpu(900 * ms)
		p.loadingLaunch("late", 100*ms)
		times(10, func(int) { p.cpu(15 * ms); p.kernel(7, 5*ms, 200) })
		list = append(list, convert.Log{Name: fmt.Sprint("log", i), Open: logtest.InMemory(p.bytes(t))})
	}
	r := byName(taking(t, s, convert.Options{}, list...), stats.Facts{})["findings"]
	if len(r.Rows) != 3 || r.Rows[2].Cells[0] != findings.Startup || !strings.Contains(cell(r, r.Rows[2], "evidence").(string), "; 2 processes start up, 2.0 s together") {
		t.Fatalf("findings %v", r.Rows)
	}
	for _, row := range r.Rows[:2] {
		// Of the 15 ms between two launches, the kernel before takes 5 ms. The first launch belongs to the start-up.
		if cost, share := cell(r, row, "cost_ns").(uint64), cell(r, row, "share").(float64); row.Cells[0] != "gaps" || cost < 104*ms || cost > 105*ms || share < 0.67 || share > 0.68 {
			t.Errorf("%v", row)
		}
	}
}

// A log without all records has no findings about gaps, a part of a log has none at all.
func TestFindingsOfParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		facts stats.Facts
		want  []string
	}{
		{stats.Facts{}, []string{"device_waits", "pageable_copies"}},
		{stats.Facts{Incomplete: true}, []string{"pageable_copies"}},
		{stats.Facts{Chosen: true}, nil},
	} {
		p := newProgram()
		times(40, func(int) {
			p.copy("cudaMemcpy", 7, big, fromPageable)
			p.kernel(7, 50*us, 200)
			p.wait("cudaDeviceSynchronize")
			p.cpu(100 * us)
		})
		r := p.counted(t, false, c.facts)["findings"]
		var got []string
		for _, row := range r.Rows {
			got = append(got, row.Cells[0].(string))
		}
		if !slices.Equal(got, c.want) || c.facts.Incomplete != (len(r.Notes) == 1) || c.facts.Chosen != strings.Contains(r.Reason, "leave out the filter") {
			t.Errorf("%+v: findings %q, notes %q, reason %q", c.facts, got, r.Notes, r.Reason)
		}
	}
}

// A finding names the Python lines of its calls, if nine in ten have frames.
func TestFindingLines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(p *program)
		want map[string]string // the end of the evidence, by the kind of finding
	}{
		"two lines": {func(p *program) {
			times(12, func(i int) { p.python(7 + i/9); p.copy("cudaMemcpy", 7, big, fromPageable); p.kernel(7, 50*us, 200) })
		}, map[string]string{"pageable_copies": "; made at /home/ann/train.py:7 step 0.3 ms (8 times), /home/ann/train.py:8 step 0.1 ms (3 times)"}},
		"too few frames": {func(p *program) {
			times(12, func(i int) {
				if p.python(7); i > 9 {
					p.line = 0
				}
				p.copy("cudaMemcpy", 7, big, fromPageable)
				p.kernel(7, 50*us, 200)
			})
		}, map[string]string{"pageable_copies": "HtoD 0.4 ms (11 times)"}},
		"operators at a line of a package": {func(p *program) {
			p.within(1, "aten::copy_", true)
			times(12, func(int) { p.copy("cudaMemcpy", 7, big, fromPageable); p.kernel(7, 50*us, 200) })
		}, map[string]string{"pageable_copies": "; made at /venv/lib/python3.12/site-packages/torch/y.py:8 g in aten::copy_ 0.4 ms (11 times)"}},
		"several operators at a line of a package": {func(p *program) {
			times(12, func(i int) {
				p.within(1+i%2, fmt.Sprint("aten::to", i%2), true)
				p.copy("cudaMemcpy", 7, big, fromPageable)
				p.kernel(7, 50*us, 200)
			})
		}, map[string]string{"pageable_copies": "torch/y.py:8 g 0.4 ms (11 times)"}},
		"operators without lines": {func(p *program) {
			p.within(1, "aten::copy_", false)
			times(12, func(int) { p.copy("cudaMemcpy", 7, big, fromPageable); p.kernel(7, 50*us, 200) })
		}, map[string]string{"pageable_copies": "; made at aten::copy_ 0.4 ms (11 times)"}},
		"small copies": {func(p *program) {
			p.python(3)
			times(10, func(int) {
				times(30, func(int) { p.copy("cudaMemcpyAsync", 7, 256, fromPinned) })
				p.kernel(7, 500*us, 200)
			})
		}, map[string]string{"small_copies": "; made at /home/ann/train.py:3 step 1.0 ms (261 times)"}},
		"sets": {func(p *program) {
			p.python(4)
			times(50, func(int) { p.set("cudaMemset", 20*us); p.kernel(7, 2*us, 200) })
		}, map[string]string{"synchronous_sets": "; made at /home/ann/train.py:4 step 1.2 ms (49 times)"}},
		"allocations and gaps": {func(p *program) {
			p.python(5)
			times(50, func(int) { p.call("cudaMalloc", 100*us); p.kernel(7, 50*us, 200) })
			times(5, func(int) { p.wait("cudaStreamSynchronize"); p.cpu(20 * ms); p.python(6); p.kernel(7, ms, 200) })
		}, map[string]string{
			"allocation_in_loop": "; made at /home/ann/train.py:5 step 4.9 ms (49 times)",
			"gaps":               "; the gaps end with launches at /home/ann/train.py:6 step 100.1 ms (5 times)",
		}},
	} {
		p := newProgram()
		p.wait("cudaStreamSynchronize")
		c.run(p)
		r := byName(taking(t, stats.NewShort(), convert.Options{}, p.asLog(t)), stats.Facts{})["findings"]
		for _, row := range r.Rows {
			evidence, want := cell(r, row, "evidence").(string), c.want[row.Cells[0].(string)]
			if want != "" && !strings.HasSuffix(evidence, want) {
				t.Errorf("%s: the evidence of %s is %q, want %q at its end", name, row.Cells[0], evidence, want)
			}
			delete(c.want, row.Cells[0].(string))
		}
		if len(c.want) > 0 {
			t.Errorf("%s: no findings with %q", name, c.want)
		}
	}
}

// from gives the latest call a caller.
func (p *program) from(file, function string, id int) {
	if !strings.Contains(p.log.String(), fmt.Sprintf("\ncaller id=%d ", id)) {
		text := p.log.String()
		at := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
		p.log.Reset()
		fmt.Fprintf(&p.log, "%scaller id=%d function=cudaStreamSynchronize module=%s build_id=0123 address=0x%d000 symbol=%s\n%s", text[:at], id, file, id, function, text[at:])
	}
	text := strings.TrimSuffix(p.log.String(), "\n")
	p.log.Reset()
	fmt.Fprintf(&p.log, "%s caller=%d\n", text, id)
}

// The evidence names the place of calls that wait, and the kernels for which code was loaded.
func TestFindingPlaces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		run  func(p *program)
		want string
	}{
		"waits of two places": {func(p *program) {
			times(30, func(i int) {
				p.kernel(7, 50*us, 200)
				p.wait("cudaDeviceSynchronize")
				p.from("/bin/app", []string{"train", "log"}[i/20], 1+i/20)
				p.cpu(100 * us)
			})
		}, "idle until the next launch after cudaDeviceSynchronize at app: train+0x0 2."},
		"waits of no known place": {func(p *program) {
			times(30, func(int) { p.kernel(7, 50*us, 200); p.wait("cudaDeviceSynchronize"); p.cpu(100 * us) })
		}, "idle until the next launch after cudaDeviceSynchronize 3."},
		"gaps in which a line waits": {func(p *program) {
			times(5, func(int) {
				p.kernel(7, 5*ms, 200)
				p.call("cudaStreamSynchronize", 30*ms)
				p.from("/bin/app", "train", 1)
			})
		}, "the GPU is idle for 100.0 ms, 80.0 % of the time after start-up; "},
		"code of two kernels": {func(p *program) {
			times(40, func(int) { p.kernel(7, 100*us, 200); p.cpu(110 * us) })
			p.loadingLaunch("late", 600*us)
			p.loadingLaunch("later", 500*us)
			times(40, func(int) { p.kernel(7, 100*us, 200); p.cpu(110 * us) })
		}, "time in calls that load code, while the GPU is idle: cudaLaunchKernel for late"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			c.run(p)
			r := byName(taking(t, stats.NewShort(), convert.Options{}, p.asLog(t)), stats.Facts{})["findings"]
			if got := cell(r, r.Rows[0], "evidence").(string); !strings.HasPrefix(got, c.want) {
				t.Errorf("evidence %q, want %q", got, c.want)
			}
		})
	}
}

// The finding names when, how often and for how long.
func TestFindingEvidence(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.kernel(7, ms, 200)
	for _, pause := range []uint64{5 * ms, 30 * ms, 2 * ms, 20 * ms, 10 * ms} {
		p.wait("cudaStreamSynchronize")
		p.cpu(pause)
		p.kernel(7, ms, 200)
	}
	r := p.reports(t, false)["findings"]
	if len(r.Rows) != 1 {
		t.Fatalf("%d findings: %v", len(r.Rows), r.Rows)
	}
	get := func(key string) any { return r.Rows[0].Cells[r.Column(key)] }
	// A gap lasts as long as the pause, 5 µs of the wait, 5 µs of the launch and 2 µs until the start. The pause is what could be saved.
	if cost, want := get("cost_ns"), 67*ms; cost != want || get("count") != uint64(5) || get("gpu") != uint64(0) || get("pid") != uint64(10) {
		t.Errorf("cost %v, want %d; count %v, gpu %v, pid %v", cost, want, get("count"), get("gpu"), get("pid"))
	}
	at := get("at_ns").([]uint64)
	if len(at) != 3 || get("first_ns") != at[0]-5*ms-ms-12*us || get("last_ns").(uint64) <= at[1] {
		t.Errorf("at %v, first %v, last %v", at, get("first_ns"), get("last_ns"))
	}
	const want = "the GPU is idle for 67.1 ms, 91.8 % of the time after start-up; what the launching threads did meanwhile: (outside of CUDA calls) 67.0 ms, cudaLaunchKernel 25.0 µs, " +
		"cudaStreamSynchronize 25.0 µs, (start of work on an idle GPU) 10.0 µs"
	if got := get("evidence"); got != want {
		t.Errorf("evidence %q, want %q", got, want)
	}
}

// A process that is known from its middle on has no start-up: the recorder attached to it, or a filter begins later. Its steps all count, but for those that had begun.
func TestNoStartup(t *testing.T) {
	t.Parallel()
	const ranks = "../../testdata/gpu/logs/ranks/"
	straggler := []string{ranks + "straggler-rank0.cudatrace", ranks + "straggler-rank3.cudatrace"}
	for _, c := range []struct {
		name    string
		logs    []string
		filter  convert.Filter
		steps   uint64
		startup bool
	}{
		{"attached", []string{ranks + "armed-1.cudatrace"}, convert.Filter{}, 257, false},
		{"steps", straggler, convert.Filter{Steps: convert.Steps{Ranges: pattern.Ranges{Name: "step", Domain: "*"}, First: 3, Last: 5, Chosen: true}}, 6, false},
		{"later", straggler, convert.Filter{From: 13222 * time.Millisecond}, 29, false},
		{"before its GPU work", straggler, convert.Filter{From: 5 * time.Second}, 30, true},
		{"whole", straggler, convert.Filter{}, 30, true},
	} {
		for _, r := range sinkOf(t, convert.Options{Filter: c.filter}, c.logs...).Tables(stats.Facts{}) {
			switch r.Name {
			case "step_kinds":
				left := uint64(0)
				if c.startup {
					left = uint64(len(c.logs))
				}
				if n, starting := cell(r, r.Rows[0], "count"), cell(r, r.Rows[0], "starting"); n != c.steps || starting != left {
					t.Errorf("%s: %v steps, %v of the start-up", c.name, n, starting)
				}
			case "findings":
				has := slices.ContainsFunc(r.Rows, func(row table.Row) bool { return row.Cells[0] == findings.Startup })
				if has != c.startup || !slices.ContainsFunc(r.Rows, func(row table.Row) bool {
					return row.Cells[0] == "gaps" || strings.HasSuffix(strings.Join(cell(r, row, "also").([]string), ""), "(gaps)")
				}) {
					t.Errorf("%s: a start-up: %v; %v", c.name, has, r.Rows)
				}
			}
		}
	}
}

// The log says that its recording begins in the middle of a process.
func TestNoStartupByLog(t *testing.T) {
	t.Parallel()
	for fact, want := range map[string]bool{
		"":                                       true,
		"options=--pid 10":                       false,
		"options=--pid 100":                      true,
		"schedule=duration 5s":                   true,
		"schedule=capture range cudaProfilerApi": false,
		"last_held_ns=100000000":                 false, // of 1.1 s
		"last_held_ns=30000000000":               true,
	} {
		p := newProgram()
		if key, value, ok := strings.Cut(fact, "="); ok {
			fmt.Fprintf(&p.log, "meta key=%s value=%q\n", key, value)
		}
		p.call("cuDevicePrimaryCtxRetain", 100*ms)
		times(100, func(int) { p.kernel(7, ms, 200); p.cpu(10 * ms) })
		r := p.reports(t, false)["findings"]
		if got := slices.ContainsFunc(r.Rows, func(row table.Row) bool { return row.Cells[0] == findings.Startup }); got != want {
			t.Errorf("%q: a start-up: %v", fact, got)
		}
	}
}

package stats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// reports returns the reports of a program.
func (p *program) reports(t testing.TB, named bool) map[string]*table.Table {
	t.Helper()
	return p.counted(t, named, stats.Facts{})
}

func (p *program) counted(t testing.TB, named bool, f stats.Facts) map[string]*table.Table {
	t.Helper()
	s := stats.New()
	if named {
		s.NameSteps()
	}
	return byName(taking(t, s, convert.Options{}, p.asLog(t)), f)
}

// ranged is an NVTX range around what a program does.
func (p *program) ranged(name, domain string, do func()) {
	p.ranges++
	id := p.ranges
	fmt.Fprintf(&p.log, "marker pid=10 tid=10 id=%d flags=2 time=%d name=%q domain=%q\n", id, p.now, name, domain)
	do()
	fmt.Fprintf(&p.log, "marker pid=10 tid=10 id=%d flags=4 time=%d name=\"\" domain=%q\n", id, p.now, domain)
}

// profiled is what a program does while profilers are on.
func (p *program) profiled(do func()) {
	p.call("cudaProfilerStart", 5*us)
	do()
	p.call("cudaProfilerStop", 5*us)
}

// layers launches kernels: a head, some layers of three kernels, and an optimizer.
func (p *program) layers(n int) {
	p.work("cudaLaunchKernel", 7, 5*us, 10*us, grid("head", 10))
	times(n, func(int) {
		for _, kernel := range []string{"norm", "attention", "mlp"} {
			p.work("cudaLaunchKernel", 7, 5*us, 10*us, grid(kernel, 10))
		}
	})
	times(5, func(i int) { p.work("cudaLaunchKernel", 7, 5*us, 10*us, grid(fmt.Sprint("optimizer", i), 10)) })
}

// The steps of programs that name them, and of programs that do not; and where nothing is known to be a step.
func TestStepsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		run  func(p *program)
		want string // kinds of step: name, source, steps, steps of the start-up
	}{
		{"numbered ranges", func(p *program) {
			times(20, func(i int) { p.ranged(fmt.Sprint("step ", i), "", func() { p.layers(3) }) })
		}, "step NVTX 19 1"},
		{"numbered ranges of a domain, with facts behind a comma", func(p *program) {
			times(20, func(i int) { p.ranged(fmt.Sprintf("ProfilerStep#%d, epoch 1", i), "torch", func() { p.layers(3) }) })
		}, "ProfilerStep NVTX 19 1"},
		{"ranges of one name", func(p *program) {
			times(20, func(int) { p.ranged("iteration", "", func() { p.layers(3) }) })
		}, "iteration NVTX 19 1"},
		{"ranges within ranges, within one of the whole program", func(p *program) {
			p.ranged("training", "", func() {
				times(20, func(i int) {
					p.ranged(fmt.Sprint("step ", i), "", func() {
						p.ranged("layer 0", "", func() { p.layers(1) })
						p.ranged("layer 1", "", func() { p.layers(1) })
					})
				})
			})
		}, "step NVTX 19 1"},
		{"two loops", func(p *program) {
			times(20, func(i int) { p.ranged(fmt.Sprint("train ", i), "", func() { p.layers(3) }) })
			times(4, func(i int) { p.ranged(fmt.Sprint("eval ", i), "", func() { p.layers(1) }) })
		}, "train NVTX 19 1, eval NVTX 4 0"},
		{"no ranges: launches that repeat, with layers that repeat within", func(p *program) {
			times(40, func(int) { p.layers(12); p.cpu(100 * us) })
		}, "step launches on stream 7 (default) 38 1"},
		{"no ranges: launches that repeat for long", func(p *program) {
			times(300, func(int) { p.layers(12); p.cpu(100 * us) })
		}, "step launches on stream 7 (default) 298 1"},
		{"ranges of NCCL and of operators are no steps", func(p *program) {
			times(40, func(int) {
				p.ranged("ncclAllReduce", "NCCL", func() { p.cpu(us) })
				p.ranged("aten::add, seq = 1", "", func() { p.cpu(us) })
				p.layers(12)
			})
		}, "step launches on stream 7 (default) 38 1"},
		{"no ranges: parts that are profiled", func(p *program) {
			times(20, func(int) { p.profiled(func() { p.layers(3) }); p.layers(1) })
		}, "profiled cudaProfilerStart 19 1"},
		{"ranges within parts that are profiled", func(p *program) {
			times(4, func(i int) {
				p.profiled(func() { times(5, func(k int) { p.ranged(fmt.Sprint("step ", 5*i+k), "", func() { p.layers(3) }) }) })
			})
		}, "step NVTX 19 1"},
		{"one part that is profiled, a second that is not ended", func(p *program) {
			p.profiled(func() { times(400, func(int) { p.kernel(7, 10*us, 20) }) })
			p.call("cudaProfilerStart", 5*us)
		}, ""},
		{"two ranges", func(p *program) {
			times(2, func(i int) { p.ranged(fmt.Sprint("step ", i), "", func() { p.layers(3) }) })
		}, ""},
		{"two ranges that the recording was limited to, far apart", func(p *program) {
			fmt.Fprintln(&p.log, `meta key=schedule value="capture range nvtx:step, steps 7-8"`)
			times(2, func(int) { p.ranged("step", "", func() { p.layers(3) }); p.cpu(100 * ms) })
		}, "step NVTX 2 0"},
		{"a loop of one kernel", func(p *program) { times(400, func(int) { p.kernel(7, 10*us, 20) }) }, ""},
		{"launches in no order", func(p *program) {
			x := uint32(1)
			times(3_000, func(int) {
				x = x*1664525 + 1013904223
				p.work("cudaLaunchKernel", 7, 5*us, 10*us, grid(fmt.Sprint("k", x>>28), 10))
			})
		}, ""},
		{"steps that grow", func(p *program) { times(60, func(i int) { p.layers(3 + i) }) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			c.run(p)
			r := p.reports(t, false)["step_kinds"]
			var got []string
			for _, row := range r.Rows {
				got = append(got, fmt.Sprint(row.Cells[0], " ", cell(r, row, "source"), " ", cell(r, row, "count"), " ", cell(r, row, "starting")))
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("%q, want %q", text, c.want)
			}
		})
	}
}

// What a step is made of adds up to its time, and the slowest one is named.
func TestStepTimes(t *testing.T) {
	t.Parallel()
	p := newProgram()
	var begin []uint64
	times(20, func(i int) {
		begin = append(begin, p.now)
		p.ranged(fmt.Sprint("step ", i), "", func() {
			p.work("cudaLaunchKernel", 7, 5*us, 100*us, grid("work", 10))
			p.copy("cudaMemcpyAsync", 7, 32*99_000, fromPinned) // 100 µs
			p.work("cudaLaunchKernel", 7, 5*us, 50*us, grid("_Z17ncclDevKernel_AllP1", 10))
			if p.cpu(400 * us); i == 12 {
				p.cpu(300 * us)
			}
		})
	})
	all := p.reports(t, false)
	r := all["step_kinds"]
	if len(r.Rows) != 1 {
		t.Fatalf("%d kinds of step: %s", len(r.Rows), r.Reason)
	}
	row := r.Rows[0]
	const n, length = 19, 414 * 1000
	for key, want := range map[string]any{"count": uint64(n), "starting": uint64(1), "min_ns": uint64(length), "max_ns": uint64(length + 300*us), "slowest": uint64(12), "total_ns": n*length + 300*us,
		"compute_ns": n * 100 * us, "copy_ns": n * 100 * us, "exposed_ns": n * 50 * us, "idle_ns": n*(length-250*us) + 300*us, "confidence": "certain", "pid": uint64(10)} {
		if got := cell(r, row, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	// Nothing follows behind the last step's 155 µs.
	what, idle := cell(r, row, "meanwhile").([]string), cell(r, row, "meanwhile_ns").([]uint64)
	if want := []string{"(outside of CUDA calls)", "cudaLaunchKernel", "(earlier work of its stream)", "(start of work on an idle GPU)"}; !slices.Equal(what, want) || total(idle)+155*us != cell(r, row, "idle_ns").(uint64) || idle[1] != n*5*us {
		t.Errorf("idle: %v, %v of %v", what, idle, cell(r, row, "idle_ns"))
	}
	steps := all["steps"]
	if len(steps.Rows) != 20 {
		t.Fatalf("%d steps: %s", len(steps.Rows), steps.Reason)
	}
	for i, row := range steps.Rows {
		if cell(steps, row, "number") != uint64(i) || cell(steps, row, "compute_ns") != 100*us || i > 0 && cell(steps, row, "at_ns").(uint64)-cell(steps, steps.Rows[0], "at_ns").(uint64) != begin[i]-begin[0] {
			t.Errorf("step %d: %v", i, row)
		}
	}
}

// total is the sum of some times.
func total(list []uint64) (ns uint64) {
	for _, v := range list {
		ns += v
	}
	return ns
}

// state is what the thread did for a time outside of calls.
func (p *program) state(ns uint64, fields string) {
	fmt.Fprintf(&p.log, "thread_state pid=10 tid=10 start=%d dur=%d cpu=1 %s\n", p.now, ns, fields)
	p.cpu(ns)
}

// Idle time belongs to the step in which it passes, and to what the thread did in that step: here a step begins amid each gap. Behind the last
// step of the process nothing follows, and the GPU has work of another process.
func TestStepIdle(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		p := newProgram()
		if second {
			fmt.Fprintln(&p.log, "process pid=11 start=1000 exe=/bin/app args=app\ncupti pid=11 status=on\ndevice pid=11 id=0 name=G uuid=00112233445566778899aabbccddeeff multiprocessors=132\ncontext pid=11 id=1 device=0 null_stream=7")
		}
		times(20, func(i int) {
			p.ranged(fmt.Sprint("step ", i), "", func() {
				p.state(300*us, "state=3 call=read on=file")
				p.kernel(7, 100*us, 20)
				p.state(200*us, "state=3 call=poll on=pipe")
				if second {
					fmt.Fprintf(&p.log, "kernel pid=11 context=1 stream=7 correlation=%d start=%d dur=%d name=other grid_x=1 grid_y=1 grid_z=1 block_x=1 block_y=1 block_z=1\n", i+1, p.now-20*us, 10*us)
				}
			})
		})
		r := p.reports(t, false)["step_kinds"]
		if len(r.Rows) != 1 {
			t.Fatalf("%d kinds of step: %s", len(r.Rows), r.Reason)
		}
		what, ns, idle := cell(r, r.Rows[0], "meanwhile").([]string), cell(r, r.Rows[0], "meanwhile_ns").([]uint64), cell(r, r.Rows[0], "idle_ns").(uint64)
		const n = 19
		if want := []string{"blocked in read on a file", "blocked in poll on a pipe"}; !slices.Equal(what[:2], want) || ns[0] != n*300*us {
			t.Errorf("second process %v: idle %v, %v", second, what, ns)
		}
		// The GPU is idle for 98 µs of the 200 µs. The last step's, and the time up to the other process' work, no work of the process ends.
		want := uint64(n-1) * 98 * us
		if second {
			want = (n - 1) * 10 * us
		}
		if ns[1] != want || total(ns) > idle {
			t.Errorf("second process %v: %s for %d ns, want %d; %d of %d", second, what[1], ns[1], want, total(ns), idle)
		}
	}
}

// frames adds Python stacks: each frame is FILE:FUNCTION:FIRST LINE:LINE, the outermost first. Calls are made there from now on; none makes them without.
func (p *program) frames(frames ...string) {
	p.line = 0
	for i, f := range frames {
		key := strings.Join(frames[:i+1], " ")
		if p.stacks == nil {
			p.stacks = make(map[string]int)
		}
		id, known := p.stacks[key]
		if !known {
			id = len(p.stacks) + 1
			p.stacks[key] = id
			x := strings.Split(f, ":")
			fmt.Fprintf(&p.log, "python_frame id=%d file=%s function=%s first_line=%s line=%s\n", id, x[0], x[1], x[2], x[3])
			fmt.Fprintf(&p.log, "python_stack id=%d frame=%d parent=%d\n", id, id, p.line)
		}
		p.line = id
	}
}

// What repeats is not always a step: it may be a part of one call, or of one phase of the program.
func TestStepsUnclaimed(t *testing.T) {
	t.Parallel()
	const main, module = "/home/ann/run.py:main:1:", "/venv/lib/python3.12/site-packages/torch/nn/module.py:Module._call_impl:1700:1747"
	const net, block, solver = "/home/ann/net.py:Net.forward:50:", "/home/ann/net.py:Block.forward:20:", "/venv/lib/python3.12/site-packages/cupyx/linalg.py:cg:10:"
	launch := func(p *program, name string) { p.work("cudaLaunchKernel", 7, 5*us, 10*us, grid(name, 10)) }
	layer := func(p *program, above ...string) {
		for i, kernel := range []string{"norm", "qkv", "attention", "project", "mlp"} {
			p.frames(append(above, module, block+fmt.Sprint(21+i))...)
			launch(p, kernel)
		}
	}
	for _, c := range []struct {
		name         string
		run          func(p *program)
		steps        uint64
		reason, note string
	}{
		{"equal layers of one forward pass", func(p *program) {
			p.frames(main+"5", module, net+"51")
			launch(p, "embed")
			times(96, func(int) { layer(p, main+"5", module, net+"53") })
			p.frames(main+"5", module, net+"55")
			launch(p, "head")
		}, 0, "95 repetitions of the launches on stream 7 (default) of process 10 are no steps: they lie within one call at /home/ann/net.py:53 Net.forward", ""},
		{"inner iterations of a solver", func(p *program) {
			p.frames(main+"5", solver+"15")
			launch(p, "residual")
			times(359, func(int) {
				for i, kernel := range []string{"spmv", "dot", "axpy", "axpy2", "norm"} {
					p.frames(main+"5", solver+fmt.Sprint(20+i))
					launch(p, kernel)
				}
			})
		}, 0, "358 repetitions of the launches on stream 7 (default) of process 10 are no steps: they lie within one call at /venv/lib/python3.12/site-packages/cupyx/linalg.py:20 cg", ""},
		{"inner iterations of a solver that is no Python", func(p *program) {
			p.frames(main + "5")
			launch(p, "residual")
			times(359, func(int) {
				for _, kernel := range []string{"spmv", "dot", "axpy", "axpy2", "norm"} {
					launch(p, kernel)
				}
			})
		}, 0, "358 repetitions of the launches on stream 7 (default) of process 10 are no steps: they lie within one call at /home/ann/run.py:5 main", ""},
		{"a loop of forward passes", func(p *program) {
			p.frames(main + "3")
			launch(p, "load")
			times(96, func(int) { layer(p, main+"5") })
		}, 95, "", "steps: 95, 98.8 % of the GPU work; what lies outside is not in these figures"},
		{"two phases", func(p *program) {
			times(60, func(i int) { p.layers(12) })
			times(60, func(i int) {
				times(20+i%7, func(int) { launch(p, "eval") })
				times(20, func(int) { launch(p, "metric") })
			})
		}, 0, "59 repetitions of the launches on stream 7 (default) of process 10 are no steps: they have 49 % of the GPU work", ""},
		{"a short second phase", func(p *program) {
			times(60, func(i int) { p.layers(12) })
			times(20, func(i int) {
				times(20+i%7, func(int) { launch(p, "eval") })
				times(20, func(int) { launch(p, "metric") })
			})
		}, 59, "", "steps: 59, 73.4 % of the GPU work; what lies outside is not in these figures; that they are no parts of one call, such as layers of a forward pass, is not known"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			c.run(p)
			r := p.reports(t, false)["step_kinds"]
			n := uint64(0)
			for _, row := range r.Rows {
				n += cell(r, row, "count").(uint64) + cell(r, row, "starting").(uint64)
			}
			if notes := strings.Join(r.Notes, "; "); n != c.steps || r.Reason != c.reason || notes != c.note {
				t.Errorf("%d steps, reason %q, notes %q; want %d, %q, %q", n, r.Reason, notes, c.steps, c.reason, c.note)
			}
		})
	}
}

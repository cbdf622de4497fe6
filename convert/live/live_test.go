package live_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/live"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// text shows a report in lines.
func text(r *live.Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.3f-%.3f now %+v all %+v\n", float64(r.From)/1e9, float64(r.To)/1e9, r.Now, r.All)
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "  GPU %d %q busy %d all %d queue %.3f memory %+v\n", g.Index, g.Name, g.Busy, g.All, g.Queue, g.Memory)
	}
	for _, t := range []struct {
		name string
		rows []live.Row
	}{{"copy", r.Copies}, {"kernel", r.Kernels}, {"function", r.Functions}, {"line", r.Lines}, {"error", r.Errors}, {"loss", r.Losses}} {
		for _, row := range t.rows {
			fmt.Fprintf(&b, "  %s %s now %+v all %+v\n", t.name, row.Name, row.Now, row.All)
		}
	}
	return b.String()
}

// A growing log of one process: its lines come in steps, as a recorder writes them.
const definitions = `
clock monotonic=1000000000 realtime=1700000000000000000
function id=1 name=cudaLaunchKernel library=runtime
function id=2 name=cudaMemcpyAsync library=runtime
function id=3 name=cudaMalloc library=runtime
process pid=1 start=1000000000 exe=/bin/app
device pid=1 id=0 name=H200 uuid=0011
cupti pid=1 status=on
`

// A launch is a call with its API record and its kernel.
func launch(id int, enter, leave, start, end uint64, kernel string) string {
	return fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=%d\napi pid=1 tid=1 domain=2 name=cudaLaunchKernel start=%d dur=%d correlation=%d\n"+
		"kernel pid=1 context=1 stream=7 correlation=%d start=%d dur=%d name=%s\n", enter, leave-enter, enter+1, leave-enter-2, id, id, start, end-start, kernel)
}

func flushed(until uint64) string {
	return fmt.Sprintf("flushed pid=0 until=%d\nflushed pid=1 until=%d\n", until, until)
}

const ms = 1_000_000

// follow gives the reports of a log that grows by texts.
func follow(t *testing.T, texts []string, o live.Options) (steps []string) {
	t.Helper()
	g := logtest.NewGrowing(t)
	var said strings.Builder
	o.Report = func(r *live.Report) { said.WriteString(text(r)) }
	f, err := convert.Follow(func() (*tracelog.Reader, error) { return tracelog.NewReader(g, g.Size(), "growing") }, live.New(o))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range texts {
		g.Append(part)
		must.Do(t, f.Read(nil))
		steps = append(steps, said.String())
		said.Reset()
	}
	g.Finish(tracelog.End{Complete: 1})
	must.Do(t, f.Close())
	return append(steps, said.String())
}

// Each interval is reported when the log is known a second beyond its end, with what ended in it.
func TestReports(t *testing.T) {
	t.Parallel()
	steps := follow(t, []string{
		definitions + flushed(1000*ms),
		launch(1, 1100*ms, 1101*ms, 1200*ms, 1400*ms, "_Z3addv") + launch(2, 1110*ms, 1112*ms, 1400*ms, 1500*ms, "_Z3mulv") +
			"call pid=1 tid=1 func=#3 enter=1300000000 dur=1000000 ret=2\nlost cause=cupti_queue count=3 to=1600000000\n" + flushed(2500*ms),
		launch(3, 2100*ms, 2101*ms, 2200*ms, 2300*ms, "_Z3addv") +
			"memory pid=1 operation=1 memory_kind=3 time=2150000000 address=0x10 bytes=4096\n" +
			"call pid=1 tid=1 func=#2 enter=2110000000 dur=1000000\napi pid=1 tid=1 domain=2 name=cudaMemcpyAsync start=2110000001 dur=999000 correlation=9\n" +
			"memcpy pid=1 context=1 stream=7 correlation=9 start=2500000000 dur=250000000 bytes=1000000 copy_kind=1\n" + flushed(3100*ms),
		flushed(4200 * ms),
	}, live.Options{})
	want := []string{"", "", `0.000-1.000 now {Calls:3 CallTime:4000000 Launches:2 Failed:1 Kernels:2 Copies:0 Memsets:0 GPUTime:300000000 Lost:3} all {Calls:3 CallTime:4000000 Launches:2 Failed:1 Kernels:2 Copies:0 Memsets:0 GPUTime:300000000 Lost:3}
  GPU 0 "H200" busy 300000000 all 300000000 queue 0.387 memory {Live:4096 Peak:4096}
  kernel add now {N:1 Time:200000000 Bytes:0} all {N:1 Time:200000000 Bytes:0}
  kernel mul now {N:1 Time:100000000 Bytes:0} all {N:1 Time:100000000 Bytes:0}
  function cudaLaunchKernel now {N:2 Time:3000000 Bytes:0} all {N:2 Time:3000000 Bytes:0}
  function cudaMalloc now {N:1 Time:1000000 Bytes:0} all {N:1 Time:1000000 Bytes:0}
  error cudaMalloc: cudaErrorMemoryAllocation now {N:1 Time:0 Bytes:0} all {N:1 Time:0 Bytes:0}
  loss cupti_queue now {N:3 Time:0 Bytes:0} all {N:3 Time:0 Bytes:0}
`, `1.000-2.000 now {Calls:2 CallTime:2000000 Launches:1 Failed:0 Kernels:1 Copies:1 Memsets:0 GPUTime:350000000 Lost:0} all {Calls:5 CallTime:6000000 Launches:3 Failed:1 Kernels:3 Copies:1 Memsets:0 GPUTime:650000000 Lost:3}
  GPU 0 "H200" busy 350000000 all 650000000 queue 0.488 memory {Live:4096 Peak:4096}
  copy HtoD now {N:1 Time:250000000 Bytes:1000000} all {N:1 Time:250000000 Bytes:1000000}
  kernel add now {N:1 Time:100000000 Bytes:0} all {N:2 Time:300000000 Bytes:0}
  kernel mul now {N:0 Time:0 Bytes:0} all {N:1 Time:100000000 Bytes:0}
  function cudaLaunchKernel now {N:1 Time:1000000 Bytes:0} all {N:3 Time:4000000 Bytes:0}
  function cudaMemcpyAsync now {N:1 Time:1000000 Bytes:0} all {N:1 Time:1000000 Bytes:0}
  function cudaMalloc now {N:0 Time:0 Bytes:0} all {N:1 Time:1000000 Bytes:0}
  error cudaMalloc: cudaErrorMemoryAllocation now {N:0 Time:0 Bytes:0} all {N:1 Time:0 Bytes:0}
  loss cupti_queue now {N:0 Time:0 Bytes:0} all {N:3 Time:0 Bytes:0}
`, ""}
	goldentest.Same(t, want, steps, "reports by step")
}

// GPU work counts for the Python line that launched it, once a call has had one; other work counts beside it.
func TestLines(t *testing.T) {
	t.Parallel()
	framed := func(id int, at uint64, stack int) string {
		return strings.Replace(launch(id, at, at+ms, at+10*ms, at+20*ms, "_Z3addv"), "\nkernel", fmt.Sprintf(" python=%d\nkernel", stack), 1)
	}
	steps := follow(t, []string{
		definitions + "thread pid=1 tid=1 name=pt_autograd_0\n" + launch(1, 1100*ms, 1101*ms, 1200*ms, 1400*ms, "_Z3addv") + flushed(3100*ms),
		"python_frame id=1 file=/home/a.py function=main line=4\npython_stack id=1 frame=1\n" +
			"python_frame id=2 file=/usr/lib/python3.12/x.py function=f line=9\npython_stack id=2 parent=1 frame=2\n" +
			framed(2, 3200*ms, 1) + framed(3, 3300*ms, 2) + launch(4, 3400*ms, 3401*ms, 3410*ms, 3420*ms, "_Z3addv") + flushed(5200*ms),
	}, live.Options{})
	if strings.Contains(steps[0], "line") {
		t.Errorf("before the first frame it says\n%s", steps[0])
	}
	for _, want := range []string{"  line /home/a.py:4 main now {N:2 Time:20000000 Bytes:0} all {N:2 Time:20000000 Bytes:0}\n",
		"  line (no Python frame: autograd) now {N:1 Time:10000000 Bytes:0} all {N:2 Time:210000000 Bytes:0}\n"} {
		if !strings.Contains(steps[1], want) {
			t.Errorf("no %q in\n%s", want, steps[1])
		}
	}
}

// Work that ends after its time was taken to be idle is counted there all the same.
func TestLongKernel(t *testing.T) {
	t.Parallel()
	steps := follow(t, []string{
		definitions + flushed(1000*ms), flushed(2000 * ms), flushed(3000 * ms), flushed(4000 * ms),
		launch(1, 1100*ms, 1101*ms, 1500*ms, 4500*ms, "_Z4longv") + flushed(5000*ms), flushed(6000 * ms),
	}, live.Options{})
	last := steps[5]
	for _, want := range []string{"3.000-4.000 now {Calls:0 ", `busy 500000000 all 3000000000 `, "kernel long now {N:1 Time:3000000000"} {
		if !strings.Contains(last, want) {
			t.Errorf("the report lacks %q:\n%s", want, last)
		}
	}
}

// Calls come long before the first records from CUPTI: they wait, and no launch counts twice.
func TestFirstRecords(t *testing.T) {
	t.Parallel()
	var calls, records strings.Builder
	for i := range 20 {
		lines := strings.SplitAfter(launch(i+1, uint64(1100+i)*ms, uint64(1100+i)*ms+900_000, uint64(1200+i)*ms, uint64(1200+i)*ms+5, "_Z3addv"), "\n")
		calls.WriteString(lines[0])
		records.WriteString(lines[1] + lines[2])
	}
	steps := follow(t, []string{
		definitions, calls.String() + "flushed pid=0 until=1500000000\n", "flushed pid=0 until=2100000000\n",
		records.String() + flushed(2200*ms),
	}, live.Options{})
	if all := strings.Join(steps, ""); !strings.Contains(all, "now {Calls:20 CallTime:18000000 Launches:20 Failed:0 Kernels:20 ") {
		t.Errorf("the reports are\n%s", all)
	}
}

// Reports of any pieces of a log from a GPU add up to what a conversion counts.
func TestSumsOfPieces(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"streams", "train"} {
		path := "../../testdata/gpu/logs/" + name + ".cudatrace"
		all := must.Get(convert.Timeline([]convert.Log{convert.Path(path)}, convert.Options{}, nil))(t)
		data := must.Get(os.ReadFile(path))(t)
		for _, pieces := range []int{1, 7, 100} {
			log := &growing{data: data}
			var last *live.Report
			var to, busy uint64
			sink := live.New(live.Options{Interval: 100 * time.Millisecond, Report: func(r *live.Report) {
				if r.From != to && to != 0 && r.From < to {
					t.Errorf("a report is from %d, the one before to %d", r.From, to)
				}
				to, last = r.To, r
				for _, g := range r.GPUs {
					busy += g.Busy
				}
			}})
			f := must.Get(convert.Follow(log.open, sink))(t)
			for i := range pieces {
				log.size = int64(len(data) * (i + 1) / pieces)
				must.Do(t, f.Read(nil))
			}
			must.Do(t, f.Close())
			s, got := &all[0], last.All
			if got.Calls != s.Calls || got.Kernels != s.Kernels || got.Copies != s.Copies || got.Memsets != s.Memsets || got.Failed != s.Failed || got.Launches < s.Launches {
				t.Errorf("%s in %d pieces: %+v, want %d calls, %d launches, %d kernels, %d copies, %d memsets, %d failed", name, pieces, got,
					s.Calls, s.Launches, s.Kernels, s.Copies, s.Memsets, s.Failed)
			}
			if g := last.GPUs[0]; g.Memory.Peak != s.PeakDevice || g.All > got.GPUTime || g.All < busy {
				t.Errorf("%s in %d pieces: %+v, busy %d in the reports, want a peak of %d", name, pieces, g, busy, s.PeakDevice)
			}
		}
	}
}

// A growing is a log of which the first bytes are there.
type growing struct {
	data []byte
	size int64
}

func (g *growing) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(g.data[:g.size]).ReadAt(b, off)
}
func (g *growing) Size() int64 { return g.size }
func (g *growing) open() (*tracelog.Reader, error) {
	g.size = max(g.size, 64)
	return tracelog.NewReader(g, g.size, "growing")
}

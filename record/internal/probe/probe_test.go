package probe

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/elfsym"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// functionOf is the function of a call.
func functionOf(c tracelog.Call) *cudaapi.Function {
	all := cudaapi.Functions(cudaapi.All)
	return all[slices.IndexFunc(all, func(f *cudaapi.Function) bool { return uint32(f.ID) == c.Func })]
}

// args gives a call's arguments by name.
func args(c tracelog.Call) map[string]uint64 {
	values := map[string]uint64{}
	for i, a := range functionOf(c).Args {
		values[a.Name] = c.Args[i]
	}
	return values
}

func TestArguments(t *testing.T) {
	t.Parallel()
	r := record(t, modeAuto, "driver", "values", 0)
	type expected struct {
		name string
		ret  int32
		args map[string]uint64
	}
	want := []expected{
		{"cuLaunchKernel", 0, map[string]uint64{"function": 0xf00d00000000, "gridX": 1, "gridY": 2, "gridZ": 3,
			"blockX": 4, "blockY": 5, "blockZ": 6, "shared": 7, "stream": 0}},
		{"cuLaunchKernelEx", 0, map[string]uint64{"function": 0xbeef, "gridX": 10, "gridY": 11, "gridZ": 12,
			"blockX": 13, "blockY": 14, "blockZ": 15, "shared": 16, "stream": 0x100005150}},
		// The struct is the numbers from 100 on, 8 bytes each.
		{"cuMemcpy3D_v2", 0, map[string]uint64{"srcType": 104, "srcHost": 105, "srcDevice": 106,
			"dstType": 115, "dstHost": 116, "dstDevice": 117, "width": 122, "height": 123, "depth": 124}},
		{"cuMemcpy3D_v2", 0, map[string]uint64{"srcType": 0, "srcHost": 0, "srcDevice": 0,
			"dstType": 0, "dstHost": 0, "dstDevice": 0, "width": 0, "height": 0, "depth": 0}},
		{"cuMemAlloc_v2", 0, map[string]uint64{"devPtr": 0x7000001000, "bytes": 4096}},
		{"cuMemAlloc_v2", 1, map[string]uint64{"devPtr": 0, "bytes": 0}},
		{"cuStreamSynchronize", 0, map[string]uint64{"stream": 0}},
		{"cuStreamSynchronize", 0, map[string]uint64{"stream": 0}},
	}
	var got []expected
	for _, c := range r.byEntry() {
		got = append(got, expected{functionOf(c).Name, c.Ret, args(c)})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(expected{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// Structs that are passed by value, and values that are written into structs.
func TestStructArguments(t *testing.T) {
	t.Parallel()
	r := record(t, modeAuto, "shared", "structs", 0)
	type expected struct {
		name string
		args map[string]uint64
	}
	milliseconds := uint64(math.Float32bits(3.5))
	want := []expected{
		{"cudaLaunchKernel", map[string]uint64{"function": 0xabc000, "gridX": 1, "gridY": 2, "gridZ": 3,
			"blockX": 4, "blockY": 5, "blockZ": 6, "shared": 4096, "stream": 0x5151}},
		{"__cudaLaunchKernel", map[string]uint64{"kernel": 0xdef000, "gridX": 4, "gridY": 5, "gridZ": 6,
			"blockX": 1, "blockY": 2, "blockZ": 3, "shared": 8192, "stream": 0x6161}},
		{"cudaMemset3DAsync", map[string]uint64{"dst": 0x1234000, "pitch": 512, "value": 0xfffffffe,
			"width": 100, "height": 200, "depth": 300, "stream": 0x7171}},
		{"cudaMalloc3D", map[string]uint64{"devPtr": 0x77000, "pitch": 200, "width": 100, "height": 200, "depth": 300}},
		{"cudaIpcOpenMemHandle", map[string]uint64{"devPtr": 0x88005, "flags": 1}},
		{"cudaMemAdvise_v2", map[string]uint64{"devPtr": 0x99000, "bytes": 77, "advice": 3, "locationType": 1, "location": 0xfffffff9}},
		{"cudaEventElapsedTime", map[string]uint64{"milliseconds": milliseconds, "start": 10, "end": 12}},
	}
	var got []expected
	for _, c := range r.byEntry() {
		got = append(got, expected{functionOf(c).Name, args(c)})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(expected{})); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestRuntime(t *testing.T) {
	for _, program := range []string{"shared", "static"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			r := record(t, modeAuto, program, "values", 0)
			if n := len(r.named("cuStreamSynchronize")); n != 0 {
				t.Errorf("%d calls of the driver's wait beside the runtime's", n)
			}
			if n := len(r.named("cuMemAlloc_v2")); n != 2 {
				t.Errorf("%d calls of the driver's allocation, which is probed beside the runtime's: want 2", n)
			}
			if n := len(r.named("cuLaunchKernel")); n != 1 {
				t.Errorf("%d launches", n)
			}
			mallocs := r.named("cudaMalloc")
			if len(mallocs) != 2 || mallocs[0].Args[0] != 0x9000000040 || mallocs[1].Ret != 2 || mallocs[1].Args[0] != 0 {
				t.Errorf("calls of cudaMalloc: %+v", mallocs)
			}
			devices := r.named("cudaGetDevice")
			if len(devices) != 1 || int32(devices[0].Args[0]) != -3 || devices[0].Args[0]>>32 != 0 {
				t.Errorf("calls of cudaGetDevice: %+v", devices)
			}
		})
	}
}

// A function that ends in a jump to another one shares its frame with it.
func TestJumpedTo(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		r := record(t, m, "shared", "values", 0)
		outer, inner := r.named("cudaDeviceSynchronize"), r.named("cudaStreamSynchronize")
		if len(outer) != 1 || len(inner) != 1 {
			t.Fatalf("%d outer and %d inner calls", len(outer), len(inner))
		}
		o, i := outer[0], inner[0]
		if o.Flags != 0 || i.Flags != 0 || o.Enter >= i.Enter || o.Enter+o.Dur < i.Enter+i.Dur {
			t.Errorf("the outer call %+v does not hold the inner %+v", o, i)
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	before := host.Monotonic()
	r := record(t, modeAuto, "driver", "launches", 1000)
	after := host.Monotonic()
	if len(r.calls) != 1000 {
		t.Fatalf("%d calls", len(r.calls))
	}
	slices.SortFunc(r.calls, func(a, b tracelog.Call) int { return int(a.Args[1]) - int(b.Args[1]) })
	end := before
	for i, c := range r.calls {
		if c.Enter < end || c.Dur == 0 || c.Args[1] != uint64(i) {
			t.Fatalf("call %d is %+v after %d", i, c, end)
		}
		end = c.Enter + c.Dur
	}
	if end > after {
		t.Errorf("calls end at %d, the program at %d", end, after)
	}
}

func TestNesting(t *testing.T) {
	t.Parallel()
	const depth = 5
	r := record(t, modeAuto, "driver", "nested", depth)
	if n := r.count("cuStreamSynchronize", 0); n != depth {
		t.Fatalf("%d calls of %d: %+v", n, depth, r.calls)
	}
	// Inner calls return, and are delivered, first.
	for i, c := range r.calls[:depth-1] {
		outer := r.calls[i+1]
		if outer.Enter >= c.Enter || outer.Enter+outer.Dur <= c.Enter+c.Dur {
			t.Errorf("call %+v is not inside %+v", c, outer)
		}
	}
}

func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("nested", 20)
	target.run("launches", 1)
	r := finish(t, p)
	if n, lost := r.count("cuStreamSynchronize", 0), lostCalls(t, p, tracelog.LostNesting); n != 8 || lost != 12 {
		t.Errorf("%d calls and %d lost of 20", n, lost)
	}
	if n := r.count("cuLaunchKernel", 0); n != 1 {
		t.Errorf("%d of the one call after it", n)
	}
}

func TestLongjmp(t *testing.T) {
	t.Parallel()
	r := record(t, modeAuto, "driver", "jumps", 7)
	if n := r.count("cuLaunchKernel", tracelog.CallNoReturn); n != 7 {
		t.Errorf("%d of 7 calls left by longjmp", n)
	}
	if n := r.count("cuLaunchKernel", 0); n != 1 {
		t.Errorf("%d of the one call that returned", n)
	}
}

func TestThreads(t *testing.T) {
	t.Parallel()
	r := record(t, modeAuto, "driver", "threads", 500)
	perThread := map[uint32]int{}
	for _, c := range r.calls {
		perThread[c.TID]++
	}
	if len(perThread) != 64 {
		t.Errorf("%d threads of 64", len(perThread))
	}
	for tid, n := range perThread {
		if n != 500 {
			t.Errorf("thread %d has %d calls of 500", tid, n)
		}
	}
	names := map[string]int{}
	for _, th := range r.threads {
		names[th.Name]++
	}
	goldentest.Same(t, map[string]int{"worker": 64}, names, "names")
}

func TestRenamedThread(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		p, target := open(t, Options{}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("renames", 0)
		if ends {
			target.kill()
		}
		r := finish(t, p)
		want := []tracelog.Thread{
			{PID: uint32(target.pid), TID: uint32(target.pid), Name: "driver"},
			{PID: uint32(target.pid), TID: uint32(target.pid), Name: "renamed"},
		}
		goldentest.Same(t, want, r.threads, "program ended: %v: names", ends)
	}
}

// Calls that never return are delivered whether the process lives on or is killed.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		p, target := open(t, Options{}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("waiting", 3)
		before := host.Monotonic()
		target.begin("hang", 0)
		if line := target.line(); line != "hanging" {
			t.Fatal(line)
		}
		waitAsleep(t, target.pid)
		if killed {
			target.kill()
		}
		r := finish(t, p)
		if n := r.count("cuStreamSynchronize", tracelog.CallUnfinished); n != 3 {
			t.Errorf("killed: %v: %d of 3 waiting threads: %+v", killed, n, r.calls)
		}
		launch := r.named("cuLaunchKernel")
		if len(launch) == 1 && (launch[0].Enter < before || launch[0].Enter > host.Monotonic()) {
			t.Errorf("killed: %v: the hanging launch began at %d, after %d", killed, launch[0].Enter, before)
		}
		if len(launch) != 1 || launch[0].Flags != tracelog.CallUnfinished || launch[0].Dur != 0 || launch[0].Args[1] != 9 {
			t.Errorf("killed: %v: the hanging launch is %+v", killed, launch)
		}
	}
}

// Calls that have not returned are seen from the second look on, each once, and delivered when they return or at the end all the
// same.
func TestOpenCalls(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m}), startTarget(t, "driver")
		attach(t, p, target)
		target.run("waiting", 3)
		target.run("launches", 5)
		target.begin("asks", 9)
		if line := target.line(); line != "inside" {
			t.Fatal(line)
		}
		early := host.Monotonic()
		seen := &recorder{}
		look := func(before uint64) int {
			p.OpenCalls(before, func(c *tracelog.Call) { seen.Call(c) })
			return len(seen.calls)
		}
		if n := look(host.Monotonic()); n != 0 {
			t.Errorf("the first look saw %d calls", n)
		}
		must.Wait(t, func() bool { return look(host.Monotonic()) >= 4 }, func() string {
			return "the open calls are not seen"
		})
		for range 3 {
			look(host.Monotonic())
		}
		if n, launches := seen.count("cuStreamSynchronize", tracelog.CallUnfinished), seen.named("cuLaunchKernel"); n != 3 || len(launches) != 1 || launches[0].Args[1] != 9 || launches[0].Enter > early {
			t.Errorf("%d of 3 waiting threads, launches %+v", n, launches)
		}
		target.begin("", 0) // what the call waits for
		if line := target.line(); line != "done" {
			t.Fatal(line)
		}
		r := finish(t, p)
		if n, open := r.count("cuLaunchKernel", 0), r.count("cuLaunchKernel", tracelog.CallUnfinished); n != 6 || open != 0 {
			t.Errorf("%d launches of 6, and %d that had not returned", n, open)
		}
		if n := r.count("cuStreamSynchronize", tracelog.CallUnfinished); n != 3 {
			t.Errorf("%d of 3 waiting threads at the end", n)
		}
		if p.OpenCalls(host.Monotonic(), func(c *tracelog.Call) { t.Errorf("seen after the end: %+v", c) }); p.Close() != nil {
			t.Error("closing failed")
		}
		p.OpenCalls(host.Monotonic(), func(c *tracelog.Call) { t.Errorf("seen when closed: %+v", c) })
	})
}

// waitAsleep waits until the process's first thread sleeps in its hanging call.
func waitAsleep(tb testing.TB, pid int) {
	tb.Helper()
	must.Wait(tb, func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		return err == nil && strings.HasPrefix(string(text), fmt.Sprintf("%d ", pauseCall))
	}, func() string { return "the target does not reach its pause" })
}

func TestOverflow(t *testing.T) {
	t.Parallel()
	const calls = 20_000
	p, target := open(t, Options{BufferBytes: 1}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("launches", calls)
	r := finish(t, p)
	lost := lostCalls(t, p, tracelog.LostCallBuffer)
	if lost == 0 || len(r.calls) == 0 || uint64(len(r.calls))+lost != calls {
		t.Errorf("%d calls and %d lost of %d", len(r.calls), lost, calls)
	}
}

func TestThreadTableFull(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{maxThreads: 2}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("waiting", 5)
	target.run("launches", 10)
	r := finish(t, p)
	lost := lostCalls(t, p, tracelog.LostThreadTable)
	if uint64(len(r.calls))+lost != 15 || lost != 13 {
		t.Errorf("%d calls and %d lost of 15", len(r.calls), lost)
	}
}

func TestUnreadableMemory(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	attach(t, p, target)
	target.run("values", 0)
	finish(t, p)
	if n, err := p.Unreadable(); err != nil || n == 0 {
		t.Errorf("%d faults are counted (%v)", n, err)
	}
}

func TestOtherProcesses(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, probed, other := open(t, Options{mode: m}), startTarget(t, "driver"), startTarget(t, "driver")
		attach(t, p, probed)
		other.run("launches", 100)
		probed.run("forks", 50)
		probed.run("launches", 10)
		other.run("threads", 1)
		r := finish(t, p)
		for _, c := range r.calls {
			if c.PID != uint32(probed.pid) {
				t.Fatalf("a call of another process: %+v", c)
			}
		}
		if len(r.calls) != 11 {
			t.Errorf("%d calls of 11", len(r.calls))
		}
	})
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	p, a, b := open(t, Options{}), startTarget(t, "driver"), startTarget(t, "shared")
	attach(t, p, a)
	attach(t, p, b)
	a.run("launches", 100)
	b.run("launches", 50)
	starting.RLock()
	err := p.Detach(a.pid)
	starting.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	a.run("launches", 100)
	b.run("launches", 50)
	r := finish(t, p)
	perProcess := map[uint32]int{}
	for _, c := range r.calls {
		perProcess[c.PID]++
	}
	goldentest.Same(t, map[uint32]int{uint32(a.pid): 100, uint32(b.pid): 100}, perProcess, "calls")
}

func TestLibraries(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "static")
	a := attach(t, p, target)
	var got []string
	for _, l := range a.Libraries {
		names := []string{l.Side.String()}
		for _, f := range l.Functions {
			names = append(names, f.Name)
		}
		got = append(got, strings.Join(names, " "))
		if len(l.Refused) > 0 {
			t.Errorf("refused: %s", l.Refused)
		}
	}
	want := []string{
		"runtime cudaLaunchKernel __cudaLaunchKernel cudaMemset3DAsync cudaMalloc cudaMalloc3D cudaMemAdvise_v2 cudaIpcOpenMemHandle" +
			" cudaStreamSynchronize cudaDeviceSynchronize cudaEventElapsedTime cudaGetDevice cudaProfilerStart cudaProfilerStop",
		// cuLaunchKernel_ptsz is the same address.
		"driver cuLaunchKernel cuLaunchKernelEx cuGraphLaunch cuMemcpy3D_v2 cuMemAlloc_v2 cuModuleGetFunction cuKernelGetFunction",
	}
	goldentest.Same(t, want, got, "libraries")
}

// A library that was deleted after it was mapped is still found.
func TestDeletedLibrary(t *testing.T) {
	t.Parallel()
	dir := must.Get(builds())(t)
	copied := t.TempDir()
	for _, name := range []string{"libcuda.so.1"} {
		b := must.Get(os.ReadFile(dir + "/" + name))(t)
		must.Do(t, os.WriteFile(copied+"/"+name, b, 0o755))
	}
	p := open(t, Options{})
	target := startTarget(t, "driver", "LD_PRELOAD="+copied+"/libcuda.so.1")
	must.Do(t, os.Remove(copied+"/libcuda.so.1"))
	a := attach(t, p, target)
	if len(a.Libraries) != 1 || !strings.HasPrefix(a.Libraries[0].Path, copied) {
		t.Fatalf("libraries: %+v", a.Libraries)
	}
	target.run("launches", 3)
	if r := finish(t, p); len(r.calls) != 3 {
		t.Errorf("%d calls of 3", len(r.calls))
	}
}

func TestEndedProcess(t *testing.T) {
	t.Parallel()
	p, target := open(t, Options{}), startTarget(t, "driver")
	target.kill()
	_, err := p.Attach(target.pid)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("error %v", err)
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	const calls = 100_000
	p, target := open(t, Options{BufferBytes: 1 << 20}), startTarget(t, "driver")
	attach(t, p, target)
	ctx, stop := context.WithCancel(t.Context())
	var r recorder
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, &r) }()
	target.run("launches", calls)
	stop()
	must.Do(t, <-ended)
	must.Do(t, p.Finish(&r))
	if n := uint64(len(r.calls)) + lostCalls(t, p, tracelog.LostCallBuffer); n != calls {
		t.Errorf("%d calls of %d", n, calls)
	}
}

// Closing twice, or without Finish, leaves no probe behind: the library's code in the
// process is what it was before.
func TestCloseRestoresCode(t *testing.T) {
	eachMode(t, func(t *testing.T, m attachMode) {
		p, target := open(t, Options{mode: m}), startTarget(t, "driver")
		before := codeOf(t, target.pid)
		attach(t, p, target)
		if bytes.Equal(before, codeOf(t, target.pid)) {
			t.Fatal("probes don't show in the code")
		}
		for range 2 {
			must.Do(t, p.Close())
		}
		// The kernel frees perf events a little after they are closed.
		must.Wait(t, func() bool { return bytes.Equal(before, codeOf(t, target.pid)) }, func() string {
			return "the code has changed"
		})
		target.run("launches", 10)
	})
}

// isProbed reports whether a process's code at a driver's function differs from the file's.
func isProbed(tb testing.TB, pid int, function string) bool {
	tb.Helper()
	b := must.Get(os.ReadFile(driverOf(tb, pid).Path))(tb)
	found := must.Get(elfsym.Exported(bytes.NewReader(b), function))(tb)
	f := must.Get(elf.NewFile(bytes.NewReader(b)))(tb)
	code := slices.IndexFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 })
	at := found[function]
	return codeOf(tb, pid)[at-f.Progs[code].Off] != b[at]
}

// driverOf is where a process has mapped libcuda's code.
func driverOf(tb testing.TB, pid int) procfs.Mapping {
	tb.Helper()
	mappings := must.Get(procfs.CodeFiles(pid))(tb)
	i := slices.IndexFunc(mappings, func(m procfs.Mapping) bool { return strings.HasSuffix(m.Path, "/libcuda.so.1") })
	return mappings[i]
}

// codeOf reads the process's memory where libcuda is executable.
func codeOf(tb testing.TB, pid int) []byte {
	tb.Helper()
	from, to := driverOf(tb, pid).Bounds()
	mem := must.Get(os.Open(fmt.Sprintf("/proc/%d/mem", pid)))(tb)
	defer mem.Close()
	code := make([]byte, to-from)
	must.Get(mem.ReadAt(code, int64(from)))(tb)
	return code
}

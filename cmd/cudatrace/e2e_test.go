package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recording is a program that was recorded, with what it printed.
type recording struct {
	base   string // path of the files without suffix
	stdout string
	stderr string
	convert.Summary
}

// recordProgram runs cudatrace record and reads the log's summary back through
// info.
func recordProgram(t *testing.T, args ...string) recording {
	t.Helper()
	r := must.Get(recordAt(filepath.Join(t.TempDir(), "run"), args))(t)
	return r
}

// smallBuffer is for programs that make few calls: the kernel clears the buffer for each recording.
const smallBuffer = "--call-buffer=8M"

// recordAt records a program, and does so again where the recorder says that the machine was too busy to probe it in time.
func recordAt(base string, args []string) (recording, error) {
	r := recording{base: base}
	for range 3 {
		cmd := exec.Command("cudatrace", append([]string{"record", smallBuffer, "-o", r.base}, args...)...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		r.stdout, r.stderr = stdout.String(), stderr.String()
		if err != nil {
			return r, fmt.Errorf("record %q: %w\n%s%s", args, err, r.stdout, r.stderr)
		}
		if !strings.Contains(r.stderr, "there was no time to probe all processes") {
			break
		}
	}
	text, code := infoJSON(r.base + ".cudatrace")
	if code != 0 {
		return r, fmt.Errorf("info: exit code %d\n%s", code, r.stderr)
	}
	return r, json.Unmarshal(text, &r.Summary)
}

// shared are the recordings of recordShared, by their command lines.
var shared sync.Map

// recordShared records a program without a trace, once for all tests that look at that recording. They change nothing
// of it.
func recordShared(t *testing.T, args ...string) recording {
	t.Helper()
	record, _ := shared.LoadOrStore(strings.Join(args, "\x00"), sync.OnceValues(func() (recording, error) {
		dir, err := os.MkdirTemp(simStack, "recording-")
		if err != nil {
			return recording{}, err
		}
		return recordAt(filepath.Join(dir, "run"), append([]string{"--no-convert"}, args...))
	}))
	r := must.Get(record.(func() (recording, error))())(t)
	return r
}

// trace converts a recording, and reads its trace with the real trace processor.
func (r *recording) trace(t *testing.T) *tptest.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.pftrace")
	must.Get(convertLog(r.base+".cudatrace", path))(t)
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	return tr
}

// infoJSON returns the JSON that info prints of a log, damaged or not, and its exit code.
func infoJSON(log string) (text []byte, code int) {
	var stdout, stderr bytes.Buffer
	code = run([]string{"cudatrace", "info", "--format", "json", log}, &stdout, &stderr)
	return stdout.Bytes(), code
}

// lostWork is the number of records that are missing, but for states and samples of threads: how many of these are lost depends on how long
// a busy machine keeps the recorder from running.
func lostWork(s *convert.Summary) uint64 {
	return s.LostTotal() - s.Lost[tracelog.LostThreadStates]
}

// summarize reads the log at a path.
func summarize(path string) (convert.Summary, error) {
	all, err := convert.Timeline([]convert.Log{convert.Path(path)}, convert.Options{}, nil)
	if err != nil {
		return convert.Summary{}, err
	}
	return all[0], nil
}

// whole checks that nothing is missing and everything found its partner.
func (r *recording) whole(t *testing.T) {
	t.Helper()
	work := r.Kernels + r.Copies + r.Memsets
	if r.Matched != work || r.Unmatched != 0 || r.Early != 0 {
		t.Errorf("matched %d, unmatched %d, early %d of %d GPU records", r.Matched, r.Unmatched, r.Early, work)
	}
	if r.APIRecords == 0 {
		t.Error("there are no API records")
	}
	if !r.Complete || lostWork(&r.Summary) != 0 || r.Unfinished != 0 {
		t.Errorf("complete %t, lost %v, unfinished %d, because %q", r.Complete, r.Lost, r.Unfinished, r.Reasons)
	}
	if t.Failed() {
		t.Log(r.stderr)
	}
}

// counts is what a program of the simulated stack says that it issued.
func counts(t *testing.T, stdout string) (kernels, copies, sets uint64) {
	t.Helper()
	m := regexp.MustCompile(`counts kernels=(\d+) copies=(\d+) sets=(\d+)`).FindStringSubmatch(stdout)
	if m == nil {
		t.Fatalf("the program did not print its counts:\n%s", stdout)
	}
	for i, n := range []*uint64{&kernels, &copies, &sets} {
		v := must.Get(strconv.ParseUint(m[i+1], 10, 64))(t)
		*n = v
	}
	return kernels, copies, sets
}

func TestLaunchloop(t *testing.T) {
	// All records have room in the program, should the recorder not run for long.
	r := recordProgram(t, "--no-convert", "--memory-limit", "256M",
		sim("launchloop"), "-n", "50000", "-t", "4", "-s", "8", "-k", "16")
	r.whole(t)
	if r.Kernels != 50000 || r.Matched != 50000 {
		t.Errorf("%d kernels, %d matched, want 50000", r.Kernels, r.Matched)
	}
	if r.ThreadCount != 4 && r.ThreadCount != 5 { // the main thread sets up
		t.Errorf("%d threads, want the 4 that launch and perhaps the main one", r.ThreadCount)
	}
	if r.StreamCount != 8 {
		t.Errorf("%d streams, want 8", r.StreamCount)
	}
}

// The runtime's own calls when it starts: they are made in the thread that comes first.
var setUp = []string{"cuInit", "cuDevicePrimaryCtxRetain", "cuLibraryLoadData"}

// TestCallsUnderWay records threads that all enter CUDA while the first of them initialises it: the log lacks these calls, of
// each thread the first at most, and nothing else.
func TestCallsUnderWay(t *testing.T) {
	t.Parallel()
	const first, threads = "cudaStreamCreateWithFlags", 8
	want := recordProgram(t, "--no-convert", sim("threads"), "-t", fmt.Sprint(threads), "-n", "100")
	r := recordProgram(t, "--no-convert", sim("threads"), "-t", fmt.Sprint(threads), "-n", "100", "--race")
	want.whole(t)
	r.whole(t)
	if want.Functions[first] != threads || r.Functions[first] >= threads {
		t.Errorf("%d and %d calls of %s, want %d and fewer", want.Functions[first], r.Functions[first], first, threads)
	}
	for _, name := range append(setUp, first) { // a call of setUp counts where the call around it is missing
		delete(want.Functions, name)
		delete(r.Functions, name)
	}
	if diff := cmp.Diff(want.Functions, r.Functions); diff != "" || r.Kernels != want.Kernels || r.Memsets != want.Memsets {
		t.Errorf("%d kernels, %d memsets; calls (-want +got):\n%s", r.Kernels, r.Memsets, diff)
	}
}

// TestTrace reads a whole trace with the real trace processor.
func TestTrace(t *testing.T) {
	t.Parallel()
	r := recordShared(t, sim("many"))
	r.whole(t)
	kernels, copies, sets := counts(t, r.stdout)
	if r.Kernels != kernels || r.Copies != copies || r.Memsets != sets {
		t.Errorf("recorded %d kernels, %d copies, %d memsets; the program issued %d, %d, %d",
			r.Kernels, r.Copies, r.Memsets, kernels, copies, sets)
	}
	tr := r.trace(t)
	checkCounts(t, tr, &r, kernels+copies+sets)
	checkArrows(t, tr)
	checkArguments(t, tr, &r)
	checkCallers(t, tr, &r)
}

// allArrows counts the arrows between calls and GPU work.
const allArrows = "select count(*) from flow join slice i on slice_in = i.id where ifnull(i.category, '') != 'critical_path'"

func expectRows(t *testing.T, tr *tptest.Trace, want uint64, what, sql string) {
	t.Helper()
	if got := tr.Int(sql); uint64(got) != want {
		t.Errorf("%s: %d, want %d (%s)", what, got, want, sql)
	}
}

func checkCounts(t *testing.T, tr *tptest.Trace, r *recording, work uint64) {
	t.Helper()
	expectRows(t, tr, work, "GPU slices", "select count(*) from gpu_slice")
	expectRows(t, tr, work, "arrows from calls", "select count(*) from flow where slice_in in (select id from gpu_slice)")
	expectRows(t, tr, work+r.Waits, "arrows", allArrows)
	expectRows(t, tr, r.Kernels, "kernels", "select count(*) from gpu_slice where render_stage_category = 2")
	cpu := "select count(*) from slice s join thread_track k on s.track_id = k.id"
	// The runtime loads a module inside the first launch, which is one call of the program.
	expectRows(t, tr, r.Calls, "outermost calls", cpu+" where s.depth = 0 and s.name != 'cuLibraryLoadData'")
	// The pair of a driver call and its API record are one slice.
	merged := uint64(tr.Int(cpu + ` where (extract_arg(s.arg_set_id, 'debug.correlation') is not null or s.id in (select slice_out from flow))
		and (category = 'driver' or extract_arg(s.arg_set_id, 'debug.driver') is not null)`))
	if r.Unprobed > 0 { // launches have no pairs, and one record tells of a stream alone: its call began before recording
		merged = r.APIJoined + 1
	}
	slices := r.Pairs + r.APIRecords - merged - besides(tr)
	expectRows(t, tr, slices, "CPU slices", cpu)
	expectRows(t, tr, slices+work, "slices of threads and streams",
		"select count(*) from slice where track_id in (select id from thread_track union select id from gpu_track)")
	expectRows(t, tr, uint64(r.ThreadCount), "threads with calls",
		"select count(distinct k.utid) from slice s join thread_track k on s.track_id = k.id")
	expectRows(t, tr, uint64(r.StreamCount), "queues",
		"select count(distinct g.hw_queue_id) from gpu_slice g")
	expectRows(t, tr, 1, "GPUs", "select count(*) from gpu")
}

// besides counts the slices that show two pairs: that of the runtime's call, and that of the driver's call which
// carries it out and is recorded beside it.
func besides(tr *tptest.Trace) (n uint64) {
	for _, row := range tr.Query(`select extract_arg(arg_set_id, 'debug.driver') as driver, count(*) as n from slice group by driver`) {
		if name, _ := row["driver"].(string); name != "" && cudaapi.ByName(name).Beside {
			n += uint64(row["n"].(int64))
		}
	}
	return n
}

func checkArrows(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	expectRows(t, tr, 0, "GPU slices without an arrow", "select count(*) from gpu_slice where id not in (select slice_in from flow)")
	const arrows = "from flow join slice o on slice_out = o.id join gpu_slice i on slice_in = i.id"
	expectRows(t, tr, 0, "arrows that lead back in time", "select count(*) "+arrows+" where i.ts < o.ts")
	// The call that causes work names the stream that the work is on.
	expectRows(t, tr, 0, "arrows that do not start at a call of the program's",
		"select count(*) "+arrows+" join thread_track k on o.track_id = k.id where o.name not glob 'cu*'")
	// The work has the call's correlation ID; the call has it too where its work has a number of its own.
	expectRows(t, tr, 0, "work without a correlation ID", "select count(*) from gpu_slice where extract_arg(arg_set_id, 'correlation') is null")
	expectRows(t, tr, 0, "arrows with another correlation ID at their end",
		"select count(*) "+arrows+" where extract_arg(o.arg_set_id, 'debug.correlation') != extract_arg(i.arg_set_id, 'correlation')")
	expectRows(t, tr, 0, "GPU slices outside the run", `select count(*) from gpu_slice g
		where g.ts < (select min(s.ts) from slice s join thread_track on s.track_id = thread_track.id)
		or g.ts + g.dur > (select max(s.ts + s.dur) from slice s join thread_track on s.track_id = thread_track.id) + 1000000000`)
}

func checkArguments(t *testing.T, tr *tptest.Trace, r *recording) {
	t.Helper()
	for _, k := range tr.Query(`select name, extract_arg(arg_set_id, 'launch.grid_size.x') as grid,
		extract_arg(arg_set_id, 'launch.workgroup_size.x') as block, extract_arg(arg_set_id, 'registers_per_thread') as registers,
		extract_arg(arg_set_id, 'kernel_name') as mangled, extract_arg(arg_set_id, 'kernel_demangled_name') as demangled
		from gpu_slice where render_stage_category = 2`) {
		for _, key := range []string{"grid", "block", "registers"} {
			if n, ok := k[key].(int64); !ok || n <= 0 {
				t.Fatalf("kernel %v: %s is %v", k["name"], key, k[key])
			}
		}
		if k["mangled"] == nil || k["demangled"] == nil {
			t.Fatalf("a kernel without a name: %v", k)
		}
	}
	// A launch carries its grid as the call's argument too.
	expectRows(t, tr, 0, "calls whose grid is not their kernel's", `select count(*)
		from flow join slice o on slice_out = o.id join gpu_slice i on slice_in = i.id
		where 'cuLaunchKernel' in (o.name, extract_arg(o.arg_set_id, 'debug.driver'))
		and extract_arg(o.arg_set_id, 'debug.grid') is not extract_arg(i.arg_set_id, 'launch.grid_size.x') || 'x' || extract_arg(i.arg_set_id, 'launch.grid_size.y') || 'x' || extract_arg(i.arg_set_id, 'launch.grid_size.z')`)
	expectRows(t, tr, 0, "copies without size or direction", `select count(*) from gpu_slice
		where name glob 'Memcpy*' and (extract_arg(arg_set_id, 'bytes') is null or extract_arg(arg_set_id, 'direction') is null)`)
	expectRows(t, tr, r.Copies, "copies", "select count(*) from gpu_slice where name glob 'Memcpy*'")
	expectRows(t, tr, 1, "process", fmt.Sprintf("select count(*) from process where pid = %d and name = 'many'", r.ProcessList[0].PID))
}

// checkCallers checks that each call of the program is one slice, and says where it was made.
func checkCallers(t *testing.T, tr *tptest.Trace, r *recording) {
	t.Helper()
	if r.Callers == nil || r.Callers.Known != r.Calls || r.Callers.Unknown != 0 {
		t.Errorf("of %d calls the callers are %+v", r.Calls, r.Callers)
	}
	expectRows(t, tr, 0, "slices of calls within calls", `select count(*) from slice s join thread_track k on s.track_id = k.id
		where s.depth > 0 and s.name != 'cuLibraryLoadData'`)
	expectRows(t, tr, r.Functions["cudaLaunchKernel"], "launches by the program's function launch",
		`select count(*) from slice where name = 'cudaLaunchKernel' and extract_arg(arg_set_id, 'debug.driver') = 'cuLaunchKernel'
		and extract_arg(arg_set_id, 'debug.caller') glob 'many: launch+0x*'`)
	expectRows(t, tr, r.Functions["cuLaunchKernel"], "launches through the driver",
		`select count(*) from slice where name = 'cuLaunchKernel' and extract_arg(arg_set_id, 'debug.driver') is null
		and extract_arg(arg_set_id, 'debug.caller') glob 'many: *'`)
}

// TestJumpedLaunches records programs that launch by a function that jumps to cudaLaunchKernel, while both are
// probed: each launch has its caller.
func TestJumpedLaunches(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"nvcc", "nvcc-static"} {
		r := recordShared(t, sim(program), "-n", "500")
		if r.Launches != 500 || r.Callers == nil || r.Callers.Unknown != 0 {
			t.Errorf("%s: %d launches, %d calls, callers %+v\n%s", program, r.Launches, r.Calls, r.Callers, r.stderr)
		}
	}
}

// TestForeignProbes records a program while another tracer has return probes on functions of the runtime, which
// the kernel puts into all processes: each call has its caller even so.
func TestForeignProbes(t *testing.T) {
	t.Parallel()
	lib := filepath.Join(t.TempDir(), "lib")
	must.Do(t, os.CopyFS(lib, os.DirFS(filepath.Join(simStack, "lib"))))
	for _, function := range []string{"cudaLaunchKernel", "__cudaLaunchKernel", "cudaMemcpyAsync", "cudaMalloc"} {
		returnProbe(t, filepath.Join(lib, "libcudart.so.13"), function)
	}
	r := recordProgram(t, "--no-convert", "--calls", "uprobe", "env", "LD_LIBRARY_PATH="+lib, sim("nvcc"), "-n", "500")
	if r.Launches != 500 || r.Callers == nil || r.Callers.Unknown != 0 || r.Callers.Known < 505 {
		t.Errorf("%d launches, callers %+v\n%s", r.Launches, r.Callers, r.stderr)
	}
	if r = recordProgram(t, "--no-convert", "env", "LD_LIBRARY_PATH="+lib, sim("nvcc"), "-n", "500"); r.Launches != 500 {
		t.Errorf("%d launches\n%s", r.Launches, r.stderr) // CUPTI's callback does not see past such probes
	}
}

// returnProbe probes the returns of a function in all processes until the end of the test.
func returnProbe(t *testing.T, library, function string) {
	t.Helper()
	f := must.Get(elf.Open(library))(t)
	defer f.Close()
	symbols := must.Get(f.DynamicSymbols())(t)
	at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == function })
	if at < 0 {
		t.Fatalf("%s has no %s", library, function)
	}
	section := f.Sections[symbols[at].Section]
	name := must.Get(unix.BytePtrFromString(library))(t)
	attr := unix.PerfEventAttr{Type: number(t, "type"), Size: unix.PERF_ATTR_SIZE_VER1, Config: 1 << number(t, "format/retprobe"),
		Ext1: uint64(uintptr(unsafe.Pointer(name))), Ext2: symbols[at].Value - section.Addr + section.Offset}
	fd, err := unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	runtime.KeepAlive(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
}

// number reads a number of the kernel's about uprobes.
func number(t *testing.T, file string) (n uint32) {
	t.Helper()
	text := strings.TrimPrefix(contents(t, "/sys/bus/event_source/devices/uprobe/"+file), "config:")
	must.Get(fmt.Sscan(text, &n))(t)
	return n
}

// TestRefusedLaunches records launches that the runtime refuses, all but the first without a word to
// the driver. Those before the first launch that reaches the driver are all there, of later ones what the driver sees.
func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	const missing, threads = "cudaLaunchKernel: cudaErrorSymbolNotFound", "cudaLaunchKernel: cudaErrorInvalidValue"
	for _, c := range []struct {
		args    []string
		refused string
		want    uint64 // of 500
		later   bool   // others came before
	}{
		{[]string{"refused", "-n", "500"}, missing, 500, false},
		{[]string{"refused", "-l", "2000", "--exec", "-n", "500"}, missing, 500, false}, // the next program
		{[]string{"refused", "-l", "2000", "-n", "500"}, missing, 1, true},
		{[]string{"refused", "-n", "500", "--threads"}, threads, 500, false},
		{[]string{"refused", "-l", "9", "-n", "500", "--threads"}, threads, 500, true},
	} {
		for _, calls := range []string{"uprobe", "cupti"} {
			if calls == "cupti" && c.later {
				continue // it does not depend on what came before
			}
			t.Run(strings.Join(append(c.args, calls), " "), func(t *testing.T) {
				t.Parallel()
				r := recordProgram(t, append([]string{"--no-convert", "--calls", calls, sim(c.args[0])}, c.args[1:]...)...)
				want := c.want
				if calls == "cupti" && c.refused == missing {
					want = 1 // the driver sees one
				}
				launched := r.Kernels
				unasked := calls == "cupti" && slices.Contains(c.args, "--exec") // for what it has launched before its exec
				if r.Errors[c.refused] != want || r.Failed != want || r.Functions["cudaLaunchKernel"] != launched+want && !unasked {
					t.Errorf("errors %v, functions %v, %d failed: not %d refused launches beside %d", r.Errors, r.Functions, r.Failed, want, launched)
				}
				callers := r.Callers.Unknown == 0 || unasked // CUPTI's callbacks tell of allocations whose own record is not there
				if r.Complete == unasked || lostWork(&r.Summary) != 0 || !callers {
					t.Errorf("complete %t %q, lost %v, %d calls have no caller", r.Complete, r.Reasons, r.Lost, r.Callers.Unknown)
				}
			})
		}
	}
}

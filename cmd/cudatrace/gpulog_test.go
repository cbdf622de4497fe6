package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/outfile"
)

// TestGPULogText holds the text form of a log from a real GPU.
func TestGPULogText(t *testing.T) {
	t.Parallel()
	checkOutput(t, filepath.Join(filepath.Dir(gpuLog), "streams.txt"), "dump", "--raw", "--all", gpuLog)
}

// checkOutput compares what a command prints with a golden file.
func checkOutput(t *testing.T, golden string, args ...string) {
	t.Helper()
	var got, stderr bytes.Buffer
	if code := run(append([]string{"cudatrace"}, args...), &got, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	goldentest.Hold(t, golden, got.String())
}

// TestGPULogTrace converts a log from a real GPU and reads the trace with the
// real trace processor. The program launched 60 rounds of three kernels, two
// copies and two memsets on three streams, and three copies at the end.
func TestGPULogTrace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "streams.pftrace")
	sum, err := convertLog(gpuLog, path)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{Summary: sum}
	r.whole(t)
	if r.Kernels != 180 || r.Copies != 123 || r.Memsets != 120 {
		t.Errorf("%d kernels, %d copies, %d memsets", r.Kernels, r.Copies, r.Memsets)
	}
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	checkCounts(t, tr, &r, 423)
	checkArrows(t, tr)
	for _, k := range []struct {
		name   string
		shared int64
	}{{"axpy<float>", 0}, {"addOne", 0}, {"reduce::blockSum", 1024}} {
		rows := tr.Query(`select count(*) as n, min(extract_arg(arg_set_id, 'launch.grid_size.x')) as grid,
			max(extract_arg(arg_set_id, 'launch.workgroup_size.x')) as block,
			min(extract_arg(arg_set_id, 'shared_mem_dynamic')) as shared
			from gpu_slice where name = '` + k.name + "'")
		want := tptest.Row{"n": int64(60), "grid": int64(256), "block": int64(256), "shared": k.shared}
		if diff := cmp.Diff(want, rows[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", k.name, diff)
		}
	}
	expectRows(t, tr, 60, "copies to the device", "select count(*) from gpu_slice where name = 'Memcpy HtoD' and extract_arg(arg_set_id, 'bytes') = 262144")
	expectRows(t, tr, 63, "copies from the device", "select count(*) from gpu_slice where name = 'Memcpy DtoH'")
	expectRows(t, tr, 1, "H200", "select count(*) from gpu where name = 'NVIDIA H200'")
}

// TestGPUTrainLog reads a log of a PyTorch training loop on a real GPU: 100 steps, all
// of it matched, in at most 12 bytes a launch with all that belongs to it.
func TestGPUTrainLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(filepath.Dir(gpuLog), "train.cudatrace")
	s, err := summarize(path)
	if err != nil {
		t.Fatal(err)
	}
	work := s.Kernels + s.Copies + s.Memsets
	if s.Kernels != 45300 || s.Copies != 103 || s.Memsets != 5000 || s.Matched != work || s.Calls != 50554 || !s.Complete {
		t.Errorf("kernels %d, copies %d, sets %d, matched %d, calls %d, complete %t %q",
			s.Kernels, s.Copies, s.Memsets, s.Matched, s.Calls, s.Complete, s.Reasons)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if perLaunch := float64(info.Size()) / float64(work); perLaunch > 12 {
		t.Errorf("%.1f bytes a launch", perLaunch)
	}
}

// TestGPUNVTXLog reads a log of a PyTorch training loop in NVTX ranges on a real GPU: one slice a launch, named by
// what the program called, nearly all of them with a caller, and the ranges on their thread and on the stream
// of their work.
func TestGPUNVTXLog(t *testing.T) {
	t.Parallel()
	trace, _ := converted(t, filepath.Join(filepath.Dir(gpuLog), "nvtx.cudatrace"))
	tr := tptest.Open(t, trace)
	tptest.NoErrors(t, tr)
	expectRows(t, tr, 9060, "kernels", "select count(*) from gpu_slice where render_stage_category = 2")
	expectRows(t, tr, 9060, "launches with an arrow to a kernel", `select count(*) from flow join slice s on slice_out = s.id join gpu_slice g on slice_in = g.id
		where g.render_stage_category = 2 and s.name glob 'cu*Launch*'`)
	expectRows(t, tr, 9060, "launches", "select count(*) from slice where category in ('runtime', 'driver') and name glob 'cu*LaunchKernel*'")
	expectRows(t, tr, 1, "launches without a caller", "select count(*) from slice where category in ('runtime', 'driver') and name glob 'cu*LaunchKernel*' and extract_arg(arg_set_id, 'debug.caller') is null")
	expectRows(t, tr, 40, "ranges", "select count(*) from slice where category = 'nvtx'")
	expectRows(t, tr, 20, "steps on a stream with all their launches",
		"select count(*) from slice where category = 'nvtx_gpu' and name glob 'step *' and extract_arg(arg_set_id, 'debug.launches') = 303")
}

// convertLog converts a log into a trace at a path.
func convertLog(log, trace string) (convert.Summary, error) {
	target, err := outfile.At(trace, outfile.Options{Named: true})
	if err != nil {
		return convert.Summary{}, err
	}
	defer target.Close()
	all, _, err := convert.FilesAt([]convert.Log{convert.Path(log)}, target, convert.TraceOptions{})
	if err != nil {
		return convert.Summary{}, err
	}
	return all[0], nil
}

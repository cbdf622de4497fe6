package main

import (
	"path/filepath"
	"testing"

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
	got, _ := succeed(t, args...)
	goldentest.Hold(t, golden, got)
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

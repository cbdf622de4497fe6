package convert

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// goldenSlices is the number of slices of a track, and of values of a counter, in a golden file.
const goldenSlices = 40

// compareText compares what people see of a trace with a golden file.
func compareText(t *testing.T, tr *tptest.Trace, golden string) {
	t.Helper()
	got := tptest.Text(tr, goldenSlices)
	goldentest.Hold(t, golden, got)
}

// What people see of a program on a real GPU.
func TestTraceOfGPUProcessor(t *testing.T) {
	t.Parallel()
	tr, _ := openTrace(t, Path("../testdata/gpu/logs/streams.cudatrace").Open)
	compareText(t, tr, "testdata/streams.trace")
}

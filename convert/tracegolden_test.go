package convert

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// goldenSlices is the number of slices of a track, and of values of a counter, in a golden file.
const goldenSlices = 40

// compareText compares what people see of a trace with a golden file.
func compareText(t *testing.T, tr *tptest.Trace, golden string) {
	t.Helper()
	got := tptest.Text(tr, goldenSlices)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", golden, diff)
	}
}

// What people see of a program on a real GPU.
func TestTraceOfGPU(t *testing.T) {
	t.Parallel()
	tr, _ := openTrace(t, Path("../testdata/gpu/logs/streams.cudatrace").Open)
	compareText(t, tr, "testdata/streams.trace")
}

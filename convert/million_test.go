package convert

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// TestLargeTrace has every slice and arrow of a large log in the trace. CUDATRACE_LAUNCHES
// is the number of launches.
func TestLargeTrace(t *testing.T) {
	t.Parallel()
	n := must.Get(strconv.Atoi(cmp.Or(os.Getenv("CUDATRACE_LAUNCHES"), "20000")))(t)
	var log bytes.Buffer
	logtest.WriteLaunches(t, &log, n)
	path := filepath.Join(t.TempDir(), "large")
	must.Do(t, os.WriteFile(path+".cudatrace", log.Bytes(), 0o644))
	s := must.Get(File(path+".cudatrace", path+".pftrace"))(t)
	if s.Kernels != uint64(n) || s.Matched != uint64(n) || s.Launches != uint64(n) || s.Waits == 0 || !s.Complete {
		t.Fatalf("%d kernels, %d matched, %d launches, %d waits of %d launches; complete %t", s.Kernels, s.Matched, s.Launches, s.Waits, n, s.Complete)
	}
	tr := tptest.Open(t, path+".pftrace")
	tptest.NoErrors(t, tr)
	for sql, want := range map[string]int{
		`select count(*) from gpu_slice`: n,
		`select count(*) from slice where name = 'cudaLaunchKernel' and category = 'runtime'`:                                 n,
		`select count(*) from slice where name = 'cuLaunchKernel'`:                                                            n,
		`select count(*) from flow join slice i on slice_in = i.id where i.category is null or i.category != 'critical_path'`: n + int(s.Waits),
		`select count(distinct name) from gpu_slice`:                                                                          64,
		`select count(*) from slice where name = 'step' and dur > 0 and category = 'nvtx'`:                                    n / 100,
		`select count(*) from slice where name = 'step' and category = 'nvtx_gpu'`:                                            n / 100,
		`select count(*) from slice where name = 'cuLaunchKernel' and depth = 1 and dur > 0`:                                  n,
		`select count(*) from flow f join slice o on f.slice_out = o.id join gpu_slice i on f.slice_in = i.id
			where extract_arg(o.arg_set_id, 'gpu_correlation.render_stage_submission_event_ids[0]') = extract_arg(i.arg_set_id, 'correlation') and i.ts > o.ts`: n,
	} {
		if got := tr.Int(sql); got != int64(want) {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

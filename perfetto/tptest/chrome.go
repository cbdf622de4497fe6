package tptest

import (
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
)

// unrecorded chooses kernels that had not ended, and of which only the launch was recorded. A Chrome trace shows
// records alone: it has the others without a length.
const unrecorded = `(extract_arg(s.arg_set_id, 'unfinished') is not null and extract_arg(s.arg_set_id, 'kernel_name') is null)`

// ofPerfetto has the slices of a Perfetto trace by the categories of a Chrome trace.
const ofPerfetto = `select case when s.category in ('critical_path', 'note') then s.category
		when g.id is null then case s.category when 'runtime' then 'cuda_runtime' when 'runtime,failed' then 'cuda_runtime'
			when 'nvtx' then 'user_annotation' when 'nvtx_gpu' then 'gpu_user_annotation' when 'memory' then 'memory_pool' when 'python' then 'python_function' when 'function' then 'function'
			when 'pytorch' then iif(s.name glob 'Optimizer.*', 'user_annotation', 'cpu_op') else 'cuda_driver' end
		when s.name glob 'Memcpy*' then 'gpu_memcpy' when s.name glob 'Memset*' then 'gpu_memset' else 'kernel' end as cat,
	count(*), sum(iif(extract_arg(s.arg_set_id, 'unfinished') is null, max(s.dur, 0), 0)) from slice s left join gpu_slice g using (id)
	where s.category is null and not ` + unrecorded +
	` or s.category not in
	('cudatrace', 'program', 'cupti', 'gpu', 'rank', 'collective', 'step')
	group by 1`

const ofChrome = `select category, count(*), sum(max(dur, 0)) from slice where category not in ('cudatrace', 'overhead') group by 1`

// launches are the arrows of a Perfetto trace from calls to their work.
const launches = `select count(*) from flow where slice_in in (select id from gpu_slice s where not ` + unrecorded + `)`

// A sum is a number of slices and their time, ns.
type sum struct{ Slices, Time int64 }

// SameChrome fails the test when the files of a Chrome trace do not have the slices and the launch arrows
// of a Perfetto trace, with the same total times. In a Chrome trace no arrow leads back in time:
// early is the number of pieces of work that start before their call.
func SameChrome(t testing.TB, perfetto *Trace, files []string, early uint64) {
	t.Helper()
	got, arrows := make(map[string]sum), int64(0)
	for _, path := range files {
		tr := Open(t, path)
		NoErrors(t, tr)
		sumRows(got, tr.Values(ofChrome))
		arrows += tr.Int(`select count(*) from flow where extract_arg(arg_set_id, 'cat') = 'ac2g'`)
	}
	want := make(map[string]sum)
	sumRows(want, perfetto.Values(ofPerfetto))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slices by category (-Perfetto +Chrome):\n%s", diff)
	}
	if want := perfetto.Int(launches) - int64(early); arrows != want {
		t.Errorf("%d arrows from calls to their work, want %d", arrows, want)
	}
}

func sumRows(sums map[string]sum, rows [][]any) {
	for _, r := range rows {
		cat, _ := r[0].(string)
		n, _ := r[1].(int64)
		time, _ := r[2].(int64)
		sums[cat] = sum{sums[cat].Slices + n, sums[cat].Time + time}
	}
}

// Uncompressed opens a compressed file.
func Uncompressed(t testing.TB, path string) io.Reader {
	t.Helper()
	f := must.Get(os.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	z := must.Get(gzip.NewReader(f))(t)
	return z
}

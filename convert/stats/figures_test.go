package stats_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// pieces are GPU work with its call, and the end of the device's work before it: of which stream that was, and when it and its own stream's earlier work ended.
const pieces = `(select *, lag(stream) over device as last_stream, lag(ts) over device as last_ts, lag(ts + dur) over device as last_end, lag(ts + dur) over (partition by stream order by ts) as own_end,
		max(ts + dur) over (order by ts, id rows between unbounded preceding and 1 preceding) as before
	from (select g.id, g.ts, g.dur, g.name, extract_arg(g.arg_set_id, 'stream') as stream, extract_arg(g.arg_set_id, 'bytes') as bytes, extract_arg(g.arg_set_id, 'direction') as direction,
		extract_arg(g.arg_set_id, 'kernel_name') as kernel, extract_arg(g.arg_set_id, 'src_memory') as src, extract_arg(g.arg_set_id, 'dst_memory') as dst,
		s.id as call_id, s.name as call, s.ts as call_ts, s.dur as call_dur, s.ts + s.dur as returned
		from gpu_slice g join flow on slice_in = g.id join slice s on slice_out = s.id)
	window device as (order by ts, id))`

// figures ask the trace for the times and the time of a kind of finding of a program with one thread and one GPU. FROM and TO are the first and the last of its moments, GAP is the
// least gap.
var figures = map[string]string{
	"failing_calls":         `select count(*), 0 from slice where extract_arg(arg_set_id, 'debug.error') is not null and depth = 0 and ts between FROM and TO`,
	"pytorch_out_of_memory": `select count(*), 0 from slice where name = 'PyTorch out of memory' and ts between FROM and TO`,
	"idle_gpu":              `select count(*), sum(ts - before) from ` + pieces + ` where ts > before and before between FROM and TO`,
	"gaps":                  `select count(*), sum(ts - before) from ` + pieces + ` where ts - before >= GAP and before between FROM and TO`,
	"device_waits": `select count(*), sum(min(returned, p.ts) - before) from ` + pieces + ` p join slice w on w.name = 'cudaDeviceSynchronize' and w.category != 'critical_path' and w.ts <= before and before < w.ts + w.dur
		where p.ts > before and returned > before and before between FROM and TO`,
	"tiny_kernels":    `select count(*), sum(min(returned, ts) - before) from ` + pieces + ` where ts > before and returned > before and kernel is not null and dur < call_dur and ts - before < GAP and before between FROM and TO`,
	"pageable_copies": `select count(*), sum(call_dur) from ` + pieces + ` where direction is not null and 'Pageable' in (src, dst) and bytes > 65536 and call_ts between FROM and TO`,
	"small_copies": `select count(*), sum(call_dur) from (select *, row_number() over (partition by run order by ts) as nth, count(*) over (partition by run) as length from (
			select *, sum(direction is null or bytes > 65536) over (partition by stream order by ts) as run from ` + pieces + `) where direction is not null and bytes <= 65536)
		where nth > 1 and length >= 4 and call_ts between FROM and TO`,
	"synchronous_sets": `select count(*), sum(call_dur) from ` + pieces + ` where name = 'Memset' and call not glob '*Async*' and call_ts between FROM and TO`,
	"serial_streams": `select count(*), sum(min(last_end - ready, dur)) from (select *, max(returned, coalesce(own_end, 0), last_ts) as ready from ` + pieces + `)
		where last_stream != stream and ts >= last_end and ready < last_end and ts between FROM and TO`,
	"first_use": `select count(*), sum(min(returned, ts) - max(before, call_ts)) from ` + pieces + ` p where ts > before and returned > before and max(before, call_ts) between FROM and TO
		and (exists (select * from slice i where i.name = 'cuLibraryLoadData' and i.category != 'critical_path' and i.ts between call_ts and returned) or call_dur >= GAP and not exists (select * from ` + pieces + ` o where o.kernel = p.kernel and o.ts < p.ts))`,
	"allocation_in_loop": `select count(*), sum(dur) from slice where name in ('cudaMalloc', 'cudaFree') and category != 'critical_path' and ts between FROM and TO`,
}

// The trace tells how many times each finding is there, and how long it takes in all, in the time that the finding's query shows: hardly more can be saved. Findings that rest on sampled metrics have no such figures, nor has the
// trace critical paths, whose own tests know the answers; those among ranks rest on the reports of ranks, which are compared with the trace, too.
func TestFiguresOfFindingsProcessor(t *testing.T) {
	t.Parallel()
	for kind := range figures {
		if !slices.ContainsFunc(habits, func(h habit) bool { return slices.Contains(strings.Fields(h.want), kind) }) {
			t.Errorf("no program has %s", kind)
		}
	}
	for _, h := range habits {
		if h.want == "" || h.want == findings.OnPath {
			continue
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram()
			h.run(p)
			log := p.asLog(t)
			out := filepath.Join(t.TempDir(), "trace.pftrace")
			f := must.Get(os.Create(out))(t)
			defer f.Close()
			must.Get(convert.FilesTo([]convert.Log{log}, f, convert.TraceOptions{Compress: output.None}))(t)
			tr := tptest.Open(t, out)
			all := byName(taking(t, stats.NewShort(), convert.Options{}, log), stats.Facts{Startup: true})
			devices, found, compared := all["devices"], all["findings"], 0
			ahead := tr.Int("select min(ts) from gpu_slice") - int64(cell(devices, devices.Rows[0], "first_ns").(uint64))
			for _, row := range found.Rows {
				kind := row.Cells[0].(string)
				if kind == findings.Startup || kind == findings.OnPath {
					continue
				}
				at := func(key string) string { return fmt.Sprint(ahead + int64(cell(found, row, key).(uint64))) }
				sql := strings.NewReplacer("FROM", at("first_ns"), "TO", at("last_ns"), "GAP", "1000000").Replace(figures[kind])
				cost, _ := cell(found, row, "cost_ns").(uint64)
				sums := tr.Values(sql)[0]
				count, took := sums[0].(int64), sums[1].(int64)
				if got := int64(cell(found, row, "count").(uint64)); got != count || float64(cost) > 1.3*float64(took) || took > 0 && cost == 0 {
					t.Errorf("%s: %d times %d ns in the trace, %d times and a saving of %d in the finding", kind, count, took, got, cost)
				}
				compared++
			}
			if compared == 0 && h.want != findings.OnPath {
				t.Error("no finding")
			}
		})
	}
}

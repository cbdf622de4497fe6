package stats_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A sum is a query of the trace processor, and the columns of a report whose sums it should
// give. Rows of a report with equal keys count as one.
type sum struct {
	report string
	keys   []string // columns that name a row
	values []string // columns to add up
	sql    string   // keys and values, in this order
}

const (
	isKernel = `extract_arg(arg_set_id, 'kernel_name') is not null`
	isCopy   = `extract_arg(arg_set_id, 'direction') is not null`
	isSet    = `name = 'Memset' and extract_arg(arg_set_id, 'bytes') is not null`
	returned = `extract_arg(arg_set_id, 'debug.unfinished') is null`
	isCall   = `(category in ('runtime', 'driver', 'runtime,failed', 'driver,failed') or name glob 'function [0-9]*')`
	called   = `(select count(*) from slice where extract_arg(arg_set_id, 'debug.caller') is not null) > 0`
	// A kernel that had not ended has a queue delay where its start is known.
	timed   = `extract_arg(g.arg_set_id, 'untimed') is null and (extract_arg(g.arg_set_id, 'unfinished') is null or extract_arg(g.arg_set_id, 'queue_delay_ns') is not null)`
	isOuter = isCall + ` and (depth = 0 or s.parent_id in (select f.id from slice f where f.category = 'function'))`

	threads = ` from slice s join thread_track k on s.track_id = k.id join thread using (utid) left join process using (upid) `
	gpu     = `extract_arg(k.dimension_arg_set_id, 'gpu')`
)

// union is the time that a choice of work covers on a device, or on a stream.
func union(of, by string) string {
	return `select by, sum(max(0, until - max(ts, before))) from (` + covered(of, by) + `) group by by`
}

// covered are pieces of work with the end of the work before them.
func covered(of, by string) string {
	return `select ` + by + ` as by, g.ts, g.ts + g.dur as until,
			coalesce(max(g.ts + g.dur) over (partition by ` + by + ` order by g.ts rows between unbounded preceding and 1 preceding), 0) as before
		from gpu_slice g join gpu_track k on g.track_id = k.id join process using (upid) where ` + of
}

// gaps are the times between two pieces of work of a device: before is the end of the work so far,
// returned the return of the call that launched the next piece. Pieces that start together end a
// gap once.
const gaps = `(select by, ts as until, before, ts - before as ns, returned
	from (select ` + gpu + ` as by, g.id, g.ts, max(g.ts + g.dur) over (partition by ` + gpu + ` order by g.ts, extract_arg(g.arg_set_id, 'stream'), g.id rows between unbounded preceding and 1 preceding) as before
		from ` + ended + ` g join gpu_track k on g.track_id = k.id where ` + timed + `) w
	left join (select slice_in, max(s.ts + s.dur) as returned from flow join slice s on slice_out = s.id where s.id not in (select id from gpu_slice) group by slice_in) on slice_in = w.id
	where ts > before)`

const communicates = `(g.name glob 'nccl*' or g.name glob 'nvshmem*')`

// perRank is the time that a choice of work covers for a process on a device.
func perRank(of string) string {
	by := `pid * 1000 + ` + gpu
	return `select by / 1000, by % 1000, sum(max(0, until - max(ts, before))) from (` + covered(of, by) + `) group by by`
}

var sums = []sum{
	{"profile", []string{"name"}, []string{"gpus"},
		`select 'all', count(distinct ` + gpu + `) from gpu_slice g join gpu_track k on g.track_id = k.id`},
	{"kernels", []string{"name"}, []string{"count", "total_ns"},
		`select name, count(*), sum(dur) from gpu_slice where ` + isKernel + ` group by name`},
	{"kernel_shapes", []string{"name", "grid", "block"}, []string{"count", "total_ns"},
		`select name, extract_arg(arg_set_id, 'launch.grid_size.x') || 'x' || extract_arg(arg_set_id, 'launch.grid_size.y') || 'x' || extract_arg(arg_set_id, 'launch.grid_size.z') as grid,
			extract_arg(arg_set_id, 'launch.workgroup_size.x') || 'x' || extract_arg(arg_set_id, 'launch.workgroup_size.y') || 'x' || extract_arg(arg_set_id, 'launch.workgroup_size.z') as block,
			count(*), sum(dur) from gpu_slice where ` + isKernel + ` group by name, grid, block`},
	{"kernel_python", []string{"name", "function"}, []string{"count", "total_ns"},
		`select name, case when python glob '(*' then python else substr(python, instr(python, ' ') + 1) end as function, count(*), sum(dur) from (
			select name, dur, nullif(extract_arg(arg_set_id, 'python'), '(no Python frame: autograd)') as python from gpu_slice where ` + isKernel + `)
			where (select count(extract_arg(arg_set_id, 'python')) from gpu_slice) > 0 group by name, function`},
	{"copies", []string{"name", "from", "to"}, []string{"count", "total_ns", "bytes"},
		`select substr(name, 8), extract_arg(arg_set_id, 'src_memory') as s, extract_arg(arg_set_id, 'dst_memory') as d,
			count(*), sum(dur), sum(extract_arg(arg_set_id, 'bytes')) from gpu_slice where ` + isCopy + ` group by name, s, d`},
	{"sets", []string{"name"}, []string{"count", "total_ns", "bytes"},
		`select name, count(*), sum(dur), sum(extract_arg(arg_set_id, 'bytes')) from gpu_slice where ` + isSet + ` group by name`},
	{"calls", []string{"name", "library"}, []string{"count", "unfinished", "total_ns"},
		`select name, replace(category, ',failed', '') as library, count(*), sum(not ` + returned + `), coalesce(sum(case when ` + returned + ` then dur end), 0) from slice where ` + isCall + ` group by name, library`},
	{"callers", []string{"name", "caller"}, []string{"count", "total_ns"},
		`select name, extract_arg(arg_set_id, 'debug.caller') as caller, count(*), coalesce(sum(case when ` + returned + ` then dur end), 0) from slice where ` + isCall + ` and ` + called + ` group by name, caller`},
	{"waits", []string{"name"}, []string{"count", "total_ns"},
		`select name, count(*), sum(dur) from slice where id not in (select id from gpu_slice) and id in (select slice_in from flow) and category != 'critical_path' and ` + returned + ` group by name`},
	{"python", []string{"name"}, []string{"count", "total_ns"},
		`select coalesce(extract_arg(arg_set_id, 'python'), '(no Python frame)') as line, count(*), sum(dur) from gpu_slice
			where (select count(*) from gpu_slice where extract_arg(arg_set_id, 'python') is not null) > 0 group by line`},
	{"operators", []string{"name"}, []string{"count", "total_ns"},
		`select extract_arg(arg_set_id, 'operator') as operator, count(*), sum(dur) from gpu_slice where operator is not null group by operator`},
	{"waits", []string{"name"}, []string{"blocked_ns"},
		`select name, sum(max(0, min(until, ts + dur) - ts)) from (select s.name, s.ts, s.dur, max(g.ts + g.dur) as until
			from flow join slice s on slice_in = s.id join gpu_slice g on slice_out = g.id where s.id not in (select id from gpu_slice) and s.category != 'critical_path' group by s.id) group by name`},
	{"launches", []string{"name"}, []string{"count", "call_total_ns", "queue_total_ns", "kernel_total_ns", "short", "default_stream"},
		`select g.name, count(*), sum(s.dur), sum(max(0, g.ts - s.ts - s.dur)), sum(g.dur), sum(g.dur < s.dur), sum(k.name glob '*(default*')
			from flow join slice s on slice_out = s.id join gpu_slice g on slice_in = g.id join gpu_track k on g.track_id = k.id
			where extract_arg(g.arg_set_id, 'kernel_name') is not null and extract_arg(g.arg_set_id, 'graph') is null and ` + timed + `
			and s.id not in (select id from gpu_slice) group by g.name`},
	{"devices", []string{"gpu"}, []string{"busy_ns"}, union(`true`, gpu)},
	{"devices", []string{"gpu"}, []string{"copy_ns"}, union(of("g", isCopy), gpu)},
	{"devices", []string{"gpu"}, []string{"compute_ns"}, union(`not (`+of("g", isCopy)+`) and g.name != 'Memset'`, gpu)},
	{"devices", []string{"gpu"}, []string{"kernels", "copies", "sets", "work_ns"},
		`select ` + gpu + ` as gpu, sum(` + of("g", isKernel) + `), sum(` + of("g", isCopy) + `), sum(` + of("g", isSet) + `), sum(dur)
			from gpu_slice g join gpu_track k on g.track_id = k.id group by gpu`},
	{"streams", []string{"gpu", "pid", "context", "stream"}, []string{"work_ns"},
		`select ` + gpu + ` as gpu, pid, context, hw, sum(dur) from (select *, extract_arg(arg_set_id, 'stream') as hw, extract_arg(arg_set_id, 'context') as context from gpu_slice) g
			join gpu_track k on g.track_id = k.id join process using (upid) group by gpu, pid, context, hw`},
	{"streams", []string{"stream"}, []string{"busy_ns"}, union(`true`, `extract_arg(g.arg_set_id, 'stream')`)},
	{"idle", []string{"gpu"}, []string{"total_ns"}, `select by, sum(ns) from ` + gaps + ` group by by`},
	{"devices", []string{"gpu"}, []string{"idle_ns", "idle_late_ns", "idle_other_ns"},
		`select by, sum(ns), coalesce(sum(max(0, min(returned, until) - before)), 0), sum(case when returned is null then ns when returned > before then max(0, until - returned) else 0 end) from ` + gaps + ` group by by`},
	{"ranks", []string{"pid", "gpu"}, []string{"compute_ns"}, perRank(`not (` + of("g", isCopy) + `) and g.name != 'Memset' and not (` + communicates + `)`)},
	{"ranks", []string{"pid", "gpu"}, []string{"communication_ns"}, perRank(communicates)},
	{"library_functions", []string{"name", "library"}, []string{"count", "entries", "left", "unfinished"},
		`select name, extract_arg(arg_set_id, 'debug.library') as library, count(*), sum(extract_arg(arg_set_id, 'debug.returns') is null and extract_arg(arg_set_id, 'debug.no_return') is null and ` +
			`extract_arg(arg_set_id, 'debug.unfinished') is null), sum(extract_arg(arg_set_id, 'debug.no_return') is not null), sum(extract_arg(arg_set_id, 'debug.unfinished') is not null)
			from slice where category = 'function' group by name, library`},
	{"library_functions", []string{"name"}, []string{"total_ns"}, `select name, sum(dur) from slice where category = 'function' and extract_arg(arg_set_id, 'debug.returns') is not null group by name`},
	{"errors", []string{"name", "error"}, []string{"count"},
		`select name, extract_arg(arg_set_id, 'debug.error') as error, count(*) from slice where error is not null
			and extract_arg(arg_set_id, 'debug.result') not in (4, 600) group by name, error`},
	{"nvtx", []string{"name"}, []string{"count", "unfinished", "total_ns"},
		`select name, count(*), sum(not ` + returned + `), coalesce(sum(case when ` + returned + ` then dur end), 0) from slice where category = 'nvtx' group by name`},
	{"threads", []string{"pid", "tid"}, []string{"calls"},
		`select pid, tid, count(*)` + threads + `where ` + of("s", isOuter) + ` group by tid`},
	{"processes", []string{"pid"}, []string{"kernels", "copies", "sets", "gpu_work_ns"},
		`select pid, sum(` + of("g", isKernel) + `), sum(` + of("g", isCopy) + `), sum(` + of("g", isSet) + `), sum(dur)
			from gpu_slice g join gpu_track k on g.track_id = k.id join process using (upid) group by pid`},
	{"memory", []string{"name", "pid", "gpu"}, []string{"peak_bytes"},
		`select name, pid, gpu, sum(peak) from (select substr(k.name, 1, instr(k.name, ' ') - 1) as name, pid, case when instr(k.name, 'GPU ') > 0 then cast(substr(k.name, instr(k.name, 'GPU ') + 4) as int) end as gpu,
			cast(max(value) as int) as peak from counter c join process_counter_track k on c.track_id = k.id join process using (upid) where k.name glob '* memory*' group by k.id) group by name, pid, gpu`},
}

// of makes a condition one on a table.
func of(table, condition string) string {
	return "(" + strings.NewReplacer("(arg_set_id", "("+table+".arg_set_id", "name glob", table+".name glob", "name =", table+".name =").Replace(condition) + ")"
}

// summedLogs are logs that together have every form of slice and row, beside those of real GPUs.
var summedLogs = []string{
	"callers", "captured", "functions", "h200-operators", "h200-streams", "h200-train", "hang", "memory", "memorycalls", "metrics", "nccl", "nvtx", "odd",
	"python", "ranks", "shared", "threads", "torchmemory", "unreturned", "waitcalls",
}

// Sums of each report equal those of the trace.
func TestSumsProcessor(t *testing.T) {
	all := logs(t)
	maps.DeleteFunc(all, func(name, _ string) bool { return !slices.Contains(summedLogs, name) })
	for _, name := range []string{"nccl-rank0", "nvtx", "conditional/bare"} {
		all["gpu-"+filepath.Base(name)] = "../../testdata/gpu/logs/" + name + ".cudatrace"
	}
	for name, path := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "trace.pftrace")
			f := must.Get(os.Create(out))(t)
			defer f.Close()
			var o convert.Options
			if name == "h200-train" { // the first steps of many equal ones
				o.Filter.To = 5250 * time.Millisecond
			}
			must.Get(convert.FilesTo([]convert.Log{convert.Path(path)}, f, convert.TraceOptions{Options: o, Compress: output.None}))(t)
			tr, tables := tptest.Open(t, out), byName(sinkOf(t, o, path), stats.Facts{Startup: true})
			tptest.NoErrors(t, tr)
			for _, s := range sums {
				if s.report == "streams" && s.values[0] == "busy_ns" && len(tables["processes"].Rows) > 1 {
					continue // streams of several processes have the same numbers
				}
				if s.report == "threads" && name == "callers" {
					continue // one of its driver calls loads code for the launch behind it
				}
				if s.report == "ranks" && len(tables["processes"].Rows) == 1 {
					continue // the report of devices has the same numbers
				}
				r := tables[s.report]
				if r == nil {
					t.Fatalf("no report %s", s.report)
				}
				if diff := cmp.Diff(inTrace(tr, &s), inTable(t, r, &s)); diff != "" {
					t.Errorf("%s %v by %v (-trace +report):\n%s", s.report, s.values, s.keys, diff)
				}
			}
		})
	}
}

// ended is the GPU work of a trace. A kernel that had not ended has a length there, but none in a report.
const ended = `(select id, ts, name, track_id, arg_set_id, upid, iif(extract_arg(arg_set_id, 'unfinished') is null, dur, 0) as dur from gpu_slice)`

// inTrace returns the sums of a trace, a text a row.
func inTrace(tr *tptest.Trace, s *sum) (rows []string) {
	for _, row := range tr.Values(strings.ReplaceAll(s.sql, "gpu_slice", ended)) {
		if zero(row[len(s.keys):]) {
			continue
		}
		rows = append(rows, strings.TrimSpace(fmt.Sprintln(row...)))
	}
	slices.Sort(rows)
	return rows
}

// inTable returns the sums of a report, a text a row.
func inTable(t *testing.T, r *table.Table, s *sum) (rows []string) {
	t.Helper()
	sums := make(map[string][]any)
	for _, row := range r.Rows {
		key := ""
		for _, k := range s.keys {
			key += fmt.Sprintln(row.Cells[r.Column(k)])
		}
		key = strings.ReplaceAll(strings.TrimSpace(key), "\n", " ")
		if sums[key] == nil {
			sums[key] = make([]any, len(s.values))
		}
		for i, v := range s.values {
			before, _ := sums[key][i].(int64)
			n, known := row.Cells[r.Column(v)].(uint64)
			if !known {
				t.Errorf("%s of %v is not known", v, key)
			}
			sums[key][i] = before + int64(n)
		}
	}
	for key, values := range sums {
		if !zero(values) {
			rows = append(rows, key+" "+strings.TrimSpace(fmt.Sprintln(values...)))
		}
	}
	slices.Sort(rows)
	return rows
}

// zero reports whether all values are 0: a report may have such a row and the trace none.
func zero(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool { return v != int64(0) })
}

// Every report is compared with the trace, and the logs have rows for all of them: a sum that
// no log has would prove nothing.
func TestSumsAreThere(t *testing.T) {
	t.Parallel()
	rows := make(map[string]int)
	for log, tables := range everyTable(t) {
		if !slices.Contains(summedLogs, log) {
			continue
		}
		for name, r := range tables {
			rows[name] += len(r.Rows)
		}
	}
	for name, n := range rows {
		compared := slices.ContainsFunc(sums, func(s sum) bool { return s.report == name })
		if r := stats.ByName(name); r.OfRanks && name != "ranks" {
			continue // TestRanks has them
		}
		if n == 0 || !compared && !slices.Contains([]string{"critical_path", "unfreed", "memory_holders", "out_of_memory", "findings", "gaps", "metrics", "modules", "step_kinds", "steps", "torch_memory"}, name) {
			t.Errorf("%s: %d rows in all logs, compared %t", name, n, compared)
		}
	}
}

package parquetsink_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/parquetsink"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// A run is a log with the name of its run.
type run struct {
	name string
	log  convert.Log
}

// texts are the logs in text form that together have every form of row.
var texts = []string{
	"autograd", "callers", "captured", "exec", "functions", "graph", "hang", "memory", "memorycalls", "metrics", "nccl", "nvtx", "odd",
	"operators", "operatorspans", "python", "ranks", "threads", "torchmemory", "unreturned",
}

// runs are captures of real GPUs, and logs in text form.
func runs(t testing.TB) (all []run) {
	for _, name := range []string{"streams", "train"} {
		all = append(all, run{name, convert.Path("../../../testdata/gpu/logs/" + name + ".cudatrace")})
	}
	for _, name := range []string{"nccl-rank0", "nvtx", "conditional/bare"} {
		all = append(all, run{"gpu-" + filepath.Base(name), convert.Path("../../../testdata/gpu/logs/" + name + ".cudatrace")})
	}
	for _, text := range slices.Concat(logtest.Texts(t, "../../testdata"), logtest.Texts(t, "../../testdata/python")) {
		if slices.Contains(texts, text.Name) {
			all = append(all, run{text.Name, convert.Log{Name: text.Name, Open: logtest.Assemble(t, text.Text)}})
		}
	}
	return all
}

// write makes the tables of logs.
func write(t testing.TB, out, run string, logs ...convert.Log) []convert.Summary {
	t.Helper()
	o := convert.TraceOptions{Format: convert.FormatNamed("parquet"), Run: run}
	target := must.Get(o.Target(out, true))(t)
	defer target.Close()
	all, _, err := convert.FilesAt(logs, target, o)
	must.Do(t, err)
	return all
}

// reports are the tables of stats, by name.
func reports(t testing.TB, logs ...convert.Log) map[string]*table.Table {
	t.Helper()
	sink := stats.New()
	sums := must.Get(convert.Timeline(logs, convert.Options{}, sink))(t)
	f := stats.Facts{Startup: true}
	for i := range sums {
		f.Incomplete = f.Incomplete || sums[i].Damaged || sums[i].LostTotal() > 0
	}
	all := make(map[string]*table.Table)
	for _, r := range sink.Tables(f) {
		all[r.Name] = r
	}
	return all
}

// sums adds the numbers of a report's rows up, by some of its columns: "KEY KEY: NUMBER NUMBER" lines, as SQL gives them.
func sums(r *table.Table, keys, numbers []string) []string {
	all := make(map[string][]int64)
	for _, row := range r.Rows {
		var key []string
		for _, k := range keys {
			text := "NULL"
			if v := row.Cells[r.Column(k)]; v != nil {
				text = fmt.Sprint(v)
			}
			key = append(key, text)
		}
		sum := all[strings.Join(key, " ")]
		if sum == nil {
			sum = make([]int64, len(numbers))
		}
		for i, n := range numbers {
			sum[i] += number(row.Cells[r.Column(n)])
		}
		all[strings.Join(key, " ")] = sum
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, strings.Trim(key+" "+strings.Trim(fmt.Sprint(all[key]), "[]"), " "))
	}
	return lines
}

func number(v any) int64 {
	switch v := v.(type) {
	case uint64:
		return int64(v)
	case int:
		return int64(v)
	case int64:
		return v
	case nil:
		return 0
	}
	panic(fmt.Sprintf("%T is no number", v))
}

// idle splits the idle time of GPUs by its cause, as docs/fleet.md does.
const idle = `select cause, gpu, sum(ns)::bigint from (
	select gpu, unnest(['CPU launched late', coalesce(queued, 'x')]) cause, unnest([late, gap - late]) ns from (
		select *, case when call is null then 0 else greatest(least(start_unix_ns - queue_ns - free, gap), 0) end late,
			case when call is null or start_unix_ns - queue_ns > free then 'other' when last_stream = (pid, context, stream) then 'dependency' else 'other work' end queued
		from (select *, start_unix_ns - free gap from (
			select *, max(start_unix_ns + dur_ns) over before free, arg_max((pid, context, stream), start_unix_ns + dur_ns) over before last_stream
			from work where run = '%s' and dur_ns is not null
			window before as (partition by gpu order by start_unix_ns, work_id rows between unbounded preceding and 1 preceding))
		where start_unix_ns > free)))
	where ns > 0 group by all`

// compared are the sums that SQL over the tables and the reports of stats have in common.
var compared = []struct {
	report        string
	keys, numbers []string
	sql           string // %s is the run
}{
	{"kernels", []string{"name"}, []string{"count", "total_ns", "in_graphs", "untimed"},
		`select name, count(*), coalesce(sum(dur_ns), 0)::bigint, count(graph), count(*) - count(dur_ns) from work where run = '%s' and kind = 'kernel' group by all`},
	{"kernels", []string{"name", "signature"}, []string{"count"}, `select name, signature, count(*) from work where run = '%s' and kind = 'kernel' group by all`},
	{"kernel_shapes", []string{"name", "grid", "block"}, []string{"count"},
		`select name, nullif(grid, '0x0x0'), nullif(block, '0x0x0'), count(*) from work where run = '%s' and kind = 'kernel' group by all`},
	{"kernel_shapes", []string{"name", "grid", "block"}, []string{"count"},
		`select name, nullif(concat_ws('x', grid_x, grid_y, grid_z), '0x0x0'), nullif(concat_ws('x', block_x, block_y, block_z), '0x0x0'), count(*)
		from work where run = '%s' and kind = 'kernel' group by all`},
	{"python", []string{"name"}, []string{"count", "total_ns"},
		`select coalesce(python, '(no Python frame)'), count(*), sum(dur_ns)::bigint from work left join stacks using (run, host, rank, log_id, stack_id)
		where run = '%[1]s' and (select count(stack_id) from work where run = '%[1]s') > 0 group by all`},
	{"operators", []string{"name"}, []string{"count", "total_ns", "inclusive_count", "inclusive_ns"},
		`select op, count(*) filter (where op = operator), coalesce(sum(dur_ns) filter (where op = operator), 0)::bigint, count(*), sum(dur_ns)::bigint
		from (select distinct work_id, dur_ns, operator, unnest(string_split(operator_stack, ' <- ')) op from work where run = '%s' and operator is not null) group by op`},
	{"unfreed", []string{"bytes", "address"}, nil, `select bytes, address::bigint from allocations where run = '%s' and unfreed order by bytes desc, start_unix_ns limit 10`},
	{"copies", []string{"name", "from", "to"}, []string{"count", "total_ns", "bytes"},
		`select name, src_kind, dst_kind, count(*), coalesce(sum(dur_ns), 0)::bigint, sum(bytes)::bigint from work where run = '%s' and kind = 'memcpy' group by all`},
	{"sets", []string{"name"}, []string{"count", "total_ns", "bytes"},
		`select name, count(*), coalesce(sum(dur_ns), 0)::bigint, sum(bytes)::bigint from work where run = '%s' and kind = 'memset' group by all`},
	{"launches", []string{"name"}, []string{"count", "call_total_ns", "queue_total_ns", "kernel_total_ns"},
		`select name, count(*), sum(call_ns)::bigint, sum(queue_ns)::bigint, sum(dur_ns)::bigint from work
		where run = '%s' and kind = 'kernel' and call is not null and graph is null and dur_ns is not null group by all`},
	{"calls", []string{"name", "library"}, []string{"count", "total_ns", "failed", "inner", "unfinished"},
		`select name, library, count(*), coalesce(sum(dur_ns), 0)::bigint, count(*) filter (where failed), count(*) filter (where depth > 0), count(*) - count(dur_ns)
		from calls where run = '%s' group by all`},
	{"callers", []string{"name", "caller"}, []string{"count"}, `select name, caller, count(*) from calls where run = '%[1]s' and (select count(caller) from calls where run = '%[1]s') > 0 group by all`},
	{"torch_memory", []string{"gpu"}, []string{"count", "bytes"},
		`select gpu, count(*), sum(bytes)::bigint from torch_memory where run = '%s' and bytes > 0 and not out_of_memory group by all`},
	{"library_functions", []string{"name", "library"}, []string{"count", "total_ns", "entries", "left", "unfinished"},
		`select name, library, count(*), coalesce(sum(dur_ns), 0)::bigint, count(*) filter (where name like 'stage::%%'), count(*) filter (where name in ('step', 'collAllReduce') and returns is null and tid = 12),
		count(*) filter (where name = 'collAllReduce' and tid = 14) from library_functions where run = '%s' group by all`},
	{"errors", []string{"name", "error"}, []string{"count"}, `select name, error, count(*) from calls where run = '%s' and failed group by all`},
	{"nvtx", []string{"name", "domain", "kind"}, []string{"count", "total_ns"},
		`select name, domain, kind, count(*), coalesce(sum(dur_ns), 0)::bigint from nvtx where run = '%s' group by all`},
	{"idle", []string{"name", "gpu"}, []string{"total_ns"}, idle},
	{"step_kinds", []string{"name", "source", "confidence"}, []string{"count", "starting", "total_ns", "compute_ns", "exposed_ns", "copy_ns", "idle_ns"},
		`select name, source, confidence, count(*) filter (where not starting), count(*) filter (where starting), sum(dur_ns) filter (where not starting), coalesce(sum(compute_ns) filter (where not starting), 0),
		coalesce(sum(exposed_ns) filter (where not starting), 0), coalesce(sum(copy_ns) filter (where not starting), 0), coalesce(sum(idle_ns) filter (where not starting), 0) from steps where run = '%s' group by all`},
	{"findings", []string{"name", "title", "confidence", "gpu", "evidence", "try", "query"}, []string{"cost_ns", "count"},
		`select name, title, confidence, gpu, evidence, try, query, coalesce(sum(cost_ns), 0), sum(count) from findings where run = '%s' group by all`},
}

// views make the tables of all runs in a folder known to an engine by their names.
func views(e *sqltest.Engine, folder string) {
	if e.Name == sqltest.ClickHouse {
		e.Rows("set join_use_nulls = 1")
	}
	for _, t := range parquetsink.Tables {
		files := filepath.Join(folder, "*", t.Name, "*", "*", "*", "*.parquet")
		read := fmt.Sprintf("read_parquet('%s', hive_partitioning = true, hive_types = {'run': varchar, 'host': varchar, 'rank': int})", files)
		if e.Name == sqltest.ClickHouse {
			read = fmt.Sprintf("file('%s', Parquet)", files)
		}
		if found, _ := filepath.Glob(files); len(found) > 0 {
			e.Rows(fmt.Sprintf("create view %s as select * from %s", t.Name, read))
		}
	}
}

// The sums of the tables are those of stats.
func TestStatsDuckDB(t *testing.T) {
	t.Parallel()
	folder, all := t.TempDir(), runs(t)
	of := make(map[string]map[string]*table.Table)
	for _, r := range all {
		sum := write(t, filepath.Join(folder, r.name), r.name, r.log)[0]
		t.Log(r.name, sum.Slices)
		of[r.name] = reports(t, r.log)
	}
	for _, name := range []string{sqltest.DuckDB, sqltest.ClickHouse} {
		t.Run(name, func(t *testing.T) {
			e := sqltest.Open(t, name)
			views(e, folder)
			if name == sqltest.DuckDB {
				checkSchema(t, e, folder)
			}
			rows := make([]int, len(compared))
			for _, r := range all {
				compare(t, e, r.name, of[r.name], rows)
			}
			for i, c := range compared {
				if rows[i] == 0 && !inDuckDB(e, c.report) {
					t.Errorf("no log has a row of %s, %v", c.report, c.numbers)
				}
			}
		})
	}
}

// inDuckDB reports whether a report is compared in words that DuckDB alone knows.
func inDuckDB(e *sqltest.Engine, report string) bool {
	return e.Name == sqltest.ClickHouse && (report == "idle" || report == "unfreed" || report == "operators")
}

// compare compares the sums of a run with its reports, and adds the numbers of rows.
func compare(t *testing.T, e *sqltest.Engine, run string, of map[string]*table.Table, rows []int) {
	t.Helper()
	for i, c := range compared {
		if inDuckDB(e, c.report) {
			continue
		}
		var got []string
		for _, row := range e.Rows(fmt.Sprintf(c.sql, run)) {
			got = append(got, strings.Join(row, " "))
		}
		slices.Sort(got)
		want := sums(of[c.report], c.keys, c.numbers)
		if c.report == "python" { // lines that launched nothing themselves
			want = slices.DeleteFunc(want, func(row string) bool { return strings.HasSuffix(row, " 0 0") })
		}
		slices.Sort(want)
		rows[i] += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s, %s:\n%s\nstats:\n%s", run, c.report, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// A threadTimes sums up what a timeline has of threads.
type threadTimes map[string]int64

func (s threadTimes) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.States:
			for _, x := range e.List {
				why, line := "NULL", "NULL"
				if x.Why != nil {
					why = x.Why.Text()
					if x.Why.Python != nil {
						line = fmt.Sprint(x.Why.Python.Line)
					}
				}
				s[fmt.Sprint(e.Thread.Title(), " ", x.ThreadState, " ", why, " ", line)] += int64(x.End - x.Start)
			}
		case *timeline.StackSamples:
			for _, x := range e.List {
				frames := 0
				for range x.Native.Frames() {
					frames++
				}
				s[fmt.Sprint(e.Thread.TID, " ", x.SampleMode, " ", x.Unread, " ", frames)] += int64(e.Period)
			}
		}
	}
	return nil
}

func (threadTimes) End(err error) error { return err }

// The tables have the states of threads and the samples of what they ran that the timeline has, with their stacks.
func TestThreadTimesDuckDB(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../testdata/threads.log.txt"))(t)
	log, want := convert.Log{Name: "threads", Open: logtest.Assemble(t, string(text))}, make(threadTimes)
	must.Get(convert.Timeline([]convert.Log{log}, convert.Options{}, want))(t)
	e, folder, got := sqltest.Open(t, sqltest.DuckDB), t.TempDir(), make(threadTimes)
	write(t, filepath.Join(folder, "threads"), "threads", log)
	views(e, folder)
	for _, sql := range []string{
		`select concat_ws(' ', thread, state, coalesce(why, 'NULL'), coalesce(line::varchar, 'NULL')), sum(dur_ns)::bigint
			from thread_states left join stacks using (run, host, rank, log_id, stack_id) group by all`,
		`select concat_ws(' ', tid, place, unread, coalesce(depth + 1, 0)), sum(period_ns)::bigint
			from thread_samples left join native_stacks using (run, host, rank, log_id, native_id) group by all`,
	} {
		for _, row := range e.Rows(sql) {
			n := must.Get(strconv.ParseInt(row[1], 10, 64))(t)
			got[row[0]] = n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 8 {
		t.Errorf("the tables differ from the timeline (-timeline +tables):\n%s", diff)
	}
	if got := e.Text("select string_agg(frame, ' <- ' order by depth desc) from native_stacks"); got != "libtorch_cpu.so: at::add <- python3.12" {
		t.Errorf("the native stack is %s", got)
	}
	if got := e.Text("select tid, call, waits_on, holder_tid from thread_states where holder_tid is not null"); got != "12 futex lock 14" {
		t.Errorf("the lock is %s", got)
	}
}

// queryOfPage is the query of docs/parquet.md that begins with some words.
func queryOfPage(t testing.TB, begin string) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(must.Get(os.ReadFile("../../../docs/parquet.md"))(t)), "```sql\n"+begin)
	query, _, found := strings.Cut(rest, ";\n```")
	if !found {
		t.Fatal("the page has no query")
	}
	return begin + query
}

// The query of docs/parquet.md gives what stats says of Python lines with what they call.
func TestInclusiveLinesDuckDB(t *testing.T) {
	t.Parallel()
	query := queryOfPage(t, "with recursive outer_frames")
	for _, log := range logtest.Texts(t, "../../testdata/python") {
		e, folder := sqltest.Open(t, sqltest.DuckDB), t.TempDir()
		r := run{log.Name, convert.Log{Name: log.Name, Open: logtest.Assemble(t, log.Text)}}
		write(t, filepath.Join(folder, r.name), r.name, r.log)
		views(e, folder)
		var got []string
		for _, row := range e.Rows("select file || ':' || line || ' ' || function, inclusive_ns::bigint from (" + query + ") where file is not null") {
			got = append(got, strings.Join(row, " "))
		}
		slices.Sort(got)
		want := slices.DeleteFunc(sums(reports(t, r.log)["python"], []string{"name"}, []string{"inclusive_ns"}), func(row string) bool { return strings.HasPrefix(row, "(") })
		for _, row := range want { // lines of packages are not in the report
			if len(want) < 3 || !slices.Contains(got, row) {
				t.Errorf("%s: no %s", log.Name, row)
			}
		}
		if t.Failed() {
			t.Errorf("%s:\n%s\nstats:\n%s", log.Name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The query of docs/parquet.md gives the means of sampled metrics while work of NVTX ranges ran, as a comparison of each piece with each
// sample does, with work and samples in several slots of time.
func TestMetricsOfRangesDuckDB(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile("../../testdata/metrics.log.txt"))(t))
	text = strings.Replace(text, "realtime=1700000000000000000", "realtime=1700000000009650000", 1) // a slot ends within a sample
	e, folder := sqltest.Open(t, sqltest.DuckDB), t.TempDir()
	write(t, filepath.Join(folder, "metrics"), "metrics", convert.Log{Name: "metrics", Open: logtest.Assemble(t, text)})
	write(t, filepath.Join(folder, "nccl"), "nccl", convert.Path("../../../testdata/gpu/logs/nccl-rank0.cudatrace"))
	views(e, folder)
	const rounded = "select name, gpu, metric, unit, mean::float from "
	got := e.Rows(rounded + "(" + queryOfPage(t, "with pieces as") + ") order by all")
	want := e.Rows(rounded + `(select name, gpu, metric, unit, sum(value * ns) / sum(ns) as mean from (
		select unnest(string_split(nvtx, ' | ')) as name, gpu, c.name as metric, unit, value,
			least(p.start_unix_ns + p.dur_ns, c.start_unix_ns + c.dur_ns) - greatest(p.start_unix_ns, c.start_unix_ns) as ns
		from work p join counters c using (run, host, log_id, gpu) where c.dur_ns > 0) where ns > 0 group by all) order by all`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the query differs from a comparison of all with all (-all +query):\n%s", diff)
	}
	if !slices.ContainsFunc(got, func(row []string) bool { return strings.Join(row, " ") == "step 0 SM active % 81.5" }) {
		t.Error("the SMs were not active for 81.5 % of the step")
	}
}

// The steps and findings of several logs together, with steps that are named, are those of stats. Where a filter leaves out work between other work, nothing is known
// of what steps are made of, and there are no findings.
func TestStepsOfRanksDuckDB(t *testing.T) {
	t.Parallel()
	e := sqltest.Open(t, sqltest.DuckDB)
	var logs []convert.Log
	for _, l := range logtest.WriteRanks(t, logtest.Ranks{Hosts: 2, PerHost: 2, Steps: 60, NVTX: true, Straggler: 3, Late: 4e6}) {
		logs = append(logs, convert.Log{Name: fmt.Sprintf("rank%d.cudatrace", l.Rank), Open: logtest.InMemory(l.Data)})
	}
	folder := t.TempDir()
	for name, filter := range map[string]convert.Filter{"whole": {}, "gaps": {Streams: []uint32{7}}} {
		filter.Steps.Ranges = pattern.Ranges{Name: "step", Domain: "*"}
		o := convert.TraceOptions{Format: convert.FormatNamed("parquet"), Run: name, Options: convert.Options{Filter: filter}}
		target, err := o.Target(filepath.Join(folder, name), true)
		must.Do(t, err)
		defer target.Close()
		_, _, err = convert.FilesAt(logs, target, o)
		must.Do(t, err)
	}
	views(e, folder)
	sink := stats.New()
	sink.NameSteps()
	_, err := convert.Timeline(logs, convert.Options{Filter: convert.Filter{Steps: convert.Steps{Ranges: pattern.Ranges{Name: "step", Domain: "*"}}}}, sink)
	must.Do(t, err)
	all := make(map[string]*table.Table)
	for _, r := range sink.Tables(stats.Facts{Startup: true}) {
		all[r.Name] = r
	}
	for _, c := range []struct {
		report        string
		keys, numbers []string
		sql           string
	}{
		{"step_kinds", []string{"name", "processes"}, []string{"count", "starting", "total_ns", "compute_ns", "exposed_ns", "idle_ns"},
			`select name, count(distinct (host, rank, pid)), count(*) filter (where not starting), count(*) filter (where starting), sum(dur_ns) filter (where not starting), sum(compute_ns) filter (where not starting),
			sum(exposed_ns) filter (where not starting), sum(idle_ns) filter (where not starting) from steps where run = 'whole' group by all`},
		{"steps", []string{"number"}, []string{"max_ns", "min_ns"}, `select number, max(dur_ns), min(dur_ns) from steps where run = 'whole' group by all`},
		{"findings", []string{"name", "rank", "title"}, []string{"cost_ns"}, `select name, rank, title, coalesce(cost_ns, 0) from findings where run = 'whole'`},
	} {
		var got []string
		for _, row := range e.Rows(c.sql) {
			got = append(got, strings.Join(row, " "))
		}
		slices.Sort(got)
		want := sums(all[c.report], c.keys, c.numbers)
		slices.Sort(want)
		if len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nstats:\n%s", c.report, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	// The first finding of stats is the first one here.
	if got := e.Text("select title from findings where run = 'whole' order by place limit 1"); got != all["findings"].Rows[0].Cells[1] {
		t.Errorf("the first finding is %q, that of stats %q", got, all["findings"].Rows[0].Cells[1])
	}
	if got := e.Text("select count(*) > 0, count(idle_ns), (select count(*) from findings where run = 'gaps') from steps where run = 'gaps'"); got != "true 0 0" {
		t.Errorf("with gaps: %s", got)
	}
}

package parquetsink_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/parquetsink"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// fleetRuns is the number of runs of the fleet. Each has two ranks, on two hosts, with a log each.
const fleetRuns = 40

const (
	day      = 86_400_000_000_000
	firstDay = 20_000 * day // since 1970
)

// fleetLog is the log of a rank. What is to be found: commit c3 makes gemm slower by half; node5 is slower by a fifth; rank 1 comes
// to collectives 300 ns late; driver 550 ends every other run with a signal; run 7 lost records; clocks fall by 2 MHz a day.
func fleetLog(n, rank int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	host, commit, driver, team := (n+rank*3)%8, n/8, [...]string{"550.1", "570.2"}[n%2], [...]string{"research", "serving"}[n%2]
	line("meta key=host value=node%d", host)
	line("meta key=program value=train")
	line("meta key=git_revision value=c%d", commit)
	line("meta key=nvidia_driver value=%s", driver)
	line(`meta key=environment value="SLURM_JOB_PARTITION=%s\x00SLURM_JOB_ID=job%d"`, team, n)
	line("clock monotonic=1000000 realtime=%d boottime=1000000", firstDay+n/4*day)
	line(`process pid=10 start=1000000 exe=/bin/train args=train environment="RANK=%d\x00LOCAL_RANK=0\x00WORLD_SIZE=2"`, rank)
	line(`device pid=10 id=0 name="NVIDIA H200" uuid=%032x`, host+1)
	line(`function id=1 name=cudaMalloc library=runtime args=""`)
	line("context pid=10 id=1 device=0 null_stream=7")
	line("cupti pid=10 status=on")
	line("metric_set id=1 source=1 device=0 uuid=%032x interval=1000", host+1)
	line(`metric set=1 index=0 name=clock_sm label="SM clock" unit=4 value_kind=3 scale=1`)
	gemm := 1000
	if commit == 3 {
		gemm = 1500
	}
	if host == 5 {
		gemm = gemm * 6 / 5
	}
	at := 1_010_000
	for i := range 5 {
		line("api pid=10 tid=10 domain=1 cbid=307 name=cuLaunchKernel start=%d dur=100 correlation=%d", at, 2*i+1)
		line("kernel pid=10 device=0 context=1 stream=7 correlation=%d start=%d dur=%d name=_Z4gemmPf grid_x=132 grid_y=1 grid_z=1 block_x=128 block_y=1 block_z=1", 2*i+1, at+150, gemm)
		line("api pid=10 tid=10 domain=1 cbid=307 name=cuLaunchKernel start=%d dur=100 correlation=%d", at+200, 2*i+2)
		line("kernel pid=10 device=0 context=1 stream=13 correlation=%d start=%d dur=700 name=ncclDevKernel_AllReduce_Sum_f32_RING_LL grid_x=8 grid_y=1 grid_z=1 block_x=512 block_y=1 block_z=1", 2*i+2, at+2300+rank*300)
		line("sample set=1 start=%d dur=0 nvalues=1 value0=%d", at+3000, 2*(1_980_000_000-n/4*2_000_000)+1)
		at += 5000
	}
	if n%2 == 0 {
		line("call pid=10 tid=10 func=cudaMalloc enter=%d dur=50 ret=2", at)
	}
	status, complete, reason := 0, 1, ""
	if n%4 == 0 {
		status = 9
	}
	if n == 7 {
		complete, reason = 0, ` reason="3 calls were lost"`
		line("lost pid=10 cause=ring_buffer count=3 from=%d to=%d", at, at+10)
	}
	line("process_end pid=10 time=%d status=%d complete=1", at+100, status)
	line("end time=%d complete=%d%s", at+200, complete, reason)
	return b.String()
}

// fleet makes the tables of all runs, and of the captures of real GPUs.
func fleet(t *testing.T) (folder string) {
	t.Helper()
	var logs []convert.Log
	for n := range fleetRuns {
		for rank := range 2 {
			logs = append(logs, convert.Log{Name: fmt.Sprintf("run%d/rank%d.cudatrace", n, rank), Open: logtest.Assemble(t, fleetLog(n, rank))})
		}
	}
	for _, r := range runs(t)[:2] {
		logs = append(logs, r.log)
	}
	folder = filepath.Join(t.TempDir(), "cuda")
	write(t, folder, "", logs...)
	return folder
}

// A log has files of the same names and rows, whether it is converted by itself or with others.
func TestOneByOneDuckDB(t *testing.T) {
	t.Parallel()
	e := sqltest.Open(t, sqltest.DuckDB)
	folder := t.TempDir()
	var logs []convert.Log
	for rank := range 2 {
		logs = append(logs, convert.Log{Name: fmt.Sprintf("rank%d.cudatrace", rank), Open: logtest.Assemble(t, fleetLog(3, rank))})
		write(t, filepath.Join(folder, fmt.Sprint("part", rank)), "", logs[rank])
	}
	write(t, filepath.Join(folder, "all"), "", logs...)
	for _, table := range []string{"work", "calls", "nvtx", "collectives", "counters", "processes", "runs"} {
		of := func(folders string) string {
			files := filepath.Join(folder, folders, table, "*", "*", "*", "*.parquet")
			if found, _ := filepath.Glob(files); len(found) == 0 {
				return "none"
			}
			except := map[string]string{"work": "exclude (work_id, gpu)", "collectives": "exclude (work_id, gpu)", "counters": "exclude (gpu)"}[table]
			return e.Text(fmt.Sprintf("select run, host, rank, parse_filename(filename), * %s from read_parquet('%s', filename = true) order by all", strings.Replace(except, ")", ", filename)", 1)+map[bool]string{true: "exclude (filename)"}[except == ""], files))
		}
		if one, all := of("part*"), of("all"); one != all {
			t.Errorf("%s: one by one\n%s\ntogether\n%s", table, one, all)
		}
	}
}

// A log that a filter leaves out whole has no row in any table; without a filter a log without processes has one in runs.
func TestLeftOutDuckDB(t *testing.T) {
	t.Parallel()
	e := sqltest.Open(t, sqltest.DuckDB)
	logs := []convert.Log{{Name: "rank0.cudatrace", Open: logtest.Assemble(t, fleetLog(3, 0))}, {Name: "rank1.cudatrace", Open: logtest.Assemble(t, fleetLog(3, 1))}}
	list, err := ranks.ParseList("1")
	must.Do(t, err)
	out := filepath.Join(t.TempDir(), "tables")
	o := convert.TraceOptions{Format: convert.FormatNamed("parquet"), Options: convert.Options{Filter: convert.Filter{Ranks: list}}}
	target := must.Get(o.Target(out, true))(t)
	defer target.Close()
	_, _, err = convert.FilesAt(logs, target, o)
	must.Do(t, err)
	if got := e.Text("select log, rank from '" + out + "/runs/*/*/*/*.parquet'"); got != "rank1.cudatrace 1" {
		t.Errorf("runs has %s", got)
	}
	if names, _ := filepath.Glob(filepath.Join(out, "*", "*", "*", "rank=[^1]*")); len(names) > 0 {
		t.Errorf("there are %q", names)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	write(t, empty, "", convert.Log{Name: "empty.cudatrace", Open: logtest.Assemble(t, "meta key=host value=node\n")})
	if got := e.Text("select log, host from '" + empty + "/runs/*/*/*/*.parquet'"); got != "empty.cudatrace node" {
		t.Errorf("runs has %s", got)
	}
}

// blocks are the SQL of docs/fleet.md under a mark, by the name in the mark.
func blocks(t *testing.T, mark string) map[string][]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../../docs/fleet.md"))(t)
	all := make(map[string][]string)
	for _, m := range regexp.MustCompile("<!-- "+mark+": (\\w+) -->\n```sql\n([^`]+)\n```").FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = append(all[m[1]], m[2])
	}
	return all
}

// TestFleetDuckDB asks what docs/fleet.md asks, in DuckDB, and in ClickHouse where it is installed.
func TestFleetDuckDB(t *testing.T) {
	t.Parallel()
	lake := fleet(t)
	for _, name := range []string{sqltest.DuckDB, sqltest.ClickHouse} {
		t.Run(name, func(t *testing.T) { ask(t, sqltest.Open(t, name), lake) })
	}
}

// ask runs the queries of docs/fleet.md as they are there.
func ask(t *testing.T, e *sqltest.Engine, lake string) {
	setup := blocks(t, "setup")[e.Name]
	for _, table := range parquetsink.Tables {
		if _, err := os.Stat(filepath.Join(lake, table.Name)); err != nil {
			continue
		}
		e.Rows(strings.NewReplacer("'cuda/work/", "'"+lake+"/"+table.Name+"/", "view work", "view "+table.Name).Replace(setup[0]))
	}
	for _, more := range setup[1:] {
		e.Rows(more)
	}
	queries := blocks(t, "query")
	if len(queries) != 12 {
		t.Errorf("docs/fleet.md has %d queries", len(queries))
	}
	var got strings.Builder
	for _, query := range slices.Sorted(maps.Keys(queries)) {
		fmt.Fprintf(&got, "== %s\n%s\n\n", query, e.Text(queries[query][0]))
	}
	goldentest.Hold(t, "testdata/fleet.txt", got.String())
}

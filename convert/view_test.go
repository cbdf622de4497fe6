package convert

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// viewOf is the view that a trace has.
func viewOf(t *testing.T, tr *tptest.Trace) (v perfetto.View) {
	t.Helper()
	rows := tr.Values(`select str_value from metadata where name glob 'cr-*' || '` + perfetto.ViewFact + `'`)
	if len(rows) != 1 {
		t.Fatalf("%d views", len(rows))
	}
	must.Do(t, json.Unmarshal([]byte(rows[0][0].(string)), &v))
	return v
}

// rows are the names of what the UI's commands find: a row of a thread's track has the TID behind its name, and the
// group of a thread, which draws nothing and would be pinned in place of the rows in it, has the thread's name before
// the TID.
const rows = `select ifnull(k.name, 'none') || iif(utid is null, '', ' (' || tid || ')')
	from track k left join thread on thread.utid = extract_arg(k.dimension_arg_set_id, 'utid') where k.id in (select track_id from slice)
	union all select ifnull(thread.name, 'Thread') || ' ' || tid from thread`

// A viewer begins at the median step of the first rank, with its length on each side, and has the tracks that tell the story on
// top: each regular expression means one of them.
func TestViewProcessor(t *testing.T) {
	t.Parallel()
	const logs = "../testdata/gpu/logs/"
	for _, c := range []struct {
		names []string
		own   string // what the names of the first rank's tracks begin with
		want  []string
	}{
		{[]string{"nvtx"}, "", []string{"steps", "critical path", "Stream 7 (default)", "python3 (6773)"}},
		{[]string{"ranks/straggler-rank3", "ranks/straggler-rank0"}, "rank 0 · ", []string{"rank 0 · steps", "rank 0 · critical path",
			"rank 0 · collectives on Stream 7 (default)", "rank 3 · collectives on Stream 7 (default) of GPU 1", "rank 0 · Stream  7 (default)", "rank 0 · Stream 23 (copies)",
			"rank 0 · python3 (2119)", "rank 0 · Python, as seen at launches (2119)"}},
	} {
		t.Run(strings.Join(c.names, " "), func(t *testing.T) {
			t.Parallel()
			var list []Log
			for _, name := range c.names {
				list = append(list, Path(logs+name+".cudatrace"))
			}
			tr := traceOfLogs(t, TraceOptions{}, list...)
			v := viewOf(t, tr)
			steps := ` from slice s join track k on s.track_id = k.id where s.category = 'step' and k.name = '` + c.own + `steps' `
			half := tr.Int(`select count(*) / 2` + steps)
			step := tr.Values(fmt.Sprintf(`select ts, dur, s.name %s order by dur desc, ts limit 1 offset %d`, steps, half))[0]
			at, length := uint64(step[0].(int64)), uint64(step[1].(int64))
			if v.From != at-length || v.To != at+2*length || len(v.Notes) != 1 || v.Notes[0].At != at || !strings.HasPrefix(v.Notes[0].Text, "median step\n"+step[2].(string)+": the median of ") {
				t.Errorf("the view is %+v; the median step is %v", v, step)
			}
			var all []string
			for _, row := range tr.Values(rows) {
				all = append(all, row[0].(string))
			}
			if len(v.Pins) != len(c.want) {
				t.Fatalf("pins %q, want %q", v.Pins, c.want)
			}
			for i, pin := range v.Pins {
				var got []string
				for _, name := range all {
					if regexp.MustCompile(pin).MatchString(name) {
						got = append(got, name)
					}
				}
				if len(got) != 1 || got[0] != c.want[i] {
					t.Errorf("pin %d, %s, means %q, want %s", i, pin, got, c.want[i])
				}
			}
		})
	}
}

// In the steps that are shown at first, or in the median one where they have too much work, the counter of kernels has
// what runs at the time.
func TestViewCountersProcessor(t *testing.T) {
	t.Parallel()
	for name, around := range map[string]uint64{"train": 1, "nvtx": 0} {
		tr := traceOfLogs(t, TraceOptions{}, Path("../testdata/gpu/logs/"+name+".cudatrace"))
		v := viewOf(t, tr)
		length := (v.To - v.From) / 3
		values := fmt.Sprintf(` from counter c join track k on k.id = c.track_id
			where k.name = 'kernels in flight' and c.ts > %d and c.ts < %d`, v.From+(1-around)*length, v.To-(1-around)*length)
		const level = `(select ts, sum(sum(edge)) over (order by ts) as n from (
			select ts, 1 as edge from gpu_slice where name not glob 'Mem*'
			union all select ts + dur, -1 from gpu_slice where name not glob 'Mem*') group by ts)`
		wrong := tr.Values(`select v.ts, value, n from (select c.ts, c.value` + values + `) v left join ` + level + `
			using (ts) where value is not n`)
		if n := tr.Int(`select count(*)` + values); n < 100 || len(wrong) > 0 {
			t.Errorf("%s: the counter changes %d times in the view, and is wrong at %v", name, n, wrong)
		}
	}
}

// Of a part of a program, which has no steps, a viewer begins in the busiest second.
func TestViewWithoutStepsProcessor(t *testing.T) {
	t.Parallel()
	tr := traceOfLogs(t, TraceOptions{Options: Options{Filter: Filter{Name: "cudaLaunch*"}}}, Path("../testdata/gpu/logs/train.cudatrace"))
	v := viewOf(t, tr)
	const second = 1_000_000_000
	last := uint64(tr.Int(`select max(ts + dur) from slice`))
	if v.To-v.From != second || v.To > last || len(v.Notes) != 0 {
		t.Errorf("the view is %+v of a trace that ends at %d", v, last)
	}
}

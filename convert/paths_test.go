package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// traceOfLogs loads the trace of logs into the trace processor.
func traceOfLogs(t *testing.T, o TraceOptions, logs ...Log) *tptest.Trace {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	must.Get(Files(logs, path, o))(t)
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	return tr
}

// Of each step that is drawn the slices lie end to end, from its beginning to its end; one arrow leads to each slice that names work, from that
// work, and to no other.
func TestProcessorPaths(t *testing.T) {
	t.Parallel()
	const logs = "../testdata/gpu/logs/"
	for _, c := range []struct {
		names  []string
		ranges string // steps that are NVTX ranges, a glob; "" for others
		arrows bool
	}{
		{[]string{"nvtx"}, "step *", false},
		{[]string{"nccl-rank0", "nccl-rank1"}, "", true},
		{[]string{"graphs/python"}, "", false},
	} {
		t.Run(c.names[0], func(t *testing.T) {
			t.Parallel()
			var list []Log
			for _, name := range c.names {
				list = append(list, Path(logs+name+".cudatrace"))
			}
			tr := traceOfLogs(t, TraceOptions{}, list...)
			const paths = `(select s.id, s.ts, s.dur, s.depth, s.name, s.track_id, upid, extract_arg(s.arg_set_id, 'debug.step') as step, extract_arg(s.arg_set_id, 'debug.kind') as kind
				from slice s join process_track k on s.track_id = k.id where s.category = 'critical_path' and k.name glob '*critical path')`
			if n := tr.Int(`select count(distinct upid) from ` + paths); n != int64(len(c.names)) {
				t.Fatalf("%d processes have paths, want %d", n, len(c.names))
			}
			if n := tr.Int(`select count(*) from slice where category = 'critical_path'`); n != tr.Int(`select count(*) from `+paths) || n > mostDrawn {
				t.Errorf("%d slices, some on other tracks, or too many", n)
			}
			if n := tr.Int(`select count(*) from (select sum(dur) as parts, max(ts + dur) - min(ts) as length, max(depth) as deep from ` + paths + ` group by upid, step) where parts != length or deep > 0`); n != 0 {
				t.Errorf("%d paths do not lie end to end", n)
			}
			if c.ranges != "" {
				steps := tr.Int(`select count(distinct step) from ` + paths)
				same := tr.Int(fmt.Sprintf(`select count(*) from (select min(ts) as ts, sum(dur) as dur, step from %s group by step) p join slice s on s.category = 'nvtx' and s.name = replace('%s', '*', p.step) and s.ts = p.ts and s.dur = p.dur`, paths, c.ranges))
				if steps < 3 || same != steps {
					t.Errorf("%d of %d paths are as long as their ranges", same, steps)
				}
			}
			if others := tr.Int(`select count(*) from ` + paths + ` where name glob '* on rank [01]'`); (others > 0) != (len(c.names) > 1) {
				t.Errorf("%d slices are what another rank did", others)
			}
			work := tr.Int(`select count(*) from ` + paths + ` where kind in ('kernel', 'communication', 'copy', 'set')`)
			right := tr.Int(`select count(*) from ` + paths + ` p join flow f on f.slice_in = p.id join gpu_slice g on f.slice_out = g.id
				where p.kind in ('kernel', 'communication', 'copy', 'set') and substr(p.name, 1, length(g.name)) = g.name and g.ts <= p.ts and g.ts + g.dur >= p.ts + p.dur`)
			all := tr.Int(`select count(*) from ` + paths + ` p join flow f on f.slice_in = p.id or f.slice_out = p.id`)
			if right != work || all != work || c.arrows && work == 0 {
				t.Errorf("%d slices name work, %d have an arrow from it; there are %d arrows", work, right, all)
			}
		})
	}
}

// The paths of a trace, too, lead through calls that free memory to the work that these wait for.
func TestProcessorPathOfFrees(t *testing.T) {
	t.Parallel()
	tr := traceOfLogs(t, TraceOptions{}, Path("../testdata/savings/gpu/alloc-with.cudatrace"))
	const of = `select sum(dur) from slice where category = 'critical_path' and `
	kernels, frees := tr.Int(of+`extract_arg(arg_set_id, 'debug.kind') = 'kernel'`), tr.Int(of+`name = 'cudaFree'`)
	if kernels < 4*frees || frees == 0 {
		t.Errorf("%d ns of the paths in kernels, %d in cudaFree", kernels, frees)
	}
}

// Where the steps of a long run have no path, their track says so, from the first of them to the last, and how to see
// it.
func TestUndrawnPathsProcessor(t *testing.T) {
	t.Parallel()
	train := Path("../testdata/gpu/logs/train.cudatrace")
	tr := traceOfLogs(t, TraceOptions{}, train)
	const onTrack = ` from slice s join process_track k on s.track_id = k.id
		where k.name = 'critical path' and s.category `
	drawn := tr.Int(`select count(distinct extract_arg(s.arg_set_id, 'debug.step'))` + onTrack + `= 'critical_path'`)
	undrawn := tr.Int(`select sum(substr(s.name, 2, instr(s.name, ' ') - 2))` + onTrack + `= 'note'`)
	if all := tr.Int(`select count(*) from slice where category = 'step'`); drawn+undrawn != all || undrawn == 0 {
		t.Errorf("%d steps have a path, and %d none: want %d", drawn, undrawn, all)
	}
	if n := tr.Int(`select max(s.depth) + (select count(*) from slice x where x.category = 'step' and not exists (
		select 1` + onTrack + `is not null and s.ts <= x.ts and s.ts + s.dur > x.ts))` + onTrack + `is not null`); n != 0 {
		t.Errorf("%d steps have nothing on the track, or slices overlap", n)
	}
	notes := tr.Values(`select extract_arg(s.arg_set_id, 'debug.note')` + onTrack + `= 'note' order by s.ts limit 1`)
	text := notes[0][0].(string)
	var from, to float64
	if _, err := fmt.Sscanf(text[strings.Index(text, "--from"):], "--from %fs --to %fs", &from, &to); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	part := Options{Filter: Filter{From: time.Duration(from * 1e9), To: time.Duration(to * 1e9)}}
	if n := traceOfLogs(t, TraceOptions{Options: part}, train).Int(`select count(*)` + onTrack + `= 'note'`); n != 0 {
		t.Errorf("%s: %d runs of steps have no path in the shorter part", text, n)
	}
}

// mostDrawn is the largest number of slices on tracks of critical paths.
const mostDrawn = 1 << 15

// Without steps there is no track, and neither is there one where something of the program was left out.
func TestNoPaths(t *testing.T) {
	t.Parallel()
	var alone strings.Builder
	alone.WriteString("function id=1 name=cuInit library=driver args=\"\"\nprocess pid=20 start=1000 exe=/tmp/app args=./app\ncall pid=20 tid=20 func=cuInit enter=5000 dur=100 ret=0 args:\n")
	nvtx := Path("../testdata/gpu/logs/nvtx.cudatrace")
	for name, c := range map[string]struct {
		log   Log
		o     TraceOptions
		drawn bool
	}{
		"steps":    {nvtx, TraceOptions{}, true},
		"no steps": {Log{"alone", logtest.Assemble(t, alone.String())}, TraceOptions{}, false},
		"one name": {nvtx, TraceOptions{Options: Options{Filter: Filter{Name: "cudaLaunch*"}}}, false},
	} {
		path := filepath.Join(t.TempDir(), "trace.pftrace")
		c.o.Compress = output.None
		must.Get(Files([]Log{c.log}, path, c.o))(t)
		trace := must.Get(os.ReadFile(path))(t)
		for _, text := range []string{"critical path", "critical_path"} { // the track, and the category of its slices
			if got := bytes.Contains(trace, []byte(text)); got != c.drawn {
				t.Errorf("%s: %s is in the trace: %t", name, text, got)
			}
		}
	}
}

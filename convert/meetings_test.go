package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// openRanks loads the trace of logs of ranks into the trace processor.
func openRanks(t *testing.T, ranks []*logtest.RankLog, o TraceOptions) (*tptest.Trace, []Summary) {
	t.Helper()
	return openLogs(t, logsOf(ranks), o)
}

func openLogs(t *testing.T, logs []Log, o TraceOptions) (*tptest.Trace, []Summary) {
	t.Helper()
	tr, all := openLogsWithStates(t, logs, o)
	if got := tr.Int(`select count(*) from slice`); got != int64(all[0].Slices) {
		t.Errorf("%d slices, the summary has %d", got, all[0].Slices)
	}
	return tr, all
}

// openLogsWithStates opens the trace of logs with states of threads, which are no slices.
func openLogsWithStates(t *testing.T, logs []Log, o TraceOptions) (*tptest.Trace, []Summary) {
	t.Helper()
	var out bytes.Buffer
	all, _, err := toTrace(logs, &out, o)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "trace.pftrace")
	must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
	tr := tptest.Open(t, path)
	tptest.NoErrors(t, tr)
	return tr, all
}

// logsOf are the logs of ranks.
func logsOf(ranks []*logtest.RankLog) (list []Log) {
	for _, l := range ranks {
		list = append(list, Log{fmt.Sprintf("rank%d", l.Rank), logtest.InMemory(l.Data)})
	}
	return list
}

// lines are the rows of a query, sorted.
func lines(tr *tptest.Trace, sql string) (list []string) {
	for _, row := range tr.Values(sql) {
		list = append(list, fmt.Sprint(row...))
	}
	slices.Sort(list)
	return list
}

// collectiveArrows are the arrows of collectives from the slice of the last rank to those of the others, which start at
// one moment.
const collectiveArrows = `select extract_arg(a.arg_set_id, 'debug.communicator_number'), extract_arg(a.arg_set_id, 'debug.collective'), o.pid, p.pid, a.ts, b.ts, b.name
	from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in
	join process_track j on a.track_id = j.id join process o on j.upid = o.upid join process_track k on b.track_id = k.id join process p on k.upid = p.upid
	where a.category = 'collective' and b.category = 'collective' and a.name not glob 'waits for *'`

// Each rank that waited has a slice up to the moment in which the last one entered, and an arrow then.
func TestCollectiveArrowsProcessor(t *testing.T) {
	t.Parallel()
	const steps = 20
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 3, Steps: steps, Straggler: 2, Late: 4e6})
	tr, all := openRanks(t, logs, TraceOptions{})
	tl, _ := convertRanks(t, logs)
	var want, waits []string
	for communicator, name := range []string{logtest.Local, logtest.World} {
		operation := []string{"ReduceScatter", "AllReduce"}[communicator]
		parts := kernelsOf(tl, name)
		for i := range steps {
			entered := parts[2][i].start // the straggler
			for r := range uint32(2) {
				p := parts[r][i]
				want = append(want, fmt.Sprint(int64(communicator), int64(i), int64(1002), int64(1000+r), int64(entered), int64(entered), operation))
				waits = append(waits, fmt.Sprint(int64(p.start), int64(entered-p.start), "waits for rank 2"), fmt.Sprint(int64(entered), int64(p.end-entered), operation))
			}
			waits = append(waits, fmt.Sprint(int64(entered), int64(parts[2][i].end-entered), operation))
		}
	}
	slices.Sort(want)
	slices.Sort(waits)
	goldentest.Same(t, want, lines(tr, collectiveArrows), "arrows")
	goldentest.Same(t, waits, lines(tr, `select ts, dur, name from slice where category = 'collective'`), "slices")
	if f := all[0].Collectives; f == nil || f.Communicators != 2 || f.Collectives != 2*steps || f.Waits != 4*steps || f.Doubtful != 0 {
		t.Errorf("found %+v", f)
	}
}

// What the UI shows of two ranks is in the order of this query, which is the UI's own: what all ranks did comes first, and of what stands in no group there
// is so little that nothing is moved below the processes, to which the UI gives the place 50.
func checkTrackOrder(t *testing.T, tr *tptest.Trace) {
	t.Helper()
	tr.Query(`include perfetto module viz.summary.track_event`)
	children := func(of string) (names []string) {
		for _, row := range tr.Values(`select name from _track_event_tracks_ordered_groups where (has_data or has_children) and parent_id ` + of + ` group by name order by min(order_id)`) {
			names = append(names, row[0].(string))
		}
		return names
	}
	for of, want := range map[string][]string{
		`is null`: {"All ranks", "Critical path", "GPU 0 · H200", "GPU 1 · H200", "Process counters", "Process counters, GPU 0", "Process counters, GPU 1", "Program", "Ranges on streams", "cudatrace",
			"rank 0 · NVTX", "rank 0 · NVTX: NCCL", "rank 0 · python3", "rank 1 · NVTX", "rank 1 · NVTX: NCCL", "rank 1 · python3"},
		`in (select id from track where name = 'All ranks')`: {"rank 0", "rank 1"},
		`= (select min(id) from track where name = 'Ranges on streams')`: {
			"rank 0 · NVTX on Stream 7 (default)", "rank 0 · collectives on Stream 7 (default)", "rank 0 · NVTX on Stream 14 (copies)", "rank 0 · NVTX on Stream 15 (copies)", "rank 0 · NVTX on Stream 17 (NCCL)",
			"rank 0 · NVTX on Stream 17 (NCCL) · pt_autograd_0 1311", "rank 0 · collectives on Stream 17 (NCCL)", "rank 0 · NVTX on Stream 145 (copies)", "rank 0 · NVTX on Stream 146 (copies)"},
		`= (select min(id) from track where name = 'Critical path')`: {"rank 1 · steps", "rank 1 · critical path"},
	} {
		if got := children(of); !slices.Equal(got, want) {
			t.Errorf("tracks whose parent %s: %q, want %q", of, got, want)
		}
	}
	if most := tr.Int(`select max(order_id) from _track_event_tracks_ordered_groups where parent_id is null`); most >= 50 {
		t.Errorf("%d tracks are in no group", most)
	}
	got := lines(tr, `select distinct name from gpu_track where type = 'gpu_render_stage' and name glob 'rank 0 *'
		order by lower(name)`)
	if want := []string{"rank 0 · Stream   7 (default)", "rank 0 · Stream  14 (copies)", "rank 0 · Stream  15 (copies)",
		"rank 0 · Stream  17 (NCCL)", "rank 0 · Stream 145 (copies)", "rank 0 · Stream 146 (copies)"}; !slices.Equal(got, want) {
		t.Errorf("queues %q, want %q", got, want)
	}
	if folded := tr.Int(`select count(*) from track where name = 'process' or name = 'events' or name glob 'Stream 0*'`); folded != 0 {
		t.Errorf("%d tracks have names that say nothing", folded)
	}
}

// The parts of real collectives, of PyTorch with NCCL on two GPUs, have their arrows, and what NCCL says.
func TestRealCollectivesProcessor(t *testing.T) {
	t.Parallel()
	var logs []Log
	for i := range 2 {
		logs = append(logs, Path(fmt.Sprintf("../testdata/gpu/logs/nccl-rank%d.cudatrace", i)))
	}
	tr, all := openLogs(t, logs, TraceOptions{})
	f := all[0].Collectives
	if f == nil || f.Communicators != 2 || f.Collectives != 117 || f.Waits < 100 || f.Doubtful != 0 {
		t.Errorf("found %+v, want 117 collectives in two communicators", f)
	}
	if got := len(lines(tr, collectiveArrows)); got != int(f.Waits) {
		t.Errorf("%d arrows for %d waits", got, f.Waits)
	}
	if n := tr.Int(backwards); n != 0 {
		t.Errorf("%d arrows lead back in time", n)
	}
	if got := lines(tr, `select distinct extract_arg(arg_set_id, 'communicator') from gpu_slice where lower(name) glob 'nccl*'`); len(got) != 2 {
		t.Errorf("kernels have the communicators %q, want two", got)
	}
	const sent = `select s.name, format('%#x', extract_arg(s.arg_set_id, 'debug.communicator')), t.name from slice s join process_track t on s.track_id = t.id
		where s.category = 'collective' and s.name = 'AlltoAll' and s.id not in (select slice_in from flow) and s.id not in (select slice_out from flow)
		and exists (select 1 from gpu_slice g where g.ts = s.ts and g.dur = s.dur and g.name glob 'ncclDevKernel_SendRecv*')`
	if got := lines(tr, sent); len(got) != 12 || f.Sends != 12 || !strings.HasPrefix(got[0], "AlltoAll0x57483416b1ee33dcrank 0 · collectives on Stream 7 ") {
		t.Errorf("%d kernels that send and receive, slices %q", f.Sends, got)
	}
	const said = `select count(*) from gpu_slice where name glob 'ncclDevKernel_AllReduce*' and extract_arg(arg_set_id, 'bytes') > 0`
	if n := tr.Int(said); n != 2*94 {
		t.Errorf("%d kernels of all-reduces say how many bytes, want 188", n)
	}
	checkTrackOrder(t, tr)
}

// Ranks that only send and receive have slices without arrows.
func TestSendsProcessor(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	for pid := range 2 {
		fmt.Fprintf(&log, "process pid=%d exe=/bin/a args=a environment=\"RANK=%d\\x00WORLD_SIZE=2\"\n", pid+1, pid)
		for i := range 20 {
			fmt.Fprintf(&log, "kernel pid=%d context=1 stream=20 correlation=%d start=%d dur=%d name=_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE grid_x=1\n", pid+1, i+1, 10000*(i+1)+100*pid, 5000-100*pid)
		}
	}
	tr, all := openLogs(t, []Log{{"sends", logtest.Assemble(t, log.String())}}, TraceOptions{})
	if got := tr.Int(`select count(*) from slice where category = 'collective' and name = 'SendRecv'`); got != 40 || tr.Int(`select count(*) from flow`) != 0 || all[0].Collectives.Sends != 40 {
		t.Errorf("%d slices, found %+v", got, all[0].Collectives)
	}
}

// backwards counts the arrows of collectives that lead back in time, or from a kernel to a slice of a later moment.
// Those of waits lead from their ends.
const backwards = `select count(*) from flow f join slice a on a.id = f.slice_out join slice b on b.id = f.slice_in
	where b.category = 'collective' and a.ts + iif(a.name glob 'waits for *', a.dur, 0) != b.ts`

// Between hosts an arrow is there where the clocks are right enough, and none leads back in time.
func TestCollectiveArrowsOfHostsProcessor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ranks logtest.Ranks
		most  uint64 // share of the waits without an arrow, in percent
		least uint64
	}{
		"aligned by collectives":     {logtest.Ranks{WallOff: 3e6, WallError: 4e6, Drift: 20}, 20, 0},
		"aligned by good clocks":     {logtest.Ranks{WallOff: 300, WallError: 500}, 0, 0},
		"a wall clock that is wrong": {logtest.Ranks{WallOff: 9e9, WallError: 1e6, Drift: 20}, 40, 40}, // two of the three waits of each collective of all ranks
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := c.ranks
			o.Hosts, o.PerHost, o.Steps, o.Straggler = 2, 2, 60, -1
			tr, all := openRanks(t, logtest.WriteRanks(t, o), TraceOptions{})
			f := all[0].Collectives
			if f == nil || f.Communicators != 3 || f.Waits < 200 || 100*f.Doubtful > c.most*f.Waits || 100*f.Doubtful < c.least*f.Waits {
				t.Fatalf("found %+v", f)
			}
			if n := len(lines(tr, collectiveArrows)); n != int(f.Waits-f.Doubtful) {
				t.Errorf("%d arrows of %+v", n, f)
			}
			if n := tr.Int(backwards); n != 0 {
				t.Errorf("%d arrows lead back in time", n)
			}
		})
	}
}

// A rank that is left out of the trace is still the one that the others waited for, also where one rank alone is left.
func TestCollectivesOfSomeRanksProcessor(t *testing.T) {
	t.Parallel()
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 3, Steps: 20, Straggler: 2, Late: 4e6})
	some := func(text string) (*tptest.Trace, *Summary) {
		list := must.Get(ranks.ParseList(text))(t)
		tr, all := openRanks(t, logs, TraceOptions{Options: Options{Filter: Filter{Ranks: list}}})
		return tr, &all[0]
	}
	tr, sum := some("0,1")
	if got := lines(tr, `select distinct extract_arg(arg_set_id, 'entered_last') from gpu_slice where name glob 'nccl*'`); !slices.Equal(got, []string{"rank 2"}) {
		t.Errorf("%q entered last", got)
	}
	if waits, n := tr.Int(`select count(*) from slice where name = 'waits for rank 2'`), len(lines(tr, collectiveArrows)); waits != 80 || n != 0 || sum.Collectives.Waits != 80 {
		t.Errorf("%d waits, %d arrows", waits, n)
	}
	tr, sum = some("0")
	if waits, n := tr.Int(`select count(*) from slice where name = 'waits for rank 2'`), len(lines(tr, collectiveArrows)); waits != 40 || n != 0 || sum.Collectives.Waits != 40 {
		t.Errorf("one rank: %d waits, %d arrows", waits, n)
	}
	if n := tr.Int(`select count(*) from slice where category = 'rank'`); n != 0 {
		t.Errorf("one rank has an overview, of %d slices", n)
	}
}

// Of four ranks on GPUs each has a track in the overview. With a list of ranks those of the list have one. Who entered each collective last is
// found in all logs, and two communicators are two also where no call of a rank that is left out is read.
func TestRealRanksProcessor(t *testing.T) {
	t.Parallel()
	capture := logtest.Captures[1]
	var logs []Log
	for _, path := range capture.Paths("..") {
		logs = append(logs, Path(path))
	}
	for text, shown := range map[string][]string{"": {"rank 0", "rank 1", "rank 2", "rank 3"}, "0,last": {"rank 0", "rank 3"}} {
		var o TraceOptions
		if text != "" {
			list := must.Get(ranks.ParseList(text))(t)
			o.Filter.Ranks = list
		}
		tr, all := openLogsWithStates(t, logs, o)
		if got := lines(tr, `select distinct substr(name, 1, 6) from process where name glob 'rank *'`); !slices.Equal(got, shown) {
			t.Errorf("--ranks %q: processes %q", text, got)
		}
		if got := lines(tr, `select distinct t.name from slice s join track t on s.track_id = t.id where s.category = 'rank'`); !slices.Equal(got, shown) {
			t.Errorf("--ranks %q: the overview has %q", text, got)
		}
		if got := lines(tr, `select distinct extract_arg(arg_set_id, 'entered_last') from gpu_slice where extract_arg(arg_set_id, 'entered_last') is not null`); len(got) != 4 {
			t.Errorf("--ranks %q: %q entered last", text, got)
		}
		if f := all[0].Collectives; f == nil || f.Communicators != capture.Communicators || f.Collectives != 60 || f.Sends != uint64(3*len(shown)) || f.Waits == 0 {
			t.Errorf("--ranks %q: found %+v", text, f)
		}
	}
}

// Armed ranks were training for long when they were recorded, twice: NCCL tells nothing of their communicator, and each has other collectives first.
func TestArmedRanksProcessor(t *testing.T) {
	t.Parallel()
	for recording, want := range map[int]uint64{1: 396, 2: 541} {
		log := Path(fmt.Sprintf("../testdata/gpu/logs/ranks/armed-%d.cudatrace", recording))
		tr, all := openLogsWithStates(t, []Log{log}, TraceOptions{})
		if f := all[0].Collectives; f == nil || f.Communicators != 1 || f.Collectives != want || f.Waits < 500 || f.Doubtful != 0 {
			t.Errorf("recording %d: found %+v", recording, f)
		}
		if n := tr.Int(`select count(*) from gpu_slice where name glob 'nccl*' and extract_arg(arg_set_id, 'ranks') = 4`); n < 4*int64(want)-20 {
			t.Errorf("recording %d: %d kernels are parts of collectives of four ranks", recording, n)
		}
	}
}

// A rank that is left out may have the PID of one that is shown, on another host.
func TestCollectivesOfSomeHostsProcessor(t *testing.T) {
	t.Parallel()
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 2, PerHost: 2, Steps: 20, Straggler: 3, Late: 4e6, WallOff: 300, WallError: 500})
	for text, want := range map[string]int64{"0": 20, "2": 40, "3": 0} { // of rank 3's own host 20 more
		list := must.Get(ranks.ParseList(text))(t)
		tr, _ := openRanks(t, logs, TraceOptions{Options: Options{Filter: Filter{Ranks: list}}})
		if waits := tr.Int(`select count(*) from slice where name = 'waits for rank 3'`); waits != want {
			t.Errorf("rank %s waits for rank 3 %d times, want %d", text, waits, want)
		}
	}
}

// Where a filter leaves out the earlier collectives, no arrow leads back to them.
func TestCollectivesFromATimeProcessor(t *testing.T) {
	t.Parallel()
	logs := logtest.WriteRanks(t, logtest.Ranks{
		Hosts: 2, PerHost: 2, Steps: 60, WallOff: 300, WallError: 500, Straggler: -1,
	})
	tr, _ := openRanks(t, logs, TraceOptions{Options: Options{Filter: Filter{From: 1_200_000_000}}})
	if n := len(lines(tr, collectiveArrows)); n == 0 || tr.Int(backwards) != 0 {
		t.Errorf("%d arrows, or some lead back in time", n)
	}
}

// A wait for the last rank says what that one did meanwhile for most of the time, and where, and has an arrow to its
// slice.
func TestMeanwhileProcessor(t *testing.T) {
	t.Parallel()
	const logs = "../testdata/gpu/logs/ranks/"
	tr := traceOfLogs(t, TraceOptions{}, Path(logs+"loader-rank0.cudatrace"), Path(logs+"loader-rank3.cudatrace"))
	const longest = `(select * from slice where name = 'waits for rank 3' order by dur desc limit 10)`
	got := lines(tr, `select extract_arg(arg_set_id, 'debug.meanwhile'), ', ', extract_arg(arg_set_id, 'debug.state')
		from `+longest+` group by 1 order by count(*) desc limit 1`)
	if want := []string{"ranks.py:40 next_batch, blocked in read on a pipe, blocked"}; !slices.Equal(got, want) {
		t.Errorf("rank 3 mostly did %q, want %q", got, want)
	}
	if n := tr.Int(`select count(*) from ` + longest + ` x join flow on slice_out = x.id join slice s on s.id = slice_in
		join process_track k on s.track_id = k.id where s.ts = x.ts + x.dur and k.name glob 'rank 3 *'`); n != 10 {
		t.Errorf("%d of 10 waits have an arrow to rank 3", n)
	}
	if n := tr.Int(`select count(*) from slice where name glob 'waits for *' and
		extract_arg(arg_set_id, 'debug.line') = 'ranks.py:56 average_gradients'`); n < 30 {
		t.Errorf("%d waits name the line of the call", n)
	}
}

package stats_test

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/must"
)

// pathsOf returns the report of critical paths of logs.
func pathsOf(t *testing.T, logs []convert.Log) *table.Table {
	t.Helper()
	return byName(taking(t, stats.New(), convert.Options{Collectives: true}, logs...), stats.Facts{})["critical_path"]
}

// The parts of the paths of each kind of step add up to its steps.
func TestPathsAddUp(t *testing.T) {
	t.Parallel()
	all := maps.Clone(everyTable(t))
	const sampled = "../../testdata/gpu/logs/ranks/straggler-rank3.cudatrace"
	all[sampled] = tablesOf(t, sampled)
	for name, tables := range all {
		r := tables["critical_path"]
		shares, kinds := 0.0, make(map[any]bool)
		for _, row := range r.Rows {
			shares += cell(r, row, "share").(float64)
			kinds[cell(r, row, "step")] = true
		}
		if n := len(tables["processes"].Rows); len(r.Rows) > 0 && len(kinds) == 1 && n == 1 && math.Abs(shares-1) > 1e-9 {
			t.Errorf("%s: the parts are %g of the paths", name, shares)
		}
	}
}

// However narrow a terminal is, the rows with most time have what tells them apart: the place, and of several ranks the rank.
func TestPathsInNarrowTerminal(t *testing.T) {
	t.Parallel()
	const ranks = "../../testdata/gpu/logs/nccl-rank"
	r := pathsOf(t, []convert.Log{convert.Path(ranks + "0.cudatrace"), convert.Path(ranks + "1.cudatrace")})
	r.Rows, r.Notes = r.Rows[:6], nil
	for _, width := range []int{80, 66} {
		var b strings.Builder
		must.Do(t, table.WriteText(&b, []*table.Table{r}, width))
		seen := make(map[string]bool)
		for _, line := range strings.Split(b.String(), "\n")[1 : 2+len(r.Rows)] {
			words := strings.Fields(line)
			end := max(len(words)-2, 0) // the time
			if text := strings.Join(words[:end], " "); seen[text] {
				t.Errorf("in %d characters two rows read alike but for their times:\n%s", width, &b)
			} else {
				seen[text] = true
			}
		}
	}
}

// The path of training on several GPUs leads to the planted cause, at its line on its rank, with all of its time: of what only some samples saw,
// too. So do the first findings. Steps of the start-up, which take a hundred times as long, do not count.
func TestPlantedCauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		log, name, place string
		least, most      float64 // ms of a step
		steps            uint64  // of 15
		finding, try     string  // what its title and its remedy have
	}{
		{"straggler", "ranks.py:68 train_step, sleeps in clock_nanosleep", "", 4, 4.2, 15, "rank 3 is 4.5 ms late every step: ranks.py:68 train_step, sleeps in clock_nanosleep", "sleeps there by itself"},
		{"loader", "ranks.py:40 next_batch, blocked in read on a pipe", "", 8, 8.3, 15, "rank 3 is 8.2 ms late every step: ranks.py:40 next_batch, blocked in read on a pipe", "num_workers"},
		{"kernel", "sm80_xmma_gemm_", "ranks.py:80 train_step", 2.5, 2.8, 15, "rank 3 computes 284 % longer", ""},
		{"starved", "(ready to run, no CPU free)", "ranks.py:78 train_step", 1.3, 1.4, 3, "ready to run, no CPU free, on rank 3: on the critical path of step", "more processors"},
	} {
		var logs []convert.Log
		for _, rank := range []int{0, 3} {
			logs = append(logs, convert.Path(fmt.Sprintf("../../testdata/gpu/logs/ranks/%s-rank%d.cudatrace", c.log, rank)))
		}
		tables := make(map[string]*table.Table)
		s := stats.New()
		must.Get(convert.Timeline(logs, convert.Options{Collectives: true}, s))(t)
		for _, r := range s.Tables(stats.Facts{}) {
			tables[r.Name] = r
		}
		r := tables["critical_path"]
		row := r.Rows[0]
		place, _ := cell(r, row, "place").(string)
		if name := cell(r, row, "name").(string); !strings.HasPrefix(name, c.name) || place != c.place || cell(r, row, "rank") != uint64(3) {
			t.Errorf("%s: first on the path is %q, %q on rank %v", c.log, name, place, cell(r, row, "rank"))
		}
		if mean := cell(r, row, "mean_ns").(float64) / 1e6; mean < c.least || mean > c.most || cell(r, row, "steps") != c.steps {
			t.Errorf("%s: %g ms a step in %v of %v steps", c.log, mean, cell(r, row, "steps"), cell(r, row, "of_steps"))
		}
		if starting := cell(r, row, "starting_ns").(uint64); cell(r, row, "starting") != uint64(1) || starting < 500*ms {
			t.Errorf("%s: %v steps of the start-up, %d ns", c.log, cell(r, row, "starting"), starting)
		}
		f := tables["findings"]
		title, try := cell(f, f.Rows[0], "title").(string), cell(f, f.Rows[0], "try").(string)
		if !strings.Contains(title, c.finding) || !strings.Contains(try, c.try) {
			t.Errorf("%s: the first finding is %q, try %q, want %q with %q", c.log, title, try, c.finding, c.try)
		}
	}
}

// What to try about gaps follows from what blocked the thread that launches the next work.
func TestRemediesOfBlocks(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"state=3 call=clock_nanosleep":      "the program sleeps there by itself",
		"state=3 call=select":               "the program sleeps there by itself",
		"state=3 call=futex on=lock":        "look at who has the lock",
		"state=3 call=futex on=GIL":         "look at who has the lock",
		"state=3 call=read on=pipe":         "have ready what the thread waits for",
		"state=3 call=futex on=thread":      "have ready what the thread waits for",
		"state=3 call=\"page fault\"":       "have ready what the thread waits for",
		"state=3 call=epoll_wait on=socket": "have ready what the thread waits for",
	} {
		p := newProgram()
		p.stepping(func() {
			p.state(12*ms, state)
			p.kernel(7, 50*us, 1)
		})
		f := p.reports(t, false)["findings"]
		i := slices.IndexFunc(f.Rows, func(row table.Row) bool { return row.Cells[0] == "gaps" })
		if i < 0 || !strings.HasPrefix(cell(f, f.Rows[i], "try").(string), want) {
			t.Errorf("%s: findings %v", state, f.Rows)
		}
	}
}

// What blocked a thread in some steps blocked it in the others, too, if nothing else was seen before a call at the same line. Before another line it is
// not known; a call without a line, which comes first there, does not hide the line.
func TestPathOfWhatIsSeenByChance(t *testing.T) {
	t.Parallel()
	p := newProgram()
	step := 0
	p.stepping(func() {
		p.python(41)
		if step++; step%3 == 1 {
			p.state(2*ms, "state=3 call=read on=pipe")
		} else {
			p.state(2*ms, "state=3")
		}
		p.copy("cudaMemcpyAsync", 7, 64, fromPinned)
		p.python(56)
		p.state(3*ms, "state=3")
		line := p.line
		p.line = 0
		p.call("cudaSetDevice", us)
		p.line = line
	})
	r := pathsOf(t, []convert.Log{{Name: "log", Open: logtest.InMemory(p.bytes(t))}})
	var got [2][]any
	for i := range got {
		for _, key := range []string{"name", "place", "mean_ns", "slowest_ns", "count", "steps", "of_steps"} {
			got[i] = append(got[i], cell(r, r.Rows[i], key))
		}
	}
	const steps = uint64(19) // without that of the start-up
	want := [2][]any{
		{activity.NoReason, "train.py:56 step", 3e6, 3 * ms, steps, steps, steps},
		{"blocked in read on a pipe", nil, 2e6, 2 * ms, steps, steps, steps},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// The gaps of a row can last as long as it says: so many times the longest one at most. What was seen by chance once or twice has no more than that.
func TestIdleOfSamples(t *testing.T) {
	t.Parallel()
	const ranks = "../../testdata/gpu/logs/ranks/"
	for _, c := range []struct {
		log    string
		filter convert.Filter
	}{
		{"armed-1", convert.Filter{}},
		{"straggler-rank1", convert.Filter{From: 13220 * time.Millisecond, To: 13336 * time.Millisecond}},
		{"straggler-rank3", convert.Filter{}},
	} {
		for _, r := range sinkOf(t, convert.Options{Filter: c.filter}, ranks+c.log+".cudatrace").Tables(stats.Facts{}) {
			if r.Name != "idle" {
				continue
			}
			unknown := uint64(0)
			for _, row := range r.Rows {
				what, count, all, longest := cell(r, row, "what").(string), cell(r, row, "count").(uint64), cell(r, row, "total_ns").(uint64), cell(r, row, "max_ns")
				if longest != nil && all > count*longest.(uint64) {
					t.Errorf("%s: %s: %d gaps, %d ns, the longest %d", c.log, what, count, all, longest)
				}
				if what == activity.NotSampled {
					unknown += all
				}
			}
			if unknown < 5*ms {
				t.Errorf("%s: all but %d ns are explained", c.log, unknown)
			}
		}
	}
}

// Where no calls that wait are recorded, a thread that waits for the GPU looks as if it slept by itself: nothing is said of its path.
func TestPathWithoutWaits(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		p := newProgram()
		times(20, func(i int) {
			p.ranged(fmt.Sprint("step ", i), "", func() {
				p.kernel(7, 3*ms, 200)
				p.state(3*ms, "state=3 call=clock_nanosleep")
				p.state(3*ms, "state=3 call=clock_nanosleep")
				if waits {
					p.wait("cudaStreamSynchronize")
				}
			})
		})
		found := slices.ContainsFunc(p.reports(t, false)["findings"].Rows, func(row table.Row) bool { return row.Cells[0] == "critical_path" })
		if found != waits {
			t.Errorf("calls that wait are recorded: %v, and a finding about the path: %v", waits, found)
		}
	}
}

// A call that frees memory waits for the work of the GPU: the path leads to the work. Without these calls a step takes 1.3 ms less (TestSavings).
func TestPathOfFrees(t *testing.T) {
	t.Parallel()
	r := pathsOf(t, []convert.Log{convert.Path("../../testdata/savings/gpu/alloc-with.cudatrace")})
	frees, kernels := 0.0, 0.0
	for _, row := range r.Rows {
		switch name := cell(r, row, "name").(string); {
		case name == "cudaFree":
			frees += cell(r, row, "mean_ns").(float64)
		case strings.Contains(name, "gemm"):
			kernels += cell(r, row, "mean_ns").(float64)
		}
	}
	if frees > 1.3e6 || kernels < 6e6 {
		t.Errorf("%.0f ns of a step in cudaFree, %.0f in kernels", frees, kernels)
	}
}

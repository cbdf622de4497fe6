package stats_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// rankTables returns the reports of the logs of ranks by name.
func rankTables(t testing.TB, logs []*logtest.RankLog) map[string]*table.Table {
	t.Helper()
	var list []convert.Log
	for _, l := range logs {
		list = append(list, convert.Log{Name: fmt.Sprintf("rank%d", l.Rank), Open: logtest.InMemory(l.Data)})
	}
	s := stats.New()
	s.NameSteps()
	steps := convert.Steps{Ranges: pattern.Ranges{Name: "step", Domain: "*"}}
	o := convert.Options{Collectives: true, Filter: convert.Filter{Steps: steps}}
	return byName(taking(t, s, o, list...), stats.Facts{})
}

// cell is a cell of a row.
func cell(t *table.Table, row table.Row, key string) any { return row.Cells[t.Column(key)] }

// kindsOf are the kinds of the findings, start-up apart.
func kindsOf(t *table.Table) (kinds []string) {
	for _, row := range t.Rows {
		if row.Cells[0] != findings.Startup {
			kinds = append(kinds, row.Cells[0].(string))
		}
	}
	slices.Sort(kinds)
	return kinds
}

// A rankHabit is a distributed program, with the finding that it has.
type rankHabit struct {
	name string
	o    logtest.Ranks
	want string
}

var rankHabits = []rankHabit{
	{"balanced: ranks take turns in being last", logtest.Ranks{}, ""},
	{"balanced: only chance makes ranks late", logtest.Ranks{Even: true}, ""},
	{"balanced, with collectives that take less than waiting for chance does", logtest.Ranks{Transfer: 0.5e6}, ""},
	{"nearly: a rank that is late by less than it costs", logtest.Ranks{Straggler: 13, Late: 0.2e6}, ""},
	{"a rank is late", logtest.Ranks{Straggler: 13, Late: 1e6, Even: true}, "compute_imbalance"},
	{"a rank is late, though its GPU does nothing", logtest.Ranks{Straggler: 13, Idle: true, Late: 0.9e6, Even: true}, "straggling_rank"},
	{"a host is late", logtest.Ranks{HostLate: 2.5e6, Even: true}, "straggling_host"},
	{"communication takes long", logtest.Ranks{Transfer: 5e6}, "exposed_communication"},
	{"a rank is late, with wall clocks that are wrong", logtest.Ranks{WallError: 1, Straggler: 13, Idle: true, Late: 0.9e6, Even: true}, "straggling_rank"},
	{"a host is late, with wall clocks that are not synchronized", logtest.Ranks{WallError: unsynchronized, HostLate: 2.5e6, Even: true}, "straggling_host"},
	{"a rank has a kernel of its own", logtest.Ranks{Odd: 3}, "odd_kernel"},
	{"a GPU has lower clocks", logtest.Ranks{Slow: 7}, "low_clocks"},
}

// What the generator puts into the logs of ranks on several hosts is found, and nothing else.
func TestRankFindings(t *testing.T) {
	t.Parallel()
	for i, h := range rankHabits {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			if h.o.Hosts = 4; i == 0 {
				h.o.Hosts = 8
			}
			tables := rankTables(t, sixtyFour(t, h.o))
			if got := strings.Join(kindsOf(tables["findings"]), " "); got != h.want {
				var b strings.Builder
				table.WriteText(&b, []*table.Table{tables["findings"], tables["collectives"]}, 160)
				t.Errorf("findings %q, want %q\n%s", got, h.want, b.String())
			}
			found := tables["findings"]
			for _, row := range found.Rows {
				words := query.FindStringSubmatch(cell(found, row, "query").(string)) // of several logs it has no filter
				if words == nil || words[2]+words[3] != "" {
					t.Fatalf("%s: query %q", row.Cells[0], cell(found, row, "query"))
				}
				for name := range strings.SplitSeq(words[1], ",") {
					if r := tables[name]; r == nil || len(r.Rows) == 0 {
						t.Errorf("%s: %q shows no %s", row.Cells[0], words[0], name)
					}
				}
			}
		})
	}
}

// The tables of 64 ranks give back what the generator put in: who waited, for whom, and by how much.
func TestRanks(t *testing.T) {
	t.Parallel()
	logs := sixtyFour(t, logtest.Ranks{Straggler: 13, Late: 4e6})
	tables := rankTables(t, logs)
	c := tables["collectives"]
	if len(c.Rows) != 9 || len(c.Notes) != 0 {
		t.Fatalf("%d rows, notes %q", len(c.Rows), c.Notes)
	}
	world := c.Rows[0]
	for key, want := range map[string]any{"ranks": "0-63", "members": uint64(64), "count": uint64(40), "last_rank": uint64(13), "last_share": 1.0, "compared": uint64(40), "uncertain": uint64(0)} {
		if got := cell(c, world, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	total := uint64(0)
	for _, row := range c.Rows {
		total += cell(c, row, "wait_ns").(uint64)
	}
	truth := 0.0
	ranks := tables["ranks"]
	for i, row := range ranks.Rows {
		l := logs[i]
		truth += l.Waited
		got := func(key string) float64 { return float64(cell(ranks, row, key).(uint64)) }
		if got("rank") != float64(i) || got("collectives") != 80 || got("last") != float64(l.Last) {
			t.Errorf("rank %d: %v collectives, last in %v, want %d", i, got("collectives"), got("last"), l.Last)
		}
		near(t, fmt.Sprintf("rank %d waited", i), got("waited_ns"), l.Waited)
		near(t, fmt.Sprintf("rank %d was waited for", i), got("awaited_ns"), l.Awaited)
	}
	near(t, "all together waited", float64(total), truth)
	worst := tables["late_collectives"]
	for i, row := range worst.Rows[:40] {
		if cell(worst, row, "last_rank") != uint64(13) || cell(worst, row, "members") != uint64(64) || i > 0 && cell(worst, row, "wait_ns").(uint64) > cell(worst, worst.Rows[i-1], "wait_ns").(uint64) {
			t.Errorf("collective %d: %v", i, row)
		}
	}
	testSteps(t, tables["steps"])
}

// near checks a time of many collectives: clocks are right to a few µs in each.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.01*want+80*10e3 {
		t.Errorf("%s %.0f ns, want %.0f", what, got, want)
	}
}

func testSteps(t *testing.T, steps *table.Table) {
	t.Helper()
	if len(steps.Rows) != 40 {
		t.Fatalf("%d steps: %s", len(steps.Rows), steps.Reason)
	}
	seen := make(map[uint64]bool)
	for _, row := range steps.Rows {
		of := func(key string) uint64 { return cell(steps, row, key).(uint64) }
		lengths := cell(steps, row, "durations_ns").([]uint64)
		seen[of("number")] = true
		if of("count") != 64 || len(lengths) != 64 || len(cell(steps, row, "ranks").([]uint64)) != 64 || of("spread_ns") != of("max_ns")-of("min_ns") ||
			slices.Max(lengths) != of("max_ns") || lengths[of("slowest_rank")] != of("max_ns") || of("median_ns") < 15e6 || of("median_ns") > 25e6 {
			t.Errorf("%v", row)
		}
	}
	if len(seen) != 40 || !seen[0] || !seen[39] {
		t.Errorf("%d numbers of steps", len(seen))
	}
}

// A rank whose log ends early, one without a log, and logs of another run leave the rest as it is.
func TestRanksIncomplete(t *testing.T) {
	t.Parallel()
	o := logtest.Ranks{Straggler: 13, Late: 4e6, Ends: map[int]int{5: 25}, Run: "a"}
	logs := slices.Delete(sixtyFour(t, o), 20, 21)
	alone := rankTables(t, logs)
	other := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 4, Seed: 9, Steps: 40, WallOff: 1e6, WallError: 2e6, Straggler: 2, Late: 3.2e6, Run: "b"})
	mixed := rankTables(t, append(slices.Clone(logs), other...))
	for name, tables := range map[string]map[string]*table.Table{"alone": alone, "mixed": mixed} {
		c := tables["collectives"]
		world := c.Rows[0]
		if cell(c, world, "ranks") != "0-19, 21-63" || cell(c, world, "last_rank") != uint64(13) || cell(c, world, "last_share") != 1.0 {
			t.Errorf("%s: %v", name, world)
		}
		if !slices.ContainsFunc(c.Notes, func(n string) bool {
			return strings.HasSuffix(n, "rank 5 has 25 of 40 collectives: its log ends early, or begins late")
		}) {
			t.Errorf("%s: notes %q", name, c.Notes)
		}
		if text := tables["findings"].Rows[0]; !strings.HasPrefix(text.Cells[1].(string), "rank 13 ") {
			t.Errorf("%s: %q", name, text)
		}
	}
	if got, want := strings.Join(kindsOf(alone["findings"]), " "), "compute_imbalance"; got != want {
		t.Errorf("alone %q, want %q", got, want)
	}
	if got, want := strings.Join(kindsOf(mixed["findings"]), " "), "compute_imbalance compute_imbalance"; got != want { // of each run
		t.Errorf("with the other run %q, want %q", got, want)
	}
	if got, want := len(mixed["collectives"].Rows), len(alone["collectives"].Rows)+2; got != want {
		t.Errorf("%d rows with the other run, want %d", got, want)
	}
}

// Bandwidths are those of the generator, with clocks that are wrong by more than a collective takes, too. The sizes of logs of which
// a rank is missing count.
func TestMessageSizes(t *testing.T) {
	t.Parallel()
	const size, took = 1 << 30, 10e6 + 22.5e3 + 1e3 // ns, of each collective, within 0.1 %
	want := map[string][2]float64{"AllReduce": {size / took, size / took * 2 * 63 / 64}, "ReduceScatter": {8 * size / took, 7 * size / took}}
	for name, wallError := range map[string]uint64{"clocks that are known": 0, "clocks that are not": unsynchronized} {
		logs := sixtyFour(t, logtest.Ranks{Steps: 20, Transfer: 10e6, Bytes: size, WallError: wallError})
		sizes := rankTables(t, logs)["message_sizes"]
		if len(sizes.Rows) != 2 || len(sizes.Notes) != 0 {
			t.Fatalf("%s: %v, notes %q", name, sizes.Rows, sizes.Notes)
		}
		for _, row := range sizes.Rows {
			operation := row.Cells[0].(string)
			members, count := uint64(64), uint64(20)
			if operation == "ReduceScatter" {
				members, count = 8, 160
			}
			if cell(sizes, row, "members") != members || cell(sizes, row, "count") != count || cell(sizes, row, "measured") != count ||
				cell(sizes, row, "bytes") != count*size || cell(sizes, row, "min_bytes") != uint64(size) || cell(sizes, row, "max_bytes") != uint64(size) {
				t.Errorf("%s: %v", name, row)
			}
			for i, key := range []string{"algbw_gbps", "busbw_gbps"} {
				if got := cell(sizes, row, key).(float64); math.Abs(got/want[operation][i]-1) > 0.01 {
					t.Errorf("%s: %s of %s is %.2f, want %.2f", name, key, operation, got, want[operation][i])
				}
			}
			if got := cell(sizes, row, "median_ns").(uint64); math.Abs(float64(got)/took-1) > 0.01 {
				t.Errorf("%s: %s takes %d ns, want %.0f", name, operation, got, took)
			}
		}
		if wallError == 0 {
			testToldSizes(t)
			testPartialSizes(t, rankTables(t, slices.Delete(logs, 20, 21))["message_sizes"])
		}
	}
}

// The table of a small log.
func TestMessageSizesGolden(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "message_sizes.log.txt")))(t)
	log := must.Get(logtest.Assembled(string(text)))(t)
	path := filepath.Join(t.TempDir(), "log")
	must.Do(t, os.WriteFile(path, log, 0o644))
	sizes := []*table.Table{tablesOf(t, path)["message_sizes"]}
	var b bytes.Buffer
	must.Do(t, table.WriteText(&b, sizes, 140))
	golden(t, "message_sizes.txt", b.Bytes())
}

// Where NCCL tells the number of ranks, communicators without the missing rank have their bandwidths.
func testToldSizes(t *testing.T) {
	t.Helper()
	logs := sixtyFour(t, logtest.Ranks{Steps: 20, Transfer: 10e6, Bytes: 1 << 30, Told: true})
	tables := rankTables(t, slices.Delete(logs, 20, 21))
	sizes, measured := tables["message_sizes"], make(map[string]uint64)
	for _, row := range sizes.Rows {
		measured[fmt.Sprint(row.Cells[0], " of ", cell(sizes, row, "members"))] += cell(sizes, row, "measured").(uint64)
	}
	if want := map[string]uint64{"AllReduce of 64": 0, "ReduceScatter of 8": 140}; !maps.Equal(measured, want) {
		t.Errorf("measured %v, want %v", measured, want)
	}
	if want := []string{"communicator 0x1 has no bandwidths: 1 of its 64 ranks is not there", "communicator 0x4 has no bandwidths: 1 of its 8 ranks is not there"}; !slices.Equal(slices.Sorted(slices.Values(sizes.Notes)), want) {
		t.Errorf("notes %q, want %q", sizes.Notes, want)
	}
	if want := "other ranks may have come last: 2 of 9 communicators may lack ranks (message_sizes says why)"; !slices.Contains(tables["collectives"].Notes, want) {
		t.Errorf("notes %q", tables["collectives"].Notes)
	}
}

func testPartialSizes(t *testing.T, sizes *table.Table) {
	t.Helper()
	for _, row := range sizes.Rows {
		if cell(sizes, row, "busbw_gbps") != nil || cell(sizes, row, "measured") != uint64(0) || cell(sizes, row, "bytes") == nil {
			t.Errorf("without a rank: %v", row)
		}
	}
	if len(sizes.Rows) != 3 || len(sizes.Notes) != 9 || !strings.HasSuffix(sizes.Notes[0], "has no bandwidths: 1 of the 64 ranks of the job is not there, and may be a part of it") {
		t.Errorf("without a rank: %v, notes %q", sizes.Rows, sizes.Notes)
	}
}

const unsynchronized = 1 << 40

// sixtyFour are the logs of 64 ranks on 8 hosts, or of those of other hosts, whose clocks are wrong.
func sixtyFour(t testing.TB, o logtest.Ranks) []*logtest.RankLog {
	t.Helper()
	o.Hosts, o.PerHost, o.Seed, o.Drift, o.WallOff, o.NVTX = cmp.Or(o.Hosts, 8), 8, 1, 30, 3e6, true
	if o.Steps == 0 {
		o.Steps = 40
	}
	switch o.WallError {
	case 0:
		o.WallError = 4e6
	case unsynchronized:
		o.WallError = 0
	}
	if o.Late == 0 {
		o.Straggler = -1
	}
	return logtest.WriteRanks(t, o)
}

// The straggling rank, and how much of its lateness its idle GPU explains, come before the gaps of that GPU, of which
// it explains less than half. Others have none.
func TestStragglerBeforeItsGaps(t *testing.T) {
	t.Parallel()
	const steps, late = 40, 8e6
	tables := rankTables(t, sixtyFour(t, logtest.Ranks{Hosts: 2, Steps: steps, Straggler: 5, Idle: true, Late: late, Even: true}))
	rows := tables["findings"].Rows
	if len(rows) != 2 || rows[0].Cells[0] != "straggling_rank" || rows[1].Cells[0] != "gaps" || rows[1].Cells[3] != uint64(5) {
		t.Fatalf("findings %v", rows)
	}
	because := evidenceTime(t, tables["findings"], rows[0], "of which ", " because rank 5's GPU was idle")
	ofGaps := evidenceTime(t, tables["findings"], rows[1], "other ranks waited for ", " of it (straggling_rank)")
	cost := time.Duration(cell(tables["findings"], rows[0], "cost_ns").(uint64))
	if because != ofGaps || because < cost*95/100 || because > cost {
		t.Errorf("%v of %v because its GPU was idle, the gaps say %v", because, cost, ofGaps)
	}
	busy := rankTables(t, sixtyFour(t, logtest.Ranks{Hosts: 2, Steps: steps, Straggler: 5, Late: late, Even: true}))["findings"]
	for _, row := range busy.Rows {
		if text := cell(busy, row, "evidence").(string); strings.Contains(text, "idle") {
			t.Errorf("a GPU that computes longer: %q", text)
		}
	}
}

// Of PyTorch on four GPUs, of which rank 3 sleeps before each step, the first finding names the rank and its line. Where all ranks do the same, jitter
// makes none a straggler.
func TestRealStraggler(t *testing.T) {
	t.Parallel()
	logs := func(pattern string, n int) (paths []string) {
		for i := range n {
			paths = append(paths, fmt.Sprintf("../../testdata/gpu/logs/"+pattern+".cudatrace", i))
		}
		return paths
	}
	tables := tablesOf(t, logs("ranks/straggler-rank%d", 4)...)
	checkStragglerFigures(t, tables)
	f := tables["findings"]
	first := f.Rows[0]
	if want := "rank 3 is 4.3 ms late every step: ranks.py:68 train_step, sleeps in clock_nanosleep"; cell(f, first, "title") != want {
		t.Errorf("title %q, want %q", cell(f, first, "title"), want)
	}
	evidence := cell(f, first, "evidence").(string)
	for _, want := range []string{": last in 15 of the 15 collectives in which all others wait ", " because rank 3's GPU was idle: mostly ranks.py:68 train_step, sleeps in clock_nanosleep"} {
		if !strings.Contains(evidence, want) {
			t.Errorf("evidence %q lacks %q", evidence, want)
		}
	}
	also := []string{"GPU 3 (rank 3) is idle 15 times, for up to 4.9 ms (gaps)", "on the critical path of step (critical_path)"}
	if got := cell(f, first, "also"); !reflect.DeepEqual(got, also) {
		t.Errorf("also %q, want %q", got, also)
	}
	if try := cell(f, first, "try").(string); !strings.HasPrefix(try, "the program sleeps there by itself") {
		t.Errorf("try %q", try)
	}
	// The last log begins 2.4 ms after the first.
	const show = "cudatrace stats LOG --report collectives,late_collectives,ranks --from 13.220802s --to 13.335231s"
	if query := cell(f, first, "query"); query != show {
		t.Errorf("query %q, want %q", query, show)
	}
	for _, paths := range [][]string{logs("nccl-rank%d", 2), logs("ranks/clocks-rank%d", 4)} {
		if kinds := kindsOf(tablesOf(t, paths...)["findings"]); slices.Contains(kinds, "straggling_rank") {
			t.Errorf("%s: findings %q", paths[0], kinds)
		}
	}
}

// What holds although ranks are missing is said as with all ranks; what does not hold says so, and is not blamed first.
func TestRealRanksNotGiven(t *testing.T) {
	t.Parallel()
	const nobody = "; other ranks, whose logs are not given, do not come later: it waits for nobody"
	for _, c := range []struct {
		log                                string
		ranks                              []int
		kind, title, confidence, of, begin string // of the remedy
	}{
		{"straggler", []int{2}, "exposed_communication", "rank 2 communicates without computing in 67.6 % of the time", "likely",
			"; the cost includes waiting for other ranks, whose logs are not given", "give the logs of all ranks, "},
		{"straggler", []int{0, 3}, "straggling_rank", "rank 3 is 4.5 ms late every step: ranks.py:68 train_step, sleeps in clock_nanosleep", "certain", nobody,
			"the program sleeps there by itself"},
		{"kernel", []int{0, 3}, "compute_imbalance", "rank 3 computes 284 % longer than rank 0: the kernel gemm f32 256x128 (cublas) of ranks.py:80 train_step", "likely",
			"53.9 ms against 14.0 ms of rank 0; mostly the kernel gemm f32 256x128 (cublas): 42.6 ms, on this rank alone; its longest launch is at ranks.py:80 train_step", "see why the kernel gemm f32 256x128 (cublas) of ranks.py:80 train_step takes longer here; else give"},
	} {
		var paths []string
		for _, rank := range c.ranks {
			paths = append(paths, fmt.Sprintf("../../testdata/gpu/logs/ranks/%s-rank%d.cudatrace", c.log, rank))
		}
		f := tablesOf(t, paths...)["findings"]
		row := f.Rows[max(slices.IndexFunc(f.Rows, func(row table.Row) bool { return row.Cells[0] == c.kind }), 0)]
		for key, want := range map[string]string{"name": c.kind, "title": c.title, "confidence": c.confidence} {
			if got := cell(f, row, key); got != want {
				t.Errorf("%s %v: %s %q, want %q", c.log, c.ranks, key, got, want)
			}
		}
		if got := cell(f, row, "evidence").(string); !strings.HasSuffix(got, c.of) {
			t.Errorf("%s %v: evidence %q, want %q", c.log, c.ranks, got, c.of)
		}
		if got := cell(f, row, "try").(string); !strings.HasPrefix(got, c.begin) {
			t.Errorf("%s %v: try %q, want %q", c.log, c.ranks, got, c.begin)
		}
		if kinds := kindsOf(f); c.kind == "straggling_rank" && slices.Contains(kinds, "exposed_communication") {
			t.Errorf("%s %v: findings %q", c.log, c.ranks, kinds)
		}
	}
}

// evidenceTime is the time between two texts in the evidence of a finding.
func evidenceTime(t *testing.T, of *table.Table, row table.Row, before, behind string) time.Duration {
	t.Helper()
	text := cell(of, row, "evidence").(string)
	_, rest, begins := strings.Cut(text, before)
	number, _, ends := strings.Cut(rest, behind)
	d, err := time.ParseDuration(strings.ReplaceAll(number, " ", ""))
	if !begins || !ends || err != nil {
		t.Errorf("evidence %q", text)
	}
	return d
}

// checkStragglerFigures compares the share in the reports of collectives and of ranks with that of the finding about a
// straggler: all leave the start-up out.
func checkStragglerFigures(t *testing.T, all map[string]*table.Table) {
	t.Helper()
	f, c, r := all["findings"], all["collectives"], all["ranks"]
	i := slices.IndexFunc(f.Rows, func(row table.Row) bool { return row.Cells[0] == "straggling_rank" })
	if i < 0 || len(c.Rows) != 1 {
		t.Fatalf("%v, %v", f.Rows, c.Rows)
	}
	share := 100 * cell(c, c.Rows[0], "waited_for_share").(float64)
	evidence := cell(f, f.Rows[i], "evidence").(string)
	if want := fmt.Sprintf(", with %.1f %% of all waiting;", share); !strings.Contains(evidence, want) {
		t.Errorf("the report has %.1f %%, the finding %s", share, evidence)
	}
	rank := cell(f, f.Rows[i], "rank")
	ranks := slices.IndexFunc(r.Rows, func(row table.Row) bool { return cell(r, row, "rank") == rank })
	if of := 100 * cell(r, r.Rows[ranks], "waited_for_share").(float64); math.Abs(of-share) > 1e-9 {
		t.Errorf("the report of ranks has %.1f %%, that of collectives %.1f %%", of, share)
	}
	var last, of int
	text := cell(f, f.Rows[i], "evidence").(string)
	text = text[strings.Index(text, "last in "):]
	if _, err := fmt.Sscanf(text, "last in %d of the %d ", &last, &of); err != nil {
		t.Fatal(text, err)
	}
	if often := cell(c, c.Rows[0], "last_share").(float64); math.Abs(often-float64(last)/float64(of)) > 1e-9 {
		t.Errorf("last in %.1f %% of the report, in %d of %d of the finding", 100*often, last, of)
	}
}

// A saving is a program that was recorded with a cause of lost time and without it.
type saving struct {
	log         string
	kind, title string // of the finding that names the cause, a part of its title; "" where the cause costs nothing, and no finding may say that it does
}

// The programs are testdata/sim/prog/savings.c and, on an H100, testdata/gpu/savings.py, which say what each one does.
var savings = []saving{
	{"sim/behind", "", "sleeps"},
	{"sim/pipeline", "", "Memcpy HtoD"},
	{"sim/beside", "", "sleeps"},
	{"sim/needless", "", "whole device"},
	{"sim/covered", "", "pageable"},
	{"sim/queue", "", "sleeps"},
	{"sim/fed", "", "sleeps"},
	{"sim/even", "", " late"},
	{"sim/hidden", "", " late"},
	{"sim/host", "", "streams take turns"},
	{"sim/partly", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/partly", "gaps", " is idle "},
	{"sim/longer", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/mid", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/mid", "gaps", " is idle "},
	{"sim/sleep", "critical_path", "sleeps in clock_nanosleep"},
	{"sim/sleep", "gaps", " is idle "},
	{"sim/one", "gaps", " is idle "},
	{"sim/compute", "gaps", " is idle "},
	{"sim/turns", "gaps", " is idle "},
	{"sim/mixed", "gaps", " is idle "},
	{"sim/copy", "critical_path", "Memcpy HtoD"},
	{"sim/sync", "device_waits", "waits for the whole device"},
	{"sim/pageable", "pageable_copies", "of pageable memory"},
	{"sim/small", "small_copies", "small copies"},
	{"sim/serial", "serial_streams", "streams take turns"},
	{"sim/pipe", "critical_path", "blocked in read on a pipe"},
	{"sim/lock", "critical_path", "waits for a lock"},
	{"sim/straggler", "straggling_rank", "rank 1 is "},
	{"sim/straggler", "critical_path", "sleeps in clock_nanosleep"},
	{"gpu/behind", "", "sleeps"},
	{"gpu/copy", "", "Memcpy HtoD"},
	{"gpu/loader", "critical_path", "load, sleeps in"},
	{"gpu/loader", "gaps", " is idle "},
	{"gpu/item", "gaps", " is idle "},
	{"gpu/sync", "device_waits", "waits for the whole device"},
	{"gpu/sync", "gaps", " is idle "},
	{"gpu/pageable", "pageable_copies", "of pageable memory"},
	{"gpu/alloc", "allocation_in_loop", "between launches"},
}

// What a finding says its cause costs is what the program without the cause saves: within a fifth, or 2 % of a step. Of a cause that costs nothing it says nothing.
func TestSavings(t *testing.T) {
	t.Parallel()
	for _, c := range savings {
		t.Run(c.log+" "+c.kind, func(t *testing.T) {
			t.Parallel()
			with, step, n := recorded(t, c.log+"-with")
			_, without, _ := recorded(t, c.log+"-without")
			saved, claimed, found := step-without, 0.0, false
			for _, row := range with.Rows {
				title := cell(with, row, "title").(string)
				of := append(cell(with, row, "also").([]string), fmt.Sprintf("%s (%s)", title, row.Cells[0]))
				cost, known := cell(with, row, "cost_ns").(uint64)
				said := slices.ContainsFunc(of, func(text string) bool { return strings.HasSuffix(text, c.kind+")") })
				if !strings.Contains(strings.Join(of, "; "), c.title) || c.kind != "" && !said || !known {
					continue
				}
				found, claimed = true, max(claimed, float64(cost)/n)
			}
			t.Logf("a step of %.3f ms; %.3f ms are saved, %.3f claimed", step/1e6, saved/1e6, claimed/1e6)
			if !found && c.kind != "" {
				t.Errorf("no %s with %q among %v", c.kind, c.title, with.Rows)
			}
			if c.kind == "" {
				saved = 0 // but for chance
			}
			if wrong := max(claimed, saved) - min(claimed, saved); wrong > max(0.2*saved, 0.02*step) {
				t.Errorf("%.3f ms of a step of %.3f ms are claimed, %.3f are saved", claimed/1e6, step/1e6, saved/1e6)
			}
		})
	}
}

// recorded returns the findings of the steps of a log from the sixth one on, how long such a step takes, and how many there are.
func recorded(t *testing.T, name string) (f *table.Table, step, steps float64) {
	t.Helper()
	path := filepath.Join("../../testdata/savings", name+".cudatrace")
	at := func(tables map[string]*table.Table) (list []uint64, first int64) {
		r := tables["steps"]
		first = 1 << 62
		for _, row := range r.Rows {
			if strings.HasPrefix(cell(r, row, "name").(string), "step") {
				list = append(list, cell(r, row, "at_ns").(uint64))
				first = min(first, int64(cell(r, row, "number").(uint64)))
			}
		}
		slices.Sort(list)
		return list, first
	}
	all, first := at(tablesOf(t, path))
	s := sinkOf(t, convert.Options{Collectives: true, Filter: convert.Filter{Steps: convert.Steps{Ranges: pattern.Ranges{Name: "step *", Domain: "*"}, Chosen: true, First: first + 5, Last: first + int64(len(all)) - 1}}}, path)
	f = byName(s, stats.Facts{})["findings"]
	all = all[5:]
	return f, float64(all[len(all)-1]-all[0]) / float64(len(all)-1), float64(len(all))
}

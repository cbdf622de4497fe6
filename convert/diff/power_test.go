package diff

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
)

// A noise makes the times of runs vary.
type noise struct {
	name    string
	figure  float64 // standard deviation of each figure, from run to run
	levels  int     // figures that lie on one of two levels in each run
	apart   float64 // how far these are above and below the middle
	outlier int     // one of so many values is longer, by 20 % to 100 %; 0 for none
	drift   float64 // by which all figures become longer from run to run
	turns   bool    // BASE and NEW are recorded by turns, not one after the other
}

// A simulated program has 30 kernels, 20 functions and a GPU.
const simulatedRows = 50

// build returns the runs of both sides. The third kernel takes longer in NEW, by a factor.
func (n *noise) build(r *rand.Rand, sizes [2]int, longer float64) (sides [2][]*Run) {
	order := append(make([]int, sizes[0]), ones(sizes[1])...)
	if n.turns {
		order = order[:0]
		for i := range max(sizes[0], sizes[1]) {
			for side := range 2 {
				if i < sizes[side] {
					order = append(order, side)
				}
			}
		}
	}
	for at, side := range order {
		factor := func(i int) float64 {
			f := (1 + n.figure*r.NormFloat64()) * (1 + n.drift*float64(at))
			if i < n.levels {
				f *= 1 + n.apart*float64(2*r.IntN(2)-1)
			}
			if n.outlier > 0 && r.IntN(n.outlier) == 0 {
				f *= 1.2 + 0.8*r.Float64()
			}
			if i == 2 && side == 1 {
				f *= longer
			}
			return f
		}
		sides[side] = append(sides[side], simulatedRun(at, factor))
	}
	return sides
}

func ones(n int) (list []int) {
	for range n {
		list = append(list, 1)
	}
	return list
}

// simulatedRun returns a run that was recorded at a time. factor returns the factor of each figure.
func simulatedRun(at int, factor func(int) float64) *Run {
	rows := func(name string, from, to int) *report {
		all := &report{columns: []string{"count", "total_ns", "median_ns", "failed"}, rows: make(map[string]*row)}
		for i := from; i < to; i++ {
			d, label := math.Round(math.Pow(10, 3+float64(i%5)/2)*factor(i)), fmt.Sprint(name, i)
			all.rows[label+"\x00x"] = &row{label, label, []float64{1000, 1000 * d, d, 0}}
		}
		return all
	}
	return &Run{Name: "run", Logs: []stats.Log{{Name: "l", Complete: true, GPU: "cupti", Start: timeOf(at)}}, reports: map[string]*report{
		"kernels": rows("k", 0, 30), "calls": rows("f", 30, simulatedRows),
		"devices": {columns: []string{"busy_ns", "idle_ns", "span_ns", "kernels"}, rows: map[string]*row{"0": {"g", "g", []float64{1e8 * factor(90), 1e9 * factor(91), 1.1e9, 30000}}}},
	}}
}

// timeOf is the beginning of a run.
func timeOf(at int) string {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(at) * time.Minute).UTC().Format(time.RFC3339Nano)
}

// A rate says in how many of several builds something happened.
type rate struct{ found, wrong, failed, builds int }

// simulate builds again and again. A build is wrong if anything differs but the third kernel, and fails if one of the conditions holds.
func (n *noise) simulate(runs, builds int, longer float64, conditions ...*Condition) (all rate) {
	r := rand.New(rand.NewPCG(3, uint64(runs)))
	all.builds = builds
	for range builds {
		sides := n.build(r, [2]int{runs, runs}, longer)
		d := Compare(sides[0], sides[1], rule)
		wrong, found := false, false
		for _, w := range words(d) {
			found = found || w == "kernels k2: slower"
			wrong = wrong || w != "kernels k2: slower" || longer == 1
		}
		for _, o := range d.Overall {
			wrong = wrong || o.Differs
		}
		for _, o := range d.Gate(conditions, false) {
			if o.State == Failed {
				all.failed++
				break
			}
		}
		all.found += count(found)
		all.wrong += count(wrong)
	}
	return all
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// buildsVar is the number of builds of each kind that TestPower simulates; without it they are few.
const buildsVar = "CUDATRACE_BUILDS"

func builds(t *testing.T) int {
	text := os.Getenv(buildsVar)
	if text == "" {
		return 60
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 60 {
		t.Fatalf("%s=%q: how many builds, 60 or more?", buildsVar, text)
	}
	return n
}

// noisesOfAlarms are the noises of TestFalseAlarms, and the number of runs a side from which they are harmless.
var noisesOfAlarms = []struct {
	noise
	from int
}{
	{noise{name: "2 %", figure: 0.02, turns: true}, 4},
	{noise{name: "2 %, one side after the other", figure: 0.02}, 4},
	{noise{name: "two levels, 15 % above and below the middle, in 1 row", figure: 0.005, levels: 1, apart: 0.15, turns: true}, 4},
	{noise{name: "in 10 rows", figure: 0.01, levels: 10, apart: 0.15, turns: true}, 5},
	{noise{name: "in all rows", figure: 0.01, levels: simulatedRows, apart: 0.15, turns: true}, 6},
	{noise{name: "outliers: one value of eight is 20 % to 100 % longer", figure: 0.01, outlier: 8, turns: true}, 4},
	{noise{name: "a drift of 1.2 % a run, by turns", figure: 0.005, drift: 0.012, turns: true}, 4},
	{noise{name: "a drift of 1.2 % a run, one side after the other", figure: 0.005, drift: 0.012}, 4},
	{noise{name: "the same, noise 2 %", figure: 0.02, drift: 0.012}, 4},
}

// TestFalseAlarms: whatever the noise, at most 5 of 100 builds of the same program fail, and at most 5 show a difference.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	n := builds(t)
	usual := conditionsOf(t, "kernel_time > +5%", "kernel:*:total > +5%", "calls:*:total > +5%", "busy_time > +5%")
	for _, c := range noisesOfAlarms {
		for _, runs := range []int{4, 5, 6, 8} {
			if runs < c.from {
				continue
			}
			got := c.simulate(runs, n, 1, usual...)
			t.Logf("%-54s %d runs: %4.1f %% differ, %4.1f %% fail", c.name, runs, percent(got.wrong, n), percent(got.failed, n))
			if most := 0.05 * float64(n); float64(got.wrong) > most || float64(got.failed) > most {
				t.Errorf("%s, %d runs: of %d builds of the same program %d differ, %d fail", c.name, runs, n, got.wrong, got.failed)
			}
			if runs > c.from && n < 1000 {
				break
			}
		}
	}
}

// gateRuns returns a side of runs with kernels alone, which are longer by a factor, and the row of a hundred NVTX ranges
// that vary widely. at is the place in time of each run.
func (n *noise) gateRuns(t testing.TB, r *rand.Rand, at []int, longer float64) (all []*Run) {
	t.Helper()
	for _, at := range at {
		f := longer * (1 + n.figure*r.NormFloat64()) * (1 + n.drift*float64(at))
		if n.levels > 0 {
			f *= 1 + n.apart*float64(2*r.IntN(2)-1)
		}
		if n.outlier > 0 && r.IntN(n.outlier) == 0 {
			f *= 1.2 + 0.8*r.Float64()
		}
		ranges := 0.0
		for range 100 {
			ns := 1e6 * math.Exp(0.2*r.NormFloat64())
			if r.IntN(2) == 0 {
				ns *= 1.4
			}
			ranges += math.Round(ns)
		}
		all = append(all, readRun(t, "run", fmt.Sprintf(`{"version": 1, "logs": [{"name": "l", "complete": true, "gpu_source": "cupti", "start": %q}],
			"kernels": [{"name": "k", "count": 100, "total_ns": %.0f, "median_ns": %.0f}], "nvtx": [{"name": "step", "domain": null, "kind": "range", "count": 100, "total_ns": %.0f}]}`, timeOf(at), 5e7*f, 5e5*f, ranges)))
	}
	return all
}

// TestGatePower: in 40 comparisons by turns, a gate misses no change of 60 % where runs vary evenly, and none of 15 % where
// the spread of both sides is 3 % at most. Outliers of BASE hide changes: NEW's runs lie below them, which nothing tells from a
// program that often takes that long. The verdict says what may be missed then. Where nothing changed, 2 builds of 40 fail at most.
func TestGatePower(t *testing.T) {
	t.Parallel()
	turns, after := [2][]int{{0, 2, 4, 6}, {1, 3, 5, 7}}, [2][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}
	condition := conditionsOf(t, "kernel_time > +5%")
	for _, c := range []struct {
		noise  noise
		at     [2][]int
		longer float64
		missed int // of 40
	}{
		{noise{name: "8 %", figure: 0.08}, turns, 1.6, 0},
		{noise{name: "a drift of 1.2 % a run", figure: 0.01, drift: 0.012}, turns, 1.6, 0},
		{noise{name: "3 %", figure: 0.03}, turns, 1.15, 0},
		{noise{name: "3 %, one side after the other", figure: 0.03}, after, 1.15, 2}, // some looks like a drift
		{noise{name: "two levels", figure: 0.01, levels: 1, apart: 0.15}, turns, 1.6, 0},
		{noise{name: "outliers", figure: 0.01, outlier: 8}, turns, 1.6, 14},
		{noise{name: "10 %", figure: 0.1}, turns, 1.15, 32},
		{noise{name: "two levels", figure: 0.01, levels: 1, apart: 0.15}, turns, 1, 40},
		{noise{name: "outliers", figure: 0.01, outlier: 8}, turns, 1, 40},
		{noise{name: "8 %", figure: 0.08}, turns, 1, 40},
		{noise{name: "a drift of 1.2 % a run, one side after the other", figure: 0.01, drift: 0.012}, after, 1, 40},
	} {
		r := rand.New(rand.NewPCG(48, 1))
		draws, missed, beside, silent := 0, 0, 0, 0
		for tried := 0; draws < 40; tried++ {
			d := Compare(c.noise.gateRuns(t, r, c.at[0], 1), c.noise.gateRuns(t, r, c.at[1], c.longer), rule)
			o := d.Gate(condition, false)[0]
			passed := o.State != Failed
			if c.longer > 1 && passed && (o.Unseen == nil || o.Unseen.Smallest < c.longer-1) {
				silent++
			}
			if spread := max(o.Cases[0].Spread[0], o.Cases[0].Spread[1]); c.longer > 1 && c.longer < 1.5 && c.noise.figure <= 0.03 && spread > 0.03 {
				beside += count(passed) // such runs vary more than the gate promises for
				continue
			}
			draws++
			missed += count(passed)
			if tried > 400 {
				t.Fatalf("%s: runs vary too much", c.noise.name)
			}
			if draws == 40 {
				t.Logf("%s, +%.0f %%: missed in %d of 40; in %d of %d whose runs vary by more; %d without a word", c.noise.name, 100*(c.longer-1), missed, beside, tried+1-draws, silent)
			}
		}
		if missed > c.missed || silent > 2 || c.longer == 1 && missed < 38 {
			t.Errorf("%s, +%.0f %%: missed in %d of 40, %d without a word", c.noise.name, 100*(c.longer-1), missed, silent)
		}
	}
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(of) }

// TestPower holds the table in docs/diff.md against simulated builds: in how many of them a kernel that is 10 % longer is found among 50 other rows.
func TestPower(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../docs/diff.md"))(t)
	noises := []float64{0.005, 0.01, 0.02, 0.03}
	n, compared := builds(t), 0
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		runs, err := strconv.Atoi(cells[0])
		if err != nil || len(cells) != 1+len(noises) {
			continue
		}
		for i, cell := range cells[1:] {
			c := noise{figure: noises[i], turns: true}
			got := c.simulate(runs, n, 1.1)
			want, err := strconv.ParseFloat(strings.TrimSuffix(cell, " %"), 64)
			if err != nil {
				t.Fatalf("docs/diff.md: %q is no rate", cell)
			}
			found := percent(got.found, n)
			t.Logf("%d runs, noise %.1f %%: found in %.1f %%, docs/diff.md says %s; something else in %.1f %%", runs, 100*c.figure, found, cell, percent(got.wrong, n))
			by := 5.0
			if n < 1000 { // few builds can be off by chance, by three standard deviations
				by += 300 * math.Sqrt(max(want, 1)/100*(1-min(want, 99)/100)/float64(n))
			}
			if math.Abs(found-want) > by {
				t.Errorf("%d runs, noise %.1f %%: found in %.1f %%, docs/diff.md says %s", runs, 100*c.figure, found, cell)
			}
			if percent(got.wrong, n) > 5 {
				t.Errorf("%d runs, noise %.1f %%: something else differs in %.1f %%", runs, 100*c.figure, percent(got.wrong, n))
			}
			compared++
		}
	}
	if compared != 16 {
		t.Errorf("docs/diff.md has %d rates", compared)
	}
}

// Sides that were recorded one after the other are warned of, sides by turns and those whose times are not known are not.
func TestOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		noise noise
		known bool
		want  []Problem
	}{
		{noise{}, true, []Problem{{OtherTimes, "all runs of BASE were recorded before those of NEW, which began 1m0s later: a machine that drifts looks like a difference; recorded by turns they would be safe from that"}}},
		{noise{turns: true}, true, nil},
		{noise{}, false, nil},
	} {
		sides := c.noise.build(rand.New(rand.NewPCG(1, 1)), [2]int{4, 4}, 1)
		if !c.known {
			sides[1][2].Logs[0].Start = ""
		}
		if got := Compare(sides[0], sides[1], rule).Problems; !slices.Equal(got, c.want) {
			t.Errorf("%+v, times known %t: %v", c.noise, c.known, got)
		}
	}
}

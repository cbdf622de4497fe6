package stats_test

import (
	"cmp"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// meanwhile is the part of a finding's title or evidence that says for how long its GPU is idle, and what threads did
// meanwhile.
var meanwhile = regexp.MustCompile(`GPU .*is idle for .*?(\S+) % of the time after start-up; ` +
	`what the launching threads did meanwhile: ([^;]*)`)

// idleOf returns the finding that says how long a GPU is idle, its number, and its match of meanwhile; nil for none.
func idleOf(f *table.Table, gpu uint64) (row table.Row, at int, words []string) {
	for i, row := range f.Rows {
		words := meanwhile.FindStringSubmatch(cell(f, row, "title").(string) + "; " + cell(f, row, "evidence").(string))
		if words != nil && cell(f, row, "gpu") == gpu {
			return row, i, words
		}
	}
	return table.Row{}, 0, nil
}

// A GPU that idles for more than a fifth of the steady state has a finding that says so, before that of the start-up,
// and its figures are those of the report of idle time.
func TestIdleGPU(t *testing.T) {
	t.Parallel()
	names := map[string]float64{"clocks-rank0": 94.5, "clocks-rank3": 0, "starved-rank3": 0}
	paths, err := filepath.Glob("../../testdata/gpu/logs/ranks/*.cudatrace")
	if err != nil || len(paths) < 16 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".cudatrace")
		all := tablesOf(t, path)
		idle, found := all["idle"], all["findings"]
		steady, owners := uint64(0), make(map[string]string)
		for _, row := range idle.Rows {
			if cell(idle, row, "gpu") != uint64(0) {
				continue
			}
			steady += cell(idle, row, "total_ns").(uint64)
			owners[cell(idle, row, "what").(string)] = idle.Words(row, idle.Column("total_ns"))
		}
		row, at, words := idleOf(found, 0)
		if row.Cells == nil {
			if _, wanted := names[name]; wanted {
				t.Errorf("%s: no finding about %d ns of idle time", name, steady)
			}
			continue
		}
		start := slices.IndexFunc(found.Rows, func(r table.Row) bool { return r.Cells[0] == findings.Startup })
		if start >= 0 && at > start {
			t.Errorf("%s: the finding comes behind the start-up", name)
		}
		if cost := cell(found, row, "cost_ns").(uint64); row.Cells[0] == findings.IdleGPU && cost != steady {
			t.Errorf("%s: the finding costs %d ns, of %d ns in the report", name, cost, steady)
		}
		share, err := strconv.ParseFloat(words[1], 64)
		if err != nil || share < 20 || names[name] > 0 && share != names[name] {
			t.Errorf("%s: idle for %s %%", name, words[1])
		}
		named := 0
		for what, figure := range owners {
			if figure != "0 ns" && strings.Contains(words[2], what+" "+figure) {
				named++
			}
		}
		if named != 4 {
			t.Errorf("%s: %d owners have the figures of the report: %q", name, named, words[2])
		}
	}
}

// Sleeps of 2 ms, of which a recorder sees one in five, have the same figure in the report of idle time and in the
// finding below it.
func TestSleepsAreCountedOnce(t *testing.T) {
	t.Parallel()
	p := newProgram()
	times(1000, func(i int) {
		p.kernel(7, 10*us, 200)
		p.wait("cudaStreamSynchronize")
		p.state(2*ms, []string{"state=3 call=clock_nanosleep", "state=3", "state=3", "state=3", "state=3"}[i%5])
	})
	all := p.reports(t, false)
	idle := all["idle"]
	const sleeps = "sleeps in clock_nanosleep"
	i := slices.IndexFunc(idle.Rows, func(row table.Row) bool { return cell(idle, row, "what") == sleeps })
	if i < 0 {
		t.Fatal(idle.Rows)
	}
	row := idle.Rows[i]
	low, high := cell(idle, row, "total_low_ns").(uint64), cell(idle, row, "total_high_ns").(uint64)
	if truth := 999 * 2 * ms; low > truth || high < truth || high-low > truth/10 {
		t.Errorf("slept for %d to %d ns", low, high)
	}
	_, _, words := idleOf(all["findings"], 0)
	want := sleeps + " " + idle.Words(row, idle.Column("total_ns"))
	if words == nil || !strings.HasPrefix(words[2], want) {
		t.Errorf("findings %q, want %q", all["findings"].Rows, want)
	}
}

// The gaps are the idle time of each GPU, the longest one first; a few of many are the longest ones.
func TestGaps(t *testing.T) {
	t.Parallel()
	const logs = "../../testdata/gpu/logs/"
	for name, whole := range map[string]bool{"streams": true, "train": false} {
		all := byName(sinkOf(t, convert.Options{}, logs+name+".cudatrace"), stats.Facts{Startup: true})
		g, idle := all["gaps"], all["idle"]
		sum, last, longest := uint64(0), uint64(1)<<62, uint64(0)
		for _, row := range g.Rows {
			ns := cell(g, row, "length_ns").(uint64)
			if ns > last {
				t.Errorf("%s: a gap of %d ns behind one of %d", name, ns, last)
			}
			sum, last = sum+ns, ns
		}
		total := uint64(0)
		for _, row := range idle.Rows {
			total += cell(idle, row, "total_ns").(uint64)
			longest = max(longest, cell(idle, row, "max_ns").(uint64))
		}
		if first := cell(g, g.Rows[0], "length_ns").(uint64); first < longest || whole && sum != total || !whole && len(g.Rows) != 1000 {
			t.Errorf("%s: %d gaps of %d ns, the longest %d; idle for %d ns, at a time for up to %d", name, len(g.Rows), sum, first, total, longest)
		}
	}
}

// The longest gaps are kept, in whatever order they come.
func TestLongestGaps(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{10, 1000, 1500, 2000, 2001, 7000} {
		for name, length := range map[string]func(i int) uint64{
			"at random": func(int) uint64 { return 1 + rnd.Uint64N(1e6) },
			"shorter":   func(i int) uint64 { return uint64(n - i) },
			"longer":    func(i int) uint64 { return uint64(i + 1) },
			"a long one among them": func(i int) uint64 {
				if i == 999 {
					return 1e9
				}
				return 1 + rnd.Uint64N(1e6)
			},
		} {
			var all []uint64
			for i := range n {
				all = append(all, length(i))
			}
			got := stats.KeptGaps(all)
			slices.SortFunc(all, func(a, b uint64) int { return cmp.Compare(b, a) })
			if want := all[:min(n, 1000)]; !slices.Equal(got, want) {
				t.Errorf("%d gaps, %s: %d are kept, not the longest", n, name, len(got))
			}
		}
	}
}

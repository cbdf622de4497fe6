package stats_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// rankTables returns the reports of the logs of ranks by name.
func rankTables(t testing.TB, logs []*logtest.RankLog) map[string]*table.Table {
	t.Helper()
	var list []convert.Log
	for _, l := range logs {
		list = append(list, convert.Log{Name: fmt.Sprintf("rank%d", l.Rank), Open: logtest.InMemory(l.Data)})
	}
	s := stats.New()
	s.Compare(ranks.Steps{Name: "step"})
	if _, err := convert.Timeline(list, convert.Options{}, s); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]*table.Table)
	for _, r := range s.Tables(stats.Facts{}) {
		all[r.Name] = r
	}
	return all
}

// cell is a cell of a row.
func cell(t *table.Table, row []any, key string) any { return row[t.Column(key)] }

// kindsOf are the kinds of the findings.
func kindsOf(t *table.Table) (kinds []string) {
	for _, row := range t.Rows {
		kinds = append(kinds, row[0].(string))
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
	{"balanced, with wall clocks that are wrong by more than the kernel knows", logtest.Ranks{WallError: 1}, ""},
	{"balanced, with wall clocks that are not synchronized", logtest.Ranks{WallError: unsynchronized, Steps: 14}, ""},
	{"balanced, with collectives that take long", logtest.Ranks{Transfer: 0.5e6}, ""},
	{"nearly: a rank that is late by less than it costs", logtest.Ranks{Straggler: 13, Late: 0.2e6}, ""},
	{"a rank is late", logtest.Ranks{Straggler: 13, Late: 1e6, Even: true}, "compute_imbalance straggling_rank"},
	{"a rank is late, though its GPU does nothing", logtest.Ranks{Straggler: 13, Idle: true, Late: 0.9e6, Even: true}, "straggling_rank"},
	{"a host is late", logtest.Ranks{HostLate: 0.9e6, Even: true}, "straggling_host"},
	{"communication takes long", logtest.Ranks{Transfer: 5e6}, "exposed_communication"},
	{"a rank is late, with wall clocks that are wrong", logtest.Ranks{WallError: 1, Straggler: 13, Idle: true, Late: 0.9e6, Even: true}, "straggling_rank"},
	{"a host is late, with wall clocks that are not synchronized", logtest.Ranks{WallError: unsynchronized, HostLate: 0.9e6, Even: true}, "straggling_host"},
	{"a rank has a kernel of its own", logtest.Ranks{Odd: 3}, "odd_kernel"},
	{"a GPU has lower clocks", logtest.Ranks{Slow: 7}, "low_clocks"},
}

// What the generator puts into the logs of 64 ranks on 8 hosts is found, and nothing else.
func TestRankFindings(t *testing.T) {
	t.Parallel()
	for _, h := range rankHabits {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			tables := rankTables(t, sixtyFour(t, h.o))
			if got := strings.Join(kindsOf(tables["findings"]), " "); got != h.want {
				var b strings.Builder
				table.WriteText(&b, []*table.Table{tables["findings"], tables["collectives"]}, 160)
				t.Errorf("findings %q, want %q\n%s", got, h.want, b.String())
			}
		})
	}
}

const unsynchronized = 1 << 40

// sixtyFour are the logs of 64 ranks on 8 hosts, whose clocks are wrong.
func sixtyFour(t testing.TB, o logtest.Ranks) []*logtest.RankLog {
	t.Helper()
	o.Hosts, o.PerHost, o.Seed, o.Drift, o.WallOff, o.NVTX = 8, 8, 1, 30, 3e6, true
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

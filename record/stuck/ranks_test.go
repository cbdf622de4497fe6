package stuck

import (
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// rankReport is a report of a rank whose main thread is at a line, after some collectives; it was taken at a time in s.
func rankReport(rank, world uint32, taken float64, line int, outcome Outcome, collectives ...Collective) *Report {
	p := ProcessReport{PID: int(1000 + rank), Rank: &rank, World: world, Verdict: Verdict{Outcome: outcome, Text: "the main thread does something"},
		Threads: []Thread{{TID: 1000 + rank, Python: []Frame{{"/src/train.py", line, "step"}}}}}
	if collectives != nil {
		p.Recorded = &Recorded{Collectives: collectives}
	}
	return &Report{Version: version, Host: "host", Taken: uint64(taken * 1e9), Processes: []ProcessReport{p}}
}

func reduces(count uint64, since float64) Collective {
	return Collective{Communicator: "0x5748", Name: "ncclAllReduce", Count: count, Since: since}
}

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reports []*Report
		want    Verdict
		missing []uint32
		notes   []string
	}{
		"behind": {
			reports: []*Report{rankReport(0, 3, 100, 7, Waiting, reduces(1041, 41)), rankReport(1, 3, 101, 7, Waiting, reduces(1041, 50)), rankReport(2, 3, 103, 8, Waiting, reduces(1040, 90))},
			want:    Verdict{Outcome: Stuck, Text: "rank 2 never entered ncclAllReduce 1,041 of communicator 0x5748; ranks 0-1 have been in it for 44 s; rank 2: the main thread does something"},
		},
		"behind when it was looked at": {
			reports: []*Report{rankReport(0, 2, 100, 7, Moving, reduces(1041, 1)), rankReport(1, 2, 90, 7, Moving, reduces(900, 1))},
			want:    Verdict{Outcome: Moving, Text: "ranks move"},
		},
		"one is stuck": {
			reports: []*Report{rankReport(0, 3, 100, 7, Waiting), rankReport(1, 3, 100, 7, Stuck)},
			want:    Verdict{Outcome: Stuck, Text: "rank 1: the main thread does something"},
			missing: []uint32{2},
		},
		"elsewhere": {
			reports: []*Report{rankReport(0, 3, 100, 7, Waiting), rankReport(1, 3, 100, 9, Waiting), rankReport(2, 3, 100, 7, Waiting)},
			want:    Verdict{Outcome: Stuck, Text: "rank 1 is not where the others are: rank 1: the main thread does something; ranks 0, 2: the main thread does something"},
		},
		"no majority": {
			reports: []*Report{rankReport(0, 2, 100, 7, Waiting), rankReport(1, 2, 100, 9, Waiting)},
			want:    Verdict{Outcome: Waiting, Text: "ranks 0-1: the main thread does something"},
		},
		"missing": {
			reports: []*Report{rankReport(0, 4, 100, 7, Moving), rankReport(2, 4, 100, 7, Moving)},
			want:    Verdict{Outcome: Unknown, Text: "there is no report of ranks 1, 3"},
			missing: []uint32{1, 3},
		},
		"twice": {
			reports: []*Report{rankReport(0, 1, 100, 7, Stuck), rankReport(0, 1, 101, 7, Moving), rankReport(0, 1, 99, 7, Stuck)},
			want:    Verdict{Outcome: Moving, Text: "ranks move"},
			notes:   []string{"rank 0 has several reports: the newest one counts", "rank 0 has several reports: the newest one counts"},
		},
	} {
		p := must.Get(Join(c.reports))(t)
		goldentest.Same(t, c.want, p.Verdict, "%s: verdict", name)
		goldentest.Same(t, c.missing, p.Missing, "%s: missing", name)
		goldentest.Same(t, c.notes, p.Notes, "%s: notes", name)
	}
}

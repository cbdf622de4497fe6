package stats

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// findingColumns are the columns of the findings.
func findingColumns() []table.Column {
	return []table.Column{
		name("finding"), column("title", "", table.Text, 0), id("pid", "", 0), id("gpu", "", 0), duration("cost_ns", "", 0), column("share", "", table.Share, 0),
		count("count", "", 0), column("first_ns", "", table.Moment, 0), column("last_ns", "", table.Moment, 0), column("at_ns", "", table.Moment, 0),
		column("evidence", "", table.Text, 0), column("try", "", table.Text, 0), id("rank", "", 0),
		column("confidence", "", table.Text, 0), column("query", "", table.Text, 0),
	}
}

var findingsReport = Report{
	Name: "findings", Title: "what to look at first",
	needs: wholeWork, whyEmpty: "nothing that costs enough to be worth a look",
	table: func(s *Sink, f Facts) *table.Table { return s.findingTable(f) },
	Keys: []Key{
		{"name, title", "kind (`gaps`, `pageable_copies`), and the finding as text"},
		{"pid, gpu, rank", ""},
		{"cost_ns, share", "what its removal [would save](critical-path.md#what-a-removal-would-save), and its part of the [steady state](findings.md#start-up-and-steady-state). `startup` has no share"},
		{"count, first_ns, last_ns", ""},
		{"at_ns", "list of up to three moments to look at, the costliest first"},
		{"evidence, try", "as text"},
		{"confidence", "`certain` or `likely`"},
		{"query", "command that shows it, with `LOG` for the logs"},
	},
}

// wholeWork returns what findings lack.
func wholeWork(f *Facts) string {
	if f.Chosen {
		return "findings need all calls and all GPU work of a process: leave out the filter by thread, device, stream, name, caller, Python frame, NVTX range or duration"
	}
	if f.Unread != "" {
		return "none, since no call and no GPU work could be read of " + f.Unread + " (get the whole file)"
	}
	return f.GPU
}

// Findings are the findings, in the order in which people read them. Where records are missing, they are those that need no gaps: whole is false.
func (s *Sink) Findings(incomplete bool) (list []findings.Finding, whole bool) {
	whole = !incomplete
	for _, d := range s.busy.sorted() {
		whole = whole && d.Late == 0
	}
	ofRanks := s.ranks.Findings(s.findings.Limits(), s.busy.loads(s.ranks, s.findings.Steady), s.work.launched(), s.findings.Idle, whole)
	own := s.findings.List(whole, s.idleSteady)
	if whole {
		own = append(own, s.pathFindings()...)
	}
	return s.ranks.Arrange(findings.WithoutTwice(s.saving(own, whole)), s.saving(ofRanks, whole)), whole
}

// saving gives findings their costs: what the replay of the process saves without the habit. Those that cost nothing worth a look are left out. Where that is not
// known they say so, and keep the time that the habit takes.
func (s *Sink) saving(list []findings.Finding, whole bool) (worth []findings.Finding) {
	for _, f := range list {
		if f.Without == nil {
			worth = append(worth, f)
			continue
		}
		steady := s.findings.Steady(f.Process)
		saved, lack := uint64(0), "records are missing"
		if whole {
			saved, lack = s.path.Replay(f.Process).Saved(f.Process, steady.From, steady.To, f.Without)
		}
		switch all := steady.To - steady.From; {
		case lack != "":
			if f.Guess = true; !f.AtMost {
				f.Evidence += "; its removal may save less: " + lack
			}
		case !s.findings.Limits().Worth(saved, all):
			continue
		default:
			f.Cost, f.Share = min(saved, all), float64(min(saved, all))/float64(all)
		}
		worth = append(worth, f)
	}
	return worth
}

// Query is the command that shows a finding, with LOG for the logs.
func (s *Sink) Query(f *findings.Finding) string { return f.Query(s.logs) }

// Confidence is how sure something is, in words.
func Confidence(certain bool) string {
	if certain {
		return "certain"
	}
	return "likely"
}

// findingTable returns the report of what costs time.
func (s *Sink) findingTable(f Facts) *table.Table {
	t := &table.Table{Columns: findingColumns(), Prose: findingLines}
	if f.Chosen {
		return t
	}
	list, whole := s.Findings(f.Incomplete)
	for _, x := range list {
		var gpu, cost, part, rank any
		if x.GPU != nil {
			gpu = uint64(*x.GPU)
		}
		if x.Process.Rank.Known {
			rank = uint64(x.Process.Rank.Number)
		}
		if x.Cost > 0 {
			cost = x.Cost
		}
		if x.Share > 0 {
			part = x.Share
		}
		at := make([]uint64, 0, len(x.At))
		for _, m := range x.At {
			at = append(at, s.clock.since(m))
		}
		t.Rows = append(t.Rows, []any{x.Kind, x.Title, uint64(x.Process.PID), gpu, cost, part, x.Count, s.clock.since(x.First), s.clock.since(x.Last), at, x.Evidence, x.Try, rank,
			Confidence(x.Certain()), s.Query(&x)})
	}
	if !whole {
		t.Notes = []string{"nothing is said about gaps between GPU work: records are missing, or came in another order than that of time"}
	}
	return t
}

// findingLines are the lines that people read of a finding.
func findingLines(row []any) table.Paragraph {
	cell := func(i int, u table.Unit) string { return table.Words(row[i], u) }
	items, process := []table.Item{}, "process "+cell(2, table.ID)
	if row[12] != nil {
		process += " (rank " + cell(12, table.ID) + ")"
	}
	if row[4] != nil {
		text := cell(4, table.Duration)
		if row[5] != nil {
			text += ", " + cell(5, table.Share) + " of the steady state"
		}
		items = append(items, table.Item{Label: "costs", Text: text + " of " + process})
	} else {
		items = append(items, table.Item{Label: "where", Text: process})
	}
	items = append(items, table.Item{Label: "see", Text: moments(row)},
		table.Item{Label: "evidence", Text: cell(10, table.Text)}, table.Item{Label: "try", Text: cell(11, table.Text)},
		table.Item{Label: "show", Text: cell(14, table.Text)})
	return table.Paragraph{Head: fmt.Sprintf("%s (%s, %s)", cell(1, table.Text), cell(0, table.Text), cell(13, table.Text)), Items: items}
}

// moments are the moments of a finding to look at, without those that read alike, and the first and the last one where there are several.
func moments(row []any) string {
	var at []string
	for _, ns := range row[9].([]uint64) {
		if text := table.Words(ns, table.Moment); !slices.Contains(at, text) {
			at = append(at, text)
		}
	}
	text, first, last := strings.Join(at, ", "), table.Words(row[7], table.Moment), table.Words(row[8], table.Moment)
	if first == last {
		return text
	}
	return text + " (first " + first + ", last " + last + ")"
}

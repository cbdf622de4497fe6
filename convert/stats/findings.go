package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

var findingsReport = Report{
	Name: "findings", Title: "what limits the run, and what to do",
	needs: wholeWork, whyEmpty: "nothing that costs enough to be worth a look",
	table: func(s *Sink, f Facts) *table.Table { return s.findingTable(f) },
}

// FindingCells is a row of findings.
type FindingCells struct {
	Name  string  `key:"name" title:"finding"` // kind (`gaps`, `pageable_copies`), and the finding as text
	Title string  `key:"title"`                // =
	PID   uint32  `key:"pid" unit:"id"`
	GPU   *uint32 `key:"gpu" unit:"id"`
	// what its removal [would save](critical-path.md#what-a-removal-would-save), and its part of the
	// [steady state](findings.md#start-up-and-steady-state). `startup` has no share
	Cost       *uint64  `key:"cost_ns"`
	Share      *float64 `key:"share"` // =
	Count      uint64   `key:"count"`
	First      uint64   `key:"first_ns" unit:"moment"`
	Last       uint64   `key:"last_ns" unit:"moment"`
	At         []uint64 `key:"at_ns" unit:"moment"` // list of up to three moments to look at, the costliest first
	Evidence   string   `key:"evidence"`            // as text
	Try        string   `key:"try"`                 // =
	Rank       *uint32  `key:"rank" unit:"id"`
	Confidence string   `key:"confidence"` // `certain` or `likely`
	Query      string   `key:"query"`      // command that shows it, for a shell
	// what a thread did for most of the time, as in `idle`; "" where it is not known
	Cause string   `key:"cause"`
	Also  []string `key:"also"` // list of what else has this cause, as text, with the kinds

	Longest  uint64 // ns that the first moment of At costs; 0 where that is not known
	replayed bool   // the cost is what a replay saves
}

// wholeWork returns what findings lack.
func wholeWork(f *Facts) string {
	if f.Chosen {
		return "findings need all calls and all GPU work of a process: leave out the filter by thread, device, stream, " +
			"name, caller, Python frame, NVTX range or duration"
	}
	if f.Unread != "" {
		return "none, since no call and no GPU work could be read of " + f.Unread + " (get the whole file)"
	}
	return f.GPU
}

// found are the findings of a timeline that has ended.
type found struct {
	incomplete bool
	list       []findings.Finding
	whole      bool
}

// Findings are the findings, in the order in which people read them. Where records are missing, whole is false and they
// are those that need no gaps.
func (s *Sink) Findings(incomplete bool) (list []findings.Finding, whole bool) {
	if f := s.found; f != nil && f.incomplete == incomplete {
		return f.list, f.whole
	}
	whole = !incomplete
	for _, d := range s.busy.sorted() {
		whole = whole && d.Late == 0
	}
	ofRanks := s.ranks.Findings(s.findings.Worth, s.loads(), s.launchedKernels(), s.findings.Idle, whole)
	own := s.findings.List(whole, s.idleSteady)
	if whole {
		own = append(own, s.pathFindings()...)
	}
	all := s.ranks.Arrange(findings.WithoutTwice(s.saving(own, whole)), s.saving(ofRanks, whole))
	s.found = &found{incomplete, findings.Folded(all), whole}
	return s.found.list, whole
}

// saving gives findings their costs: what the replay of the process saves without the habit. Findings that cost too
// little are left out. Where the cost is not known, a finding says so and keeps the time that the habit takes.
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
			f.Guess = true
			if f.Part > 0 {
				f.Cost, f.Share = uint64(f.Part*float64(f.Cost)), f.Part*f.Share
			}
			if !f.AtMost {
				f.Evidence += "; its removal may save less: " + lack
			}
		case !s.findings.Worth(saved, all):
			continue
		default:
			f.Cost, f.Share = min(saved, all), float64(min(saved, all))/float64(all)
		}
		worth = append(worth, f)
	}
	return worth
}

// Query is the command that shows a finding. The names of the logs are words for a shell, "" for LOG.
func (s *Sink) Query(f *findings.Finding, logs string) string {
	return f.Query(s.logs, cmp.Or(logs, "LOG"))
}

// Confidence is how sure something is, in words.
func Confidence(certain bool) string {
	if certain {
		return "certain"
	}
	return "likely"
}

// findingTable returns the report of what costs time.
func (s *Sink) findingTable(f Facts) *table.Table {
	if f.Chosen {
		return table.Of[FindingCells](nil)
	}
	list, whole := s.Findings(f.Incomplete)
	rows := make([]FindingCells, 0, len(list))
	for i := range list {
		rows = append(rows, s.findingCells(&list[i], f.Logs))
	}
	t := table.Of(rows)
	t.Prose = func(row table.Row) table.Paragraph { return row.Of.(*FindingCells).lines() }
	if !whole {
		why := "records came in another order than that of time"
		if f.Incomplete {
			why = cmp.Or(f.Broken, "records are missing")
		}
		t.Notes = []string{"nothing is said about gaps between GPU work: " + why}
	}
	return t
}

func (s *Sink) findingCells(f *findings.Finding, logs string) FindingCells {
	x := FindingCells{
		Name: f.Kind, Title: f.Title, PID: f.Process.PID, GPU: f.GPU, Rank: f.Process.Rank.Nullable(), Count: f.Count,
		First: s.clock.since(f.First), Last: s.clock.since(f.Last), At: []uint64{},
		Evidence: f.Evidence, Try: f.Try, Confidence: Confidence(f.Certain()), Query: s.Query(f, logs),
		Cause: f.Cause, Also: []string{}, Longest: f.Longest, replayed: f.Without != nil && !f.Guess,
	}
	for _, e := range f.Effects {
		x.Also = append(x.Also, cmp.Or(e.Effect, e.Title)+" ("+e.Kind+")")
	}
	if f.Cost > 0 {
		x.Cost = &f.Cost
	}
	if f.Share > 0 {
		x.Share = &f.Share
	}
	for _, m := range f.At {
		x.At = append(x.At, s.clock.since(m))
	}
	return x
}

// lines are the lines that people read of a finding.
func (x *FindingCells) lines() table.Paragraph {
	items, process := []table.Item{}, fmt.Sprintf("process %d", x.PID)
	if x.Rank != nil {
		process += fmt.Sprintf(" (rank %d)", *x.Rank)
	}
	if x.Cost != nil {
		text := figures.Duration(*x.Cost) // as in the title and the evidence
		if x.Share != nil {
			text += ", " + table.Words(*x.Share, table.Share) + " of the time after start-up"
		}
		items = append(items, table.Item{Label: x.Costs(), Text: text + " of " + process})
	} else {
		items = append(items, table.Item{Label: "where", Text: process})
	}
	items = append(items, table.Item{Label: "look at", Text: x.moments()},
		table.Item{Label: "try", Text: figures.Clean(x.Try)})
	if len(x.Also) > 0 {
		items = append(items, table.Item{Label: "also", Text: figures.Clean(strings.Join(x.Also, "; "))})
	}
	items = append(items, table.Item{Label: "evidence", Text: figures.Clean(x.Evidence)},
		table.Item{Label: "show", Text: figures.Clean(x.Query)})
	name := x.Name
	if x.Confidence == Confidence(false) {
		name += ", likely cause"
	}
	return table.Paragraph{Head: fmt.Sprintf("%s (%s)", figures.Clean(x.Title), name), Items: items}
}

// Costs is the word before the cost: what a replay saves may differ from the time of the habit, which the evidence has.
func (x *FindingCells) Costs() string {
	if x.replayed {
		return "saves"
	}
	return "costs"
}

// moments are the moments to look at, without those that read alike, and the first and the last one where there are
// several.
func (x *FindingCells) moments() string {
	var at []string
	for _, ns := range x.At {
		if text := table.Words(ns, table.Moment); !slices.Contains(at, text) {
			at = append(at, text)
		}
	}
	text, first, last := strings.Join(at, ", "), table.Words(x.First, table.Moment), table.Words(x.Last, table.Moment)
	switch {
	case first == last:
		return text
	case text == first:
		return first + " to " + last
	}
	return text + " (first " + first + ", last " + last + ")"
}

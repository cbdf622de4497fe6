package stats

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/findings"
	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// A Report is one of the tables that the statistics have.
type Report struct {
	Name, Title string
	Detail      bool // another report sums it up: people see it where they name it
	OfRanks     bool // it has nothing to say without several ranks

	kernels bool // its rows have names of kernels, which people read short
	// has the report read the events of a section; nil where the sink has what it needs
	open    func(*section)
	join    func(into, later *section)       // adds the rows of a section to those of another; nil for none
	in      func(*view) *table.Table         // its table of a view; nil where sections have no rows
	unasked func(*Sink) bool                 // reports whether people see it without naming it; nil for always
	fold    func(*Sink, Facts) *table.Folded // its stacks, after Fold; nil for a report without any
	// returns what the recording lacks for the report, "" for nothing; nil if it needs nothing
	needs    func(*Facts) string
	whyEmpty string // why it has no rows although the recording has all that it needs
	table    func(*Sink, Facts) *table.Table
}

// Reports are all reports, in the order in which people read them.
var Reports = []*Report{
	&findingsReport,
	&stepKindsReport,
	&criticalPathReport,
	&profileReport,
	&kernelsReport.Report,
	&kernelShapesReport.Report,
	&kernelPythonReport.Report,
	&callsReport.Report,
	&callersReport.Report,
	&functionsReport.Report,
	&pythonReport,
	&operatorsReport.Report,
	&modulesReport.Report,
	&copiesReport.Report,
	&setsReport.Report,
	&waitsReport.Report,
	&launchesReport.Report,
	&devicesReport,
	&idleReport,
	&gapsReport,
	&streamsReport,
	&ranksReport,
	&collectivesReport,
	&lateCollectivesReport,
	&messageSizesReport,
	&stepsReport,
	&metricsReport,
	&memoryReport,
	&holdersReport,
	&unfreedReport,
	&outOfMemoryReport,
	&torchMemoryReport,
	&errorsReport.Report,
	&nvtxReport.Report,
	&threadsReport.Report,
	&processesReport.Report,
}

// What reports need.
func gpuWork(f *Facts) string         { return f.GPU }
func callersRecorded(f *Facts) string { return f.Callers }
func allocations(f *Facts) string     { return f.Memory }
func framesRecorded(f *Facts) string  { return f.Python }

// Facts say what the recording of the logs lacks: why a report has no rows.
type Facts struct {
	Logs    string // their names, as words for a shell; "" if they have none
	GPU     string // why there is no GPU work, "" if it was recorded
	Callers string // why no call has a caller, "" if callers were recorded
	Python  string // why no call has Python frames, "" if they were recorded
	Memory  string // why nothing is known of allocated memory, "" if it is
	// MemoryUnknown says when the program may have allocated and freed unrecorded, "" where it cannot have.
	MemoryUnknown string
	Unread        string // which logs are so damaged that no call and no work could be read, and why; "" if none are
	// Startup says that the start-up counts, too.
	Startup bool
	// Filtered says that a filter selected a part of the logs.
	Filtered bool
	// Chosen says that the part has gaps: it has some streams, threads, callers or names alone.
	Chosen bool
	// Incomplete says that records are missing.
	Incomplete bool
	// Broken names logs of ranks that are damaged or cut off, "" if none are.
	Broken string
}

// Tables returns all reports, with the largest rows first.
func (s *Sink) Tables(f Facts) (all []*table.Table) {
	for _, r := range Reports {
		t := r.table(s, f)
		t.Name, t.Title = r.Name, r.Title
		if r.kernels {
			s.shorten(t)
		}
		if len(t.Rows) > 0 {
			t.Reason = ""
		} else {
			t.Reason = cmp.Or(t.Reason, r.reason(&f))
		}
		all = append(all, t)
	}
	return all
}

// reason returns why the report has no rows.
func (r *Report) reason(f *Facts) string {
	if r.needs != nil {
		if lack := r.needs(f); lack != "" {
			return lack
		}
	}
	if f.Filtered {
		return r.whyEmpty + " in the part that the filter selects"
	}
	return r.whyEmpty
}

// Names returns the names of all reports.
func Names() []string { return names(func(*Report) bool { return true }) }

// Unasked reports whether people see the report without naming it.
func (r *Report) Unasked(s *Sink) bool {
	return (!r.OfRanks || s.Ranks() >= 2) && (r.unasked == nil || r.unasked(s))
}

// always are the reports that people see without naming them, whatever the findings are.
var always = []*Report{
	&findingsReport, &stepKindsReport, &profileReport, &kernelsReport.Report, &outOfMemoryReport,
}

// First returns the names of the reports that people see without naming them: what limits the run, and the tables that
// show it.
func (s *Sink) First(f Facts) (list []string) {
	support := make(map[string]bool)
	if !f.Chosen {
		found, _ := s.Findings(f.Incomplete)
		for i := range found {
			for _, of := range append(found[i].Effects, found[i]) {
				if of.Kind != findings.Startup {
					for name := range strings.SplitSeq(of.Reports(), ",") {
						support[name] = true
					}
				}
			}
		}
	}
	for _, r := range Reports {
		if r.Unasked(s) && (slices.Contains(always, r) || support[r.Name] && !r.Detail) {
			list = append(list, r.Name)
		}
	}
	return list
}

// Folded returns the stacks of the report, nil if it has none.
func (r *Report) Folded(s *Sink, f Facts) *table.Folded {
	if r.fold == nil {
		return nil
	}
	return r.fold(s, f)
}

// Folds returns the names of the reports that have stacks.
func Folds() []string { return names(func(r *Report) bool { return r.fold != nil }) }

// Details returns the names of the reports that another report sums up.
func Details() []string { return names(func(r *Report) bool { return r.Detail }) }

func names(of func(*Report) bool) (list []string) {
	for _, r := range Reports {
		if of(r) {
			list = append(list, r.Name)
		}
	}
	return list
}

// ByName returns the report of a name, nil if there is none.
func ByName(name string) *Report {
	if i := slices.IndexFunc(Reports, func(r *Report) bool { return r.Name == name }); i >= 0 {
		return Reports[i]
	}
	return nil
}

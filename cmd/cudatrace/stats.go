package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
	"github.com/cudatrace/cudatrace/record/pattern"
)

const statsName = "stats"

func statsCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      statsName,
		Usage:     "print tables of kernels, calls, copies, waits, memory and more",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace stats LOG|FOLDER... [OPTION...]\n\n" +
			"Example: cudatrace stats app.cudatrace\n" +
			"Example: cudatrace stats app.cudatrace --report kernels,callers --top 20\n" +
			"Example: cudatrace stats rank*.cudatrace --format json | jq .kernels",
		Description: "Counts and measures what the logs have. Several logs, and those of a folder, become one set " +
			"of tables.\n" +
			"Reports: " + strings.Join(stats.Names(), ", ") + ".\n" +
			"docs/stats.md explains each report and documents the JSON.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{
				Category: outputGroup, Name: "output", Aliases: []string{"o"},
				Usage: "with --format csv, write a file for each report to `FOLDER`",
			},
			&cli.BoolFlag{
				Category: outputGroup, Name: "wide", Usage: "show all columns and whole names, whatever the width of the terminal",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "format", Value: "text",
				Usage: "`text|json|csv|markdown|folded|prom`: form of the output; in csv and json times are ns; folded has " +
					"the stacks of the report " + strings.Join(stats.Folds(), " or ") + ", for flame graphs; prom has few figures for " +
					"Prometheus (docs/stats.md)",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "report",
				Usage: "only these `REPORTS`: kernels,calls; 'all' shows the details too: " + strings.Join(stats.Details(), ", ") +
					" (default: all in json and csv, else all but the details)",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "sort", Usage: "sort by the column with this `KEY` of the JSON: count, median_ns " +
					"(default: the time, bytes or count that matters most)",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "top", Usage: "only the first `N` rows of each report, 0 for all (default: 10, in " +
					"json and csv all)",
			},
		}, append(filterFlags(),
			&cli.BoolFlag{
				Category: partGroup, Name: "with-startup",
				Usage: "count the start-up, too, where tables are of the time after it (docs/findings.md)",
			},
		)...),
		Action: func(c *cli.Context) error { return runStats(c, con) },
	}
}

// statsOptions are the options of the command.
type statsOptions struct {
	format  string
	wide    bool
	reports []string
	folder  string // a file for each report goes there
	named   bool   // the reports were named
	sort    string
	top     int
	filter  convert.Filter
	startup bool
}

// pathMemory is softMemory where the report of critical paths is named: it keeps more than others.
const pathMemory = reportMemory + 80<<20

func runStats(c *cli.Context, con *console.Console) error {
	names, err := logsIn(con, statsName, c.Args().Slice())
	if err != nil {
		return err
	}
	switch {
	case len(names) == 0:
		return usagef(statsName, "stats: no log given")
	case sameLog(names) != "":
		return usagef(statsName, "stats: %s is given twice", sameLog(names))
	}
	o, err := readStatsOptions(c)
	if err != nil {
		return err
	}
	logs, err := namedLogs(statsName, names)
	if err != nil {
		return err
	}
	limitMemory(reportMemory)
	sink, all, err := o.read(c, con, logs)
	if err != nil {
		return err
	}
	damage := verdicts(con, logs, all) // first: it is why figures are missing
	if err := o.print(con, sink, logs, all); err != nil {
		return err
	}
	aboutLogs(con, logs, all, convert.Formats[0])
	return damage
}

// read reads logs.
func (o *statsOptions) read(c *cli.Context, con *console.Console, logs []convert.Log) (
	sink *stats.Sink, all []convert.Summary, err error,
) {
	bar := con.Progress()
	sink = stats.New()
	if !o.filter.Steps.None() {
		sink.NameSteps()
	}
	if o.format == "folded" {
		sink.Fold()
	}
	if o.named && o.shows("critical_path") {
		sink.LongPaths()
		limitMemory(pathMemory)
	}
	all, err = convert.SomeTimeline(logs, convert.Options{Filter: o.filter,
		Collectives: o.shows("critical_path") || o.shows("findings"), Progress: bar.Show}, sink)
	bar.Done()
	var names []string
	for _, l := range logs {
		names = append(names, l.Name)
	}
	if none := unmatched(names, err); none != nil {
		return nil, nil, none
	}
	if errors.Is(err, convert.ErrNothing) {
		return nil, nil, fmt.Errorf("nothing in %s matches %s", strings.Join(names, ", "), chosen(c, filterFlags()))
	}
	return sink, all, err
}

// readStatsOptions reads the options.
func readStatsOptions(c *cli.Context) (o statsOptions, err error) {
	o.format = c.String("format")
	if !slices.Contains([]string{"text", "json", "csv", "markdown", "folded", "prom"}, o.format) {
		return o, usagef(statsName, "stats: --format must be text, json, csv, markdown, folded or prom, not %q",
			o.format)
	}
	for _, flag := range []string{"report", "top", "sort"} {
		if o.format == "prom" && c.IsSet(flag) {
			return o, usagef(statsName, "stats: --format prom has figures of all reports: --%s does not apply", flag)
		}
	}
	if o.wide = c.Bool("wide"); o.wide && o.format != "text" {
		return o, usagef(statsName, "stats: --wide needs --format text")
	}
	if err := o.readReports(c); err != nil {
		return o, err
	}
	switch o.folder = c.String("output"); {
	case c.IsSet("output") && o.folder == "":
		return o, usagef(statsName, "stats: --output needs a value")
	case o.folder != "" && o.format != "csv":
		return o, usagef(statsName, "stats: --output needs --format csv")
	case o.format == "csv" && o.folder == "" && len(o.reports) > 1:
		return o, usagef(statsName, "stats: --format csv prints one report: name it (--report kernels), or have a file for "+
			"each of %d (--output FOLDER)", len(o.reports))
	}
	if o.top, err = o.readTop(c); err != nil {
		return o, err
	}
	if err := o.readFolded(c); err != nil {
		return o, err
	}
	o.sort = c.String("sort")
	units := []string{"", "_ns", "_bytes"} // the titles of columns have none
	switch i := slices.IndexFunc(units, func(unit string) bool { return o.hasColumn(o.sort + unit) }); {
	case o.sort == "":
	case i >= 0:
		o.sort += units[i]
	default:
		return o, usagef(statsName, "stats: --sort %q is no column of the reports; docs/stats.md lists them", o.sort)
	}
	if o.filter, err = filterOptions(c); err != nil {
		return o, err
	}
	o.startup = c.Bool("with-startup")
	return o, nil
}

// readFolded checks the options of the folded form, which has all stacks of one report.
func (o *statsOptions) readFolded(c *cli.Context) error {
	if o.format != "folded" {
		return nil
	}
	if !o.named {
		o.reports = []string{"python"}
	}
	if len(o.reports) != 1 || !slices.Contains(stats.Folds(), o.reports[0]) {
		return usagef(statsName, "stats: --format folded needs --report with one of %s", strings.Join(stats.Folds(), ", "))
	}
	for _, flag := range []string{"top", "sort"} {
		if c.IsSet(flag) {
			return usagef(statsName, "stats: --format folded has stacks and no rows: --%s does not apply", flag)
		}
	}
	return nil
}

// rowsForPeople is the number of rows of a report where --top does not say it.
const rowsForPeople = 10

func (o *statsOptions) readTop(c *cli.Context) (int, error) {
	switch {
	case c.IsSet("top"):
		n, err := strconv.ParseUint(c.String("top"), 10, 31)
		if err != nil {
			return 0, usagef(statsName, "stats: --top %q is not a number of rows: write 20, or 0 for all", c.String("top"))
		}
		return int(n), nil
	case o.forPeople():
		return rowsForPeople, nil
	}
	return 0, nil
}

// forPeople reports whether the format is one that people read.
func (o *statsOptions) forPeople() bool { return o.format == "text" || o.format == "markdown" }

func (o *statsOptions) readReports(c *cli.Context) error {
	known := stats.Names()
	named := words(c.String("report"))
	for _, name := range named {
		if name != "all" && !slices.Contains(known, name) {
			if near := pattern.Nearest(name, known); near != "" {
				return usagef(statsName, "stats: no report %q (did you mean %s?)", name, near)
			}
			return usagef(statsName, "stats: no report %q; the reports are %s", name, strings.Join(known, ", "))
		}
	}
	if c.IsSet("report") && len(named) == 0 {
		return usagef(statsName, "stats: --report needs a value")
	}
	o.named = len(named) > 0
	for _, name := range known {
		if slices.Contains(named, name) || slices.Contains(named, "all") || !o.named &&
			!(o.forPeople() && stats.ByName(name).Detail) {
			o.reports = append(o.reports, name)
		}
	}
	return nil
}

// shows reports whether a report is chosen.
func (o *statsOptions) shows(report string) bool { return slices.Contains(o.reports, report) }

// hasColumn reports whether any chosen report has a column.
func (o *statsOptions) hasColumn(key string) bool {
	return slices.ContainsFunc(o.choose(stats.New().Tables(stats.Facts{})), func(t *table.Table) bool {
		return t.Column(key) >= 0
	})
}

// choose returns the tables of the chosen reports.
func (o *statsOptions) choose(all []*table.Table) []*table.Table {
	return slices.DeleteFunc(all, func(t *table.Table) bool { return !slices.Contains(o.reports, t.Name) })
}

func (o *statsOptions) print(con *console.Console, sink *stats.Sink, logs []convert.Log, all []convert.Summary) error {
	w := con.Text()
	facts := statsFacts(logs, all)
	facts.Chosen, facts.Startup = o.filter.Gappy(), o.startup
	tables := o.choose(sink.Tables(facts))
	var more []string // reports that are not shown
	if !o.named && o.forPeople() {
		first, shown := sink.First(facts), []*table.Table(nil)
		for _, t := range tables {
			if slices.Contains(first, t.Name) {
				shown = append(shown, t)
			} else if len(t.Rows) > 0 {
				more = append(more, t.Name)
			}
		}
		tables = shown
	}
	if o.format == "folded" {
		return printFolded(con, stats.ByName(tables[0].Name).Folded(sink, facts), tables[0])
	}
	for _, t := range tables {
		t.Sort(o.sort)
		t.Top(o.top)
	}
	switch o.format {
	case "prom":
		var m prometheus.Metrics
		m.With().Recording(recordingOf(all), tables)
		return m.Write(w)
	case "json":
		return table.WriteJSON(w, statsHead(logs, all, tables), tables)
	case "csv":
		return o.writeSheets(con, tables)
	case "markdown":
		return table.WriteMarkdown(w, tables)
	}
	width := con.Width()
	if o.wide {
		width = table.Wide
	}
	if err := table.WriteText(w, tables, width); err != nil || len(more) == 0 {
		return err
	}
	others := "other reports: " + strings.Join(more, ", ") + "; --report all has them, --wide all columns"
	return table.WriteParagraph(w, others, width)
}

// printFolded prints the stacks of a report, and says what its table notes.
func printFolded(con *console.Console, folded *table.Folded, t *table.Table) error {
	if len(t.Rows) == 0 {
		return errors.New(t.Name + ": " + t.Reason)
	}
	for _, n := range t.Notes {
		con.Say(t.Name + ": " + n)
	}
	return folded.Write(con.Text())
}

// recordingOf is what the metrics have of logs that were recorded together.
func recordingOf(all []convert.Summary) prometheus.Recording {
	r := prometheus.Recording{Complete: true, UUIDs: make(map[uint32]string)}
	for i := range all {
		s := &all[i]
		if at, err := time.Parse(time.RFC3339Nano, s.Start); err == nil && (r.Start.IsZero() || at.Before(r.Start)) {
			r.Start = at
		}
		r.Length = max(r.Length, time.Duration(s.DurationNS))
		r.Lost, r.Complete = r.Lost+s.LostTotal(), r.Complete && s.Complete
		for _, g := range s.GPUList {
			r.UUIDs[g.Index] = g.UUID
		}
	}
	return r
}

// statsVersion is the version of the JSON.
const statsVersion = 1

// statsHead are the members of the JSON before the reports. The functions, hundreds, say which calls the report calls
// would have.
func statsHead(logs []convert.Log, all []convert.Summary, tables []*table.Table) []table.Member {
	infos, functions := []stats.Log{}, []string{}
	for i := range all {
		s := &all[i]
		r := &s.Recorded
		infos = append(infos, stats.Log{Name: logs[i].Name, Complete: s.Complete, GPUs: s.GPUs, Driver: s.Driver,
			Release:  s.DriverRelease,
			Revision: s.Git.Revision, Start: s.Start, Calls: r.Calls, GPU: r.GPU,
			Schedule: r.Schedule, Filtered: s.LeftOut != nil, Memory: r.Memory, CUDANS: s.CUDANS,
			PeakDevice: s.PeakDevice, Ended: s.Ended})
		if i == 0 {
			functions = append(functions, r.Functions...)
		}
		functions = slices.DeleteFunc(functions, func(name string) bool { return !slices.Contains(r.Functions, name) })
	}
	head := []table.Member{{Name: "version", Value: statsVersion}, {Name: "logs", Value: infos}}
	if slices.ContainsFunc(tables, func(t *table.Table) bool { return t.Name == "calls" }) {
		head = append(head, table.Member{Name: "functions", Value: functions})
	}
	return head
}

// statsFacts says what no log has.
func statsFacts(logs []convert.Log, all []convert.Summary) stats.Facts {
	f := stats.Facts{Logs: figures.Shell(logArgs(logs)...), Callers: "callers were not recorded",
		Python: "the log has no Python frames: docs/calls.md says when there are none", Memory: all[0].NoMemory,
		Broken: broken(logs, all)}
	recorded := false // GPU work of a process
	for i := range all {
		f.Filtered = f.Filtered || all[i].LeftOut != nil
		f.Incomplete = f.Incomplete || all[i].Damaged || all[i].LostTotal() > 0
		if all[i].Callers != nil {
			f.Callers = ""
		}
		if all[i].Recorded.Python {
			f.Python = ""
		}
		if all[i].NoMemory == "" {
			f.Memory = ""
		}
		if f.MemoryUnknown == "" {
			f.MemoryUnknown = all[i].MemoryUnknown
		}
		for _, p := range all[i].ProcessList {
			if recorded = recorded || p.CUPTI == "on"; p.CUPTI != "on" {
				f.GPU = strings.TrimSuffix("GPU work was not recorded: "+p.CUPTI, ": ")
			}
		}
		work := all[i].Kernels + all[i].Copies + all[i].Memsets
		recorded = recorded || work > 0
		if all[i].Damaged && work+all[i].Pairs+all[i].APIRecords == 0 && !f.Filtered && f.Unread == "" {
			f.Unread = logs[i].Name + ": " + all[i].Reasons[0]
		}
	}
	if recorded {
		f.GPU = ""
	}
	if f.Memory == "" && !slices.ContainsFunc(all, func(s convert.Summary) bool { return s.Recorded.Memory != "" }) {
		f.Memory = f.GPU // a log whose allocations CUPTI recorded
	}
	return f
}

// broken names the logs that are damaged or lack records, "" if none do.
func broken(logs []convert.Log, all []convert.Summary) string {
	var words []string
	for i := range all {
		switch s := &all[i]; {
		case s.Damaged:
			words = append(words, logs[i].Name+" is damaged")
		case s.LostTotal() > 0:
			words = append(words, logs[i].Name+" lacks records")
		case !s.Complete:
			words = append(words, logs[i].Name+" is not complete")
		}
	}
	if more := len(words) - maxBroken; more > 0 {
		words = append(words[:maxBroken], figures.Count(more, "further log is damaged or lacks records",
			"further logs are damaged or lack records"))
	}
	return strings.Join(words, "; ")
}

// maxBroken is the number of broken logs that are named.
const maxBroken = 3

// writeSheets prints the only report as CSV, or writes a file for each to the folder that was named.
func (o *statsOptions) writeSheets(con *console.Console, tables []*table.Table) (err error) {
	if o.folder == "" {
		return tables[0].WriteCSV(con.Text())
	}
	named := strings.TrimRight(o.folder, "/") + "/"
	target, err := outfile.At(named, outfile.Options{Named: true, Folder: func(name string) string { return name }})
	if err != nil {
		return err
	}
	defer target.Close()
	files := outfile.NewSet(target)
	defer func() { err = errors.Join(err, files.Close()) }()
	for _, t := range tables {
		f, err := files.Create(t.Name + ".csv")
		if err != nil {
			return errors.Join(err, files.Discard())
		}
		if err := t.WriteCSV(f); err != nil {
			return errors.Join(target.Failure(err), files.Discard())
		}
	}
	if _, err := files.Commit(); err != nil {
		return errors.Join(err, files.Discard())
	}
	con.Sayf("%s: %s", o.folder, figures.Count(len(tables), "report", "reports"))
	return nil
}

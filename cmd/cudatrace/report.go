package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/report"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/outfile"
)

const reportName = "report"

func reportCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      reportName,
		Usage:     "make a page of HTML to look at and to send",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace report LOG|FOLDER... [-o OUT] [OPTION...]\n\n" +
			"Example: cudatrace report app.cudatrace -o report.html\n" +
			"Example: cudatrace report rank*.cudatrace -o report.html\n" +
			"Example: cudatrace report new.cudatrace --against 'base/*' -o report.html\n" +
			"Example: cudatrace report app.cudatrace --svg run -o run.svg",
		Description: "The page says what ran, what to look at first, and draws the run, a typical step, kernels, Python " +
			"lines, idle time, and steps by rank. " +
			"Its timeline shows single calls and kernels: zoom, search, click. " +
			"It is one file that loads nothing, for a pull request, a ticket or a chat. docs/report.md explains it.",
		Flags: []cli.Flag{
			&cli.StringFlag{
				Name: "output", Aliases: []string{"o"},
				Usage: "write to `OUT`, - for standard output (default: the log's name with .html, with a number if it is taken)",
			},
			&cli.GenericFlag{
				Name: "against", Value: new(texts), Usage: "compare with `BASE`: a log, the JSON of 'cudatrace stats', a folder " +
					"of either, or a pattern between quotes; may be repeated",
			},
			&cli.StringFlag{
				Name: "max-bytes", Value: "2M",
				Usage: "size of the page at most; its timeline has fewer moments in a smaller one: `SIZE`, or all for 20M",
			},
			&cli.BoolFlag{Name: "static", Usage: "no timeline and no script: for a mail, a ticket, paper"},
			&cli.StringFlag{Name: "svg", Usage: "write one `CHART` alone, as SVG: " + strings.Join(report.Names(), ", ")},
		},
		Action: func(c *cli.Context) error { return runReport(c, con) },
	}
}

func runReport(c *cli.Context, con *console.Console) error {
	names, err := logsIn(con, reportName, c.Args().Slice())
	if err != nil {
		return err
	}
	chart, suffix := c.String("svg"), ".html"
	if c.IsSet("svg") {
		if !slices.Contains(report.Names(), chart) {
			return usagef(reportName, "report: --svg must be %s, not %q", either(report.Names()), chart)
		}
		suffix = "-" + chart + ".svg"
	}
	out, err := outputName(reportName, c.String("output"), names, suffix)
	if err != nil {
		return err
	}
	logs, err := namedLogs(reportName, names)
	if err != nil {
		return err
	}
	o := pageOptions{static: c.Bool("static") || c.IsSet("svg")}
	if o.bytes, err = pageSize(c.String("max-bytes")); err != nil {
		return usagef(reportName, "report: %v", err)
	}
	limitMemory(reportMemory)
	r, all, err := readReport(con, logs, o)
	if err != nil {
		return err
	}
	if base := textsOf(c, "against"); len(base) > 0 {
		var logs []string
		if r.Comparison, logs, err = compared(con, base, names); err != nil {
			return err
		}
		if len(logs) > 0 && r.Timeline != nil {
			if r.Base, err = readBase(con, logs, o); err != nil {
				return err
			}
		}
	}
	content, err := reportContent(r, chart, o.bytes)
	if err != nil {
		return err
	}
	if err := writeReport(con, out, c.IsSet("output"), content); err != nil {
		return err
	}
	if chart == "" && len(content) > o.bytes {
		con.Sayf("warning: the page is larger than --max-bytes: its charts and tables alone take more")
	}
	aboutLogs(con, logs, all, convert.Formats[0])
	return verdicts(con, logs, all)
}

// pageOptions are what a page may have.
type pageOptions struct {
	static bool // no timeline
	base   bool // the timeline has the typical step alone
	bytes  int
}

// Sizes of a page.
const (
	leastPage = 256 << 10
	usualPage = 2 << 20
	largePage = 20 << 20
	mostPage  = 200 << 20
)

// pageSize reads the size of a page.
func pageSize(text string) (int, error) {
	if text == "all" {
		return largePage, nil
	}
	n, err := parseSize("max-bytes", text, leastPage, mostPage)
	return int(n), err
}

// readReport reads the logs: once for everything, and once for the moments of the timeline.
func readReport(con *console.Console, logs []convert.Log, o pageOptions) (*report.Report, []convert.Summary, error) {
	bar := con.Progress()
	defer bar.Done()
	r := &report.Report{Overview: report.NewOverview(), Recorder: version()}
	all, err := convert.SomeTimeline(logs, convert.Options{Collectives: true, Progress: bar.Show}, r.Overview)
	if err != nil {
		return nil, nil, err
	}
	describeReport(r, logs, all)
	facts := statsFacts(logs, all)
	var args []string // without their folders, which are nobody's business
	for _, name := range logArgs(logs) {
		args = append(args, filepath.Base(name))
	}
	facts.Logs = figures.Shell(args...)
	r.Stats = "cudatrace stats " + facts.Logs
	if r.Open = "cudatrace open " + facts.Logs; len(logs) > 1 {
		r.Open = "cudatrace convert " + facts.Logs + " -o all.pftrace"
	}
	r.Tables = r.Overview.Stats.Tables(facts)
	r.Stacks = stats.ByName("python").Folded(r.Overview.Stats, facts)
	r.Operators = stats.ByName("operators").Folded(r.Overview.Stats, facts)
	if r.Part = r.Typical(); r.Part == nil || o.static {
		return r, all, nil
	}
	of := r.NewTimeline
	if o.base {
		of = r.NewStep
	}
	r.Timeline = of(o.bytes)
	f := during(r.Timeline.Times(), r.Overview.Spread())
	_, err = convert.SomeTimeline(logs, convert.Options{Filter: f}, r.Timeline)
	if errors.Is(err, convert.ErrNothing) {
		err = nil
	}
	return r, all, err
}

// during is the filter of some times, in ns from the start of the first log. A filter counts from the start of each
// log, of which the last begins later.
func during(want [][2]uint64, later uint64) (f convert.Filter) {
	for _, of := range want {
		from, to := time.Duration(of[0]-min(of[0], later)), time.Duration(of[1])
		f.Times = append(f.Times, [2]time.Duration{from, to})
		if len(f.Times) == 1 || from < f.From {
			f.From = from
		}
		f.To = max(f.To, to)
	}
	return f
}

// describeReport says what ran, and what the logs lack. The environment stays out of a page that people send.
func describeReport(r *report.Report, logs []convert.Log, all []convert.Summary) {
	s := all[0]
	r.Title = strings.Join(s.Args, " ")
	if r.Title == "" {
		r.Title = filepath.Base(logs[0].Name)
	}
	add := func(words string) {
		if words != "" {
			r.Facts = append(r.Facts, words)
		}
	}
	add(strings.Join(s.GPUs, ", "))
	hosts := make(map[string]bool)
	for i := range all {
		hosts[all[i].Host] = true
	}
	if add(s.Host); len(hosts) > 1 {
		r.Facts[len(r.Facts)-1] = figures.Count(len(hosts), "host", "hosts")
	}
	if start, err := time.Parse(time.RFC3339, s.Start); err == nil {
		add(start.UTC().Format("2006-01-02 15:04 UTC"))
	}
	add(figures.DurationBeside(s.CUDANS, s.DurationNS) + " of CUDA in " + figures.Duration(s.DurationNS))
	switch {
	case endWords(s.Ended, "") != "":
		add(endWords(s.Ended, ""))
	case s.ExitStatus == 0:
		add("exit status 0")
	}
	r.Complete = true
	const most = 20 // reasons
	defer func() { r.Missing = r.Missing[:min(len(r.Missing), most)] }()
	for i := range all {
		r.Logs = append(r.Logs, filepath.Base(logs[i].Name))
		if all[i].Complete && !all[i].Damaged && all[i].LostTotal() == 0 {
			continue
		}
		r.Complete = false
		for _, why := range append(all[i].Reasons, outcome(all[i])) {
			if len(all) > 1 {
				why = filepath.Base(logs[i].Name) + ": " + why
			}
			r.Missing = append(r.Missing, why)
		}
	}
	s.Variables = nil
	for _, row := range infoRows(s) {
		r.About = append(r.About, [2]string{row[0], figures.Cut(row[1], figures.LongText)})
	}
}

// readBase reads an earlier run.
func readBase(con *console.Console, names []string, o pageOptions) (*report.Report, error) {
	logs, err := namedLogs(reportName, names)
	if err != nil {
		return nil, err
	}
	o.base = true
	r, _, err := readReport(con, logs, o)
	return r, err
}

// firstLogs are the logs of the first run of files that is not JSON.
func firstLogs(files []string) ([]string, error) {
	groups, err := groupsOf(files)
	for _, paths := range groups {
		if alone, err := isAlone(paths[0]); err != nil || !alone {
			return paths, err
		}
	}
	return nil, err
}

// compared compares runs with those of BASE, and returns the logs of a run of BASE.
func compared(con *console.Console, base, names []string) (*report.Comparison, []string, error) {
	o := diffOptions{rule: defaultRule}
	reader := diff.NewReader(diff.Reports(nil))
	sides := make([][]*diff.Run, 2)
	var logs []string
	for i, words := range [][]string{base, names} {
		files, err := filesOf(con, reportName, words)
		if err != nil {
			return nil, nil, err
		}
		if i == 0 {
			if logs, err = firstLogs(files); err != nil {
				return nil, nil, err
			}
		}
		if sides[i], err = o.runs(con, reader, words[0], files); err != nil {
			return nil, nil, err
		}
	}
	page := diff.Page{
		Diff: diff.Compare(sides[0], sides[1], o.rule), Base: strings.Join(base, " "), New: strings.Join(names, " "),
		Top: rowsForPeople,
	}
	for _, x := range page.Problems {
		con.Sayf("warning: %s", x.Text)
	}
	c := &report.Comparison{Lines: page.Lines(), Tables: page.Tables()}
	for _, x := range page.Changes() {
		c.Changes = append(c.Changes, report.Change{
			Name: x.Name, Base: x.Base, New: x.New, Change: x.Part, Spread: x.Spread, Verdict: x.Verdict, Worse: x.Worse,
		})
	}
	return c, logs, nil
}

// reportContent is the page, or one chart of it.
func reportContent(r *report.Report, chart string, bytesAtMost int) ([]byte, error) {
	var b bytes.Buffer
	if chart == "" {
		err := r.WriteHTML(&b, bytesAtMost)
		return b.Bytes(), err
	}
	charts := r.Charts()
	i := slices.IndexFunc(charts, func(c *report.Chart) bool { return c.Name == chart })
	if i < 0 {
		return nil, fmt.Errorf("there is nothing to draw for --svg %s: docs/report.md says what each chart needs",
			chart)
	}
	err := charts[i].WriteSVG(&b)
	return b.Bytes(), err
}

// writeReport writes a page to a file, or to standard output.
func writeReport(con *console.Console, out string, named bool, content []byte) error {
	if out == stdio {
		w, ok := con.Binary()
		if !ok {
			return usagef(reportName, "report: standard output is a terminal: name a file with -o, or use a pipe")
		}
		_, err := io.Copy(w, bytes.NewReader(content))
		return err
	}
	target, err := outfile.At(out, outfile.Options{Named: named})
	if err != nil {
		return err
	}
	defer target.Close()
	f, err := target.Create()
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(target.Failure(err), f.Discard())
	}
	done, err := f.Commit()
	if err != nil {
		return errors.Join(err, f.Discard())
	}
	if done.Taken {
		con.Sayf("%s is there already; the page is %s", out, done.Path)
	}
	con.Sayf("%s: %s", done.Path, figures.Bytes(len(content)))
	return nil
}

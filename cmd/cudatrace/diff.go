package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/diff"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// exitHolds is the exit code of diff when a condition holds.
const exitHolds = 3

// The groups of options in the help of diff.
const (
	sideGroup  = "What to compare"
	gateGroup  = "When to fail"
	allowGroup = "What not to fail for"
)

func diffCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      diffName,
		Usage:     "compare runs with earlier runs, and fail where they got worse",
		ArgsUsage: "BASE NEW",
		UsageText: "cudatrace diff BASE NEW [OPTION...]\n" +
			"cudatrace diff --base BASE... NEW... [OPTION...]\n\n" +
			"Example: cudatrace diff base.cudatrace new.cudatrace\n" +
			"Example: cudatrace diff 'base/*' 'new/*' --fail-on 'kernel_time > +5%'\n" +
			"Example: cudatrace diff base/ new/ --budget gpu.budget --format markdown\n" +
			"Example: cudatrace diff 'a/rank*' 'b/rank*'",
		Description: fmt.Sprintf("Says what is new, gone, slower and faster. BASE and NEW are each a log, the JSON of "+
			"'cudatrace stats', "+
			"a folder of either, or a pattern between quotes. Each file is one run; but the logs of the ranks of one run are "+
			"one together. Times are judged from %d runs a side on, counts always.\n"+
			"The exit code is 0, 3 when a condition holds, 1 for a failure, 2 for a wrong command line. docs/diff.md explains "+
			"conditions, and documents the JSON.", diff.LeastRuns),
		Flags: slices.Concat([]cli.Flag{
			&cli.GenericFlag{
				Category: sideGroup, Name: "base", Value: new(texts), Usage: "`BASE`; all arguments are NEW then; may be repeated",
			},
			&cli.GenericFlag{
				Category: gateGroup, Name: "fail-on", Value: new(texts),
				Usage: "end with 3 when `CONDITION` holds, such as 'kernel_time > +5%', 'calls:cudaMalloc > 0', 'peak_memory > " +
					"2GiB', 'kernel:gemm*:median > +10%'; may be repeated",
			},
			&cli.GenericFlag{
				Category: gateGroup, Name: "budget", Value: new(texts),
				Usage: "end with 3 when a condition in `FILE` holds: one a line, # begins a comment; may be repeated",
			},
			&cli.StringFlag{
				Category: gateGroup, Name: "significance", Value: "1%",
				Usage: "rate of false discoveries, `PERCENT|none` (conditions: 2%); none does not test: the size of a " +
					"change decides",
			},
			&cli.StringFlag{
				Category: gateGroup, Name: "min-change", Value: "5%",
				Usage: "smallest change of a time that differs, in `PERCENT`; conditions have their own",
			},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-missing", Usage: "names in conditions that match nothing"},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-incomplete", Usage: "incomplete logs, other ends"},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-gpu", Usage: "runs on different GPUs"},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-driver", Usage: "runs with different drivers"},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-program", Usage: "programs that have no kernel in common"},
			&cli.BoolFlag{Category: allowGroup, Name: "allow-mode", Usage: "runs that were recorded with different options"},
			&cli.StringFlag{
				Category: outputGroup, Name: "format", Value: "text",
				Usage: "`text|markdown|junit|json`: form of the output; junit has a test case for each condition",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "top", Value: "10",
				Usage: "only the first `N` rows of each table in text and markdown, 0 for all",
			},
		}, filterFlags()),
		Action: func(c *cli.Context) error { return runDiff(c, con) },
	}
}

// texts are the values of an option that may be repeated. A comma is part of a value.
type texts []string

func (t *texts) Set(s string) error {
	*t = append(*t, s)
	return nil
}

func (t *texts) String() string { return strings.Join(*t, " ") }

func textsOf(c *cli.Context, option string) []string { return *c.Generic(option).(*texts) }

// diffOptions are the options of the command.
type diffOptions struct {
	base, new  []string // files
	rule       diff.Rule
	conditions []*diff.Condition
	format     string
	top        int
	filter     convert.Filter
	filters    string // the filters that were given, "" for none
	matched    bool   // they match something in a run
}

func runDiff(c *cli.Context, con *console.Console) error {
	o, err := readDiffOptions(c, con)
	if err != nil {
		return err
	}
	reader := diff.NewReader(diff.Reports(o.conditions))
	base, err := o.runs(con, reader, baseWords(c)[0], o.base)
	if err != nil {
		return err
	}
	now, err := o.runs(con, reader, newWords(c)[0], o.new)
	if err != nil {
		return err
	}
	if o.filters != "" && !o.matched {
		return fmt.Errorf("nothing in any of the runs matches %s", o.filters)
	}
	d := diff.Compare(base, now, o.rule)
	if text := d.OtherPrograms(); text != "" && !c.Bool("allow-program") {
		return fmt.Errorf("%s; nothing to compare (--allow-program compares them nevertheless)", text)
	}
	page := diff.Page{
		Diff: d, Base: strings.Join(baseWords(c), " "), New: strings.Join(newWords(c), " "),
		Outcomes: d.Gate(o.conditions, c.Bool("allow-missing")), Top: o.top,
	}
	page.Refused = slices.DeleteFunc(slices.Clone(d.Problems), func(p diff.Problem) bool {
		return p.Remark() || c.Bool("allow-"+p.Kind)
	})
	if err := o.print(con, &page); err != nil {
		return err
	}
	return concluded(con, &page)
}

func (o *diffOptions) print(con *console.Console, p *diff.Page) error {
	switch o.format {
	case "json":
		return p.WriteJSON(con.Text())
	case "markdown":
		return p.WriteMarkdown(con.Text())
	case "junit":
		return p.WriteJUnit(con.Text())
	}
	return p.WriteText(con.Text(), con.Width())
}

// concluded says what went wrong, and is the end of the command.
func concluded(con *console.Console, p *diff.Page) error {
	for _, x := range p.Refused {
		con.Sayf("%s", x.Refusal())
	}
	failed, broken := false, len(p.Refused) > 0
	for _, o := range p.Outcomes {
		switch o.State {
		case diff.Failed:
			failed = true
			con.Sayf("%s: %s", o.Text, o.Verdict())
		case diff.Broken:
			broken = true
			con.Sayf("%s cannot be checked: %s", o.Text, o.Verdict())
		}
	}
	switch {
	case broken:
		return exitCode(exitFailure)
	case failed:
		return exitCode(exitHolds)
	}
	return nil
}

// readDiffOptions reads the options.
func readDiffOptions(c *cli.Context, con *console.Console) (o diffOptions, err error) {
	o.format = c.String("format")
	if !slices.Contains([]string{"text", "markdown", "junit", "json"}, o.format) {
		return o, usagef(diffName, "diff: --format must be text, markdown, junit or json, not %q", o.format)
	}
	top, err := strconv.ParseUint(c.String("top"), 10, 31)
	if err != nil {
		return o, usagef(diffName, "diff: --top %q is not a number of rows: write 20, or 0 for all", c.String("top"))
	}
	o.top = int(top)
	if o.rule, err = readRule(c); err != nil {
		return o, err
	}
	if o.filter, err = filterOptions(c); err != nil {
		return o, err
	}
	o.filters = chosen(c, filterFlags())
	if err := o.readConditions(c, con); err != nil {
		return o, err
	}
	if o.format == "junit" && len(o.conditions) == 0 {
		return o, usagef(diffName, "diff: --format junit needs conditions: add --fail-on or --budget")
	}
	return o, o.readSides(c, con)
}

// defaultRule is the rule of the default values of the options.
var defaultRule = diff.Rule{Rate: 0.01, GateRate: 0.02, MinChange: 0.05}

func readRule(c *cli.Context) (r diff.Rule, err error) {
	if r.MinChange, err = percentOption(c, "min-change"); err != nil {
		return r, err
	}
	if c.String("significance") == "none" {
		r.Untested = true
		return r, nil
	}
	if r.Rate, err = percentOption(c, "significance"); err == nil && (r.Rate <= 0 || r.Rate >= 1) {
		err = usagef(diffName, "diff: --significance %s must be above 0%% and below 100%%", c.String("significance"))
	}
	if r.GateRate = defaultRule.GateRate; c.IsSet("significance") {
		r.GateRate = r.Rate
	}
	return r, err
}

// percentOption reads the value of an option.
func percentOption(c *cli.Context, option string) (float64, error) {
	text := strings.TrimSpace(strings.TrimSuffix(c.String(option), "%"))
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1e6) {
		return 0, usagef(diffName, "diff: --%s %q is not a percentage: write 5%%", option, c.String(option))
	}
	return v / 100, nil
}

// readConditions reads the conditions of the command line and of budgets, each once.
func (o *diffOptions) readConditions(c *cli.Context, con *console.Console) error {
	for _, text := range textsOf(c, "fail-on") {
		if err := o.addCondition(con, "--fail-on", text); err != nil {
			return err
		}
	}
	for _, path := range textsOf(c, "budget") {
		f, err := openFile(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines, err := diff.ReadBudget(f)
		if err != nil {
			return fmt.Errorf("%s cannot be read: %s", path, errno.Words(err))
		}
		if len(lines) == 0 {
			return fmt.Errorf("%s has no conditions: write one a line, such as kernel_time > +5%%", path)
		}
		for _, l := range lines {
			if err := o.addCondition(con, fmt.Sprintf("%s:%d", path, l.Number), l.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// addCondition adds a condition. A wrong one is shown with a mark below its fault.
func (o *diffOptions) addCondition(con *console.Console, where, text string) error {
	found, err := diff.ParseCondition(text, diff.Vocabulary())
	var wrong *diff.SyntaxError
	if errors.As(err, &wrong) {
		words := wrong.Error()
		if near := pattern.Nearest(wrong.Word, wrong.Choices); near != "" {
			words = fmt.Sprintf("%s (did you mean %s?)", wrong.Message, near)
		}
		con.Sayf("diff: %s: %s; see 'cudatrace help diff'", where, words)
		before := utf8.RuneCountInString(console.Escape(wrong.Text[:wrong.At]))
		marked := utf8.RuneCountInString(console.Escape(wrong.Text[wrong.At : wrong.At+wrong.Len]))
		con.Detail("%s", wrong.Text)
		con.Detail("%s%s", strings.Repeat(" ", before), strings.Repeat("^", max(marked, 1)))
		return exitCode(exitUsage)
	}
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(o.conditions, func(c *diff.Condition) bool { return c.Text == found.Text }) {
		o.conditions = append(o.conditions, found)
	}
	return nil
}

// Bounds of a side, and so of the memory for it.
const (
	maxRuns     = 100
	maxRunFiles = 10_000
)

// readSides finds the files of both sides.
func (o *diffOptions) readSides(c *cli.Context, con *console.Console) error {
	args := c.Args().Slice()
	switch {
	case !c.IsSet("base") && len(args) > 2:
		return usagef(diffName, "diff: takes BASE and NEW; for several files a side, write a pattern between "+
			"quotes, or --base")
	case !c.IsSet("base") && len(args) < 2:
		return usagef(diffName, "diff: BASE and NEW are needed")
	case len(args) == 0:
		return usagef(diffName, "diff: no NEW given")
	}
	base, err := filesOf(con, diffName, baseWords(c))
	if err == nil {
		o.base = base
		o.new, err = filesOf(con, diffName, newWords(c))
	}
	return err
}

// baseWords are the words that name BASE.
func baseWords(c *cli.Context) []string {
	if c.IsSet("base") {
		return textsOf(c, "base")
	}
	return c.Args().Slice()[:1]
}

// newWords are the words that name NEW.
func newWords(c *cli.Context) []string {
	if c.IsSet("base") {
		return c.Args().Slice()
	}
	return c.Args().Slice()[1:]
}

// runs reads the runs of a side. The logs of the ranks of one run are one.
func (o *diffOptions) runs(con *console.Console, reader *diff.Reader, word string, files []string) (all []*diff.Run,
	err error) {
	groups, err := groupsOf(files)
	switch {
	case err != nil:
		return nil, err
	case len(groups) > maxRuns:
		return nil, fmt.Errorf("%s: %d runs are more than the %d that a side may have", word, len(groups), maxRuns)
	}
	for _, paths := range groups {
		r, err := o.run(con, reader, paths)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// groupsOf puts the files of one run together: a file of JSON is a run, and so are the logs of its ranks.
func groupsOf(files []string) (groups [][]string, err error) {
	if len(files) == 1 {
		return [][]string{files}, nil
	}
	list := make([]convert.Identity, len(files))
	for i, path := range files {
		list[i].Name = path
		alone, err := isAlone(path)
		if err != nil {
			return nil, err
		}
		if alone {
			continue
		}
		if list[i], err = convert.Identify(convert.Path(path)); err != nil {
			return nil, err
		}
	}
	for _, run := range convert.RunsOf(list) {
		var paths []string
		for _, i := range run {
			paths = append(paths, files[i])
		}
		groups = append(groups, paths)
	}
	return groups, nil
}

// isAlone reports whether a file is a run of its own: the JSON of stats, or what can be read only once, as a pipe can.
func isAlone(path string) (bool, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return true, nil
	}
	f, err := openFile(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	return isJSON(bufio.NewReader(f)), nil
}

// isJSON reports whether a file is the JSON of stats, as no log begins.
func isJSON(in *bufio.Reader) bool {
	first, err := in.Peek(1)
	return err == nil && first[0] == '{'
}

// openFile opens a file to read it. It waits for the other end of a pipe, which Ctrl-C ends, but for no process with a
// lease on the file.
func openFile(path string) (*os.File, error) {
	flags := os.O_RDONLY
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		flags |= unix.O_NONBLOCK
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened: %s", path, errno.Words(err))
	}
	return f, nil
}

// run reads a run: the JSON of stats, or logs.
func (o *diffOptions) run(con *console.Console, reader *diff.Reader, paths []string) (*diff.Run, error) {
	path := paths[0]
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var logs []convert.Log
	for _, path := range paths {
		logs = append(logs, convert.Path(path))
	}
	size := int64(math.MaxInt64)
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		if f, size, err = seekable(f, path); err != nil {
			return nil, err
		}
		defer f.Close()
		logs = []convert.Log{openLog(f, size, path)}
	}
	if in := bufio.NewReader(io.NewSectionReader(f, 0, size)); isJSON(in) {
		if o.filters != "" {
			return nil, fmt.Errorf("%s is no log: %s selects from logs alone", path, o.filters)
		}
		return reader.Read(in, path)
	}
	document, err := o.statistics(con, logs)
	if err != nil {
		return nil, err
	}
	if more := len(paths) - 1; more > 0 {
		path += " and " + figures.Count(more, "other log", "other logs")
	}
	r, err := reader.Read(document, path)
	if err == nil {
		r.Files = paths
	}
	return r, err
}

// statistics returns what stats writes about the logs of a run.
func (o *diffOptions) statistics(con *console.Console, logs []convert.Log) (io.Reader, error) {
	bar := con.Progress()
	sink := stats.New()
	all, err := convert.SomeTimeline(logs, convert.Options{Filter: o.filter, Collectives: true, Progress: bar.Show},
		sink)
	bar.Done()
	if err != nil && !errors.Is(err, convert.ErrNothing) {
		return nil, err
	}
	o.matched = o.matched || err == nil
	wanted := diff.Reports(o.conditions)
	tables := slices.DeleteFunc(sink.Tables(statsFacts(logs, all)), func(t *table.Table) bool {
		return !slices.Contains(wanted, t.Name)
	})
	var document bytes.Buffer
	err = table.WriteJSON(&document, statsHead(logs, all, tables), tables)
	return &document, err
}

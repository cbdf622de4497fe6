package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/outfile"
)

func convertCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      convertName,
		Usage:     "make a Perfetto or Chrome trace, or tables for SQL, from one or more logs",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace convert LOG [-o OUT] [OPTION...]\n" +
			"cudatrace convert LOG LOG... -o OUT\n\n" +
			"Example: cudatrace convert app.cudatrace -o app.pftrace\n" +
			"Example: cudatrace convert app.cudatrace --from 'last 5s' -o end.pftrace\n" +
			"Example: cudatrace convert rank*.cudatrace -o all.pftrace\n" +
			"Example: cudatrace convert app.cudatrace --format chrome --step step\n" +
			"Example: cudatrace convert rank*.cudatrace --format parquet --run 4711 -o tables\n" +
			"Example: ssh host cat app.cudatrace | cudatrace convert - -o app.pftrace",
		Description: "Runs on any machine, without root, GPU or eBPF. A log that was cut off is converted up to " +
			"the cut. Several logs become one trace: each process keeps its host and PID, and the logs' clocks " +
			"are aligned. A LOG of - is standard input.\n" +
			"A TIME counts from the start of each log, in seconds or with a unit: 1.5, 200ms. A list is " +
			"separated by commas: 7,13.\n" +
			formatFiles(),
		Flags: append([]cli.Flag{
			&cli.StringFlag{
				Category: outputGroup, Name: "output", Aliases: []string{"o"},
				Usage: "write the trace to `OUT`, - for standard output (default: the log's name with " + either(suffixes(false)) +
					", with a number if it is taken)",
			},
			&cli.StringFlag{Category: outputGroup, Name: "format", Value: convert.Formats[0].Name, Usage: formatUsage()},
			&cli.StringFlag{
				Category: outputGroup, Name: "run", Usage: "with --format parquet or ndjson, the `NAME` of the run that the logs " +
					"belong to (default: the run of the recording, which 'cudatrace info' shows, else the log's name)",
			},
			&cli.StringFlag{
				Category: outputGroup, Name: "compress", Value: string(output.Gzip),
				Usage: "`gzip|none`: compression of the trace; https://ui.perfetto.dev opens both (default: none for an OUT of " +
					"*.json, else gzip)",
			},
		}, filterFlags()...),
		Action: func(c *cli.Context) error { return runConvert(c, con) },
	}
}

func runConvert(c *cli.Context, con *console.Console) error {
	names := c.Args().Slice()
	o, err := formatOptions(c)
	if err != nil {
		return err
	}
	out, err := outputName(convertName, c.String("output"), names, o.Format.Suffix(o.Compress))
	if err != nil {
		return err
	}
	if o.Filter, err = filterOptions(c); err != nil {
		return err
	}
	limitMemory(softMemory + o.Format.Memory)
	if o.Format.Folder && (out == stdio || isTerminalAt(out)) {
		return usagef(convertName, "convert: --format %s makes a folder: name it with -o", o.Format.Name)
	}
	logs, err := namedLogs(convertName, names)
	if err != nil {
		return err
	}
	bar := con.Progress()
	o.Progress = bar.Show
	all, err := writeTrace(con, logs, out, c.IsSet("output"), o)
	bar.Done()
	if errors.Is(err, convert.ErrNothing) {
		return fmt.Errorf("nothing in %s matches %s; no %s", strings.Join(names, ", "),
			chosen(c, filterFlags()), o.Format.Written)
	}
	if none := unmatched(names, err); none != nil {
		return fmt.Errorf("%w; no %s", none, o.Format.Written)
	}
	if err != nil {
		return err
	}
	aboutLogs(con, logs, all, o.Format)
	return verdicts(con, logs, all)
}

// outputName is where what a command makes of logs goes.
func outputName(command, out string, logs []string, suffix string) (string, error) {
	switch {
	case len(logs) == 0:
		return "", usagef(command, "%s: no log given", command)
	case len(logs) > 1 && out == "":
		return "", usagef(command, "%s: several logs need -o OUT", command)
	case sameLog(logs) != "":
		return "", usagef(command, "%s: %s is given twice", command, sameLog(logs))
	case out == "" && logs[0] == stdio:
		return "", usagef(command, "%s: a log from standard input needs -o OUT", command)
	case slices.Contains(logs, stdio) && isInput(out):
		return "", fmt.Errorf("%s is the log itself: give the output another name", out)
	case out == "":
		out = strings.TrimSuffix(logs[0], record.LogSuffix) + suffix
	}
	return out, nil
}

// writeTrace writes the trace of logs to a file or to standard output, but to no terminal.
func writeTrace(con *console.Console, logs []convert.Log, out string, named bool,
	o convert.TraceOptions) ([]convert.Summary, error) {
	stdout, ok := con.Binary()
	switch {
	case out == stdio && !ok:
		return nil, usagef(convertName, "convert: the trace is %s and standard output is a terminal: name a file with -o, "+
			"or use a pipe", written(o))
	case out == stdio:
		return convert.FilesTo(logs, stdout, o)
	case isTerminalAt(out):
		return nil, usagef(convertName, "convert: the trace is %s and %s is a terminal: name a file with -o", written(o), out)
	}
	return convertToFile(con, logs, out, named, o)
}

// isTerminalAt reports whether a path is that of a terminal which the user who called sudo may open.
func isTerminalAt(path string) (is bool) {
	_ = invoker.Find().Do(func() error {
		is = console.IsTerminalAt(path)
		return nil
	})
	return is
}

// written says what the bytes of a trace are.
func written(o convert.TraceOptions) string {
	if o.Format.Text && o.Compress == output.None {
		return "JSON"
	}
	return "binary"
}

// convertToFile converts logs into a trace at a path. A path that nobody named gets a number if it is
// taken.
func convertToFile(con *console.Console, logs []convert.Log, out string, named bool,
	o convert.TraceOptions) ([]convert.Summary, error) {
	target, err := o.Target(out, named)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	over := abandonAtSignal(target, con.Say, logs)
	all, done, err := convert.FilesAt(logs, target, o)
	over()
	switch {
	case err != nil:
	case o.Format.Folder:
		con.Sayf("%s: %s in %s", done.Path, figures.Count(all[0].Slices, "row", "rows"),
			figures.Count(uint64(max(done.Files, 1)-1), "file", "files"))
		if figures.Shell(done.Path) == done.Path {
			con.Details([][]string{{fmt.Sprintf(`duckdb -c "select name, sum(dur_ns) from '%s/work/**/*.parquet' group by 1"`,
				done.Path), "kernels and copies"}})
		}
		return all, nil
	case done.Files > 1:
		con.Sayf("%d processes: a file for each is in %s", done.Files, done.Path)
	case done.Taken:
		con.Sayf("%s is there already; the trace is %s", out, done.Path)
	}
	if err == nil && done.Path != "" {
		made(con, logs, all, done, o)
	}
	return all, err
}

// made says how large a trace is.
func made(con *console.Console, logs []convert.Log, all []convert.Summary, done outfile.Done,
	o convert.TraceOptions) {
	if done.Files > 1 {
		return
	}
	n := all[0].Slices
	con.Sayf("%s: %s, %s", done.Path, fileSize(done.Path), figures.Count(n, o.Format.Unit, o.Format.Units))
	if words := tooLarge(all, o.Filter, logArgs(logs)...); words != "" && o.Format.Sized {
		con.Say(words)
	}
}

// abandonAtSignal ends the program when a signal comes, and leaves no part of the trace behind, until
// the returned function is called.
func abandonAtSignal(target *outfile.Target, say func(string), logs []convert.Log) (over func()) {
	signals := interrupts()
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
		case s := <-signals:
			n, _ := s.(syscall.Signal)
			abandoned, err := target.Abandon()
			if !abandoned {
				return // the trace is whole
			}
			if err != nil {
				say(fmt.Sprintf("a part of the output is left: %v", err))
			}
			say(fmt.Sprintf("the conversion was interrupted and wrote nothing; %s", untouched(logs)))
			os.Exit(128 + int(n))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// untouched says that the logs are as they were.
func untouched(logs []convert.Log) string {
	if len(logs) == 1 {
		return "the log is as it was: " + logs[0].Name
	}
	return "the logs are as they were"
}

// formatUsage is the usage of --format.
func formatUsage() string {
	var about, endings []string
	for _, f := range convert.Formats {
		var suffixes []string
		for _, s := range f.Suffixes {
			suffixes = append(suffixes, "*"+s.Text)
		}
		about = append(about, f.About)
		endings = append(endings, f.Name+" for "+either(suffixes))
	}
	names := formatNames(convert.Formats)
	return "`" + strings.Join(names, "|") + "`: " + strings.Join(about, "; or ") + " (default: by the name of OUT: " +
		strings.Join(endings, ", ") + "; else " + names[0] + ")"
}

// formatFiles describes the files of the formats that make several, a line each.
func formatFiles() string {
	var lines []string
	for _, f := range convert.Formats {
		if f.Files != "" {
			lines = append(lines, f.Files)
		}
	}
	return strings.Join(lines, "\n")
}

// suffixes are the suffixes of all formats, or the first one of each.
func suffixes(all bool) (list []string) {
	for _, f := range convert.Formats {
		for _, s := range f.Suffixes {
			if list = append(list, s.Text); !all {
				break
			}
		}
	}
	return list
}

// formatFlags are the flags that are not for every format.
var formatFlags = []struct {
	name string
	in   func(*convert.Format) bool
}{
	{"run", func(f *convert.Format) bool { return f.Run != nil }},
	{"compress", func(f *convert.Format) bool { return f.Sized }},
}

// formatOptions are the options of the trace's form. The format is that of --format, else that of the name of the
// trace.
func formatOptions(c *cli.Context) (o convert.TraceOptions, err error) {
	out := strings.TrimRight(c.String("output"), "/")
	named, compress := convert.FormatOf(out)
	o = convert.TraceOptions{Format: named, Compress: output.Compression(c.String("compress")), Run: c.String("run")}
	if compress != "" && !c.IsSet("compress") {
		o.Compress = compress
	}
	if named == nil || c.IsSet("format") {
		o.Format = convert.FormatNamed(c.String("format"))
	}
	switch {
	case o.Format == nil:
		return o, usagef(convertName, "convert: --format must be %s, not %q", either(formatNames(convert.Formats)),
			c.String("format"))
	case o.Compress != output.Gzip && o.Compress != output.None:
		return o, usagef(convertName, "convert: --compress must be gzip or none, not %q", o.Compress)
	case named == nil && !c.IsSet("format") && hasSuffix(out):
		return o, usagef(convertName, "convert: no format has names like %s: end it with %s, or choose a --format", out,
			either(suffixes(true)))
	}
	for _, flag := range formatFlags {
		if c.IsSet(flag.name) && !flag.in(o.Format) {
			return o, wrongFormat(flag.name, flag.in)
		}
	}
	switch {
	case c.IsSet("step") && !c.IsSet("steps") && !o.Format.Steps:
		return o, usagef(convertName, "convert: --step needs --steps FIRST-LAST, or --format chrome, parquet or ndjson")
	case c.IsSet("run") && !o.Format.Run(o.Run):
		return o, usagef(convertName, "convert: --run must be of letters, digits, '.', '-' and '_', not %q", o.Run)
	}
	return o, nil
}

// wrongFormat is the error of a flag that is for some other formats.
func wrongFormat(flag string, in func(*convert.Format) bool) error {
	fits := slices.DeleteFunc(slices.Clone(convert.Formats), func(f *convert.Format) bool { return !in(f) })
	return usagef(convertName, "convert: --%s needs --format %s", flag, either(formatNames(fits)))
}

// hasSuffix reports whether the name of a file seems to end with that of a form: .csv, but not .5, .config or
// /dev/fd/63.
func hasSuffix(path string) bool {
	name := filepath.Base(path)
	suffix := filepath.Ext(name)
	return suffix != name && strings.ContainsFunc(suffix, unicode.IsLetter)
}

func formatNames(formats []*convert.Format) (names []string) {
	for _, f := range formats {
		names = append(names, f.Name)
	}
	return names
}

// sameLog is the first log that is given a second time, under any name; "" without one.
func sameLog(logs []string) string {
	var before []os.FileInfo
	for _, name := range logs {
		log := name
		if log == stdio {
			log = "/dev/stdin"
		}
		info, err := os.Stat(log)
		if err != nil {
			continue // reading it says why
		}
		if slices.ContainsFunc(before, func(b os.FileInfo) bool { return os.SameFile(b, info) }) {
			return name
		}
		before = append(before, info)
	}
	return ""
}

// aboutLogs says what was left out of the logs, how their clocks are aligned, and which ranks are not among them.
func aboutLogs(con *console.Console, logs []convert.Log, all []convert.Summary, f *convert.Format) {
	if words := collectives(all[0].Collectives, all[0].LeftOut != nil); words != "" {
		con.Say(words)
	}
	var aligned, left remarks
	for i, sum := range all {
		aligned.note(logs[i].Name, sum.Aligned)
		left.note(logs[i].Name, leftOut(sum.LeftOut, f))
	}
	aligned.say(con, "")
	left.say(con, " each")
	sayRoster(con, logs, all)
}

// verdicts says what the logs lack, and whether one is damaged.
func verdicts(con *console.Console, logs []convert.Log, all []convert.Summary) (failed error) {
	for i, sum := range all {
		if err := verdict(con, logs[i].Name, sum); err != nil {
			failed = err
		}
	}
	return failed
}

// remarks are what is to say of logs: of several logs with the same words once.
type remarks struct {
	words []string
	of    map[string][]string // logs, by the words
}

func (r *remarks) note(log, words string) {
	if words == "" {
		return
	}
	if r.of == nil {
		r.of = make(map[string][]string)
	}
	if r.of[words] == nil {
		r.words = append(r.words, words)
	}
	r.of[words] = append(r.of[words], log)
}

// say says the remarks, those about several logs with a word behind them.
func (r *remarks) say(con *console.Console, behind string) {
	for _, words := range r.words {
		logs := r.of[words]
		switch more := len(logs) - 1; more {
		case 0:
			con.Sayf("%s: %s", logs[0], words)
		case 1:
			con.Sayf("%s and %s: %s%s", logs[0], logs[1], words, behind)
		default:
			con.Sayf("%s and %d other logs: %s%s", logs[0], more, words, behind)
		}
	}
}

// sayRoster says which ranks are not among the logs, or not all of the time. A filter leaves ranks and time out on
// purpose.
func sayRoster(con *console.Console, logs []convert.Log, all []convert.Summary) {
	var list []convert.Identity
	for i := range all {
		s := &all[i]
		if s.LeftOut != nil {
			return
		}
		l := convert.Identity{
			Name: logs[i].Name, Run: s.Run, Ranks: s.Ranks, World: s.WorldSize, Chosen: strings.Contains(s.Options, "--ranks"),
			Begin: s.Begin, End: s.End,
		}
		if a := s.Alignment; a != nil {
			l.Aligned, l.Error = a.Known, a.ErrorNS
		}
		list = append(list, l)
	}
	for _, line := range convert.RosterLines(list) {
		con.Say(line)
	}
}

// collectives says what a trace shows of the collectives of NCCL, "" of a trace that shows none. With some, a filter
// selects a part of the logs.
func collectives(f *collective.Shown, some bool) string {
	if f == nil {
		return ""
	}
	var parts []string
	if f.Collectives > 0 {
		who := "ranks"
		if some {
			who = "in the part that is shown ranks"
		}
		words := fmt.Sprintf("%s of NCCL in %s: %s waited for the last one %s", figures.Count(f.Collectives, "collective",
			"collectives"),
			figures.Count(f.Communicators, "communicator", "communicators"), who, figures.Count(f.Waits, "time", "times"))
		if f.Doubtful > 0 {
			words += fmt.Sprintf(", of which %s no arrow: the clocks of their hosts may be wrong by more than the wait",
				figures.Count(f.Doubtful, "has", "have"))
		}
		parts = append(parts, words)
	}
	if f.Untold > 0 {
		parts = append(parts, "the oldest "+figures.Count(f.Untold, "collective is", "collectives are")+
			" without arrows: they are too many")
	}
	if f.Sends > 0 {
		parts = append(parts, figures.Count(f.Sends, "kernel sends and receives, and has",
			"kernels send and receive, and have")+" no arrows: nothing tells which belong together")
	}
	return strings.Join(parts, "; ")
}

// verdict says what is missing from a log. A damaged log is a failure, although its intact
// records were used.
func verdict(con *console.Console, log string, sum convert.Summary) error {
	for _, why := range sum.Reasons {
		con.Sayf("%s is not complete: %s", log, why)
	}
	if sum.Damaged {
		return exitCode(exitFailure)
	}
	return nil
}

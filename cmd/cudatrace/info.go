package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
)

const infoName = "info"

func infoCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      infoName,
		Usage:     "summarize logs",
		ArgsUsage: "LOG...",
		UsageText: "cudatrace info LOG... [--format text|json]\n\nExample: cudatrace info app.cudatrace --format json | jq " +
			".kernels\nExample: cudatrace info rank*.cudatrace",
		Description: "Prints the program, host, GPUs, versions, duration, counts and losses. Of several logs it " +
			"also says how " +
			"their clocks are aligned in one trace. A LOG of - is standard input. docs/info.md documents the JSON, of which " +
			"each log has an object.",
		Flags: []cli.Flag{
			formatFlag(""),
		},
		Action: func(c *cli.Context) error { return runInfo(c, con) },
	}
}

func runInfo(c *cli.Context, con *console.Console) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		return usagef(infoName, "info: no log given")
	}
	if twice := sameLog(names); twice != "" {
		return usagef(infoName, "info: %s is given twice", twice)
	}
	asJSON, err := wantsObject(c, infoName)
	if err != nil {
		return err
	}
	logs, err := namedLogs(infoName, names)
	if err != nil {
		return err
	}
	all, err := convert.Timeline(logs, convert.Options{}, nil)
	if err != nil {
		return err
	}
	var failed error
	for i, sum := range all {
		if err := printInfo(con, asJSON, logs[i].Name, sum, len(logs) > 1); err != nil {
			return err
		}
		if err := verdict(con, logs[i].Name, sum); err != nil {
			failed = err
		}
	}
	sayRoster(con, logs, all)
	return failed
}

// printInfo prints the summary of a log, of several with its name.
func printInfo(con *console.Console, asJSON bool, name string, sum convert.Summary, several bool) error {
	if asJSON {
		return printJSON(con, sum)
	}
	var rows [][]string
	if several {
		rows = append(rows, []string{"log", name})
	}
	rows = append(rows, infoRows(sum)...)
	if several {
		rows = append(rows, []string{"", ""})
	}
	con.Rows(styledRows(rows, sum.Complete))
	return nil
}

// styledRows gives rows that tell of something wrong the look of a warning.
func styledRows(rows [][]string, complete bool) []console.Row {
	styled := make([]console.Row, len(rows))
	for i, cells := range rows {
		r := console.Row{Cells: cells}
		switch name := cells[0]; {
		case name == "log":
			r.Last = console.Bold
		case name == "hang", name == "  because", name == failedRow, (name == "lost" || name == "complete") && !complete:
			r.Last = console.Bad
		case name == "note":
			r.Last = console.Bold
		case name == "complete":
			r.Last = console.Good
		}
		styled[i] = r
	}
	return styled
}

// maxCountRows is the number of functions and of errors in the text, the most frequent ones. The JSON has more.
const maxCountRows = 10

// failedRow is the label of rows of errors.
const failedRow = "failed"

// countRows list the most frequent names. They are values, since a long name in the first column would leave no room
// for the others.
func countRows(row func(name, value string), label string, counts map[string]uint64) {
	names, width := convert.ByCount(counts), 0
	for _, name := range names[:min(len(names), maxCountRows)] {
		count := figures.Group(counts[name])
		width = max(width, len(count))
		row(label, fmt.Sprintf("%*s × %s", width, count, name))
	}
	if n := len(names) - maxCountRows; n > 0 {
		row(label, fmt.Sprintf("%d more, which --format json has", n))
	}
}

func infoRows(s convert.Summary) (rows [][]string) {
	row := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	runRows(row, s)
	row("holds", held(s.Last))
	row("processes", figures.Group(s.ProcessCount))
	row("threads", figures.Group(s.ThreadCount))
	row("streams", figures.Group(s.StreamCount))
	row("kernels", figures.Group(s.Kernels))
	row("copies", figures.Group(s.Copies))
	row("memsets", figures.Group(s.Memsets))
	row("calls", fmt.Sprintf("%s (%s failed, %s unfinished)", figures.Group(s.Calls), figures.Group(s.Failed),
		figures.Group(s.Unfinished)))
	countRows(row, "", s.Functions)
	countRows(row, failedRow, s.Errors)
	for _, hang := range s.Hangs[:min(len(s.Hangs), maxHangs)] {
		row("hang", hang)
	}
	row("kernel names", unnamed(s))
	row("callers", callers(s))
	row("graph nodes", graphNodes(s.GraphNodes))
	row("waits", figures.Count(s.Waits, "arrow", "arrows")+" from GPU work to the call that waited for it")
	row("matched", fmt.Sprintf("%s of %s GPU records have their call", figures.Group(s.Matched),
		figures.Group(s.Matched+s.Unmatched))+uncertainBodies(s))
	if n := s.Ranges + s.RangeMarks; n > 0 {
		row("NVTX", figures.Count(s.Ranges, "range", "ranges")+", "+figures.Count(s.RangeMarks, "mark", "marks"))
	}
	communicatorRows(row, s.Communicators)
	costRows(row, s)
	if s.PeakDevice > 0 {
		row("peak memory", figures.Bytes(s.PeakDevice)+" on the device")
		row("memory", s.MemoryUnknown)
	}
	row("peak memory", s.NoMemory)
	for _, g := range s.Metrics {
		sampledRows(row, &g)
	}
	row("lost", lostRow(s))
	complete := yesNo(s.Complete)
	if s.Complete && s.Unknown != "" {
		complete = strings.TrimPrefix(s.Known(), "complete ")
	}
	row("complete", complete)
	for _, why := range s.Reasons {
		row("  because", why)
	}
	for _, note := range notes(s) {
		row("note", note)
	}
	for _, p := range s.ProcessList {
		row(fmt.Sprintf("process %d", p.PID), processRow(&p))
	}
	if len(s.Variables) > 0 {
		row("environment", figures.Count(len(s.Variables), "variable", "variables"))
		variableRows(row, s)
	}
	return rows
}

// maxCommunicatorRows is the number of communicators in the text. The JSON has more.
const maxCommunicatorRows = 10

// communicatorRows say what was sent through each communicator of NCCL, all processes together.
func communicatorRows(row func(name, value string), list []convert.CommunicatorInfo) {
	var hashes []string
	of := make(map[string][]convert.CommunicatorInfo)
	for _, c := range list {
		if of[c.Hash] == nil {
			hashes = append(hashes, c.Hash)
		}
		of[c.Hash] = append(of[c.Hash], c)
	}
	for i, hash := range hashes {
		if i == maxCommunicatorRows {
			row("NCCL", figures.Count(len(hashes)-i, "further communicator", "further communicators"))
			return
		}
		row("NCCL", communicatorRow(hash, of[hash]))
	}
}

// communicatorRow describes a communicator in some processes.
func communicatorRow(hash string, of []convert.CommunicatorInfo) string {
	var list []uint32
	var size uint32
	var calls, bytes uint64
	for _, c := range of {
		calls, bytes = calls+c.Calls, bytes+min(c.Bytes, math.MaxUint64-bytes)
		if c.Ranks > 0 {
			list, size = append(list, c.Rank), c.Ranks
		}
	}
	words := "communicator not known"
	if hash != "" {
		words = "communicator " + hash
	}
	if len(list) > 0 {
		slices.Sort(list)
		list = slices.Compact(list)
		words += map[bool]string{true: " (rank ", false: " (ranks "}[len(list) == 1] + ranks.Words(list) + ofWorld(size) + ")"
	}
	return fmt.Sprintf("%s: %s, %s", words, figures.Count(calls, "call", "calls"), figures.Bytes(bytes))
}

// costRows say what the recording cost.
func costRows(row func(name, value string), s convert.Summary) {
	if s.OverheadNS > 0 {
		row("CUPTI's own time", figures.Duration(s.OverheadNS))
	}
	if s.ProbesNS > 0 {
		least := "about"
		if isPart(s) {
			least = "at least"
		}
		row("probes' time", fmt.Sprintf("%s %s in the program: %s at %s each, measured when recording began",
			least, figures.Duration(s.ProbesNS), figures.Count(s.Pairs, "call", "calls"), figures.Duration(s.CallCostNS)))
	}
	if s.RecorderNS > 0 {
		row("recorder's time", figures.Duration(s.RecorderNS)+" of processor time")
	}
}

// sampledRows describe the sampled metrics of a GPU: over the time of its work.
func sampledRows(row func(name, value string), g *sampled.GPU) {
	gpu := fmt.Sprintf("GPU %d ", g.Index)
	for _, f := range g.Figures {
		words := func(v float64) string { return table.Words(stats.MetricCell(v, f.Unit), table.Number) }
		row(gpu+f.Label, fmt.Sprintf("mean %s, median %s, p95 %s (%s)", words(f.Mean), words(f.Median), words(f.P95),
			f.Source))
	}
	for _, l := range g.Lowered {
		row(gpu+"clocks lowered", fmt.Sprintf("%s for %s of %s", l.Reason, figures.Duration(l.Time),
			figures.Duration(g.Known)))
	}
	for _, o := range g.Others {
		row(gpu+"used by", stats.OtherProcess(o.PID, o.Name)+", too: the values are those of the whole GPU")
	}
}

// runRows describes the program's run and the machine.
func runRows(row func(name, value string), s convert.Summary) {
	row("program", strings.Join(s.Args, " "))
	if s.ExitStatus >= 0 {
		row("exit status", fmt.Sprint(s.ExitStatus)+signalWords(s.Ended))
	}
	row("run", s.Run)
	row("ranks", rankList(s.Ranks, s.WorldSize))
	row("host", s.Host)
	row("working folder", s.Folder)
	row("git", gitRow(s.Git))
	row("options", s.Options)
	row("kernel", s.Kernel)
	row("GPUs", strings.Join(s.GPUs, ", "))
	for _, g := range s.GPUList {
		row(fmt.Sprintf("  GPU %d", g.Index),
			strings.Join(slices.DeleteFunc([]string{g.UUID, g.PCI}, func(s string) bool { return s == "" }), ", "))
	}
	row("CUDA driver", driverRow(s))
	row("CUPTI", s.CUPTI)
	row("recorded by", "cudatrace "+s.Recorder)
	row("start", s.Start)
	row("wall clock", clockRow(s.Clock))
	row("times", s.Aligned)
	row("CUDA time", figures.DurationBeside(s.CUDANS, s.DurationNS)+" from the first call to the last end")
	row("wall time", figures.Duration(s.DurationNS))
}

// clockRow says how far the wall clock is right, "" where the log does not tell.
func clockRow(c convert.Clock) string {
	words := "not synchronized: its error is not known"
	switch {
	case c.BootID == "":
		return ""
	case c.Known:
		words = "right to " + figures.Duration(c.Error) + ", as the kernel says"
	}
	if c.Set > uint64(time.Millisecond) {
		words += "; set by " + figures.Duration(c.Set) + " while recording"
	}
	return words
}

// rankList lists ranks: "0-3, 8 of 16"; "" without any.
func rankList(list []uint32, size uint32) string {
	if len(list) == 0 {
		return ""
	}
	return ranks.Words(list) + ofWorld(size)
}

// gitRow names a commit: its revision, its branch, its remote.
func gitRow(g convert.Git) string {
	words := g.Revision
	if g.Branch != "" {
		words += " on " + g.Branch
	}
	if g.Remote != "" {
		words += " of " + g.Remote
	}
	return strings.TrimSpace(words)
}

// driverRow gives the CUDA version of the driver, and its release.
func driverRow(s convert.Summary) string {
	if s.DriverRelease == "" {
		return s.Driver
	}
	return strings.TrimSpace(s.Driver + " (release " + s.DriverRelease + ")")
}

// variableRows lists the environment variables of the recording.
func variableRows(row func(name, value string), s convert.Summary) {
	for _, name := range slices.Sorted(maps.Keys(s.Variables)) {
		row("", name+"="+s.Variables[name])
	}
}

// processRow describes a process.
func processRow(p *convert.ProcessInfo) string {
	words := fmt.Sprintf("%s: %s, %s, CUPTI %s", p.Name,
		figures.Count(p.Threads, "thread", "threads"), figures.Count(p.Streams, "stream", "streams"), p.CUPTI)
	if p.Runtime != "" {
		words += ", CUDA runtime " + p.Runtime
	}
	if p.NCCL != "" {
		words += ", NCCL " + p.NCCL
	}
	words += signalWords(p.Ended)
	if r := p.Rank; r != nil {
		words = fmt.Sprintf("rank %d", r.Rank) + ofWorld(r.WorldSize) + ", " + words
	}
	return words
}

// signalWords say by which signal a program ended; "" if by none.
func signalWords(ended string) string {
	if !strings.HasPrefix(ended, "signal ") {
		return ""
	}
	return ", " + endWords(ended, "")
}

func ofWorld(size uint32) string {
	if size == 0 {
		return ""
	}
	return fmt.Sprintf(" of %d", size)
}

// graphNodes says of how much of the work of graphs the captured call is known, "" without such work.
func graphNodes(g *convert.GraphNodes) string {
	if g == nil {
		return ""
	}
	all := g.Named + g.Before + g.Unseen + g.Unsure
	words := fmt.Sprintf("%s of %s GPU operations in graphs have the call that captured them",
		figures.Group(g.Named), figures.Group(all))
	for _, lack := range []struct {
		n   uint64
		why timeline.Uncaptured
	}{{g.Before, timeline.CapturedBefore}, {g.Unseen, timeline.CaptureUnseen}, {g.Unsure, timeline.CaptureUnsure}} {
		if lack.n > 0 {
			words += fmt.Sprintf("; of %s: %v", figures.Group(lack.n), lack.why)
		}
	}
	return words
}

// percent rounds down, so that only the whole is 100 %.
func percent(share float64) string { return fmt.Sprintf("%g %%", math.Floor(10*share)/10) }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// lostRow names the causes of loss that there were; the JSON has every cause.
func lostRow(s convert.Summary) string {
	if n := s.LostTotal(); n > 0 {
		return figures.Count(n, "record", "records") + ": " + lostByCause(s.Lost)
	}
	if !s.Complete {
		return "nothing was counted, but records may be missing"
	}
	return "nothing"
}

package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A madeFile is a file that a recording has made.
type madeFile struct {
	path     string
	replaced bool // another file stood there
}

// printSummary prints what a person sees when a recording ends: how it ended, what is in it and what is missing, where
// to look first, and what to do next. The rest is for info.
func printSummary(con *console.Console, s convert.Summary, first firstLook, files []madeFile) {
	con.Conclude(endWords(s.Ended, "; ")+headline(s)+"; ", outcome(s), s.Complete && s.LostTotal() == 0)
	for _, died := range diedBySignal(s) {
		con.Detail("%s", died)
	}
	for _, why := range s.Reasons {
		con.Detail("because: %s", why)
	}
	for _, remedy := range remedies(s) {
		con.Detail("remedy: %s", remedy)
	}
	notes := notes(s)
	for _, note := range notes[:min(len(notes), maxNotes)] {
		con.Detail("note: %s", note)
	}
	if words := held(s.Last); words != "" {
		con.Detail("holds %s", words)
	}
	if words := failures(s); words != "" {
		con.Detail("failed: %s", words)
	}
	for _, hang := range s.Hangs[:min(len(s.Hangs), maxHangs)] {
		con.Detail("hang: %s", hang)
	}
	if words := unnamed(s); words != "" {
		con.Detail("kernel names: %s", words)
	}
	if words := tooLarge([]convert.Summary{s}, convert.Filter{}, files[len(files)-1].path); words != "" {
		con.Detail("size: %s", words)
	}
	peak := s.NoMemory
	if peak == "" && s.PeakDevice > 0 {
		peak = table.Words(s.PeakDevice, table.Bytes)
	}
	switch {
	case first.Busy != "" && s.NoMemory == "" && peak != "":
		con.Item("GPU busy", first.Busy+"; peak memory "+peak)
		peak = ""
	case first.Busy != "":
		con.Item("GPU busy", first.Busy)
	}
	if peak != "" {
		con.Item("peak memory", peak)
	}
	if first.Finding != "" {
		con.Item("look first", first.Finding)
		con.Item("try", first.Try)
	}
	tables, slices := "tables, and all findings", "every call and every kernel, in the browser"
	if s.Kernels+s.Copies+s.Memsets == 0 { // GPU work was not recorded
		tables, slices = "tables of calls", "every call, in the browser"
	}
	var rows, next [][]string
	for _, f := range files {
		size, command := fileSize(f.path), []string{figures.Shell("cudatrace", statsName, f.path), tables}
		if strings.HasSuffix(f.path, record.TraceSuffix) {
			size, command = traceSize(f.path, s.Slices), []string{figures.Shell("cudatrace", openName, f.path), slices}
		}
		if f.replaced {
			size += "; replaces the file that was there"
		}
		rows, next = append(rows, []string{f.path, size}), append(next, command)
	}
	con.Details(rows)
	con.Details(next)
}

// endWords says how a program ended, with a text behind it: "ended by SIGSEGV, core dumped", "exited with 3"; "" if all
// is well or nothing is known.
func endWords(ended, behind string) string {
	if code, ok := strings.CutPrefix(ended, "exit code "); ok && code != "0" {
		return "exited with " + code + behind
	}
	if signal, ok := strings.CutPrefix(ended, "signal "); ok {
		if number, name, named := strings.Cut(signal, " ("); named { // 11 (SIGSEGV), core dumped
			signal = strings.Replace(name, ")", "", 1)
		} else {
			signal = "signal " + number
		}
		return "ended by " + signal + behind
	}
	return ""
}

// maxDied is the number of processes of which the summary says that a signal ended them.
const maxDied = 5

// diedBySignal names the processes that a signal ended, but for the program, of which the headline says so.
func diedBySignal(s convert.Summary) (lines []string) {
	for _, p := range s.ProcessList {
		if strings.HasPrefix(p.Ended, "signal ") && !p.Main {
			lines = append(lines, fmt.Sprintf("process %d (%s) %s", p.PID, p.Name, endWords(p.Ended, "")))
		}
	}
	if more := len(lines) - maxDied; more > 0 {
		lines = append(lines[:maxDied], "a signal ended "+figures.Count(more, "more process", "more processes"))
	}
	return lines
}

// held says which part of a recording a log holds, and why it was written; "" of a log that is the whole.
func held(l *convert.Last) string {
	if l == nil {
		return ""
	}
	words := "the last " + figures.Duration(l.HeldNS)
	switch {
	case l.Short != "":
		words += fmt.Sprintf(", not %s: %s (--disk-limit)", figures.Duration(l.AskedNS), l.Short)
	case l.HeldNS < l.AskedNS:
		words += ", all that there is"
	}
	words += "; reason: " + l.Why
	if l.Earlier > 0 {
		words += fmt.Sprintf("; the calls of %s returned before that: no arrow leads to them",
			figures.Count(l.Earlier, "GPU record", "GPU records"))
	}
	return words
}

// maxNotes is the number of notes that the summary shows; info shows all.
const maxNotes = 5

// notes are those of a log's warnings that are not among the reasons why the log is not complete, each once.
func notes(s convert.Summary) (list []string) {
	for _, n := range s.Notes {
		if !slices.Contains(s.Reasons, n) && !slices.Contains(list, n) {
			list = append(list, n)
		}
	}
	return list
}

// maxHangs is the number of hanging calls that summary and info name.
const maxHangs = 5

// maxFailures is the number of kinds of failure that the summary names; info has all.
const maxFailures = 5

// failures names the calls that failed with their errors, the most frequent ones; "" without any.
func failures(s convert.Summary) string {
	var words []string
	names := convert.ByCount(s.Errors)
	for i, name := range names {
		if i == maxFailures {
			return strings.Join(words, ", ") + ", and " + figures.Count(len(names)-i, "other error", "other errors")
		}
		words = append(words, fmt.Sprintf("%s (%s)", name, figures.Count(s.Errors[name], "call", "calls")))
	}
	return strings.Join(words, ", ")
}

// uncertainBodies says how many of the GPU records without a call are in bodies of conditional graph nodes.
func uncertainBodies(s convert.Summary) string {
	if s.UnmatchedBodies == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s in conditional graph nodes: nothing tells which launch they belong to)",
		figures.Group(s.UnmatchedBodies))
}

// unnamed says how many launches have no kernel name, and why; "" if all have one.
func unnamed(s convert.Summary) string {
	if s.Unnamed == 0 {
		return ""
	}
	verb := "have"
	if s.Unnamed == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%s of %s %s no kernel name: the program looked the kernels up before recording began, or "+
		"unseen, and their callers don't name them",
		figures.Group(s.Unnamed), figures.Count(s.Launches, "launch", "launches"), verb)
}

// isPart reports whether a log lacks calls that were recorded: it was cut, or has the newest part of a recording.
func isPart(s convert.Summary) bool {
	return s.Last != nil || s.Damaged || s.Lost[tracelog.LostLogWrite] > 0 || s.Lost[tracelog.LostCallBuffer] > 0
}

// remedyOf names, by cause of loss, the option that avoids it. No option avoids the other
// causes.
var remedyOf = map[string]string{
	tracelog.LostCallBuffer: "calls came faster than the recorder took them: raise --call-buffer (256M), or record " +
		"fewer (--api minimal)",
	tracelog.LostThreadTable:  "the probes have no room for so many threads: use --calls cupti",
	tracelog.LostNesting:      "the probes have no room for calls nested so deeply: use --calls cupti",
	tracelog.LostCUPTIQueue:   "GPU records came faster than the recorder took them: raise --memory-limit (256M)",
	tracelog.LostCUPTIBuffer:  "CUPTI had no buffer left: raise --memory-limit (256M)",
	tracelog.LostCUPTIDropped: "CUPTI dropped records: raise --memory-limit (256M) or shorten --flush-interval (100ms)",
	tracelog.LostCUPTITime:    "CUPTI ran short of device buffers: shorten --flush-interval (100ms)",
	tracelog.LostCUPTIName:    "the library had no memory left for names: raise --memory-limit (256M)",
	tracelog.LostLogWrite: "the log could not be written: free space in its folder, choose another with -o, or " +
		"raise the limit of the size of files (ulimit -f unlimited)",
}

// remedies lists the remedies of the losses that there were.
func remedies(s convert.Summary) []string {
	var list []string
	for _, cause := range tracelog.LostCauses {
		if remedy := remedyOf[cause]; remedy != "" && s.Lost[cause] > 0 {
			list = append(list, withValues(remedy, s.Options))
		}
	}
	return list
}

// withValues names, in place of the value that is right for the default of an option, four times the one that the
// recording had.
func withValues(remedy, options string) string {
	given := strings.Fields(options)
	for option, most := range map[string]uint64{"memory-limit": 1 << 40, callBufferFlag: 1 << 30} {
		if i := slices.Index(given, "--"+option); i >= 0 && i+1 < len(given) {
			if n, err := parseSize(option, given[i+1], 1, most); err == nil {
				remedy = strings.ReplaceAll(remedy, "--"+option+" (256M)", "--"+option+" ("+sizeText(min(4*n, most))+")")
			}
		}
	}
	return remedy
}

// lostByCause lists the causes of loss that there were with their counts, largest first.
func lostByCause(lost map[string]uint64) string {
	var parts []string
	for _, cause := range convert.ByCount(lost) {
		if lost[cause] > 0 {
			parts = append(parts, figures.Group(lost[cause])+" "+cause)
		}
	}
	return strings.Join(parts, ", ")
}

// headline counts what was recorded: GPU work with its streams, calls with their threads.
func headline(s convert.Summary) string {
	parts := []string{figures.Count(s.Kernels, "kernel", "kernels")}
	if s.Kernels == 0 && s.Launches > 0 { // GPU work was not recorded
		parts[0] = figures.Count(s.Launches, "kernel launch", "kernel launches")
	}
	if s.Copies > 0 {
		parts = append(parts, figures.Count(s.Copies, "copy", "copies"))
	}
	if s.Memsets > 0 {
		parts = append(parts, figures.Count(s.Memsets, "memset", "memsets"))
	}
	line := strings.Join(parts, ", ")
	if s.StreamCount > 0 {
		line += " on " + figures.Count(s.StreamCount, "stream", "streams")
	}
	line += ", " + figures.Count(s.Calls, "call", "calls") + " on " + figures.Count(s.ThreadCount, "thread", "threads")
	if s.ProcessCount > 1 {
		line += " of " + figures.Count(s.ProcessCount, "process", "processes")
	}
	return line + " in " + figures.DurationBeside(s.CUDANS, s.DurationNS) + " of CUDA, " +
		figures.Duration(s.DurationNS) + " in all"
}

// outcome reports whether anything is missing.
func outcome(s convert.Summary) string {
	var parts []string
	if n := s.LostTotal(); n > 0 {
		parts = append(parts, figures.Group(n)+" lost ("+lostByCause(s.Lost)+")")
	} else if s.Complete {
		parts = append(parts, "nothing lost")
	} else {
		parts = append(parts, "not complete")
	}
	if s.Unmatched > 0 {
		parts = append(parts, figures.Count(s.Unmatched, "GPU record", "GPU records")+" without a call"+uncertainBodies(s))
	}
	if s.Failed > 0 {
		parts = append(parts, figures.Count(s.Failed, "call", "calls")+" failed")
	}
	if s.Unfinished > 0 {
		parts = append(parts, figures.Count(s.Unfinished, "call", "calls")+" unfinished")
	}
	return strings.Join(parts, ", ")
}

// traceSize is the size of a trace in bytes and in slices, by which the load of a viewer grows.
func traceSize(path string, slices uint64) string {
	return fileSize(path) + ", " + figures.Count(slices, "slice", "slices")
}

// tooLarge says what to do where Perfetto's UI does not load the trace of some logs; "" if it does.
func tooLarge(all []convert.Summary, f convert.Filter, logs ...string) string {
	slices, last := all[0].Slices, 0.01
	if slices <= convert.UISlices {
		return ""
	}
	text := fmt.Sprintf("%s slices are more than Perfetto's UI takes, about %s; ", figures.Group(slices),
		figures.Group(convert.UISlices))
	if !f.OnlyFrom() {
		return text + "choose a shorter time (--from, --to), or only what takes longer (--min-duration)"
	}
	for i := range all {
		kept := float64(all[i].CUDANS) * convert.UISlices / float64(slices)
		last = max(last, (float64(all[i].AfterNS)+kept)/1e9)
	}
	return text + fmt.Sprintf("to keep the newest: cudatrace convert %s --from 'last %gs'", figures.Shell(logs...),
		math.Floor(last*100)/100)
}

func fileSize(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "?"
	}
	return figures.Bytes(info.Size())
}

// callers gives the share of calls whose caller is known, "" if callers were not recorded.
func callers(s convert.Summary) string {
	if s.Callers == nil {
		return ""
	}
	words := percent(s.Callers.Share()) + " of calls"
	if n := s.Callers.Unknown; n > 0 {
		words += fmt.Sprintf(" (not of %s)", figures.Group(n))
	}
	return words
}

package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// printSummary is what a person sees when a recording ends.
func printSummary(w io.Writer, s convert.Summary, files []string) {
	fmt.Fprintf(w, "cudatrace: %s; %s\n", headline(s), outcome(s))
	for _, why := range s.Reasons {
		fmt.Fprintf(w, "  because: %s\n", printable(why))
	}
	for _, remedy := range remedies(s) {
		fmt.Fprintf(w, "  avoid it: %s\n", remedy)
	}
	if words := cost(s); words != "" {
		fmt.Fprintf(w, "  recording cost %s\n", words)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, f := range files {
		use := "the log: convert, compare, archive"
		if strings.HasSuffix(f, record.TraceSuffix) {
			use = "open it in https://ui.perfetto.dev"
		}
		fmt.Fprintf(tab, "  %s\t%s\t%s\n", f, fileSize(f), use)
	}
	tab.Flush()
}

// cost says what recording took from the program, as far as that is known.
func cost(s convert.Summary) string {
	var parts []string
	if s.ProbesNS > 0 {
		parts = append(parts, fmt.Sprintf("about %s for %s of %v", duration(s.ProbesNS), count(s.Pairs, "probed call", "probed calls"), time.Duration(s.CallCostNS)))
	}
	if s.OverheadNS > 0 {
		parts = append(parts, duration(s.OverheadNS)+" of CUPTI's own")
	}
	if s.RecorderNS > 0 {
		parts = append(parts, duration(s.RecorderNS)+" of processor time in the recorder")
	}
	return strings.Join(parts, ", ")
}

// avoidance names, by cause of loss, what avoids it. The other causes are nobody's to
// avoid.
var avoidance = map[string]string{
	tracelog.LostCallBuffer:   "calls came faster than they were taken: a larger --call-buffer (256M), or fewer functions with --api minimal",
	tracelog.LostThreadTable:  "too many threads for the probes: --calls cupti",
	tracelog.LostNesting:      "calls too deeply nested for the probes: --calls cupti",
	tracelog.LostCUPTIQueue:   "records came faster than they were taken: a larger --memory-limit (256M)",
	tracelog.LostCUPTIBuffer:  "CUPTI had no buffer left: a larger --memory-limit (256M)",
	tracelog.LostCUPTIDropped: "CUPTI dropped records: a larger --memory-limit (256M), a shorter --flush-interval (100ms)",
	tracelog.LostCUPTITime:    "CUPTI ran short of device buffers: a shorter --flush-interval (100ms), or --graphs whole for large graphs",
	tracelog.LostLogWrite:     "the log could not be written: free space there, or choose another place with -o",
}

// remedies says what avoids the losses that there were.
func remedies(s convert.Summary) []string {
	var list []string
	for _, cause := range tracelog.LostCauses {
		if words := avoidance[cause]; words != "" && s.Lost[cause] > 0 {
			list = append(list, words)
		}
	}
	return slices.Compact(list)
}

// printable is a text that comes from a log or a program, without the control
// characters that would move a terminal's cursor or worse.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// headline counts what was recorded.
func headline(s convert.Summary) string {
	parts := []string{count(s.Kernels, "kernel", "kernels")}
	if s.Kernels == 0 && s.Launches > 0 { // GPU work was not recorded
		parts[0] = count(s.Launches, "kernel launch", "kernel launches")
	}
	if s.Graphs > 0 {
		parts = append(parts, count(s.Graphs, "graph launch", "graph launches"))
	}
	if s.Copies > 0 {
		parts = append(parts, count(s.Copies, "copy", "copies"))
	}
	if s.Memsets > 0 {
		parts = append(parts, count(s.Memsets, "memset", "memsets"))
	}
	parts = append(parts, count(s.Calls, "call", "calls"))
	line := strings.Join(parts, ", ") + " on " + count(uint64(s.ThreadCount), "thread", "threads")
	if s.StreamCount > 0 {
		line += " and " + count(uint64(s.StreamCount), "stream", "streams")
	}
	if s.ProcessCount > 1 {
		line += " of " + count(uint64(s.ProcessCount), "process", "processes")
	}
	return line + " in " + duration(s.DurationNS)
}

// outcome says in words whether anything is missing.
func outcome(s convert.Summary) string {
	var parts []string
	if n := s.LostTotal(); n > 0 {
		parts = append(parts, group(n)+" lost ("+convert.LostWords(s.Lost)+")")
	} else if s.Complete {
		parts = append(parts, "nothing lost")
	} else {
		parts = append(parts, "not complete")
	}
	if s.Unmatched > 0 {
		parts = append(parts, group(s.Unmatched)+" without their call")
	}
	if s.Failed > 0 {
		parts = append(parts, count(s.Failed, "call", "calls")+" failed")
	}
	if s.Unfinished > 0 {
		parts = append(parts, count(s.Unfinished, "call", "calls")+" unfinished")
	}
	return strings.Join(parts, ", ")
}

func count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return group(n) + " " + many
}

// group writes a number with a comma every three digits.
func group(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func duration(ns uint64) string {
	d := time.Duration(ns)
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	default:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	}
}

func fileSize(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return "?"
	}
	n := float64(info.Size())
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", n/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", n/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", n/(1<<10))
	}
}

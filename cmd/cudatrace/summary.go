package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
)

// printSummary is what a person sees when a recording ends.
func printSummary(w io.Writer, s convert.Summary, files []string) {
	fmt.Fprintf(w, "cudatrace: %s; %s\n", headline(s), outcome(s))
	for _, why := range s.Reasons {
		fmt.Fprintf(w, "  because: %s\n", why)
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
	if s.Sets > 0 {
		parts = append(parts, count(s.Sets, "set", "sets"))
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
	if s.Open > 0 {
		parts = append(parts, count(s.Open, "call", "calls")+" unfinished")
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

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
)

func infoCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "info",
		Usage:     "say what is in a log",
		ArgsUsage: "LOG",
		UsageText: "cudatrace info LOG [--format text|json]\n\nExample: cudatrace info app.cudatrace --format json | jq .kernels",
		Description: "Program, host, GPUs, versions, duration, counts, and whether anything is missing.\n" +
			"docs/info.md documents the JSON.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: "`FORMAT` is text or json"},
		},
		Action: func(c *cli.Context) error {
			log, err := oneLog(c)
			if err != nil {
				return err
			}
			format := c.String("format")
			if format != "text" && format != "json" {
				return usagef("info", "info: format %q is neither text nor json", format)
			}
			sum, err := convert.SummarizeFile(log)
			if err != nil {
				return err
			}
			if format == "json" {
				e := json.NewEncoder(stdout)
				e.SetIndent("", "  ")
				err = e.Encode(sum)
			} else {
				err = infoText(stdout, sum)
			}
			if err != nil {
				return err
			}
			return verdict(stderr, log, sum)
		},
	}
}

func infoText(w io.Writer, s convert.Summary) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(tab, "%s\t%s\n", printable(name), printable(value))
		}
	}
	row("program", strings.Join(s.Args, " "))
	if s.ExitStatus >= 0 {
		row("exit status", fmt.Sprint(s.ExitStatus))
	}
	row("host", s.Host)
	row("kernel", s.Kernel)
	row("GPUs", strings.Join(s.GPUs, ", "))
	row("CUDA driver", s.Driver)
	row("CUPTI", s.CUPTI)
	row("recorded by", "cudatrace "+s.Recorder)
	row("start", s.Start)
	row("duration", duration(s.DurationNS))
	row("processes", group(uint64(s.ProcessCount)))
	row("threads", group(uint64(s.ThreadCount)))
	row("streams", group(uint64(s.StreamCount)))
	row("kernels", group(s.Kernels))
	row("copies", group(s.Copies))
	row("memsets", group(s.Memsets))
	row("calls", fmt.Sprintf("%s (%s failed, %s unfinished)", group(s.Calls), group(s.Failed), group(s.Unfinished)))
	row("waits", fmt.Sprintf("%s arrows from work to the call that waited for it", group(s.Waits)))
	row("matched", fmt.Sprintf("%s of %s GPU records have their call", group(s.Matched), group(s.Matched+s.Unmatched)))
	for _, name := range slices.Sorted(maps.Keys(s.Errors)) {
		row("error: "+name, group(s.Errors[name]))
	}
	if n := s.Ranges + s.RangeMarks; n > 0 {
		row("NVTX", fmt.Sprintf("%s ranges, %s marks", group(s.Ranges), group(s.RangeMarks)))
	}
	if s.OverheadNS > 0 {
		row("CUPTI's own time", duration(s.OverheadNS))
	}
	if s.ProbesNS > 0 {
		row("probes' time", fmt.Sprintf("about %s in the program: %s of %v, measured when recording began", duration(s.ProbesNS), count(s.Pairs, "call", "calls"), time.Duration(s.CallCostNS)))
	}
	if s.RecorderNS > 0 {
		row("recorder's time", duration(s.RecorderNS)+" of processor time")
	}
	if s.PeakDevice > 0 {
		row("peak memory", fmt.Sprintf("%.1f MiB on the device", float64(s.PeakDevice)/(1<<20)))
	}
	row("lost", lostRow(s))
	row("complete", yesNo(s.Complete))
	for _, why := range s.Reasons {
		row("  because", why)
	}
	for _, p := range s.ProcessList {
		row(fmt.Sprintf("process %d", p.PID), fmt.Sprintf("%s: %d threads, %d streams, CUPTI %s", p.Name, p.Threads, p.Streams, p.CUPTI))
	}
	return tab.Flush()
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// lostRow names only what was lost; the JSON has every cause.
func lostRow(s convert.Summary) string {
	if n := s.LostTotal(); n > 0 {
		return group(n) + " records: " + convert.LostWords(s.Lost)
	}
	return "nothing"
}

package main

import (
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/stats/findings"
)

const findingGroup = "What is worth a finding"

// findingFlags are the flags of the thresholds of findings.
func findingFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: findingGroup, Name: "min-cost", Value: "1%", Usage: "least cost, as a `SHARE` of the time of the process"},
		&cli.StringFlag{Category: findingGroup, Name: "min-gap", Value: "1ms", Usage: "a GPU that is idle for a shorter `TIME` is no gap"},
		&cli.StringFlag{Category: findingGroup, Name: "min-repeats", Value: "20", Usage: "least `NUMBER` of times for what a loop does"},
		&cli.StringFlag{Category: findingGroup, Name: "min-kernels", Value: "1000", Usage: "least `NUMBER` of kernels for a CUDA graph"},
		&cli.StringFlag{Category: findingGroup, Name: "small-copy", Value: "64K", Usage: "a copy of more `BYTES` is not small"},
	}
}

// findingOptions reads the thresholds of findings.
func findingOptions(c *cli.Context) (t findings.Thresholds, err error) {
	cost := strings.TrimSpace(c.String("min-cost"))
	percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(cost, "%")), 64)
	if err != nil || !strings.HasSuffix(cost, "%") || !(percent >= 0 && percent <= 100) {
		return t, usagef(statsName, "stats: --min-cost %q is not a share: write 1%% or 0.5%%", cost)
	}
	t.Cost = percent / 100
	gap, err := parseTime("min-gap", c.String("min-gap"), "1ms or 200us")
	if err != nil {
		return t, usagef(statsName, "stats: %v", err)
	}
	t.Gap = uint64(gap)
	if t.Repeats, err = atLeastOne(c, "min-repeats"); err != nil {
		return t, err
	}
	if t.Kernels, err = atLeastOne(c, "min-kernels"); err != nil {
		return t, err
	}
	if t.SmallCopy, err = parseSize("small-copy", c.String("small-copy"), 0, 1<<40); err != nil {
		return t, usagef(statsName, "stats: %v", err)
	}
	return t, nil
}

// atLeastOne reads the value of an option that is a number from 1 on.
func atLeastOne(c *cli.Context, option string) (uint64, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(c.String(option)), 10, 63)
	if err != nil || n == 0 {
		return 0, usagef(statsName, "stats: --%s %q is not a number from 1 on", option, c.String(option))
	}
	return n, nil
}

// gappy says whether a filter leaves out work between other work, or calls between other calls, so
// that gaps and repetitions are not those of the program.
func gappy(f *convert.Filter) bool {
	return len(f.TIDs)+len(f.Devices)+len(f.Streams) > 0 || f.Name != "" || f.Caller != "" || f.MinDuration > 0
}

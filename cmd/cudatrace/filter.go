package main

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
)

func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Usage: "only what ends after `TIME`: 1.5s into the recording, or 'last 5s'"},
		&cli.StringFlag{Name: "to", Usage: "only what begins before `TIME` into the recording"},
		&cli.StringFlag{Name: "process", Aliases: []string{"pid"}, Usage: "only these `PIDS`, separated by commas"},
		&cli.StringFlag{Name: "thread", Aliases: []string{"tid"}, Usage: "only calls of these threads (`TIDS`) and the work that they caused"},
		&cli.StringFlag{Name: "device", Usage: "only GPU work on these `DEVICES`, as the process numbers them"},
		&cli.StringFlag{Name: "stream", Usage: "only GPU work on these `STREAMS`"},
		&cli.StringFlag{Name: "name", Usage: "only calls, kernels and ranges with a name that matches `GLOB`: '*gemm*'"},
		&cli.DurationFlag{Name: "min-duration", Usage: "only what lasts at least `TIME`: 10us"},
		&cli.StringFlag{Name: "max-size", Usage: "a trace of at most so many `BYTES` (50M): the newest that fits, or what --keep says"},
		&cli.StringFlag{Name: "keep", Value: "newest", Usage: "`WHAT` --max-size keeps: newest or longest"},
	}
}

// filterOptions reads what is to be in the trace.
func filterOptions(c *cli.Context) (convert.Filter, error) {
	f := convert.Filter{Name: c.String("name"), MinDuration: c.Duration("min-duration")}
	if _, err := path.Match(f.Name, ""); err != nil {
		return f, usagef(convertName, "convert: --name %q is no pattern: a [ lacks its ]", f.Name)
	}
	if f.MinDuration < 0 {
		return f, usagef(convertName, "convert: --min-duration can't be negative")
	}
	for flag, list := range map[string]*[]uint32{"process": &f.PIDs, "thread": &f.TIDs, "device": &f.Devices, "stream": &f.Streams} {
		for _, word := range words(c.String(flag)) {
			n, err := strconv.ParseUint(word, 10, 32)
			if err != nil {
				return f, usagef(convertName, "convert: --%s %q is no number", flag, word)
			}
			*list = append(*list, uint32(n))
		}
	}
	if err := filterTimes(c, &f); err != nil {
		return f, err
	}
	return f, filterSize(c, &f)
}

func filterTimes(c *cli.Context, f *convert.Filter) error {
	from, last := strings.CutPrefix(c.String("from"), "last ")
	at, err := filterTime("from", from)
	if err != nil {
		return err
	}
	if last {
		f.Last = at
	} else {
		f.From = at
	}
	if f.To, err = filterTime("to", c.String("to")); err == nil && f.To > 0 && f.From > f.To {
		return usagef(convertName, "convert: --from %v lies behind --to %v", f.From, f.To)
	}
	return err
}

func filterTime(flag, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(value))
	if err != nil || d < 0 {
		return 0, usagef(convertName, "convert: --%s %q is no time: write 1.5s, 200ms or, with --from, 'last 5s'", flag, value)
	}
	return d, nil
}

func filterSize(c *cli.Context, f *convert.Filter) error {
	switch keep := c.String("keep"); keep {
	case "newest":
	case "longest":
		f.Longest = true
	default:
		return usagef(convertName, "convert: --keep %q is neither newest nor longest", keep)
	}
	if c.String("max-size") == "" {
		return nil
	}
	n, err := parseSize("max-size", c.String("max-size"), 64<<10, 1<<40)
	if err != nil {
		return usagef(convertName, "convert: %v", err)
	}
	f.MaxBytes = int64(n)
	return nil
}

// leftOut says what a filter kept out of a trace; "" without one.
func leftOut(l *convert.LeftOut) string {
	if l == nil {
		return ""
	}
	var parts []string
	if l.What != "" {
		parts = append(parts, l.What)
	}
	switch {
	case l.Records > 0:
		parts = append(parts, fmt.Sprintf("left out %s of %s records", group(l.Records), group(l.Of)))
	case l.Of == 0 && l.Unknown:
		parts = append(parts, "records outside the filter were left out; the log has no index that counts them")
	}
	if l.Slices > 0 {
		parts = append(parts, "left out "+count(l.Slices, "slice", "slices")+" by name, duration or thread")
	}
	if len(parts) == 0 {
		return "the filter left nothing out"
	}
	return strings.Join(parts, "; ")
}

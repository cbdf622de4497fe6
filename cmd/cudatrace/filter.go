package main

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ranks"
)

// partGroup is the group of the options of a filter in the help of commands.
const partGroup = "Which part to show"

// rangesHelp is how NVTX ranges are named, in the help of each option that takes RANGES.
const rangesHelp = "NAME or NAME@DOMAIN, globs both, without the number behind the name or with it"

// filterFlags are the flags that select a part of the logs.
func filterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Category: partGroup, Name: "from", Usage: "only events that end after `TIME`: 1.5s into the recording, or 'last 5s'",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "to", Usage: "only events that begin before `TIME`: 1.5s into the recording",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "process", Aliases: []string{"pid"}, Usage: "only processes with these `PIDS`",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "ranks", Usage: "only processes of a distributed program that have these `RANKS`: " +
				"0,8-15,last",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "thread", Aliases: []string{"tid"},
			Usage: "only calls of threads with these `TIDS`, and the GPU work that they caused",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "device", Usage: "only GPU work on these `DEVICES`, as the process numbers them, and " +
				"their metrics",
		},
		&cli.StringFlag{Category: partGroup, Name: "stream", Usage: "only GPU work on these `STREAMS`"},
		&cli.StringFlag{
			Category: partGroup, Name: "name", Usage: "only calls, kernels and ranges whose name matches `GLOB`: '*gemm*'",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "caller", Usage: "only calls made in a library or function that matches `GLOB`, " +
				"and the GPU work that they caused: 'libcublas*', 'at::native::*'",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "python", Usage: "only calls made below a Python frame whose file, function or line " +
				"matches `GLOB`, and the GPU work that they caused: 'train.py:40', '*.forward'",
		},
		&cli.StringFlag{
			Category: partGroup, Name: "nvtx", Usage: "only calls made in NVTX `RANGES`, the GPU work that they caused, and " +
				"these ranges: " + rangesHelp,
		},
		&cli.StringFlag{
			Category: partGroup, Name: "step", Usage: "NVTX `RANGES` that are the steps of --steps, of the report and table " +
				"steps, and ProfilerStep#N with --format chrome: " + rangesHelp,
		},
		&cli.StringFlag{
			Category: partGroup, Name: "steps",
			Usage: "with --step, only the time of the steps `FIRST-LAST`: from the beginning of the one to the end of the " +
				"other, by the number behind the name (step 7), or counted from 0",
		},
		&cli.StringFlag{Category: partGroup, Name: "min-duration", Usage: "only events that last at least `TIME`: 10us"},
	}
}

// filterOptions is the filter that the options ask for.
func filterOptions(c *cli.Context) (convert.Filter, error) {
	f := convert.Filter{Name: c.String("name"), Caller: c.String("caller"), Python: c.String("python")}
	for _, flag := range filterFlags() {
		if name := flag.Names()[0]; c.IsSet(name) && len(words(strings.TrimSpace(c.String(name)))) == 0 {
			return f, usagef(c.Command.Name, "%s: --%s needs a value", c.Command.Name, name)
		}
	}
	err := cmp.Or(checkGlob(c.Command.Name, "name", f.Name), checkGlob(c.Command.Name, "caller", f.Caller),
		checkGlob(c.Command.Name, "python", f.Python))
	if err != nil {
		return f, err
	}
	if f.NVTX, err = rangesOption(c, "nvtx"); err != nil {
		return f, usagef(c.Command.Name, "%s: %v", c.Command.Name, err)
	}
	if f.MinDuration, err = filterTime(c.Command.Name, "min-duration", "10us, 1.5ms or 2 (seconds)",
		c.String("min-duration")); err != nil {
		return f, err
	}
	for flag, list := range map[string]*[]uint32{"process": &f.PIDs, "thread": &f.TIDs, "device": &f.Devices,
		"stream": &f.Streams} {
		if *list, err = numbers(c.Command.Name, flag, c.String(flag)); err != nil {
			return f, err
		}
	}
	if c.IsSet("ranks") {
		if f.Ranks, err = ranks.ParseList(c.String("ranks")); err != nil {
			return f, usagef(c.Command.Name, "%s: --ranks %v", c.Command.Name, err)
		}
	}
	if f.Steps, err = chosenSteps(c); err != nil {
		return f, err
	}
	return f, filterTimes(c, &f)
}

// chosenSteps reads which ranges are steps, and which steps are shown.
func chosenSteps(c *cli.Context) (s convert.Steps, err error) {
	name := c.Command.Name
	switch {
	case c.IsSet("steps") && !c.IsSet("step"):
		return s, usagef(name, "%s: --steps needs --step RANGES, the NVTX ranges that are steps", name)
	case !c.IsSet("step"):
		return s, nil
	case !c.IsSet("steps") && (name == diffName || name == openName):
		return s, usagef(name, "%s: --step needs --steps FIRST-LAST", name)
	}
	if s.Ranges, err = rangesOption(c, "step"); err != nil {
		return s, usagef(name, "%s: %v", name, err)
	}
	if s.Chosen = c.IsSet("steps"); !s.Chosen {
		return s, nil
	}
	if s.First, s.Last, err = stepNumbers(c); err != nil {
		return s, usagef(name, "%s: %v", name, err)
	}
	return s, nil
}

// stepNumbers reads the steps of --steps.
func stepNumbers(c *cli.Context) (from, to int64, err error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(c.String("steps")), "-")
	if !isRange {
		last = first
	}
	var errs [2]error
	from, errs[0] = strconv.ParseInt(first, 10, 64)
	to, errs[1] = strconv.ParseInt(last, 10, 64)
	if cmp.Or(errs[:]...) != nil || from < 0 || to < from {
		return 0, 0, fmt.Errorf("--steps %q are no steps: write 100-110 or 100", c.String("steps"))
	}
	return from, to, nil
}

// checkGlob checks the value of a flag that takes a pattern.
func checkGlob(command, flag, glob string) error {
	if err := pattern.Check(glob); err != nil {
		return usagef(command, "%s: --%s %q is not a pattern: %v", command, flag, glob, err)
	}
	return nil
}

// numbers reads the value of a flag that takes a list of them.
func numbers(command, flag, list string) (all []uint32, err error) {
	for _, word := range words(list) {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 32)
		if err != nil {
			return nil, usagef(command, "%s: --%s %q is not a number: write 7 or 7,8", command, flag, word)
		}
		all = append(all, uint32(n))
	}
	return all, nil
}

func filterTimes(c *cli.Context, f *convert.Filter) error {
	from, last := strings.CutPrefix(strings.TrimSpace(c.String("from")), "last ")
	at, err := filterTime(c.Command.Name, "from", "1.5 (seconds), 200ms or 'last 5s'", from)
	if err != nil {
		return err
	}
	if f.To, err = filterTime(c.Command.Name, "to", "1.5 (seconds) or 200ms", c.String("to")); err != nil {
		return err
	}
	switch {
	case last && at == 0:
		return usagef(c.Command.Name, "%s: --from 'last %s' leaves nothing", c.Command.Name, strings.TrimSpace(from))
	case c.IsSet("to") && f.To == 0:
		return usagef(c.Command.Name, "%s: --to %s leaves nothing", c.Command.Name, c.String("to"))
	case last:
		f.Last = at
	case f.To > 0 && at > f.To:
		return usagef(c.Command.Name, "%s: --from %v is later than --to %v", c.Command.Name, at, f.To)
	default:
		f.From = at
	}
	return nil
}

// filterTime reads the value of an option that takes a time, 0 without one; examples are for the
// error.
func filterTime(command, option, examples, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	d, err := parseTime(option, value, examples)
	if err != nil {
		return 0, usagef(command, "%s: %v", command, err)
	}
	return d, nil
}

// leftOut says what a filter kept out of a trace, or of tables; "" without one.
func leftOut(l *convert.LeftOut, f *convert.Format) string {
	if l == nil {
		return ""
	}
	var parts []string
	if l.NVTX != "" {
		parts = append(parts, "kept what is in "+l.NVTX)
	}
	switch {
	case l.Records > 0:
		parts = append(parts, fmt.Sprintf("left out %s of %s records", figures.Group(l.Records), figures.Group(l.Of)))
	case l.Of == 0 && l.Unknown:
		parts = append(parts, "left out the records that the filter rules out; the log has no index that counts them")
	}
	if l.Slices > 0 {
		parts = append(parts, "left out "+figures.Count(l.Slices, f.Unit, f.Units)+
			" by name, duration, thread, caller, Python frame or NVTX range")
	}
	if len(parts) == 0 {
		return "the filter left nothing out"
	}
	return strings.Join(parts, "; ")
}

// unmatched words the error of logs that have no NVTX range or no step of a filter; nil is any other error.
func unmatched(logs []string, err error) error {
	var ranges *convert.NoRangeError
	var steps *convert.NoStepError
	switch {
	case errors.As(err, &ranges):
		return unlike(logs, "nvtx", ranges.Pattern, ranges.Names)
	case errors.As(err, &steps):
		return noStep(logs, steps)
	}
	return nil
}

// noStep says that logs have none of the chosen steps, and which there are.
func noStep(logs []string, e *convert.NoStepError) error {
	if e.Found == 0 {
		return unlike(logs, "step", e.Ranges, e.Names)
	}
	return fmt.Errorf("--steps %d-%d: the steps of %s are %d to %d", e.First, e.Last, strings.Join(logs, ", "), e.Low,
		e.High)
}

// unlike says that no NVTX range of logs matches the pattern of an option, and which ranges there are.
func unlike(logs []string, option string, p pattern.Ranges, names []string) error {
	where := strings.Join(logs, ", ")
	if len(names) == 0 {
		return fmt.Errorf("--%s %s: %s has no NVTX ranges", option, p, where)
	}
	if near := pattern.Nearest(strings.Trim(p.Name, "*"), names); near != "" {
		return fmt.Errorf("no NVTX range of %s matches --%s %s; did you mean %q?", where, option, p, near)
	}
	var there []string
	for _, name := range names[:min(5, len(names))] {
		there = append(there, strconv.Quote(name))
	}
	if more := len(names) - len(there); more > 0 {
		there = append(there, figures.Count(more, "other", "others"))
	}
	return fmt.Errorf("no NVTX range of %s matches --%s %s; there are %s", where, option, p, strings.Join(there, ", "))
}

// chosen lists the options among some that a person gave, with their values.
func chosen(c *cli.Context, flags []cli.Flag) string {
	var words []string
	for _, f := range flags {
		if name := f.Names()[0]; c.IsSet(name) {
			words = append(words, fmt.Sprintf("--%s %s", name, c.String(name)))
		}
	}
	return strings.Join(words, " ")
}

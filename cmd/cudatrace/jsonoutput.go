package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
)

// formatJSON is the value of --format for one JSON object. docs/json.md has the members of each command's object.
const formatJSON = "json"

// jsonVersion is the version of the objects of this package. It grows when a member changes its meaning or disappears.
const jsonVersion = 1

// formatFlag is the option of a command that prints text or a JSON object; group is its place in the help.
func formatFlag(group string) *cli.StringFlag {
	return &cli.StringFlag{Category: group, Name: "format", Value: "text",
		Usage: "`text|json`: docs/json.md has the members of the JSON"}
}

// wantsObject reads the value of formatFlag.
func wantsObject(c *cli.Context, command string) (bool, error) {
	switch format := c.String("format"); format {
	case "text", formatJSON:
		return format == formatJSON, nil
	default:
		return false, usagef(command, "%s: --format must be text or json, not %q", command, format)
	}
}

// printJSON prints a result.
func printJSON(con *console.Console, result any) error {
	e := json.NewEncoder(con.Text())
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// A failedJSON is what a command with --format json says of its failure, in a line on standard error.
type failedJSON struct {
	Version  int    `json:"version"`
	Error    string `json:"error"`
	Write    string `json:"write"` // the command line to use instead; empty where none is known
	ExitCode int    `json:"exit_code"`
}

// fail says what failed, and returns the exit code.
func fail(con *console.Console, err error, asJSON bool) int {
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	f := failedJSON{Version: jsonVersion, Error: err.Error(), ExitCode: exitFailure}
	var usage usageError
	if errors.As(err, &usage) {
		f.Write, f.ExitCode = usage.write, exitUsage
	}
	var start notStarted
	if errors.As(err, &start) {
		f.ExitCode = start.Code
	}
	if !asJSON || con.SayJSON(f) != nil {
		con.Error(err)
	}
	return f.ExitCode
}

// A notStarted is the failure of a command that ends as the program does which it could not start.
type notStarted struct{ *record.StartError }

// asProgram returns the error of a recording, whose exit code is that of the program.
func asProgram(err error) error {
	var start *record.StartError
	if errors.As(err, &start) {
		return notStarted{start}
	}
	return err
}

// wantsJSON reports whether a command line asks for JSON, also if it is wrong otherwise.
func wantsJSON(app *cli.App, args []string) bool {
	if len(args) < 3 || app.Command(args[1]) == nil {
		return false
	}
	l := commandLine{cmd: app.Command(args[1])}
	f := l.flag("format")
	if f == nil || !slices.Contains(strings.Split(optionOf(f).Value, "|"), formatJSON) {
		return false
	}
	l.read(args[2:])
	return slices.Contains(l.options, "--format="+formatJSON)
}

// A recordedJSON is the summary of a recording, in a line on standard error: standard output is the program's.
type recordedJSON struct {
	Version  int    `json:"version"`
	Nothing  string `json:"nothing"`   // why nothing was recorded, empty if something was
	ExitCode *int   `json:"exit_code"` // of the program; null while it runs on, and with `-p`
	Log      string `json:"log"`       // path; empty if nothing was recorded
	Trace    string `json:"trace"`     // path; empty without one
	// share of the time from the first to the last GPU work in which a GPU was busy; null if it is not known
	GPUBusy  *float64         `json:"gpu_busy"`
	Finding  string           `json:"finding"`  // what to look at first, empty without a finding
	Try      string           `json:"try"`      // what to try about it
	Remedies []string         `json:"remedies"` // options that avoid the losses that there were
	Info     *convert.Summary `json:"info"`     // what `info` prints of the log; null if nothing was recorded
}

// recordedObject is the summary of a log that was made.
func recordedObject(made conversionResult, log, trace string) recordedJSON {
	return recordedJSON{
		Log: log, Trace: trace, GPUBusy: made.First.Share, Finding: made.First.Finding, Try: made.First.Try,
		Remedies: remedies(made.Summary), Info: &made.Summary,
	}
}

// sayRecorded says the summary of a recording.
func sayRecorded(con *console.Console, o record.Options, res record.Result, r recordedJSON) {
	if r.Version = jsonVersion; len(o.PIDs) == 0 && res.Ended != "" {
		r.ExitCode = &res.ExitCode
	}
	if r.Remedies == nil {
		r.Remedies = []string{}
	}
	if err := con.SayJSON(r); err != nil {
		con.Error(err)
	}
}

// A repairedJSON says what repair kept of a log.
type repairedJSON struct {
	Version int      `json:"version"`
	Log     string   `json:"log"`     // the damaged log
	Output  string   `json:"output"`  // the repaired log; empty if nothing was damaged
	Faults  int      `json:"faults"`  // places of damage, 0 for an intact log
	Damage  []string `json:"damage"`  // the first of them in words
	Records uint64   `json:"records"` // kept
	Blocks  int      `json:"blocks"`  // kept
	Dropped int64    `json:"dropped_bytes"`
	Missing uint64   `json:"missing_records"` // that the log counts and that were not kept
}

// A probesJSON lists the functions that can be recorded, or the metrics that can be sampled.
type probesJSON struct {
	Version   int            `json:"version"`
	Functions []functionJSON `json:"functions"` // empty with `--gpu-metrics`
	GPUs      []gpuJSON      `json:"gpus"`      // empty without `--gpu-metrics`
}

type functionJSON struct {
	Name      string `json:"name"`
	Library   string `json:"library"`  // `driver` or `runtime`
	Fallback  bool   `json:"fallback"` // recorded only where the program has no runtime
	Category  string `json:"category"`
	Arguments string `json:"arguments"` // names and types, as [the log](../record/tracelog/FORMAT.md) has them
	Recorded  bool   `json:"recorded"`  // with these options
}

type gpuJSON struct {
	UUID    string       `json:"uuid"`
	Metrics []metricJSON `json:"metrics"`
}

type metricJSON struct {
	Name    string `json:"name"`
	Passes  int    `json:"passes"`  // that it needs alone; 1 can be sampled, 0 is not available
	Default bool   `json:"default"` // in the set of `record --gpu-metrics`
}

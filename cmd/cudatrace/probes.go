package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/gpumetrics"
	"github.com/cudatrace/cudatrace/record/pattern"
)

func probesCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:  "probes",
		Usage: "list the functions that can be recorded and mark those that would be",
		UsageText: "cudatrace probes [--api minimal|default|all] [--probe GLOB] [--no-probe GLOB]\n" +
			"cudatrace probes --gpu-metrics\n\n" +
			"Example: cudatrace probes --api minimal --probe 'cudaMalloc*'",
		Description: "A + marks the functions that 'record' with the same options would record. Functions that " +
			"create GPU work are probed in the driver; all others in the runtime, and those marked " +
			"(no runtime) in the driver of a program that has no runtime.\n" +
			"With --gpu-metrics it lists the metrics that PM sampling finds on this machine's GPUs, and how many passes each " +
			"needs alone. Metrics that need one pass can be sampled; a + marks the default set of 'record --gpu-metrics'.",
		Flags: append([]cli.Flag{
			apiFlag(""), &cli.BoolFlag{Name: gpuMetricsFlag, Usage: "list metrics of GPUs instead"}, formatFlag(""),
		}, globFlags("")...),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("probes", "probes takes no arguments")
			}
			if c.Bool(gpuMetricsFlag) && isSet(c, "api", "probe", "no-probe") {
				return usagef("probes", "probes: --gpu-metrics lists no functions: --api, --probe and --no-probe do not apply")
			}
			asJSON, err := wantsObject(c, "probes")
			if err != nil {
				return err
			}
			if c.Bool(gpuMetricsFlag) {
				return listGPUMetrics(con, asJSON)
			}
			if text := slices.Concat(c.StringSlice("probe"), c.StringSlice("no-probe")); slices.ContainsFunc(text,
				pattern.IsFunctions) {
				return usagef("probes", "probes: it lists functions of CUDA: FILE:GLOB is for 'cudatrace record', which looks at "+
					"the files that the program loads")
			}
			chosen, err := chosenFunctions(c)
			if err != nil {
				return usagef("probes", "probes: %v", err)
			}
			if asJSON {
				return printJSON(con, probesJSON{jsonVersion, functionObjects(chosen), []gpuJSON{}})
			}
			printProbes(con, chosen)
			return nil
		},
	}
}

// apiFlag is the option that chooses a set of functions; group is its place in the help.
func apiFlag(group string) cli.Flag {
	return &cli.StringFlag{
		Category: group, Name: "api", Value: "default",
		Usage: "`minimal|default|all`: functions to record; minimal: launches; default: also copies, memory and waits; " +
			"all: every function",
	}
}

// globFlags are the options that add functions to a set, and remove them.
func globFlags(group string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Category: group, Name: "probe", Usage: "also record the functions that match `GLOB`; those of any library or " +
				"program: FILE:GLOB, with /N for N arguments, /entry for entries alone (repeatable)",
		},
		&cli.StringSliceFlag{
			Category: group, Name: "no-probe", Usage: "leave out the functions that match `GLOB` (repeatable)",
		},
	}
}

// fileFunctions reads the functions of any library that an option names.
func fileFunctions(c *cli.Context, option string) (list []pattern.Functions, err error) {
	for _, text := range c.StringSlice(option) {
		if !pattern.IsFunctions(text) {
			continue
		}
		of, err := pattern.ParseFunctions(text)
		if err != nil {
			return nil, fmt.Errorf("--%s %s: %w", option, text, err)
		}
		list = append(list, of)
	}
	return list, nil
}

// globsOf are the globs of an option that name functions of CUDA.
func globsOf(c *cli.Context, option string) []string {
	return slices.DeleteFunc(slices.Clone(c.StringSlice(option)), pattern.IsFunctions)
}

func chosenFunctions(c *cli.Context) ([]*cudaapi.Function, error) {
	if _, err := cudaapi.Select(c.String("api"), nil, nil); err != nil {
		return nil, fmt.Errorf("--api %w", err)
	}
	for _, option := range []string{"probe", "no-probe"} {
		for _, glob := range globsOf(c, option) {
			if err := cudaapi.CheckGlob(glob); err != nil {
				return nil, fmt.Errorf("--%s: %w", option, err)
			}
		}
	}
	chosen, err := cudaapi.Select(c.String("api"), globsOf(c, "probe"), globsOf(c, "no-probe"))
	if errors.Is(err, cudaapi.ErrNoFunction) {
		err = fmt.Errorf("--no-probe: %w", err)
	}
	return chosen, err
}

// functionObjects are the functions that can be recorded.
func functionObjects(chosen []*cudaapi.Function) (list []functionJSON) {
	for _, f := range cudaapi.Functions(cudaapi.All) {
		is := slices.ContainsFunc(chosen, func(c *cudaapi.Function) bool { return c.ID == f.ID })
		list = append(list, functionJSON{f.Name, f.Library.String(), f.Fallback, string(f.Category), cudaapi.ArgSpec(f), is})
	}
	return list
}

func printProbes(con *console.Console, chosen []*cudaapi.Function) {
	is := make(map[cudaapi.ID]bool, len(chosen))
	for _, f := range chosen {
		is[f.ID] = true
	}
	var rows [][]string
	for _, f := range cudaapi.Functions(cudaapi.All) {
		mark, where := " ", f.Library.String()
		if is[f.ID] {
			mark = "+"
		}
		if f.Fallback {
			where += " (no runtime)"
		}
		rows = append(rows, []string{mark + " " + f.Name, where, string(f.Category), cudaapi.ArgSpec(f)})
	}
	con.Table(rows)
}

// listGPUMetrics prints the metrics that GPUs have.
func listGPUMetrics(con *console.Console, asJSON bool) error {
	lists, err := record.ListGPUMetrics()
	if err != nil {
		return fmt.Errorf("metrics cannot be listed: %w", err)
	}
	if asJSON {
		return printJSON(con, probesJSON{jsonVersion, []functionJSON{}, gpuObjects(lists)})
	}
	for i, list := range lists {
		if i > 0 {
			con.Print("")
		}
		con.Print("%s, and others of its type:", figures.UUID(list.UUID))
		con.Table(metricRows(list.Metrics))
	}
	return nil
}

// gpuObjects are the metrics that GPUs have.
func gpuObjects(lists []gpumetrics.GPUList) (list []gpuJSON) {
	for _, of := range lists {
		g := gpuJSON{figures.UUID(of.UUID), []metricJSON{}}
		for _, m := range of.Metrics {
			name, isDefault := gpumetrics.Default(m.Name)
			g.Metrics = append(g.Metrics, metricJSON{name, m.Passes, isDefault})
		}
		list = append(list, g)
	}
	return list
}

// metricRows are the lines of metrics: those of the default set first, then those that can be sampled.
func metricRows(metrics []gpumetrics.ListedMetric) (rows [][]string) {
	var others, cannot [][]string
	for _, m := range metrics {
		name, isDefault := gpumetrics.Default(m.Name)
		row := []string{"  " + name, figures.Count(m.Passes, "pass", "passes")}
		switch {
		case m.Passes == 0:
			row[1] = "not available"
			cannot = append(cannot, row)
		case m.Passes > 1:
			cannot = append(cannot, row)
		case isDefault:
			rows = append(rows, []string{"+ " + name, row[1]})
		default:
			others = append(others, row)
		}
	}
	return slices.Concat(rows, others, cannot)
}

package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

func probesCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      "probes",
		Usage:     "list the functions that can be recorded and mark those that would be",
		UsageText: "cudatrace probes [--api minimal|default|all] [--probe GLOB] [--no-probe GLOB]\n\nExample: cudatrace probes --api minimal --probe 'cudaMalloc*'",
		Description: "A + marks the functions that 'record' with the same options would record. Functions that " +
			"create GPU work are probed in the driver; all others in the runtime, and those marked " +
			"(no runtime) in the driver of a program that has no runtime.",
		Flags: append([]cli.Flag{apiFlag("")}, globFlags("")...),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("probes", "probes takes no arguments")
			}
			chosen, err := chosenFunctions(c)
			if err != nil {
				return usagef("probes", "probes: %v", err)
			}
			printProbes(con, chosen)
			return nil
		},
	}
}

// apiFlag is the option that chooses a set of functions; group is its place in the help.
func apiFlag(group string) cli.Flag {
	return &cli.StringFlag{Category: group, Name: "api", Value: "default", Usage: "`minimal|default|all`: functions to record; minimal: launches; default: also copies, memory and waits; all: every function"}
}

// globFlags are the options that add functions to a set, and remove them.
func globFlags(group string) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Category: group, Name: "probe", Usage: "also record the functions that match `GLOB` (repeatable)"},
		&cli.StringSliceFlag{Category: group, Name: "no-probe", Usage: "leave out the functions that match `GLOB` (repeatable)"},
	}
}

func chosenFunctions(c *cli.Context) ([]*cudaapi.Function, error) {
	if _, err := cudaapi.Select(c.String("api"), nil, nil); err != nil {
		return nil, fmt.Errorf("--api %w", err)
	}
	for _, option := range []string{"probe", "no-probe"} {
		for _, glob := range c.StringSlice(option) {
			if err := cudaapi.CheckGlob(glob); err != nil {
				return nil, fmt.Errorf("--%s: %w", option, err)
			}
		}
	}
	chosen, err := cudaapi.Select(c.String("api"), c.StringSlice("probe"), c.StringSlice("no-probe"))
	if errors.Is(err, cudaapi.ErrNoFunction) {
		err = fmt.Errorf("--no-probe: %w", err)
	}
	return chosen, err
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

package main

import (
	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
)

const armedName = "run"

func armedCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      armedName,
		Usage:     "run a program so that 'cudatrace record -p' can record its GPU work later",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace run --armed [--] PROGRAM [ARG...]\n\n" +
			"Example: cudatrace run --armed python3 serve.py\n" +
			"Example: cudatrace record -p $(pidof -s python3) -d 10s",
		Description: "Starts PROGRAM in place of cudatrace, with the same PID. PROGRAM and what it starts run as fast as " +
			"without, and load no CUPTI, until 'cudatrace record -p PID' records one of these processes: that gets GPU work, " +
			"too, as often as you like. " +
			"Needs no rights. docs/on-demand.md says what is different from a recording from the start.",
		Flags: []cli.Flag{
			&cli.BoolFlag{
				Name: "armed", Usage: "have PROGRAM wait for a recorder; without it there is nothing to run a program for",
			},
		},
		Action: func(c *cli.Context) error { return runArmed(c, con) },
	}
}

func runArmed(c *cli.Context, con *console.Console) error {
	switch {
	case !c.Args().Present():
		return usagef(armedName, "run: no program given")
	case !c.Bool("armed"):
		return writef(append([]string{recordName}, c.Args().Slice()...),
			"run: --armed is missing, which has the program wait for 'cudatrace record -p'; to record it from its start")
	}
	return asProgram(record.RunArmed(c.Args().First(), c.Args().Tail(), con.Say))
}

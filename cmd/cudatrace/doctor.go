package main

import (
	"errors"
	"os"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/doctor"
)

// exitPart is the exit code of doctor where a recording gets less than everything.
const exitPart = 3

func doctorCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "say what a recording gets here, and what to do about what it lacks",
		ArgsUsage: "[PROGRAM]",
		UsageText: "cudatrace doctor [--format text|json] [PROGRAM | -p PID]\n\nExample: cudatrace doctor ./app",
		Description: "Looks at the kernel, this user's rights, the driver, the GPUs, the libraries that PROGRAM would load, " +
			"and the folders that a recording needs. It does not start PROGRAM. The first line is the result; " +
			"each further line is one thing that was looked at, what a recording lacks first. Exit code: 0 if a recording " +
			"gets everything, 3 if it gets part, 1 if it gets nothing, 2 for a wrong command line.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "look at the running process `PID`"},
			formatFlag(""),
		},
		Action: func(c *cli.Context) error {
			asJSON, err := wantsObject(c, "doctor")
			if err != nil {
				return err
			}
			o, err := doctorOptions(c)
			if err != nil {
				return usagef("doctor", "doctor: %v", err)
			}
			report, err := doctor.Examine(o)
			if err != nil {
				return err
			}
			return printReport(con, report, asJSON)
		},
	}
}

func doctorOptions(c *cli.Context) (doctor.Options, error) {
	o := doctor.Options{Program: c.Args().First(), Env: os.Environ(), Folder: "."}
	list, err := pids(c)
	switch {
	case err != nil:
		return o, err
	case len(list) > 1:
		return o, errors.New("--pid names one process")
	case len(list) > 0 && c.Args().Present():
		return o, errors.New("a program and --pid exclude each other")
	case len(list) > 0:
		o.PID = list[0]
	}
	return o, nil
}

// printReport prints a report and returns its exit code.
func printReport(con *console.Console, r *doctor.Report, asJSON bool) error {
	if asJSON {
		if err := printJSON(con, r); err != nil {
			return err
		}
	} else {
		con.Headline(r.Text, map[bool]console.Style{true: console.Good, false: console.Bad}[r.Outcome == doctor.Everything])
		con.Rows(reportRows(r))
	}
	switch r.Outcome {
	case doctor.Part:
		return exitCode(exitPart)
	case doctor.None:
		return exitCode(exitFailure)
	}
	return nil
}

// statusStyles are the looks of what was found.
var statusStyles = map[doctor.Status]console.Style{
	doctor.OK: console.Good, doctor.Note: console.Bold, doctor.Less: console.Bad, doctor.Nothing: console.Bad,
}

// reportRows has a row for each check, and one more for a remedy. What the recording lacks comes first.
func reportRows(r *doctor.Report) []console.Row {
	order := []doctor.Status{doctor.Nothing, doctor.Less, doctor.Note, doctor.OK}
	checks := slices.SortedStableFunc(slices.Values(r.Checks), func(a, b doctor.Check) int {
		return slices.Index(order, a.Status) - slices.Index(order, b.Status)
	})
	var rows []console.Row
	for _, c := range checks {
		rows = append(rows, console.Row{
			Cells: []string{"  " + string(c.Status), c.Name, c.Found}, First: statusStyles[c.Status],
		})
		if c.Remedy != "" {
			rows = append(rows, console.Row{Cells: []string{"", "", "→ " + c.Remedy}, Last: console.Bold})
		}
	}
	return rows
}

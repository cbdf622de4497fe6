// Package armedrun is the command run. Input: its arguments. Output: the program, in place of cudatrace.
package armedrun

import (
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record"
)

// Name is the name of the command.
const Name = "run"

// A Host is what the command takes from the commands beside it.
type Host struct {
	Usage func(format string, args ...any) error // a wrong command line
	Exit  func(code int) error                   // an exit code with nothing more to say
}

// Command is the command.
func Command(con *console.Console, h Host) *cli.Command {
	return &cli.Command{
		Name:      Name,
		Usage:     "run a program so that 'cudatrace record -p' can record its GPU work later",
		ArgsUsage: "PROGRAM [ARG...]",
		UsageText: "cudatrace run --armed [--] PROGRAM [ARG...]\n\n" +
			"Example: cudatrace run --armed python3 serve.py\n" +
			"Example: cudatrace record -p $(pidof -s python3) -d 10s",
		Description: "Starts PROGRAM in place of cudatrace, with the same PID. PROGRAM and what it starts run as fast as " +
			"without, and load no CUPTI, until 'cudatrace record -p PID' records one of these processes: that once gets GPU work, too. " +
			"Needs no rights. docs/on-demand.md says what is different from a recording from the start.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "armed", Usage: "have PROGRAM wait for a recorder; without it there is nothing to run a program for"},
		},
		Action: func(c *cli.Context) error { return h.run(c, con) },
	}
}

func (h *Host) run(c *cli.Context, con *console.Console) error {
	switch {
	case !c.Bool("armed"):
		return h.Usage("run: give --armed, which has PROGRAM wait for 'cudatrace record -p'; 'cudatrace record PROGRAM' records it from its start")
	case !c.Args().Present():
		return h.Usage("run: no program given")
	}
	err := record.RunArmed(c.Args().First(), c.Args().Tail(), con.Say)
	var start *record.StartError
	if errors.As(err, &start) {
		con.Say(start.Error())
		return h.Exit(start.Code)
	}
	return err
}

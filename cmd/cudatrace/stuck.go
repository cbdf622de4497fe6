package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/stuck"
)

const stuckName = "stuck"

// exitStuck is the exit code of stuck where a process is.
const exitStuck = 3

func stuckCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      stuckName,
		Usage:     "say what a process that does not go on waits for",
		ArgsUsage: "-p PID...",
		UsageText: "cudatrace stuck [--format text|json] -p PID...\n\nExample: cudatrace stuck -p $(pgrep -f train.py)",
		Description: "Looks at the threads of processes from outside, twice, a second apart. It writes nothing into them and stops " +
			"nobody. The first line of each process is the verdict: who waits for what, down to a cause. Exit code: 0 if none is stuck, " +
			"3 if one is, 1 if one cannot be looked at, 2 for a wrong command line. docs/stuck.md explains the verdicts.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "pid", Aliases: []string{"p"}, Usage: "look at the running process `PID`; further ones may follow"},
			&cli.StringFlag{Name: "format", Value: "text", Usage: "`text|json`"},
		},
		Action: func(c *cli.Context) error { return lookForStuck(c, con) },
	}
}

func lookForStuck(c *cli.Context, con *console.Console) error {
	list, err := stuckPIDs(c)
	if err != nil {
		return usagef(stuckName, "stuck: %v", err)
	}
	report, err := stuck.Look(list)
	if err != nil {
		return err
	}
	if c.String("format") == "json" {
		enc := json.NewEncoder(con.Text())
		enc.SetIndent("", "  ")
		if err := enc.Encode(report); err != nil {
			return err
		}
	} else {
		printStuck(con, report)
	}
	for i := range report.Processes {
		if report.Processes[i].Verdict.Outcome == stuck.Stuck {
			return exitCode(exitStuck)
		}
	}
	return nil
}

// stuckPIDs reads the processes to look at: those of --pid, and the numbers behind it, as pgrep prints them.
func stuckPIDs(c *cli.Context) ([]int, error) {
	list, err := pids(c)
	switch format := c.String("format"); {
	case err != nil:
		return nil, err
	case len(list) == 0:
		return nil, errors.New("no process given: -p PID")
	case format != "text" && format != "json":
		return nil, errors.New("--format must be text or json")
	}
	for _, word := range c.Args().Slice() {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("%q is not the number of a process", word)
		}
		list = append(list, int(n))
	}
	return list, nil
}

// printStuck prints the verdicts, and then what the threads of each process do.
func printStuck(con *console.Console, r *stuck.Report) {
	for i := range r.Processes {
		p := &r.Processes[i]
		con.Print("%s: process %d (%s): %s", outcomeText(p.Verdict.Outcome), p.PID, figures.Cut(p.Program, 60), p.Verdict.Text)
	}
	for i := range r.Processes {
		p := &r.Processes[i]
		con.Print("")
		con.Print("process %d (%s), %s:", p.PID, figures.Cut(p.Program, 60), figures.Count(len(p.Threads)+p.LeftOut, "thread", "threads"))
		con.Table(threadRows(p.Threads))
		for _, g := range p.Gone {
			con.Print("  process %d (%s), which it started, has ended and was not waited for: %s", g.PID, g.Name, g.How)
		}
		for _, note := range p.Notes {
			con.Print("  %s", note)
		}
		if p.LeftOut > 0 {
			con.Print("  %s not looked at", figures.Count(p.LeftOut, "thread was", "threads were"))
		}
	}
}

func outcomeText(o stuck.Outcome) string {
	switch o {
	case stuck.Moving, stuck.Waiting:
		return "healthy (" + string(o) + ")"
	}
	return string(o)
}

// threadRows has a row for each kind of thread that do the same.
func threadRows(threads []stuck.Thread) [][]string {
	type row struct {
		cells []string
		more  int
	}
	var rows []*row
	byCells := map[string]*row{}
	for i := range threads {
		t := &threads[i]
		cells := []string{t.Name, t.State, waitsText(t), placeText(t), movedText(t)}
		key := strings.Join(cells, "\x00")
		if known := byCells[key]; known != nil {
			known.more++
			continue
		}
		r := &row{cells: append([]string{"  " + fmt.Sprint(t.TID)}, cells...)}
		byCells[key] = r
		rows = append(rows, r)
	}
	table := [][]string{{"  thread", "name", "state", "waits", "where", "moved"}}
	for _, r := range rows {
		if r.more > 0 {
			r.cells[0] += fmt.Sprintf(" and %s more", figures.Group(r.more))
		}
		table = append(table, r.cells)
	}
	return table
}

func waitsText(t *stuck.Thread) string {
	text := t.Call
	if t.On != "" {
		text += ", " + t.On
	}
	if t.Holder != 0 {
		text += fmt.Sprintf(" of thread %d", t.Holder)
	}
	return text
}

// framesShown is the most Python frames of a thread that a line has.
const framesShown = 3

func placeText(t *stuck.Thread) string {
	var words []string
	for _, f := range t.Python[:min(len(t.Python), framesShown)] {
		words = append(words, fmt.Sprintf("%s:%d (%s)", filepath.Base(f.File), f.Line, f.Function))
	}
	if len(words) == 0 {
		return t.Library
	}
	return strings.Join(words, " < ")
}

func movedText(t *stuck.Thread) string {
	switch {
	case t.Moved == "ran":
		return fmt.Sprintf("ran %.0f %%", t.Ran*100)
	case t.Moved != "":
		return t.Moved
	case t.Woken > 0:
		return fmt.Sprintf("no, woke up %s", figures.Count(t.Woken, "time", "times"))
	}
	return "no"
}

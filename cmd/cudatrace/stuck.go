package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/stuck"
)

const stuckName = "stuck"

// exitStuck is the exit code of stuck where a process is.
const exitStuck = 3

func stuckCommand(con *console.Console) *cli.Command {
	return &cli.Command{
		Name:      stuckName,
		Usage:     "say what a process that does not go on waits for",
		ArgsUsage: "[-p PID...] | FILE...",
		UsageText: "cudatrace stuck [--format text|json] [-p PID...]\ncudatrace stuck [--format text|json] FILE...\n\n" +
			"Example: cudatrace stuck\n" +
			"Example: cudatrace stuck -p $(pgrep -f train.py)\n" +
			"Example: cudatrace stuck --format json -p PID >rank3.json\n" +
			"Example: cudatrace stuck rank*.json",
		Description: "Looks at the threads of processes from outside, twice, a second apart. It writes nothing into " +
			"them and stops " +
			"nobody. The first line of each process is the verdict: who waits for what, down to a cause. Without -p it looks " +
			"at the processes that recordings record. FILE is what --format json " +
			"printed: files of all ranks of a program tell which rank the others wait for. Exit code: 0 if none is stuck, " +
			"3 if one is, 1 if one cannot be looked at, 2 for a wrong command line. docs/stuck.md explains the verdicts.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{
				Name: "pid", Aliases: []string{"p"}, Usage: "look at the running process `PID`; further ones may follow",
			},
			formatFlag(""),
		},
		Action: func(c *cli.Context) error { return lookForStuck(c, con) },
	}
}

func lookForStuck(c *cli.Context, con *console.Console) error {
	asJSON, err := wantsObject(c, stuckName)
	if err != nil {
		return err
	}
	if len(c.StringSlice("pid")) == 0 && c.Args().Present() {
		return joinStuck(con, c.Args().Slice(), asJSON)
	}
	list, err := stuckPIDs(c)
	if err != nil {
		return usagef(stuckName, "stuck: %v", err)
	}
	report, err := lookAt(list)
	if err != nil {
		return err
	}
	if asJSON {
		if err := printJSON(con, report); err != nil {
			return err
		}
	} else {
		printStuck(con, report)
	}
	for _, note := range report.Notes {
		con.Say(note)
	}
	for i := range report.Processes {
		if report.Processes[i].Verdict.Outcome == stuck.Stuck {
			return exitCode(exitStuck)
		}
	}
	return nil
}

// lookTries is how often recorded processes are looked for, of which one has ended when it is looked at.
const lookTries = 3

// lookAt looks at processes, without any at those that are recorded.
func lookAt(list []int) (report *stuck.Report, err error) {
	if len(list) > 0 {
		return stuck.Look(list, readRecorded)
	}
	for range lookTries {
		found, notes := recordedPIDs()
		if len(found) == 0 {
			return nil, errors.New(strings.Join(append(notes, "no process is being recorded that has called CUDA: give -p PID"),
				"; "))
		}
		if report, err = stuck.Look(found, readRecorded); err == nil {
			report.Notes = append(notes, report.Notes...)
			return report, nil
		}
	}
	return nil, err
}

// joinStuck joins reports of ranks.
func joinStuck(con *console.Console, files []string, asJSON bool) error {
	var reports []*stuck.Report
	for _, path := range files {
		r, err := stuck.ReadFile(path)
		if err != nil {
			return err
		}
		reports = append(reports, r)
	}
	p, err := stuck.Join(reports)
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(con, p)
	} else {
		printProgram(con, p)
	}
	if err == nil && p.Verdict.Outcome == stuck.Stuck {
		err = exitCode(exitStuck)
	}
	return err
}

// printProgram prints what the ranks of a program wait for.
func printProgram(con *console.Console, p *stuck.Program) {
	con.Print("%s: %s", outcomeText(p.Verdict.Outcome), p.Verdict.Text)
	con.Print("")
	rows := [][]string{{"  rank", "host", "process", "outcome", "main thread", "where", "collective"}}
	for _, m := range p.Members {
		row := []string{
			fmt.Sprintf("  %d", m.Rank), m.Host, fmt.Sprint(m.PID), string(m.Verdict.Outcome), "", "",
			collectiveText(m.Recorded),
		}
		if len(m.Threads) > 0 {
			row[4], row[5] = waitsText(&m.Threads[0]), placeText(&m.Threads[0])
		}
		rows = append(rows, row)
	}
	con.Table(rows)
	if len(p.Missing) > 0 {
		con.Print("  no report of %s of %d", ranks.Named(p.Missing), p.Of)
	}
	for _, note := range p.Notes {
		con.Print("  %s", note)
	}
}

// collectiveText is the collective that a process entered last.
func collectiveText(r *stuck.Recorded) string {
	if r == nil {
		return "not recorded"
	}
	var last *stuck.Collective
	for i := range r.Collectives {
		if c := &r.Collectives[i]; last == nil || c.Since < last.Since {
			last = c
		}
	}
	if last == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s of %s, %.1f s ago", last.Name, figures.Group(last.Count), last.Communicator, last.Since)
}

// stuckPIDs reads the processes to look at: those of --pid, and the numbers behind it, as pgrep prints them.
func stuckPIDs(c *cli.Context) ([]int, error) {
	list, err := pids(c)
	if err != nil {
		return nil, err
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
		con.Print("%s: process %d (%s): %s", outcomeText(p.Verdict.Outcome), p.PID, figures.Cut(p.Program, 60),
			p.Verdict.Text)
	}
	for i := range r.Processes {
		p := &r.Processes[i]
		con.Print("")
		con.Print("process %d (%s), %s:", p.PID, figures.Cut(p.Program, 60),
			figures.Count(len(p.Threads)+p.LeftOut, "thread", "threads"))
		con.Table(threadRows(p.Threads))
		printRecorded(con, p.Recorded)
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

// workWidth is the most characters of a kernel's name: those of C++ templates have thousands. JSON has all.
const workWidth = 100

// printRecorded prints what a recording knows of a process.
func printRecorded(con *console.Console, r *stuck.Recorded) {
	if r == nil || !r.GPU {
		con.Print("  GPU work: not recorded")
	}
	if r == nil {
		return
	}
	for _, s := range r.Streams {
		s.Work = figures.Cut(s.Work, workWidth)
		if s.Ended {
			con.Print("  %s: %s ended %.1f s ago", s.Name, s.Work, s.Since)
		} else {
			con.Print("  %s: %s was launched %.1f s ago and has not ended; %s behind it", s.Name, s.Work, s.Since,
				figures.Count(s.Queued, "launch", "launches"))
		}
	}
	for _, c := range r.Collectives {
		con.Print("  communicator %s: entered %s %s %.1f s ago, on thread %d", c.Communicator, c.Name,
			figures.Group(c.Count), c.Since, c.TID)
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
	if t.CUDA != nil {
		text = fmt.Sprintf("%s since %.0f s", t.CUDA.Name, t.CUDA.Since)
		if t.Call != "" {
			text += ": " + t.Call
		}
	}
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
	case t.State == "running":
		return fmt.Sprintf("no, ran %.0f %%", t.Ran*100)
	case t.Woken > 0:
		return fmt.Sprintf("no, woke up %s", figures.Count(t.Woken, "time", "times"))
	}
	return "no"
}

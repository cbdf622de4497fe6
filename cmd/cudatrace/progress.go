package main

import (
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
)

// A progress is a line on a terminal that shows how far a conversion has come. It appears after
// a second, and never where there is no terminal.
type progress struct {
	con   *console.Console
	start time.Time
	last  time.Time
}

func newProgress(con *console.Console) *progress {
	return &progress{con: con, start: time.Now()}
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

func (p *progress) show(share float64, slices uint64) {
	now := time.Now()
	taken := now.Sub(p.start)
	if taken < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	p.con.Status("cudatrace: " + progressLine(share, slices, taken))
}

// progressLine has the share done, the rate, and the time left at that rate.
func progressLine(share float64, slices uint64, taken time.Duration) string {
	line := fmt.Sprintf("%.0f %%", 100*share)
	if slices > 0 {
		line += fmt.Sprintf(", %.1f M slices/s", float64(slices)/1e6/taken.Seconds())
	}
	if share > 0.01 {
		left := time.Duration(float64(taken) * (1 - share) / share)
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line
}

// done clears the line.
func (p *progress) done() { p.con.ClearStatus() }

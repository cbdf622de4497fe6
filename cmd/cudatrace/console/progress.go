package console

import (
	"fmt"
	"time"
)

// A Progress is a line on a terminal that shows how far a conversion has come. It appears after
// a second, and never where there is no terminal.
type Progress struct {
	con   *Console
	start time.Time
	last  time.Time
}

// Progress returns a line that is not shown yet.
func (c *Console) Progress() *Progress {
	return &Progress{con: c, start: time.Now()}
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// Show says how far it is, at most five times a second.
func (p *Progress) Show(share float64, slices uint64) {
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
		line += fmt.Sprintf(", %.1f M events/s", float64(slices)/1e6/taken.Seconds())
	}
	if share > 0.01 {
		left := time.Duration(float64(taken) * (1 - share) / share)
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line
}

// Done clears the line.
func (p *Progress) Done() { p.con.ClearStatus() }

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A progress is a line on a terminal that shows how far a conversion has come. It appears after
// a second, and never where there is no terminal.
type progress struct {
	w     io.Writer // nil without a terminal
	start time.Time
	last  time.Time
	shown bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{start: time.Now()}
	if isTerminal(w) {
		p.w = w
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

func (p *progress) show(share float64, slices uint64) {
	now := time.Now()
	taken := now.Sub(p.start)
	if p.w == nil || taken < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last, p.shown = now, true
	fmt.Fprintf(p.w, "\r\x1b[Kcudatrace: %s", progressLine(share, slices, taken))
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
func (p *progress) done() {
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

package watch

import "github.com/cudatrace/cudatrace/record"

// A counter follows the steps of a process: how long they take outside of windows, and what a window took from them.
//
// All times are those of beginnings of steps, so that no part of a step is counted. A window costs the time from the
// last step before it to the first one behind it, less the time that so many steps take outside. So the start and the
// stop of the recording count, too.
type counter struct {
	last    record.Steps // 0 before any
	outside []span       // between two looks of which none was in a window
	inside  float64      // ns a step in the latest window, 0 when not known
	before  record.Steps // at the beginning of the window whose cost is not known yet; 0 without one
	until   uint64       // its end, 0 while it goes on
	seen    uint64       // beginning of the latest step, also of one in or behind a window whose cost is not known yet
}

// A span is the time that some steps took.
type span struct{ took, steps float64 } // took: ns

// fewSteps is the number of steps between two looks up to which single ones show in their mean.
const fewSteps = 8

// usual is the time of a step outside of windows, in ns. The median leaves a checkpoint out. Where there are few steps
// between looks, it is no mean: that of steps of random length is a third below.
func (c *counter) usual() float64 {
	var all span
	means, steps := make([]float64, len(c.outside)), make([]float64, len(c.outside))
	for i, s := range c.outside {
		means[i], steps[i] = s.took/s.steps, s.steps
		all.took, all.steps = all.took+s.took, all.steps+s.steps
	}
	if median(steps) <= fewSteps {
		return all.took / all.steps
	}
	return median(means)
}

// keptLooks is the number of times between looks whose median is the time of a step.
const keptLooks = 16

// look takes the steps of the process at a time between windows.
func (c *counter) look(s record.Steps) (lost float64, known bool) {
	if s.Count < c.last.Count || s.Last < c.last.Last { // another program
		*c = counter{}
	}
	c.seen = s.Last
	if c.until != 0 && s.Last > c.until {
		lost, known = c.cost(s)
		c.before, c.until, c.last = record.Steps{}, 0, s
		return lost, known
	}
	if steps := s.Count - c.last.Count; steps > 0 && c.before.Count == 0 {
		if c.last.Count > 0 {
			c.outside = append(c.outside, span{float64(s.Last - c.last.Last), float64(steps)})
			c.outside = c.outside[max(len(c.outside)-keptLooks, 0):]
		}
		c.last = s
	}
	return 0, false
}

// begin takes the steps when a window begins.
func (c *counter) begin(s record.Steps) {
	c.look(s)
	c.before, c.until = s, 0
}

// end takes the time at which it has ended.
func (c *counter) end(at uint64) {
	if c.before.Count > 0 {
		c.until = at
	}
}

// fails forgets a window of which there is nothing: what it has cost says nothing of others.
func (c *counter) fails() { *c = counter{outside: c.outside, inside: c.inside, seen: c.seen} }

// cost is the time that a window has taken from the process, in s, given the steps behind it.
func (c *counter) cost(s record.Steps) (lost float64, known bool) {
	steps, took := float64(s.Count-c.before.Count), float64(s.Last-c.before.Last)
	if len(c.outside) == 0 || steps == 0 {
		return 0, false
	}
	c.inside = took / steps
	return (took - steps*c.usual()) / 1e9, true
}

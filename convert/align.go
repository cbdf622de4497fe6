package convert

import (
	"fmt"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// An Alignment says how the clock of a log became that of a timeline of several logs.
type Alignment struct {
	To      string `json:"to"`       // the log whose clock the timeline has
	By      string `json:"by"`       // one of the constants below
	ShiftNS int64  `json:"shift_ns"` // added to the times of the log
	Known   bool   `json:"error_known"`
	ErrorNS uint64 `json:"error_ns"` // most that the times may be wrong; 0 when it is not known

	Drift       float64 `json:"drift_ppm"`   // millionths by which the timeline's clock is faster, by collectives
	Collectives int     `json:"collectives"` // from which the clock is known
	AmongNS     uint64  `json:"among_ns"`    // like error_ns, from the first of them to the last
}

// How clocks are aligned.
const (
	BySameClock   = "same clock"  // the logs are of one boot of one host
	ByWallClocks  = "wall clocks" // CLOCK_REALTIME of both hosts
	ByCollectives = "collectives" // of ranks on both hosts
	ByNothing     = "nothing"     // a log has no reading of the clocks
)

// align aligns the clocks of the logs and returns the timeline's clock. Logs of one host have
// one clock. Logs of several hosts are aligned by collectives or by their wall clocks, whichever tells more; the
// host that started first gives the timeline its clock.
func (c *conversion) align() (*timeline.Recording, error) {
	hosts := hostsOf(c.logs)
	reference := firstStarted(hosts)
	fits, err := c.byCollectives(hosts, slices.Index(hosts, reference))
	if err != nil {
		return nil, err
	}
	for i, h := range hosts {
		h.alignTo(reference, fits[i])
	}
	first := &reference.logs[0].catalog.Clocks.First
	r := &timeline.Recording{Monotonic: first.Monotonic, Realtime: first.Realtime, Boottime: first.Boottime,
		Start: timeline.Never, Processes: c.processes()}
	for _, l := range c.logs {
		start := l.clock.At(l.catalog.First())
		r.Start = min(r.Start, start)
		if len(hosts) == 1 {
			r.LastStart = max(r.LastStart, start)
		}
	}
	return r, nil
}

// alignTo sets the clocks of the logs of a host. f is what collectives tell of it, nil for nothing.
func (h *host) alignTo(r *host, f *collective.ClockFit) {
	first := r.logs[0]
	a := Alignment{To: first.Name, By: BySameClock, Known: true}
	text, clock := fmt.Sprintf("same host as %s: the clock is the same", first.Name), new(timeline.Clock)
	switch {
	case h == r:
	case !h.clocks.Known || !r.clocks.Known:
		a.By, a.Known = ByNothing, false
		text = "it has no reading of the clocks: its times are shown as they are"
	default:
		a, text = h.byWallClocks(r)
		clock = timeline.Shifted(uint64(a.ShiftNS))
	}
	var fitted bool
	if a, text, fitted = h.byFit(f, a, text); fitted {
		clock = f.Clock
	} else if a.Known {
		clock.Bound(timeline.ClockBound{Error: a.ErrorNS})
	}
	for _, l := range h.logs {
		l.clock, l.alignment, l.aligned = clock, &a, text
	}
	if h == r {
		first.aligned = ""
	}
}

// byWallClocks aligns a host by its wall clock and that of another one.
func (h *host) byWallClocks(r *host) (a Alignment, text string) {
	a = Alignment{To: r.logs[0].Name, By: ByWallClocks, ShiftNS: h.clocks.Ahead - r.clocks.Ahead}
	own, known := h.clocks.Error()
	other, both := r.clocks.Error()
	text = fmt.Sprintf("moved by %s against %s through the wall clocks of %s and %s", time.Duration(a.ShiftNS), a.To,
		h.name, r.name)
	if a.Known = known && both; a.Known {
		a.ErrorNS = own + other
		return a, text + ", right to " + figures.Duration(a.ErrorNS) + " as the kernels of both say"
	}
	return a, text + fmt.Sprintf(": right to what these differ by (about a millisecond with NTP%s), and they moved by "+
		"up to %s while recording",
		unsynchronized(h, known, r, both), duration(h.clocks.Moved()+r.clocks.Moved()))
}

// unsynchronized names the hosts whose clock was not synchronized, of those whose log tells.
func unsynchronized(h *host, known bool, r *host, both bool) string {
	switch {
	case !known && h.boot != "" && !both && r.boot != "":
		return "; neither was synchronized"
	case !known && h.boot != "":
		return "; that of " + h.name + " was not synchronized"
	case !both && r.boot != "":
		return "; that of " + r.name + " was not synchronized"
	}
	return ""
}

// duration converts ns to a time.Duration, which has no room for the largest numbers.
func duration(ns uint64) time.Duration { return time.Duration(min(ns, 1<<62)) }

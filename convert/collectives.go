package convert

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A communication is the communicators of NCCL whose ranks are in logs.
type communication struct {
	found []*collective.Communicator
	logs  []communicating // that take part
}

// A communicating log has members of communicators.
type communicating struct {
	log       *log
	source    *join.CollectiveSource
	sequences []*collective.Sequence // those of its members
}

// communicate finds the communicators of NCCL whose ranks are in the logs of hosts, of one host or of several.
func communicate(hosts []*host, logs int) (*communication, error) {
	c := new(communication)
	var sequences []*collective.Sequence
	for i, h := range hosts {
		for _, l := range h.logs {
			if !l.hasCollectives(len(hosts) == 1) {
				continue
			}
			// a filter may have left the calls out of the catalog
			source := &join.CollectiveSource{Open: l.Open, Host: i, Of: logs, Midway: tracelog.BeginsMidway(l.catalog.Meta),
				NamesCommunicators: (l.filter != nil || l.catalog.Totals[tracelog.KindNCCLCall] > 0) &&
					l.catalog.Outcome.ClockError() == 0}
			list, err := join.ReadCollectives(source)
			if err != nil {
				return nil, err
			}
			l.collectives = source.Beyond
			sequences = append(sequences, list...)
			c.logs = append(c.logs, communicating{l, source, list})
		}
	}
	c.found = collective.Match(sequences)
	members := make(map[*collective.Sequence]bool)
	for _, x := range c.found {
		for _, m := range x.Members {
			members[m] = true
		}
	}
	for i := range c.logs {
		l := &c.logs[i]
		l.sequences = slices.DeleteFunc(l.sequences, func(s *collective.Sequence) bool { return !members[s] })
	}
	c.logs = slices.DeleteFunc(c.logs, func(l communicating) bool { return len(l.sequences) == 0 })
	return c, nil
}

// meeting returns a sink before the next one that tells it which kernels are parts of one collective; the next one
// itself where the logs have one process, or nothing wants collectives. Ranks that a filter leaves out count: others
// may have waited for them.
func (c *conversion) meeting(next timeline.Sink) (timeline.Sink, error) {
	if !c.draws && !c.Collectives || !slices.ContainsFunc(c.logs, func(l *log) bool { return l.catalog.NCCL }) {
		return next, nil
	}
	processes := 0
	for _, l := range c.logs {
		all, err := l.everybody()
		if err != nil {
			return nil, err
		}
		processes += all.Count()
	}
	if processes < 2 {
		return next, nil
	}
	if c.communication == nil {
		var err error
		if c.communication, err = communicate(hostsOf(c.logs), len(c.logs)); err != nil {
			return nil, err
		}
	}
	var err error
	if c.meetings, err = c.communication.table(); err != nil {
		return nil, err
	}
	c.communication = nil // its memory is for the timeline
	return c.meetings.Sink(next), nil
}

// table reads when each rank entered each collective.
func (c *communication) table() (*collective.Arrivals, error) {
	members := make(map[*collective.Sequence]*collective.Member)
	for i := range c.logs {
		l := &c.logs[i]
		for _, s := range l.sequences {
			m, err := l.member(s)
			if err != nil {
				return nil, err
			}
			members[s] = m
		}
	}
	var communicators [][]*collective.Member
	for _, x := range c.found {
		var list []*collective.Member
		for _, s := range x.Members {
			list = append(list, members[s])
		}
		communicators = append(communicators, list)
	}
	t := collective.NewArrivals(communicators)
	for i := range c.logs {
		l := &c.logs[i]
		err := join.CollectiveParts(l.source, l.sequences, func(s *collective.Sequence, number uint64, p collective.Part) {
			if number < s.Skip() {
				return
			}
			t.AddPart(members[s], number-s.Skip(), l.log.clock.At(p.Start), p.Waits)
		})
		if err != nil {
			return nil, err
		}
	}
	t.Settle()
	return t, nil
}

// member is a sequence as the member of a communicator, in the timeline.
func (l *communicating) member(s *collective.Sequence) (*collective.Member, error) {
	all, err := l.log.everybody()
	if err != nil {
		return nil, err
	}
	pid := s.PID + l.log.offset
	key := s.Key
	key.PID = pid
	m := &collective.Member{Key: key, Name: fmt.Sprintf("process %d", pid),
		Clock: l.log.clock, Count: s.Count() - s.Skip(), Aside: l.log.catalog.Processes.Get(s.PID) == nil}
	if all.Get(s.PID) == nil {
		return m, nil // no record tells of the process
	}
	if r := all.Place(s.PID); r.Known {
		m.Name = fmt.Sprintf("rank %d", r.Number)
	}
	return m, nil
}

// hasCollectives reports whether the order of a log's collectives says which of different ranks belong together: it has
// them without gaps, and from the first one on. Where all logs are of one host, times tell how many of the first ones
// it lacks.
func (l *log) hasCollectives(oneHost bool) bool {
	meta := l.catalog.Meta
	return (!tracelog.BeginsMidway(meta) || oneHost && !tracelog.CapturesRanges(meta)) &&
		l.damage.Count == 0 && !l.catalog.Outcome.LacksWork()
}

// byCollectives fits the clocks of the hosts to that of one of them. A fit is nil where no collectives tell.
func (c *conversion) byCollectives(hosts []*host, reference int) ([]*collective.ClockFit, error) {
	if len(hosts) < 2 {
		return make([]*collective.ClockFit, len(hosts)), nil
	}
	var err error
	if c.communication, err = communicate(hosts, len(c.logs)); err != nil {
		return nil, err
	}
	var list []collective.HostParts
	for _, c := range c.communication.found {
		c.Each(func(members []*collective.Sequence, parts []collective.Part) {
			if x := onHosts(members, parts); len(x) > 1 {
				list = append(list, x)
			}
		})
	}
	spans := make([]timeline.Extent, len(hosts))
	for i, h := range hosts {
		spans[i] = h.span()
	}
	return collective.AlignClocks(spans, reference, list), nil
}

// onHosts is a collective by host: a host enters it with its last rank, and leaves it with its first one.
func onHosts(members []*collective.Sequence, parts []collective.Part) (c collective.HostParts) {
	for i, m := range members {
		p := &parts[i]
		at := slices.IndexFunc(c, func(x collective.HostPart) bool { return x.Host == m.Host })
		if at < 0 {
			c = append(c, collective.HostPart{Host: m.Host, Entered: p.Start, Left: p.End})
			continue
		}
		x := &c[at]
		x.Entered, x.Left = max(x.Entered, p.Start), min(x.Left, p.End)
	}
	return c
}

// span is the time of the host's logs.
func (h *host) span() timeline.Extent {
	e := timeline.Extent{Start: math.MaxUint64}
	for _, l := range h.logs {
		e.Start, e.End = min(e.Start, l.catalog.First()), max(e.End, l.catalog.Last())
	}
	return e
}

// byFit is how a host is aligned by its collectives, if these tell more than the wall clocks.
func (h *host) byFit(f *collective.ClockFit, wall Alignment, words string) (a Alignment, text string, ok bool) {
	if f == nil || wall.By == ByWallClocks && wall.Known && wall.ErrorNS <= f.Among {
		return wall, words, false
	}
	if apart := magnitude(f.Shift - wall.ShiftNS); wall.Known && apart > wall.ErrorNS+f.Error {
		return wall, words + fmt.Sprintf("; the collectives contradict that by %s, and were not used: is one of the wall "+
			"clocks wrong?", figures.Duration(apart)), false
	}
	a = Alignment{
		To: wall.To, By: ByCollectives, ShiftNS: f.Shift, Known: true, ErrorNS: f.Error, Drift: f.Drift,
		Collectives: f.Collectives, AmongNS: f.Among,
	}
	text = fmt.Sprintf("moved by %s and %+.3f ppm against %s through %s: right to %s", time.Duration(f.Shift), f.Drift,
		a.To,
		figures.Count(f.Collectives, "collective", "collectives"), figures.Duration(f.Among))
	if f.Error > f.Among {
		text += fmt.Sprintf(" among these, to %s in the whole log", figures.Duration(f.Error))
	}
	if f.Lines > 1 {
		text += fmt.Sprintf(", with %d changes of the drift", f.Lines-1)
	}
	if wall.Known {
		text += "; the wall clocks are right to " + figures.Duration(wall.ErrorNS)
	}
	return a, text, true
}

// magnitude is a number without its sign.
func magnitude(n int64) uint64 {
	if n < 0 {
		return uint64(-n)
	}
	return uint64(n)
}

package live

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// What a thread did while a GPU was idle is not added up gap by gap, which would cost much where a gap follows each of
// 200,000 kernels a second. It is looked up at instants, one in each grain of time. In a second there are 953.

// grain is the binary logarithm of the ns in a grain.
const grain = 20

// instants is the number of the latest instants of which it is kept what was going on: 8.6 s.
const instants = 1 << 13

// offsets are the places of instants in their grains. They differ, so that what a program does every millisecond is
// seen with its share. The numbers are always the same.
var offsets = func() (list [1 << 10]uint64) {
	x := uint64(1)
	for i := range list {
		x = x*6364136223846793005 + 1442695040888963407
		list[i] = x >> (64 - grain)
	}
	return list
}()

// instant is the time of an instant.
func instant(number uint64) uint64 { return number<<grain + offsets[number%uint64(len(offsets))] }

// noInstant reports whether a time is short and has no instant, as nearly all times of calls and work.
func noInstant(from, to uint64) bool {
	number := from >> grain
	at := instant(number)
	return to>>grain == number && (at < from || at >= to)
}

// eachInstant calls f with the instants of a time. Of a long time it leaves out the beginning.
func eachInstant(from, to uint64, f func(number uint64)) {
	if from >= to {
		return
	}
	first, last := from>>grain, (to-1)>>grain
	if last-first >= instants {
		first = last - instants + 1
	}
	for n := first; n <= last; n++ {
		if at := instant(n); from <= at && at < to {
			f(n)
		}
	}
}

// A moment is what is known of a thread at an instant.
type moment struct {
	number uint64
	call   *function       // the outermost call
	state  *activity.Owner // nil if unknown, and of a thread that ran
	ran    *activity.Owner // what samples show of a thread that ran
	runs   bool
}

// A doing is what a thread did at the latest instants.
type doing struct {
	moments [instants]moment
	until   uint64 // end of the latest call
	sampled uint64 // time of the latest sample
	used    uint64 // the latest instant of which something is known
}

// at returns a moment, nil for one that is forgotten.
func (d *doing) at(number uint64) *moment {
	m := &d.moments[number%instants]
	switch {
	case m.number > number:
		return nil
	case m.number < number:
		*m = moment{number: number}
		d.used = max(d.used, number)
	}
	return m
}

// set notes something of the instants of a time.
func (d *doing) set(from, to uint64, note func(m *moment)) {
	eachInstant(from, to, func(number uint64) {
		if m := d.at(number); m != nil {
			note(m)
		}
	})
}

// what names what the thread did at an instant, in the words of idle times.
func (d *doing) what(number uint64) string {
	m := &d.moments[number%instants]
	known := m.number == number
	switch {
	case known && m.call != nil:
		return m.call.row.name
	case known && m.state != nil:
		return m.state.Text
	case known && m.runs && m.ran != nil:
		return m.ran.Text
	case known && m.runs:
		return activity.NotSampled
	case instant(number) < d.until:
		return activity.OutsideCalls
	}
	return activity.NotKnown
}

// mostDoings bounds the threads of which it is kept what they did.
const mostDoings = 64

// doing returns what a thread did, which is kept from now on. It takes the place of that of the thread that has done
// nothing for the longest time.
func (s *Sink) doing(t *timeline.Thread) *doing {
	d := s.doings[t]
	if d != nil {
		return d
	}
	if len(s.doings) >= mostDoings {
		var idlest *timeline.Thread
		for t, d := range s.doings {
			if idlest == nil || d.used < s.doings[idlest].used {
				idlest = t
			}
		}
		delete(s.doings, idlest)
	}
	d = &doing{}
	s.doings[t] = d
	return d
}

// watched returns what a thread does that has states or samples, nil for one that is no main thread and has made no
// call: it launches nothing.
func (s *Sink) watched(t *timeline.Thread) *doing {
	if t.Main {
		return s.doing(t)
	}
	return s.doings[t]
}

// states takes states of a thread.
func (s *Sink) states(e *timeline.States) {
	d := s.watched(e.Thread)
	if d == nil {
		return
	}
	for i := range e.List {
		state := &e.List[i]
		owner := s.owners.OfState(state)
		d.set(state.Start, state.End, func(m *moment) { m.state, m.runs = owner, owner == nil })
	}
}

// samplePeriod is the time that a sample stands for where the log does not say it.
const samplePeriod = 10e6

// ran takes samples of a thread. One stands for the time since the one before, and until the next.
func (s *Sink) ran(e *timeline.StackSamples) {
	d := s.watched(e.Thread)
	if d == nil {
		return
	}
	period := cmp.Or(e.Period, samplePeriod)
	for i := range e.List {
		sample := &e.List[i]
		owner := s.owners.OfSample(sample)
		from := max(d.sampled, sample.Time-min(2*period, sample.Time))
		d.set(from, sample.Time+period, func(m *moment) { m.ran = owner })
		d.sampled = sample.Time
	}
}

// An Idle is a part of the time in which a GPU was idle.
type Idle struct {
	What  string  `json:"text"`
	Share float64 `json:"share"` // of the idle time
}

// mostIdle is the number of parts of idle time that a report has.
const mostIdle = 3

// launchedBy notes the thread that launches the work of the GPU: the main thread of a process, if it launches any.
func (g *gpu) launchedBy(t *timeline.Thread) {
	if t != nil && t != g.thread && (t.Main || g.thread == nil || !g.thread.Main) {
		g.thread = t
	}
}

// idle returns what the thread that launches the GPU's work did while the GPU was idle, from one time to another.
func (s *Sink) idle(g *gpu, from, to uint64) (list []Idle) {
	d := s.doings[g.thread]
	if d == nil {
		return nil
	}
	counts, all := make(map[string]int), 0
	eachInstant(from, to, func(number uint64) {
		if g.busyAt[number%instants] != number {
			counts[d.what(number)]++
			all++
		}
	})
	for what, n := range counts {
		list = append(list, Idle{what, float64(n) / float64(all)})
	}
	slices.SortFunc(list, func(a, b Idle) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.What, b.What))
	})
	return list[:min(len(list), mostIdle)]
}

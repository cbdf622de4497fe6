package threads

import (
	"errors"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/blocked"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of the records of a thread.
const (
	statesASecond = 4096 // on average
	statesAtOnce  = 2 * statesASecond

	// Each switch costs the thread about a microsecond, so that there is a limit to their number. Beyond it the thread
	// rests: nothing of it is recorded for a while.
	switchesASecond = 10_000
)

// A thread is a thread that is recorded.
type thread struct {
	process  *sampledProcess
	tid      uint32
	local    uint32 // in the process's own PID namespace
	event    *perfEvent
	link     int       // the kernel reads its Python frames, -1 if it does not
	slot     int       // of the kernel's reader, -1 without
	readings []reading // of samples that were not taken yet
	waited   uint64    // ns in all for which it was ready to run without a processor
	cutReady uint64    // ns of the time that goes on, in which it waits for a processor, that were written
	opened   uint64    // nothing is known of the time before

	// The state at the last record.
	known     bool // since, off and preempted are
	since     uint64
	off       bool // it has no processor
	preempted bool // it lost the processor to another thread
	cpu       uint32
	why       blocked.Cause // of the time since then
	python    uint32        // stack there
	seen      bool          // why is known, or cannot be

	pending []change // not written yet
	newest  int      // index of the last sample in pending, -1 without

	switches float64 // that may come before the thread rests
	counted  uint64  // when switches was computed
	resting  uint64  // since when nothing is recorded, 0 if it is
	resume   uint64  // when it is again
	rested   uint64  // ns in all

	room   float64 // states that may be written
	refill uint64  // when room was computed
	lost   lost
}

// A change is a record that is about to be written: a state, or a sample.
type change struct {
	tracelog.ThreadState
	sample  tracelog.ThreadSample
	isState bool
	woken   bool // a time without a processor that another thread's doing ended: part of it was spent ready to run
}

// lost counts what is missing.
type lost struct{ count, from, to uint64 }

func (l *lost) add(n, from, to uint64) {
	if l.count == 0 {
		l.from = from
	}
	l.count, l.to = l.count+n, max(l.to, to)
}

func newThread(p *sampledProcess, tid uint32, e *perfEvent, opened uint64) *thread {
	t := &thread{
		process: p, tid: tid, local: tid, event: e, link: -1, slot: -1, opened: opened, refill: opened, room: statesAtOnce,
		counted: opened,
	}
	before, _ := procfs.ThreadSchedule(p.PID, tid) // 0 where the kernel does not count
	t.waited = before.Waited
	return t
}

// drain reads what the kernel has written of a thread, and writes records of it.
func (r *Recorder) drain(t *thread) {
	if t.resting != 0 {
		return
	}
	t.newest = -1
	t.event.drain(func(kind uint32, misc uint16, body []byte) {
		switch kind {
		case unix.PERF_RECORD_SWITCH:
			if at, ok := stampOf(body); ok {
				t.switches--
				t.switched(at, misc&unix.PERF_RECORD_MISC_SWITCH_OUT != 0, misc&unix.PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0)
			}
		case unix.PERF_RECORD_SAMPLE:
			s, ok := decodeSample(misc, body, r.addresses)
			r.addresses = s.addresses
			if ok {
				r.sampled(t, &s)
			}
		case unix.PERF_RECORD_LOST:
			t.missed(body)
		}
	})
	r.readPython(t)
	t.settle()
	r.write(t)
}

// switched takes a switch to or from the thread.
func (t *thread) switched(at stamp, out, preempted bool) {
	if !t.known {
		t.known, t.off, t.preempted, t.since, t.cpu = true, !out, false, max(t.opened, 1), at.cpu
		if t.opened == 0 {
			t.since = at.time // records before it are lost
		}
	}
	if out == t.off { // a record between is missing
		t.off, t.preempted, t.since, t.cpu, t.seen = out, preempted, at.time, at.cpu, false
		return
	}
	t.state(at.time)
	t.off, t.preempted, t.since, t.cpu, t.seen, t.why, t.python = out, preempted, at.time, at.cpu, false, blocked.Cause{},
		0
}

// state adds the state from its beginning up to a time.
func (t *thread) state(to uint64) {
	if to <= t.since {
		return
	}
	c := change{
		isState: true, ThreadState: tracelog.ThreadState{
			PID: t.process.PID, TID: t.tid, State: tracelog.StateRunning, Start: t.since, Dur: to - t.since, CPU: t.cpu,
		},
	}
	switch {
	case t.off && t.preempted:
		c.State = tracelog.StateRunnable
	case t.off:
		c.State, c.woken = tracelog.StateBlocked, true
		c.Call, c.On, c.Holder, c.Python = t.why.Call, t.why.On, t.why.Holder, t.python
	}
	t.pending = append(t.pending, c)
}

// sampled takes a sample: the thread runs.
func (r *Recorder) sampled(t *thread, s *perfSample) {
	if !t.known {
		t.known, t.off, t.since, t.cpu = true, false, max(t.opened, 1), s.cpu
		if t.opened == 0 {
			t.since = s.time
		}
	}
	c := change{sample: tracelog.ThreadSample{PID: t.process.PID, TID: t.tid, Time: s.time}}
	if s.kernel {
		c.sample.Flags = tracelog.SampleKernel
		if len(s.addresses) > 0 {
			c.sample.Flags |= t.process.entered(s.addresses[0])
		}
	}
	c.sample.Native = r.natives.stack(t.process.space, s.addresses)
	if t.process.Walker != nil {
		c.sample.Flags |= tracelog.SampleUnread
	}
	t.newest = len(t.pending)
	t.pending = append(t.pending, c)
}

// maxAge is the longest time between a sample and its Python frames. Later ones are of another moment.
const maxAge = 200 * time.Microsecond

// readPython finds the Python frames of the samples that wait. Where the kernel does not read them they are read now,
// of the newest sample. A sample whose frames are not of its own moment has none.
func (r *Recorder) readPython(t *thread) {
	if t.newest < 0 {
		return
	}
	if t.link >= 0 {
		r.readKernel()
		for i := range t.pending {
			if s := &t.pending[i].sample; s.Flags&tracelog.SampleUnread != 0 {
				if id, ok := t.takeReading(s.Time); ok {
					s.Python = id
					s.Flags &^= tracelog.SampleUnread
				}
			}
		}
	} else if s := &t.pending[t.newest].sample; s.Flags&tracelog.SampleUnread != 0 && !t.off {
		id, err := r.python(t)
		if err == nil && host.Monotonic() < s.Time+uint64(maxAge) && !t.event.switchedSince() {
			s.Python = id
			s.Flags &^= tracelog.SampleUnread
		}
	}
	for i := range t.pending {
		if c := &t.pending[i]; !c.isState && t.process.Walker != nil {
			r.samples++
			if c.sample.Flags&tracelog.SampleUnread != 0 {
				r.unread++
			}
		}
	}
}

// missed takes a record that says how many are missing before it.
func (t *thread) missed(b []byte) {
	if len(b) < 16+stampBytes {
		return
	}
	at, _ := stampOf(b[16:])
	n := uint64(b[8]) | uint64(b[9])<<8 | uint64(b[10])<<16 | uint64(b[11])<<24
	t.switches -= float64(n)
	t.lost.add(max(n, 1), t.since, at.time)
	t.known, t.opened, t.seen = false, 0, false
}

// settle divides the times without a processor that ended by now into those in which the thread was blocked and those
// in which it was ready to run. The kernel tells the sum of the latter: each time has an equal part of it, or is a
// whole one.
func (t *thread) settle() {
	var woken []*change
	preempted := uint64(0)
	for i := range t.pending {
		switch c := &t.pending[i]; {
		case c.woken:
			woken = append(woken, c)
		case c.isState && c.State == tracelog.StateRunnable:
			preempted += c.Dur
		}
	}
	if len(woken) == 0 && preempted == 0 {
		return
	}
	if preempted > 0 {
		preempted, t.cutReady = preempted+t.cutReady, 0
	}
	now, ok := procfs.ThreadSchedule(t.process.PID, t.tid)
	if !ok {
		return
	}
	ready := now.Waited - min(t.waited+preempted, now.Waited)
	t.waited = now.Waited
	if ready == 0 || len(woken) == 0 {
		return
	}
	parts := share(woken, ready)
	split := make([]change, 0, len(t.pending)+len(woken))
	k := 0
	for _, c := range t.pending {
		if !c.woken {
			split = append(split, c)
			continue
		}
		part := parts[k]
		k++
		rest := c
		rest.State, rest.Start, rest.Dur, rest.Call, rest.On, rest.Holder, rest.Python = tracelog.StateRunnable, c.Start+
			c.Dur-part, part, "", "", 0, 0
		if c.Dur -= part; c.Dur > 0 {
			split = append(split, c)
		}
		if part > 0 {
			split = append(split, rest)
		}
	}
	t.pending = split
}

// share divides a time among others: equally, and none gets more than it has.
func share(among []*change, time uint64) []uint64 {
	parts, full := make([]uint64, len(among)), make([]bool, len(among))
	for left := len(among); left > 0 && time > 0; {
		each, changed := max(time/uint64(left), 1), false
		for i, c := range among {
			if !full[i] && c.Dur <= each && time >= c.Dur {
				parts[i], full[i], changed = c.Dur, true, true
				time -= c.Dur
				left--
			}
		}
		if !changed {
			for i := range among {
				if !full[i] {
					parts[i] = min(each, time)
					time -= parts[i]
				}
			}
			break
		}
	}
	return parts
}

// write writes the records that wait. If there are too many states, it writes their sums.
func (r *Recorder) write(t *thread) {
	if len(t.pending) == 0 {
		return
	}
	last, states := &t.pending[len(t.pending)-1], 0
	if now := max(last.Start+last.Dur, last.sample.Time); now > t.refill {
		t.room = min(t.room+float64(now-t.refill)/1e9*statesASecond, statesAtOnce)
		t.refill = now
	}
	for i := range t.pending {
		if t.pending[i].isState {
			states++
		}
	}
	if float64(states) > t.room {
		t.pending = summed(t.pending)
	} else {
		t.room -= float64(states)
	}
	paused := r.paused.Load()
	for i := range t.pending {
		switch c := &t.pending[i]; {
		case paused:
		case c.isState:
			c.ThreadState.AddTo(r.Log)
		default:
			c.sample.AddTo(r.Log)
		}
	}
	clear(t.pending)
	t.pending = t.pending[:0]
}

// summed returns changes with one time for each state in place of those that follow each other. A long time and what is
// known of it remain in the sum.
func summed(list []change) (sums []change) {
	var sum [tracelog.StateBlocked + 1]change
	var longest [len(sum)]uint64
	start, end := uint64(0), uint64(0)
	flush := func() {
		at := start
		for i := range sum {
			if c := &sum[i]; c.Dur > 0 {
				c.Start = at
				at += c.Dur
				sums = append(sums, *c)
			}
		}
		clear(sum[:])
		clear(longest[:])
	}
	for _, c := range list {
		if !c.isState {
			sums = append(sums, c)
			continue
		}
		if c.Start != end {
			flush()
			start = c.Start
		}
		end = c.Start + c.Dur
		total := &sum[c.State]
		dur := total.Dur + c.Dur
		if c.Dur > longest[c.State] {
			*total, longest[c.State] = c, c.Dur
		}
		total.Dur = dur
	}
	flush()
	return sums
}

// stopped is what blocks a thread that a signal or a debugger has stopped.
const stopped = "stopped"

// restOrResume closes the event of a thread that is switched too often, and opens one again later: even one that is
// disabled has its cost at each switch. The event was drained after the time.
func (r *Recorder) restOrResume(t *thread, now uint64) {
	switch {
	case t.resting != 0 && now >= t.resume:
		e, err := r.open(int(t.tid))
		if err != nil { // the thread has ended
			r.remove(t)
			return
		}
		before, _ := procfs.ThreadSchedule(t.process.PID, t.tid) // 0 where the kernel does not count
		t.waited, t.cutReady, t.counted = before.Waited, 0, now
		t.rested += now - t.resting
		t.event, t.resting = e, 0
		r.byEvent[int32(e.fd)] = t
		r.watch(e.fd)
		r.attach(t)
	case t.resting != 0:
	case t.switches < 0:
		r.end(t, now)
		delete(r.byEvent, int32(t.event.fd))
		t.unlink()
		t.event.close()
		t.known, t.opened, t.seen = false, 0, false
		t.resting = now
		t.resume = now + uint64((r.switchRate/4-t.switches)/r.switchRate*1e9)
		t.switches = r.switchRate / 4
	default:
		t.switches = min(t.switches+float64(now-t.counted)/1e9*r.switchRate, r.switchRate/2)
		t.counted = now
	}
}

// look finds out why a thread is blocked, once.
func (r *Recorder) look(t *thread) {
	if t.resting != 0 || t.seen || t.known && (!t.off || t.preempted) || r.looks <= 0 || r.paused.Load() {
		return
	}
	r.looks--
	since := t.since
	k, isBlocked, err := blocked.Read(t.process.PID, t.tid)
	if err != nil {
		r.mayNotRead(err)
		t.seen = errors.Is(err, fs.ErrPermission)
	}
	if err != nil || !isBlocked {
		return
	}
	why := t.process.Explain(&k)
	if k.Call < 0 && procfs.Stopped(t.process.PID, t.tid) {
		why.Call = stopped
	}
	python, _ := r.python(t) // 0 if it cannot be read
	r.drain(t)
	switch {
	case !t.known:
		t.known, t.off, t.preempted, t.since = true, true, false, max(t.opened, 1)
		if t.opened == 0 {
			t.known = false // since when is not known
			return
		}
	case !t.off || t.preempted || t.since != since: // it has run meanwhile
		return
	}
	t.why, t.python, t.seen = why, python, true
}

// cut writes a part of a long state, up to a time before the last drain.
func (r *Recorder) cut(t *thread, now uint64) {
	if !t.known || t.since >= now || now-t.since < uint64(longest) {
		return
	}
	r.end(t, now)
	t.since = now
}

// end writes the state up to a time before the last drain.
func (r *Recorder) end(t *thread, now uint64) {
	if !t.known || t.since >= now {
		return
	}
	t.state(now)
	t.pending[len(t.pending)-1].woken = false // nobody knows how long it has been ready
	if t.off && t.preempted {
		t.cutReady += now - t.since
	}
	r.write(t)
}

// report logs what was lost since the last time.
func (t *thread) report(log *tracelog.Writer) {
	if t.lost.count > 0 {
		log.Add(&tracelog.Lost{
			PID: t.process.PID, Cause: tracelog.LostThreadStates, Count: t.lost.count, From: t.lost.from, To: t.lost.to,
		})
		t.lost = lost{}
	}
}

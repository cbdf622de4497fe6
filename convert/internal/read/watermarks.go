package read

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Watermarks give a lower bound for the times of the events that the second reading has not
// reached: for each thread and stream, and for each kind of event without such an owner.
type Watermarks struct {
	all map[owner]*Watermark
	// known returns the time up to which a log that is followed is complete (see NewFollowing): its blocks are read once
	// and not kept. It is nil for another log.
	known func(kind tracelog.Kind, pid uint32) uint64
}

// An owner is a thread or a stream with its own events of one kind, or a whole kind.
type owner struct {
	kind    tracelog.Kind // KindKernel for all GPU work
	pid     uint32
	context uint32
	id      uint32 // thread, with the TID in the log, or stream
}

// A Watermark is the earliest time that later events of an owner may have.
type Watermark struct {
	owner   owner
	of      *Watermarks
	from    []uint64 // by block: the earliest start in this block or a later one
	at      []int64  // offsets of the blocks
	settled int      // number of blocks whose from includes later blocks
	next    int      // index of the first block that has not been read again
}

func newWatermarks() Watermarks { return Watermarks{all: make(map[owner]*Watermark)} }

// follow keeps no blocks from now on: lows are the times up to which the log says it is complete.
func (w *Watermarks) follow(known func(kind tracelog.Kind, pid uint32) uint64) {
	w.known = known
}

// ownerOf returns the owner of a block's events.
func ownerOf(b *tracelog.Block, p *Placement) owner {
	if !p.own {
		return owner{kind: p.as}
	}
	o := owner{kind: p.as, pid: keyOf(b, "pid"), id: keyOf(b, p.id)}
	if p.context != "" {
		o.context = keyOf(b, p.context)
	}
	return o
}

// noteBlock notes a block whose events begin at from or later.
func (w *Watermarks) noteBlock(b *tracelog.Block, p *Placement, from uint64) {
	o := ownerOf(b, p)
	if w.known != nil {
		o = owner{kind: p.as}
	}
	m := w.all[o]
	if m == nil {
		m = &Watermark{owner: o, of: w}
		w.all[o] = m
	}
	if w.known != nil {
		return
	}
	m.from, m.at = append(m.from, from), append(m.at, b.Offset)
}

// Passed notes that a block has been read for the second time.
func (w *Watermarks) Passed(b *tracelog.Block) {
	p := PlacementOf(b.Kind)
	if p == nil {
		return
	}
	if m := w.all[ownerOf(b, p)]; m != nil {
		for m.next < len(m.at) && m.at[m.next] <= b.Offset { // blocks before it may have turned out damaged
			m.next++
		}
	}
}

// low is a lower bound for the times of events that have not been read again; Never when none
// is left.
func (m *Watermark) low() uint64 {
	if m.settled < len(m.from) {
		m.settle()
	}
	low := timeline.Never
	if m.next < len(m.from) {
		low = m.from[m.next]
	}
	if m.of.known != nil {
		low = min(low, m.of.known(m.owner.kind, m.owner.pid))
	}
	return low
}

// settle changes the earliest start of each block to the minimum of its own and of those of
// later blocks.
func (m *Watermark) settle() {
	for i := len(m.from) - 2; i >= 0; i-- {
		if i < m.settled && m.from[i] <= m.from[i+1] {
			break
		}
		m.from[i] = min(m.from[i], m.from[i+1])
	}
	m.settled = len(m.from)
}

// A Lows is a set of watermarks.
type Lows []*Watermark

// Low is the smallest Low of the set.
func (l Lows) Low() uint64 {
	low := timeline.Never
	for _, m := range l {
		low = min(low, m.low())
	}
	return low
}

// Kind returns the watermarks of a kind of event that has no owners.
func (w *Watermarks) Kind(k tracelog.Kind) Lows { return w.of(owner{kind: k}) }

// Stream returns the watermarks of a stream's work.
func (w *Watermarks) Stream(pid, context, stream uint32) Lows {
	if w.known != nil {
		return w.ofProcess(pid, tracelog.KindKernel)
	}
	return w.of(owner{kind: tracelog.KindKernel, pid: pid, context: context, id: stream})
}

// Set returns the watermarks of the samples of a set of metrics.
func (w *Watermarks) Set(pid, set uint32) Lows {
	return w.of(owner{kind: tracelog.KindSample, pid: pid, id: set})
}

// Functions returns the watermarks of the functions of any library on a thread.
func (w *Watermarks) Functions(pid, tid uint32) Lows {
	return w.of(owner{kind: tracelog.KindFunctionEvent, pid: pid, id: tid})
}

// ThreadTimes returns the watermarks of the states and samples of a thread.
func (w *Watermarks) ThreadTimes(pid, tid uint32) Lows {
	return w.of(owner{kind: tracelog.KindThreadState, pid: pid, id: tid})
}

func (w *Watermarks) of(o owner) Lows {
	if m := w.all[o]; m != nil {
		return Lows{m}
	}
	return nil
}

// ofProcess returns the watermarks of some kinds of a process in a log that is followed.
func (w *Watermarks) ofProcess(pid uint32, kinds ...tracelog.Kind) (lows Lows) {
	for _, k := range kinds {
		lows = append(lows, &Watermark{owner: owner{kind: k, pid: pid}, of: w})
	}
	return lows
}

// A ThreadKey identifies a thread by its process and its host TID.
type ThreadKey struct{ PID, TID uint32 }

// ThreadLows are the watermarks of the calls and API records of each thread.
type ThreadLows struct {
	own      map[ThreadKey]Lows
	followed *Watermarks // of a log that is followed, else nil
}

// Threads returns the watermarks of the threads of a log.
func (w *Watermarks) Threads(c *Catalog) ThreadLows {
	if w.known != nil {
		return ThreadLows{followed: w}
	}
	t := ThreadLows{own: make(map[ThreadKey]Lows)}
	for o, m := range w.all {
		if o.kind != tracelog.KindCall && o.kind != tracelog.KindAPI {
			continue
		}
		key := ThreadKey{o.pid, o.id}
		if o.kind == tracelog.KindAPI || c.CallsFromCallbacks() {
			key.TID = c.Names.HostTID(o.pid, o.id)
		}
		t.own[key] = append(t.own[key], m)
	}
	return t
}

// Of returns the watermarks of a thread.
func (t *ThreadLows) Of(key ThreadKey) Lows {
	if t.followed != nil {
		return t.followed.ofProcess(key.PID, tracelog.KindCall, tracelog.KindAPI)
	}
	return t.own[key]
}

// TIDs calls f with each thread that has blocks of its own.
func (t *ThreadLows) TIDs(f func(ThreadKey)) {
	for key := range t.own {
		f(key)
	}
}

// Processes returns the watermarks of some kinds of event of each process.
func (w *Watermarks) Processes(pids []uint32, kinds ...tracelog.Kind) map[uint32]Lows {
	processes := make(map[uint32]Lows)
	if w.known != nil {
		for _, pid := range pids {
			processes[pid] = w.ofProcess(pid, kinds...)
		}
		return processes
	}
	for o, m := range w.all {
		if slices.Contains(kinds, o.kind) {
			processes[o.pid] = append(processes[o.pid], m)
		}
	}
	return processes
}

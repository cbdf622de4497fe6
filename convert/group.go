package convert

import (
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A groupKey names the events of a thread or a stream that stand in a log in their own
// order: its calls, its API records or its GPU work; or all events of a kind.
type groupKey struct {
	kind    tracelog.Kind // of the calls, of the API records, KindKernel for all GPU work
	pid     uint32
	context uint32
	id      uint32 // thread or stream
	mixed   bool   // blocks that hold several threads or streams
}

// A group has the blocks of a groupKey, as far as they have not been read for the second
// time: low is the time that none of these begins before.
type group struct {
	from []uint64 // earliest time in this block or a later one, in the order of the file
	at   []int64  // where the blocks are
	next int
}

// finish turns the times of the blocks into the earliest that is to come.
func (g *group) finish() {
	for i := len(g.from) - 2; i >= 0; i-- {
		g.from[i] = min(g.from[i], g.from[i+1])
	}
}

// low is the earliest time that may still come; MaxUint64 when nothing will.
func (g *group) low() uint64 {
	if g == nil || g.next >= len(g.from) {
		return math.MaxUint64
	}
	return g.from[g.next]
}

// An eventKind says which fields of a kind of event place it, and what it is grouped by.
type eventKind struct {
	as          tracelog.Kind // of its groupKey
	start, dur  string        // "" for no duration
	context, id string        // "" for none
	device      string
	zero        bool // a start of 0 is a time like others
	process     bool
}

var (
	workKind = eventKind{as: tracelog.KindKernel, start: "start", dur: "dur", context: "context", id: "stream", device: "device", process: true}

	eventKinds = map[tracelog.Kind]eventKind{
		tracelog.KindCall:       {as: tracelog.KindCall, start: "enter", dur: "dur", id: "tid", zero: true, process: true},
		tracelog.KindAPI:        {as: tracelog.KindAPI, start: "start", dur: "dur", id: "tid", zero: true, process: true},
		tracelog.KindKernel:     workKind,
		tracelog.KindMemcpy:     workKind,
		tracelog.KindMemset:     workKind,
		tracelog.KindGraph:      workKind,
		tracelog.KindSync:       {as: tracelog.KindSync, start: "start", dur: "dur", zero: true},
		tracelog.KindOverhead:   {as: tracelog.KindOverhead, start: "start", dur: "dur", zero: true},
		tracelog.KindMarker:     {as: tracelog.KindMarker, start: "time", zero: true},
		tracelog.KindMemory:     {as: tracelog.KindMemory, start: "time", device: "device", zero: true},
		tracelog.KindMemoryPool: {as: tracelog.KindMemoryPool, start: "time", device: "device", zero: true},
	}
)

// placing are the fields that the first reading looks at.
var placing = func() map[tracelog.Kind][]string {
	fields := make(map[tracelog.Kind][]string)
	for k, e := range eventKinds {
		fields[k] = []string{"pid"}
		for _, f := range []string{e.start, e.dur, e.context, e.id, e.device} {
			if f != "" {
				fields[k] = append(fields[k], f)
			}
		}
	}
	return fields
}()

// events takes note of a block of events, which the second reading will go through.
func (l *catalog) events(b *tracelog.Block, e eventKind) {
	key := groupKey{kind: e.as}
	pids := b.Column("pid")
	l.seePIDs(b, &pids)
	if e.process {
		key = l.groupOf(b, e)
	}
	if e.device != "" {
		l.seeDevices(b, &pids, e.device)
	}
	g := l.groups[key]
	if g == nil {
		g = &group{}
		l.groups[key] = g
	}
	g.from, g.at = append(g.from, l.span(b, e)), append(g.at, b.Offset)
}

// groupOf is the key of a block of calls, API records or GPU work.
func (l *catalog) groupOf(b *tracelog.Block, e eventKind) groupKey {
	pids, ids := b.Column("pid"), b.Column(e.id)
	pid, ok := pids.Const()
	id, same := ids.Const()
	ok = ok && same
	var context uint64
	if e.context != "" {
		contexts := b.Column(e.context)
		context, same = contexts.Const()
		ok = ok && same
	}
	if !ok {
		return groupKey{kind: e.as, mixed: true}
	}
	return groupKey{kind: e.as, pid: uint32(pid), context: uint32(context), id: uint32(id)}
}

// span widens the recording's time by a block's and returns the earliest of its starts.
func (l *catalog) span(b *tracelog.Block, e eventKind) uint64 {
	starts := b.Column(e.start)
	var durs tracelog.Column
	if e.dur != "" {
		durs = b.Column(e.dur)
	}
	low := uint64(math.MaxUint64)
	for i := range b.N {
		start := starts.At(i)
		if e.zero || start != 0 {
			low = min(low, start)
		}
		if start == 0 {
			continue
		}
		until := start
		if e.dur != "" {
			until = end(start, durs.At(i))
		}
		l.first = min(l.first, start)
		l.last = max(l.last, until)
	}
	return low
}

func (l *catalog) seePIDs(b *tracelog.Block, pids *tracelog.Column) {
	if pid, ok := pids.Const(); ok {
		l.process(uint32(pid)).has |= kindBit(b.Kind)
		return
	}
	for i := range b.N {
		l.process(uint32(pids.At(i))).has |= kindBit(b.Kind)
	}
}

func (l *catalog) seeDevices(b *tracelog.Block, pids *tracelog.Column, field string) {
	devices := b.Column(field)
	device, same := devices.Const()
	pid, ok := pids.Const()
	if same && ok {
		l.useDevice(uint32(pid), uint32(device))
		return
	}
	for i := range b.N {
		l.useDevice(uint32(pids.At(i)), uint32(devices.At(i)))
	}
}

func kindBit(k tracelog.Kind) uint64 { return 1 << (k % 64) }

// threadGroups are the groups of each thread by the recorder's number.
func (l *catalog) threadGroups() map[threadKey][]*group {
	byThread := make(map[threadKey][]*group)
	for key, g := range l.groups {
		switch {
		case key.mixed:
		case key.kind == tracelog.KindCall:
			k := threadKey{key.pid, key.id}
			byThread[k] = append(byThread[k], g)
		case key.kind == tracelog.KindAPI:
			k := threadKey{key.pid, l.globalTID(key.pid, key.id)}
			byThread[k] = append(byThread[k], g)
		}
	}
	return byThread
}

// processGroups are the groups of each process's events of some kinds.
func (l *catalog) processGroups(kinds ...tracelog.Kind) map[uint32][]*group {
	byProcess := make(map[uint32][]*group)
	for key, g := range l.groups {
		switch {
		case !slices.Contains(kinds, key.kind):
		case key.mixed:
			for _, pid := range l.pids {
				byProcess[pid] = append(byProcess[pid], g)
			}
		default:
			byProcess[key.pid] = append(byProcess[key.pid], g)
		}
	}
	return byProcess
}

// advance notes that a block has been read for the second time.
func (l *catalog) advance(b *tracelog.Block) {
	e := eventKinds[b.Kind]
	key := groupKey{kind: e.as}
	if e.process {
		key = l.groupOf(b, e)
	}
	if g := l.groups[key]; g != nil {
		for g.next < len(g.at) && g.at[g.next] <= b.Offset { // others may have turned out to be damaged
			g.next++
		}
	}
}

// end adds without wrapping: a hostile log may hold any value.
func end(start, dur uint64) uint64 {
	if dur > math.MaxUint64-start {
		return math.MaxUint64
	}
	return start + dur
}

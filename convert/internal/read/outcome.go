package read

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxRemarks bounds the losses and notes that are kept individually.
const maxRemarks = 1 << 16

// Outcome is how the recording went.
type Outcome struct {
	CUPTI   []tracelog.CUPTI
	End     *tracelog.End // nil for a log that was not finished
	Notes   []tracelog.Note
	LeftOut uint64 // losses and notes beyond MaxRemarks

	ends       map[uint32][]tracelog.ProcessEnd // of the programs of each process, by PID and time
	lost       map[string]uint64
	losses     []tracelog.Lost
	order      []bool            // order of losses and notes in the file: true for a note
	flushed    map[uint32]uint64 // Flushed.Until, by PID
	newest     uint64            // largest value of flushed
	oldest     uint64            // its first value, 0 before
	since      map[uint32]uint64 // newest when CUPTI began to record a process, by PID
	recorded   map[uint32]bool   // see Recorded
	clockError uint64
	text       int    // bytes of the texts of notes
	refused    uint64 // see refuse
}

func newOutcome() Outcome {
	return Outcome{
		ends:     make(map[uint32][]tracelog.ProcessEnd),
		lost:     make(map[string]uint64),
		flushed:  make(map[uint32]uint64),
		recorded: make(map[uint32]bool),
		since:    make(map[uint32]uint64),
	}
}

// learn reads a row. It returns the time of the event that the record states, if any.
func (o *Outcome) learn(b *tracelog.Block, i int) (at uint64) {
	switch b.Kind {
	case tracelog.KindCUPTI:
		var c tracelog.CUPTI
		c.Read(b, i)
		o.CUPTI = append(o.CUPTI, c)
		o.recorded[c.PID] = c.Status == "on"
		if o.since[c.PID] == 0 {
			o.since[c.PID] = o.newest
		}
		o.clockError = max(o.clockError, c.ClockError)
	case tracelog.KindLost:
		var x tracelog.Lost
		x.Read(b, i)
		o.lose(x)
	case tracelog.KindNote:
		var n tracelog.Note
		n.Read(b, i)
		if o.text += len(n.Text); o.text > maxRemarkText {
			o.LeftOut++
		} else if o.room(true) {
			o.Notes = append(o.Notes, n)
		}
		return n.Time
	case tracelog.KindProcessEnd:
		var e tracelog.ProcessEnd
		e.Read(b, i)
		o.addEnd(e)
		return e.Time
	case tracelog.KindFlushed:
		var f tracelog.Flushed
		f.Read(b, i)
		o.flush(&f)
	case tracelog.KindEnd:
		var e tracelog.End
		e.Read(b, i)
		o.End = &e
		return e.Time
	}
	return 0
}

func (o *Outcome) lose(x tracelog.Lost) {
	o.lost[x.Cause] = saturated(o.lost[x.Cause], x.Count)
	if o.room(false) {
		o.losses = append(o.losses, x)
	}
}

// refuse takes the number of records that the log's reader has refused so far.
func (o *Outcome) refuse(n uint64) {
	if n > o.refused {
		o.lose(tracelog.Lost{Cause: tracelog.LostTime, Count: n - o.refused})
		o.refused = n
	}
}

// maxFlushed bounds the processes whose Flushed records are kept.
const maxFlushed = maxPrograms

func (o *Outcome) flush(f *tracelog.Flushed) {
	if _, known := o.flushed[f.PID]; known || len(o.flushed) < maxFlushed {
		o.flushed[f.PID] = max(o.flushed[f.PID], f.Until)
		o.newest = max(o.newest, f.Until)
		o.oldest = cmp.Or(o.oldest, f.Until)
	}
}

// saturated is the sum of two numbers, or the largest number.
func saturated(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// room reports whether one more loss or note can be kept.
func (o *Outcome) room(note bool) bool {
	if len(o.order) >= maxRemarks {
		o.LeftOut++
		return false
	}
	o.order = append(o.order, note)
	return true
}

// Lost returns the number of lost records by cause. Every cause that this version knows is
// there.
func (o *Outcome) Lost() map[string]uint64 {
	lost := make(map[string]uint64, len(tracelog.LostCauses))
	for _, cause := range tracelog.LostCauses {
		lost[cause] = 0
	}
	maps.Copy(lost, o.lost)
	return lost
}

// LostOf returns the losses of a cause that are kept individually.
func (o *Outcome) LostOf(cause string) (list []tracelog.Lost) {
	for _, x := range o.losses {
		if x.Cause == cause {
			list = append(list, x)
		}
	}
	return list
}

// LacksWork reports whether GPU work, or its time, may be missing from the log.
func (o *Outcome) LacksWork() bool {
	return o.lost[tracelog.LostCUPTIQueue]+o.lost[tracelog.LostCUPTIDropped]+o.lost[tracelog.LostCUPTIBuffer]+
		o.lost[tracelog.LostCUPTITime]+o.lost[tracelog.LostCUPTIClock]+o.lost[tracelog.LostCUPTIUnreadable]+
		o.lost[tracelog.LostLogWrite]+o.lost[tracelog.LostTime] > 0
}

// Remarks returns the losses and notes of a log as events, in the order of time. Those of
// unknown time come at the end of the recording.
func (c *Catalog) Remarks() []timeline.Event {
	o := &c.Outcome
	type remark struct {
		at uint64
		timeline.Event
	}
	list := make([]remark, 0, len(o.order))
	losses, notes := o.losses, o.Notes
	for _, note := range o.order {
		if note {
			at := cmp.Or(notes[0].Time, c.last)
			list = append(list, remark{at, &timeline.Note{Time: at, PID: notes[0].PID, Text: notes[0].Text}})
			notes = notes[1:]
			continue
		}
		x := &losses[0]
		at := cmp.Or(x.To, c.last)
		list = append(list, remark{
			at, &timeline.Loss{Time: at, PID: x.PID, Cause: x.Cause, Count: x.Count, From: c.into(x.From), To: c.into(x.To)},
		})
		losses = losses[1:]
	}
	slices.SortStableFunc(list, func(a, b remark) int { return cmp.Compare(a.at, b.at) })
	events := make([]timeline.Event, len(list))
	for i := range list {
		events[i] = list[i].Event
	}
	return events
}

// TakeRemarks returns the losses and notes since its last call, as Remarks does, and forgets them.
func (c *Catalog) TakeRemarks() []timeline.Event {
	o := &c.Outcome
	list := c.Remarks()
	o.order, o.losses, o.Notes, o.text = o.order[:0], o.losses[:0], o.Notes[:0], 0
	return list
}

// into converts a known time to ns from the beginning of the recording.
func (c *Catalog) into(at uint64) uint64 { return at - min(at, c.First()) }

// Recorded reports whether CUPTI recorded a process.
func (o *Outcome) Recorded(pid uint32) bool { return o.recorded[pid] }

// ClockError is the largest error of a CUPTI time that the log states, ns.
func (o *Outcome) ClockError() uint64 { return o.clockError }

// CallsUntil returns the time up to which the log has every call, as the log states it; 0 when
// it states none.
func (o *Outcome) CallsUntil() uint64 { return o.flushed[0] }

// RecordsUntil returns the time up to which the log has all CUPTI records of a process, as the
// log states it; 0 when it states none.
func (o *Outcome) RecordsUntil(pid uint32) uint64 {
	e, _ := o.LastEnd(pid)
	return max(e.Until, o.flushed[pid])
}

// silence is the time, in ns, after which a process that says nothing holds no other back: it was
// stopped, or it has ended. It is longer than the longest pause between two Flushed records of a process.
const silence = 3e9

// known returns a lower bound for the times of events in later blocks of a log that is followed: of one
// process, or with PID 0 of all. No silent process holds it back, and it is a time that has come.
func (o *Outcome) known(kind tracelog.Kind, pid uint32) uint64 {
	heard := o.newest - min(o.newest, silence)
	if kind == tracelog.KindCall && o.flushed[0] != 0 { // else there are no probes
		return max(o.flushed[0], heard)
	}
	if pid != 0 {
		return o.knownOf(pid, heard)
	}
	low := o.newest
	for recorded := range o.recorded {
		low = min(low, o.knownOf(recorded, heard))
	}
	return low
}

// knownOf returns a lower bound for the times of the later records of a process from CUPTI. A process
// that has said nothing since heard is silent.
func (o *Outcome) knownOf(pid uint32, heard uint64) uint64 {
	until, said := o.flushed[pid]
	last := until
	if !said {
		until, last = o.since[pid], max(o.since[pid], o.oldest)
	}
	if len(o.ends[pid]) > 0 || !o.recorded[pid] || last < heard {
		return o.newest
	}
	return until
}

// Known is a time up to which all calls and all GPU work that had ended are in the blocks so far of a log
// that is followed.
func (o *Outcome) Known() uint64 {
	return min(o.known(tracelog.KindCall, 0), o.known(tracelog.KindKernel, 0))
}

package ring

import (
	"fmt"
	"slices"
	"time"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Condition asks for a file when it holds.
type Condition struct {
	On     Subject
	Limit  time.Duration // of LongCalls and LongKernels
	Factor float64       // of SlowSteps
}

// A Subject is what a condition is about.
type Subject int

// The subjects.
const (
	FailedCalls Subject = iota
	LongCalls
	LongKernels
	SlowSteps
)

// A Watch holds the records of a ring against conditions, as they reach the disk.
type Watch struct {
	ring       *Ring
	conditions []Condition
	steps      pattern.Ranges
	calls      tracelog.Kind // KindCall, or KindAPI where CUPTI records the calls

	segment   *segment // that is read
	reader    *tracelog.Reader
	drained   bool // the segment was read after it had ended
	functions map[uint32]tracelog.Function
	callers   map[uint32]string // the runtime's function that the program called, by ID of a caller
	held      *Reason           // the condition that held first
	flushed   map[uint32]uint64 // Flushed.Until, by PID
	pace      pace
}

// A Reason is a condition that held.
type Reason struct {
	call call // for which it held; none for a condition on other records
	text func(call) string
}

// NewWatch returns a watch over the records from now on. calls is the kind of the records of calls.
func NewWatch(r *Ring, list []Condition, steps pattern.Ranges, calls tracelog.Kind) *Watch {
	return &Watch{ring: r, conditions: list, steps: steps, calls: calls,
		functions: map[uint32]tracelog.Function{}, callers: map[uint32]string{}, flushed: map[uint32]uint64{},
		pace: newPace()}
}

// Look reads what has been written since the last look. It returns which condition held first, nil for none.
func (w *Watch) Look() (held *Reason, err error) {
	defer func() { held, w.held = w.held, nil }()
	for {
		if err := w.open(); err != nil {
			return nil, err
		}
		for w.reader.Next() {
			w.block(w.reader.Block())
		}
		if err := w.reader.Err(); err != nil && !tracelog.IsDamage(err) {
			return nil, err
		}
		if !w.next() {
			return nil, nil
		}
	}
}

// Words says in words which condition held. certain is false while no look has read the record of a call's caller,
// which may name another function: that record comes after the call's own, or never.
func (w *Watch) Words(held *Reason) (why string, certain bool) {
	c := held.call
	function, known := w.callers[c.caller]
	if c.library == cudaapi.Driver.String() && cudaapi.CarriesOut(c.name, function) {
		c.name, c.library = function, cudaapi.Runtime.String()
	}
	return held.text(c), c.caller == 0 || known
}

// open opens the segment that is to be read.
func (w *Watch) open() (err error) {
	if w.reader != nil {
		return nil
	}
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	if w.segment == nil {
		w.segment = w.ring.segments[0]
		w.segment.users++
		w.learn()
	}
	if w.reader, err = w.segment.open(); err == nil {
		err = w.reader.Follow()
	}
	return err
}

// next goes to the next segment when the one that was read has ended. It returns false if there is
// nothing more to read. What was written to a segment after the last look at it is read first.
func (w *Watch) next() bool {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	at := slices.Index(w.ring.segments, w.segment) // -1 if the ring has removed it
	switch {
	case at == len(w.ring.segments)-1: // it is being written, or the ring is closed
		return false
	case !w.drained:
		w.drained = true
		return true
	}
	w.segment.release()
	w.segment, w.reader, w.drained = w.ring.segments[at+1], nil, false
	w.segment.users++
	if at < 0 {
		w.learn()
	}
	return true
}

// learn takes the functions of segments that were removed unread. mu of the ring is held.
func (w *Watch) learn() {
	for _, x := range w.ring.before.definitions {
		switch x := x.(type) {
		case *tracelog.Function:
			w.functions[x.ID] = *x
		case *tracelog.Caller:
			w.callers[x.ID] = x.Function
		}
	}
}

// Close lets go of the segment.
func (w *Watch) Close() {
	w.ring.mu.Lock()
	defer w.ring.mu.Unlock()
	if w.segment != nil {
		w.segment.release()
		w.segment = nil
	}
}

// Flushed is the time up to which the records of a process, or with PID 0 all calls, have been read; 0
// if it is not known.
func (w *Watch) Flushed(pid uint32) uint64 { return w.flushed[pid] }

// block holds the records of a block against the conditions.
func (w *Watch) block(b *tracelog.Block) {
	switch b.Kind {
	case tracelog.KindFunction:
		for i := range b.N {
			var f tracelog.Function
			f.Read(b, i)
			w.functions[f.ID] = f
		}
	case tracelog.KindCaller:
		for i := range b.N {
			var c tracelog.Caller
			c.Read(b, i)
			w.callers[c.ID] = c.Function
		}
	case tracelog.KindFlushed:
		for i := range b.N {
			var f tracelog.Flushed
			f.Read(b, i)
			w.flushed[f.PID] = max(w.flushed[f.PID], f.Until)
		}
	case tracelog.KindMarker:
		if why := w.markers(b); why != "" && w.held == nil {
			w.held = &Reason{text: func(call) string { return why }}
		}
	}
	for _, c := range w.conditions {
		if w.held != nil {
			break
		}
		w.held = w.holds(c, b)
	}
}

// holds returns how a condition holds for a record of a block, nil if it does not.
func (w *Watch) holds(c Condition, b *tracelog.Block) *Reason {
	switch {
	case c.On == LongKernels && b.Kind == tracelog.KindKernel:
		if i := above(b, c.Limit); i >= 0 {
			var k tracelog.Kernel
			k.Read(b, i)
			why := fmt.Sprintf("kernel %s took %s", demangle.Filter(k.Name, demangle.NoParams), figures.Duration(k.Dur))
			return &Reason{text: func(call) string { return why }}
		}
	case c.On == LongCalls && b.Kind == w.calls:
		if i := above(b, c.Limit); i >= 0 {
			return &Reason{w.call(b, i), func(x call) string {
				return fmt.Sprintf("%s took %s in process %d, thread %d", x.name, figures.Duration(x.dur), x.pid, x.tid)
			}}
		}
	case c.On == FailedCalls && b.Kind == w.calls:
		returned := b.Column("ret")
		for i := range b.N {
			if returned.At(i) == 0 {
				continue
			}
			if x := w.call(b, i); x.failed() {
				return &Reason{x, func(x call) string {
					return fmt.Sprintf("%s failed with %s in process %d, thread %d", x.name, cudaapi.ErrorName(x.library, x.ret),
						x.pid, x.tid)
				}}
			}
		}
	}
	return nil
}

// above is the first row of a block whose duration is above a limit, -1 for none.
func above(b *tracelog.Block, limit time.Duration) int {
	took := b.Column("dur")
	for i := range b.N {
		if took.At(i) > uint64(limit) {
			return i
		}
	}
	return -1
}

// A call is a record of a call, from a pair of uprobes or from CUPTI.
type call struct {
	pid, tid      uint32
	caller        uint32 // Caller.ID, 0 when not known
	name, library string
	dur           uint64
	ret           int32
	returned      bool
}

// failed reports whether the call returned an error that means something.
func (c *call) failed() bool {
	return c.returned && c.ret != 0 && c.ret != cudaapi.ErrorNotReady && c.ret != cudaapi.ErrorDeinitialized
}

// call reads row i of a block of calls.
func (w *Watch) call(b *tracelog.Block, i int) call {
	if b.Kind == tracelog.KindAPI {
		var a tracelog.API
		a.Read(b, i)
		library := "driver"
		if a.Domain == tracelog.DomainRuntime {
			library = "runtime"
		}
		return call{a.PID, a.TID, a.Caller, a.Name, library, a.Dur, int32(a.Ret), a.Flags&tracelog.CallUnfinished == 0}
	}
	var c tracelog.Call
	c.Read(b, i)
	f := w.functions[c.Func]
	return call{
		c.PID, c.TID, c.Caller, f.Name, f.Library, c.Dur, c.Ret, c.Flags&(tracelog.CallUnfinished|tracelog.CallNoReturn) == 0,
	}
}

// markers follows the NVTX ranges that are steps.
func (w *Watch) markers(b *tracelog.Block) (why string) {
	for _, c := range w.conditions {
		if c.On != SlowSteps {
			continue
		}
		for i := range b.N {
			var m tracelog.Marker
			m.Read(b, i)
			if held := w.pace.marker(&m, w.steps, c.Factor); why == "" {
				why = held
			}
		}
		break
	}
	return why
}

// Bounds of a pace.
const (
	leastSteps = 8    // that a median needs
	mostSteps  = 101  // that it is taken of
	mostBegun  = 4096 // steps that have not ended
)

// A pace is the running median of the time that steps take.
type pace struct {
	begun map[openKey]uint64
	times []uint64 // the last ones
}

func newPace() pace { return pace{begun: map[openKey]uint64{}} }

// marker takes a marker, and says in words if a step took longer than the median by a factor.
func (p *pace) marker(m *tracelog.Marker, steps pattern.Ranges, factor float64) (why string) {
	k := openKey{tracelog.KindMarker, m.PID, uint64(m.ID)}
	if m.Flags&tracelog.MarkerStart != 0 {
		if len(p.begun) < mostBegun && steps.Match(m.Name, m.Domain) {
			p.begun[k] = m.Time
		}
		return ""
	}
	at, known := p.begun[k]
	if m.Flags&tracelog.MarkerEnd == 0 || !known {
		return ""
	}
	delete(p.begun, k)
	took := m.Time - min(at, m.Time)
	if len(p.times) >= leastSteps {
		sorted := slices.Sorted(slices.Values(p.times))
		if median := sorted[(len(sorted)-1)/2]; float64(took) > factor*float64(median) {
			why = fmt.Sprintf("step %s took %s, %.1f times the median", steps.Name, figures.Duration(took),
				float64(took)/float64(max(median, 1)))
		}
	}
	p.times = append(p.times, took)
	if len(p.times) > mostSteps {
		p.times = p.times[1:]
	}
	return why
}

package probe

import (
	"encoding/binary"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// openFunctions pair the entries of functions of any library with their returns, so that those of each thread are
// nested: a function that was left without returning has a return that says so.
type openFunctions struct {
	of    map[callingThreadID][]openFunction // outermost first
	event tracelog.FunctionEvent
}

type callingThreadID struct{ pid, tid uint32 }

// An openFunction is a function that has not returned.
type openFunction struct {
	function uint32
	stack    uint64 // stack pointer at its entry
}

// Bounds of what is open. Of functions that jump to each other the eBPF program counts but one.
const (
	maxOpenFunctions = 2 * bpf.MaxNested // of a thread
	maxOpenThreads   = 1 << 16
)

// decode hands an event on.
func (o *openFunctions) decode(b []byte, sink Sink) {
	le := binary.LittleEndian
	t := callingThreadID{le.Uint32(b[16:]), le.Uint32(b[20:])}
	f := openFunction{uint32(le.Uint16(b[24:])), le.Uint64(b[32:])}
	enter, exit := le.Uint64(b), le.Uint64(b[8:])
	if exit != 0 {
		o.leave(t, f, exit, le.Uint64(b[bpf.HeaderSize:]), sink)
		return
	}
	e := tracelog.FunctionEvent{Flags: tracelog.FunctionEntry}
	for i := range min(int(b[26]), len(e.Args)) {
		e.Args[i] = le.Uint64(b[bpf.HeaderSize+8*i:])
	}
	once := b[27]&tracelog.CallNoReturn != 0
	if once {
		e.Flags |= tracelog.FunctionAlone
	}
	o.enter(t, f, enter, once, &e, sink)
}

// enter takes an entry. What lies below it on the stack has been left: stacks grow down.
func (o *openFunctions) enter(t callingThreadID, f openFunction, at uint64, once bool, e *tracelog.FunctionEvent,
	sink Sink) {
	list := o.of[t]
	n := len(list)
	for n > 0 && (list[n-1].stack < f.stack || list[n-1] == f || n >= maxOpenFunctions) {
		n--
	}
	o.left(t, list[n:], at, sink)
	list = list[:n]
	if !once {
		list = append(list, f)
	}
	o.keep(t, list)
	o.give(t, f.function, at, e, sink)
}

// leave takes a return. The return of a function that was not seen to be entered counts for nothing.
func (o *openFunctions) leave(t callingThreadID, f openFunction, at, value uint64, sink Sink) {
	list := o.of[t]
	n := len(list) - 1
	for n >= 0 && list[n] != f {
		n--
	}
	if n < 0 {
		return
	}
	o.left(t, list[n+1:], at, sink)
	o.keep(t, list[:n])
	o.give(t, f.function, at, &tracelog.FunctionEvent{Flags: tracelog.FunctionReturn, Ret: value}, sink)
}

// left says that functions have been left, the innermost first.
func (o *openFunctions) left(t callingThreadID, list []openFunction, at uint64, sink Sink) {
	for i := len(list) - 1; i >= 0; i-- {
		o.give(t, list[i].function, at, &tracelog.FunctionEvent{Flags: tracelog.FunctionReturn | tracelog.FunctionLeft}, sink)
	}
}

func (o *openFunctions) give(t callingThreadID, function uint32, at uint64, e *tracelog.FunctionEvent, sink Sink) {
	o.event = *e
	o.event.PID, o.event.TID, o.event.Func, o.event.Time = t.pid, t.tid, function, at
	sink.Function(&o.event)
}

// keep keeps the open functions of a thread.
func (o *openFunctions) keep(t callingThreadID, list []openFunction) {
	switch {
	case len(list) == 0:
		delete(o.of, t)
	case o.of == nil || len(o.of) >= maxOpenThreads && o.of[t] == nil: // threads that ended within functions
		o.of = map[callingThreadID][]openFunction{t: list}
	default:
		o.of[t] = list
	}
}

package probe

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Sink takes calls, names of threads, names of kernels, and chains of return addresses. The pointers are valid during
// the call only.
type Sink interface {
	Call(*tracelog.Call)
	Thread(*tracelog.Thread)
	Symbol(*tracelog.Symbol)
	// Function takes the entry or the return of a function of any library. Those of a thread are nested.
	Function(*tracelog.FunctionEvent)
	// Chain takes the chain that calls name by its ID. Calls may come before their chain.
	Chain(*Chain)
}

// A Chain is the return addresses above calls.
type Chain struct {
	ID        uint32 // from 1
	PID       uint32
	Function  uint32   // the function that was called
	Epoch     uint64   // of Callers: while it stays, the addresses mean the same
	Addresses []uint64 // from the innermost up
}

// A decoder turns the events of the eBPF program, in the form that the comment of package bpf
// describes, into records of the log. Its methods are for one goroutine at a time, except ignore
// and heed. It reuses its records, so that a call allocates nothing.
type decoder struct {
	table   *recipeTable
	ignored atomic.Uint32 // PID whose events are dropped, 0 without one
	clients []cuptiClient
	chains  chains
	open    openFunctions

	call   tracelog.Call
	thread tracelog.Thread
	symbol tracelog.Symbol
}

// newDecoder returns a decoder of the events of the functions in a table.
func newDecoder(t *recipeTable) *decoder { return &decoder{table: t} }

// ignore drops the events of a process from now on.
func (d *decoder) ignore(pid uint32) { d.ignored.Store(pid) }

// heed ends ignore for a PID, which belongs to another process now.
func (d *decoder) heed(pid uint32) { d.ignored.CompareAndSwap(pid, 0) }

// A cuptiClient is a process that has registered with CUPTI.
type cuptiClient struct {
	PID     uint32
	Request uint64 // the first argument of cuptiActivityRegisterCallbacks
	Time    uint64 // ns, CLOCK_MONOTONIC
}

// takeClients returns the registrations since the last call.
func (d *decoder) takeClients() []cuptiClient {
	clients := d.clients
	d.clients = nil
	return clients
}

// decode reads an event and gives its record to the sink.
func (d *decoder) decode(b []byte, sink Sink) error {
	if len(b) < bpf.HeaderSize || len(b) < bpf.HeaderSize+8*int(b[26]) || b[26] > bpf.MaxArgs {
		return fmt.Errorf("the buffers hold a malformed event of %d bytes", len(b))
	}
	if own := d.ignored.Load(); own != 0 && own == binary.LittleEndian.Uint32(b[16:]) {
		return nil
	}
	switch function := binary.LittleEndian.Uint16(b[24:]); {
	case b[27]&bpf.FlagThread != 0:
		d.decodeThread(b)
		sink.Thread(&d.thread)
	case b[27]&bpf.FlagSymbol != 0:
		d.decodeSymbol(b)
		sink.Symbol(&d.symbol)
	case b[27]&bpf.FlagChain != 0:
		d.chains.define(b, sink)
	case function >= bpf.MaxFunctions:
		d.open.decode(b, sink)
	case function == calibrationFunction:
	case function == clientFunction:
		if err := d.decodeCall(b); err != nil {
			return err
		}
		d.clients = append(d.clients, cuptiClient{d.call.PID, d.call.Args[0], d.call.Enter})
	default:
		if err := d.decodeCall(b); err != nil {
			return err
		}
		sink.Call(&d.call)
	}
	return nil
}

func (d *decoder) decodeThread(b []byte) {
	le := binary.LittleEndian
	d.thread = tracelog.Thread{PID: le.Uint32(b[16:]), TID: le.Uint32(b[20:]), Name: threadName(b[bpf.HeaderSize:])}
	if b[26] > 2 {
		if namespaceTID := uint32(le.Uint64(b[bpf.HeaderSize+16:])); namespaceTID != d.thread.TID {
			d.thread.NamespaceTID = namespaceTID
		}
	}
}

func (d *decoder) decodeSymbol(b []byte) {
	le := binary.LittleEndian
	d.symbol = tracelog.Symbol{
		PID: le.Uint32(b[16:]), Time: le.Uint64(b[8:]),
		Handle: le.Uint64(b[bpf.HeaderSize:]), Of: le.Uint64(b[bpf.HeaderSize+8:]),
	}
	name := b[bpf.HeaderSize+16:]
	if n := int(le.Uint32(b[28:])); n > 0 {
		d.symbol.Name = string(name[:min(n-1, len(name))])
	}
}

// callFlags are the flags of an event that a call has in the log.
const callFlags = tracelog.CallUnfinished | tracelog.CallNoReturn

func (d *decoder) decodeCall(b []byte) error {
	le := binary.LittleEndian
	c := &d.call // the arguments from NArgs on are left from an earlier call
	c.PID, c.TID, c.Func = le.Uint32(b[16:]), le.Uint32(b[20:]), uint32(le.Uint16(b[24:]))
	c.Flags, c.Ret, c.NArgs = uint32(b[27]&callFlags), int32(le.Uint32(b[28:])), uint32(b[26])
	c.Caller = d.chains.id(le.Uint64(b[32:]))
	c.Enter, c.Dur = le.Uint64(b), 0
	switch exit := le.Uint64(b[8:]); {
	case exit > c.Enter:
		c.Dur = exit - c.Enter
	case exit == 0 && c.Flags == 0:
		c.Flags = tracelog.CallEntry
	}
	if b[27]&bpf.FlagRaw != 0 {
		return d.table.arguments(c, b[bpf.HeaderSize:])
	}
	for i := range c.NArgs {
		c.Args[i] = le.Uint64(b[bpf.HeaderSize+8*i:])
	}
	return nil
}

// openCall decodes a call that has not returned. It returns nil for a call that is not
// recorded.
func (d *decoder) openCall(e *bpf.ProbesEvent) (*tracelog.Call, error) {
	if e.Flags&bpf.FlagQuiet != 0 || e.Func == clientFunction {
		return nil, nil
	}
	c := &tracelog.Call{
		PID: e.Pid, TID: e.Tid, Func: uint32(e.Func), Flags: uint32(e.Flags&callFlags) | tracelog.CallUnfinished,
		Caller: d.chains.id(e.Chain), Enter: e.Enter, NArgs: uint32(e.Nargs), Args: e.Args,
	}
	if e.Flags&bpf.FlagRaw == 0 {
		return c, nil
	}
	c.Args = [len(c.Args)]uint64{}
	return c, d.table.arguments(c, unsafe.Slice((*byte)(unsafe.Pointer(&e.Args)), unsafe.Sizeof(e.Args)))
}

// threadName is a thread's name as text: at most 16 bytes, up to a NUL.
func threadName(comm []byte) string {
	n := 0
	for n < min(len(comm), 16) && comm[n] != 0 {
		n++
	}
	return string(comm[:n])
}

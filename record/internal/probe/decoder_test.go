package probe

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

func newTestDecoder(t *testing.T) *decoder {
	t.Helper()
	table := must.Get(newRecipeTable(&Options{}))(t)
	return newDecoder(table)
}

// A countingSink counts calls, and keeps their callers and chains.
type countingSink struct {
	calls   int
	callers []uint32
	chains  []Chain
}

func (d *countingSink) Call(c *tracelog.Call) {
	d.calls++
	d.callers = append(d.callers, c.Caller)
}
func (*countingSink) Thread(*tracelog.Thread) {}
func (*countingSink) Symbol(*tracelog.Symbol) {}
func (d *countingSink) Chain(c *Chain) {
	d.chains = append(d.chains, Chain{c.ID, c.PID, c.Function, c.Epoch, slices.Clone(c.Addresses)})
}

func TestEvent(t *testing.T) {
	event := make([]byte, bpf.HeaderSize+16)
	le := binary.LittleEndian
	le.PutUint64(event, 1000)
	le.PutUint64(event[8:], 1500)
	le.PutUint32(event[16:], 7)
	le.PutUint32(event[20:], 8)
	le.PutUint16(event[24:], 300)
	event[26] = 2
	le.PutUint32(event[28:], 0xffffffff)
	le.PutUint64(event[40:], 11)
	le.PutUint64(event[48:], 12)
	d := newTestDecoder(t)
	sink := &countingSink{}
	err := d.decode(event, sink)
	want := tracelog.Call{PID: 7, TID: 8, Func: 300, Enter: 1000, Dur: 500, Ret: -1, NArgs: 2, Args: [12]uint64{11, 12}}
	if diff := cmp.Diff(want, d.call); sink.calls != 1 || err != nil || diff != "" {
		t.Errorf("%d calls, %v, %s", sink.calls, err, diff)
	}
	sink.callers = make([]uint32, 0, 200)
	if n := testing.AllocsPerRun(100, func() { d.decode(event, sink) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
	event[27] = bpf.FlagThread
	copy(event[40:], "sixteen letters!")
	sink.calls = 0
	err = d.decode(event, sink)
	if diff := cmp.Diff(tracelog.Thread{PID: 7, TID: 8, Name: "sixteen letters!"}, d.thread); sink.calls != 0 || err != nil || diff != "" {
		t.Errorf("%d calls, %v, %s", sink.calls, err, diff)
	}
	for cut := range event {
		if err := d.decode(event[:cut], sink); err == nil {
			t.Errorf("an event cut to %d bytes is taken", cut)
		}
	}
}

// A chain of return addresses has an ID, by which calls name it: also those that are read before it. It is
// delivered once. Calls whose chain never comes are counted.
func TestChain(t *testing.T) {
	event := func(flags byte, chain uint64, words ...uint64) []byte {
		b := make([]byte, bpf.HeaderSize, bpf.HeaderSize+8*len(words))
		binary.LittleEndian.PutUint32(b[16:], 7)
		binary.LittleEndian.PutUint16(b[24:], 300)
		binary.LittleEndian.PutUint64(b[32:], chain)
		b[26], b[27] = byte(len(words)), flags
		for _, w := range words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		return b
	}
	d, sink := newTestDecoder(t), &countingSink{}
	for _, b := range [][]byte{
		event(0, 5<<60, 1), event(0, 6<<60, 1), event(0, 5<<60, 1), // of another thread, in front of the definitions
		event(bpf.FlagChain, 1<<60, 3, 0x100, 0x200),
		event(bpf.FlagChain, 5<<60, 3, 0x500),
		event(bpf.FlagChain, 2<<60, 3, 0x300),
		event(bpf.FlagChain, 1<<60, 3, 0x100, 0x200), // forgotten by the eBPF program
		event(bpf.FlagChain, 3<<60, 3),               // no address
		event(bpf.FlagChain, 4<<60, 3, 1, 2, 3, 4, 5, 6, 7, 8),
		event(0, 1<<60, 1), event(0, 2<<60, 1), event(0, 1<<60, 1), event(0, 3<<60, 1), event(0, 0, 1), event(0, 5<<60, 1),
	} {
		if err := d.decode(b, sink); err != nil {
			t.Error(err)
		}
	}
	want := []Chain{{3, 7, 300, 3, []uint64{0x100, 0x200}}, {1, 7, 300, 3, []uint64{0x500}}, {4, 7, 300, 3, []uint64{0x300}}}
	if diff := cmp.Diff(want, sink.chains); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]uint32{1, 2, 1, 3, 4, 3, 5, 0, 1}, sink.callers); diff != "" {
		t.Error(diff)
	}
	if got, want := d.unplaced(), (Unplaced{Undefined: 2}); got != want {
		t.Errorf("%+v, want %+v: the calls of the chains 2 and 5", got, want)
	}
}

// The events of a process that is ignored, and calls of the function that is called to
// measure their cost, are dropped. A registration with CUPTI is kept aside.
func TestOtherEvents(t *testing.T) {
	d, sink := newTestDecoder(t), &countingSink{}
	event := func(pid uint32, function uint16) []byte {
		b := make([]byte, bpf.HeaderSize+8*bpf.LessRegisters)
		binary.LittleEndian.PutUint32(b[16:], pid)
		binary.LittleEndian.PutUint16(b[24:], function)
		b[26], b[27] = bpf.LessRegisters, bpf.FlagRaw
		binary.LittleEndian.PutUint64(b, 5)
		binary.LittleEndian.PutUint64(b[bpf.HeaderSize:], 0x1000)
		return b
	}
	d.ignore(7)
	for _, b := range [][]byte{event(7, clientFunction), event(8, clientFunction), event(8, calibrationFunction)} {
		if err := d.decode(b, sink); err != nil {
			t.Error(err)
		}
	}
	d.heed(8)
	if err := d.decode(event(7, clientFunction), sink); err != nil || len(d.clients) != 1 {
		t.Errorf("%v, %d clients", err, len(d.clients))
	}
	d.heed(7)
	if err := d.decode(event(7, clientFunction), sink); err != nil || sink.calls != 0 {
		t.Errorf("%v, %d calls", err, sink.calls)
	}
	if diff := cmp.Diff([]cuptiClient{{8, 0x1000, 5}, {7, 0x1000, 5}}, d.takeClients()); diff != "" || d.takeClients() != nil {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
}

// Of the calls that are open, those that are not wanted are left out.
func TestOpenCall(t *testing.T) {
	d := newTestDecoder(t)
	e := bpf.ProbesEvent{Enter: 5, Pid: 7, Tid: 8, Func: 3, Nargs: 1, Args: [12]uint64{11}}
	c, err := d.openCall(&e)
	want := &tracelog.Call{PID: 7, TID: 8, Func: 3, Flags: tracelog.CallUnfinished, Enter: 5, NArgs: 1, Args: [12]uint64{11}}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, unwanted := range []bpf.ProbesEvent{{Flags: bpf.FlagQuiet}, {Func: clientFunction}} {
		if c, err := d.openCall(&unwanted); c != nil || err != nil {
			t.Errorf("an unwanted call is %+v, %v", c, err)
		}
	}
	if c, err := d.openCall(&bpf.ProbesEvent{Func: 3, Flags: bpf.FlagRaw}); err == nil {
		t.Errorf("a function without words has the call %+v", c)
	}
}

func (*countingSink) Function(*tracelog.FunctionEvent) {}

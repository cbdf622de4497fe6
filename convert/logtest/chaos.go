package logtest

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// chaos makes records of every kind with few different numbers, so that they
// meet in every way.
type chaos struct {
	*rand.Rand
	w *tracelog.Writer
}

// Chaos returns a log of records of every kind that make no sense together: calls lie within each other, whoever made
// them, and some times cannot be.
func Chaos(t testing.TB, rnd *rand.Rand, records int) []byte {
	t.Helper()
	var log bytes.Buffer
	w := must.Get(tracelog.NewWriter(&log, tracelog.Options{}))(t)
	for id, f := range []tracelog.Function{
		{Name: "cuLaunchKernel", Library: "driver", Args: "function:handle"},
		{Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"},
		{Name: "cudaLaunchKernel", Library: "runtime", Args: "function:ptr"}, {Name: "cuLibraryGetKernel", Library: "driver",
			Args: "kernel:handle"},
		{Name: "cuModuleLoadData", Library: "driver"}, {Name: "=HYPERLINK(1)", Library: "runtime"},
	} {
		f.ID = uint32(id)
		w.Add(&f)
	}
	w.Add(&tracelog.Caller{ID: 1, Function: "cudaLaunchKernel", Module: "/lib/a.so", Symbol: "f"})
	w.Add(&tracelog.Caller{ID: 2, Module: "/lib/b.so"})
	c := &chaos{rnd, w}
	for id := range uint32(4) {
		w.Add(&tracelog.MetricSet{ID: id, Source: 1 + c.id(), Device: c.id(), UUID: "00", Interval: c.dur()})
		w.Add(&tracelog.Metric{
			Set: id, Name: pick(c, "sm_clock", "x"), Unit: 1 + uint32(c.IntN(10)), ValueKind: 1 + c.id(), Scale: uint64(c.id()),
		})
	}
	for range records {
		c.record()
	}
	must.Do(t, w.Close(tracelog.End{Time: 5000, Complete: 1}))
	return log.Bytes()
}

func (c *chaos) id() uint32 { return uint32(c.IntN(4)) }

// time is often equal to others, seldom unknown or at the end of its range.
func (c *chaos) time() uint64 {
	switch c.IntN(50) {
	case 0:
		return 0
	case 1:
		return math.MaxUint64 - uint64(c.IntN(2))
	}
	return 1000 + uint64(c.IntN(60))*50
}

func (c *chaos) dur() uint64 {
	if c.IntN(50) == 0 {
		return math.MaxUint64
	}
	return uint64(c.IntN(20)) * 25
}

func (c *chaos) gpu() tracelog.GPU {
	return tracelog.GPU{PID: c.id(), Device: c.id(), Context: c.id(), Stream: c.id(), Correlation: c.id() * c.id(),
		Graph: c.id(), Start: c.time(), Dur: c.dur()}
}

// pick is one of a list.
func pick[T any](c *chaos, list ...T) T { return list[c.IntN(len(list))] }

// event is an event of any kind.
func (c *chaos) event() tracelog.Record {
	l := schema.LayoutOf(pick(c, events...))
	x := tracelog.NewRecord(l.Kind)
	members := reflect.ValueOf(x).Elem()
	for _, f := range l.Fields {
		m := members.FieldByName(f.GoName())
		switch {
		case !m.IsValid(): // an element of an array
		case f.Type == schema.String:
			m.SetString(pick(c, "", "cuLaunchKernel", "ncclAllReduce"))
		case f.Type == schema.Int:
			m.SetInt(int64(c.id()))
		case f.Type == schema.Time:
			m.SetUint(c.time())
		case f.Type == schema.Dur:
			m.SetUint(c.dur())
		case f.Wide && f.Type == schema.Uint:
			m.SetUint(c.Uint64() >> c.IntN(64))
		default:
			m.SetUint(uint64(pick(c, c.id(), c.id(), c.id(), c.id()*2, 7)))
		}
	}
	return x
}

var events = func() (kinds []tracelog.Kind) {
	for _, t := range schema.Records() {
		if t.Role == schema.Event {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}()

// nested makes a call with calls within it, and within these.
func (c *chaos) nested(pid, tid uint32, start, dur uint64) {
	c.w.Add(&tracelog.Call{
		PID: pid, TID: tid, Func: uint32(c.IntN(6)), Flags: pick[uint32](c, 0, 0, 0, 1, 2), Enter: start, Dur: dur,
		Ret: pick[int32](c, 0, 0, 0, 1), Caller: c.id(),
	})
	for n := uint64(c.IntN(6)); dur > 8 && n > 0; n-- {
		c.nested(pid, tid, start+1+n*(dur/8), dur/8-1)
	}
}

func (c *chaos) record() {
	w := c.w
	switch c.IntN(14) {
	case 0:
		w.Add(&tracelog.Process{PID: c.id(), Start: c.time()})
	case 1:
		w.Add(&tracelog.Thread{PID: c.id(), TID: c.id(), NamespaceTID: c.id()})
	case 2, 3:
		w.Add(&tracelog.Call{PID: c.id(), TID: c.id(), Func: uint32(c.IntN(6)), Flags: c.id(), Enter: c.time(), Dur: c.dur(),
			Ret: int32(c.id()), Caller: c.id(), NArgs: 1,
			Args: [tracelog.MaxArgs]uint64{uint64(c.id())}})
	case 4, 5:
		w.Add(&tracelog.API{PID: c.id(), TID: c.id(), Domain: c.id(), Name: pick(c, "cuLaunchKernel", "cudaLaunchKernel",
			"cudaStreamSynchronize"),
			Start: c.time(), Dur: c.dur(), Correlation: c.id() * c.id(), Caller: c.id()})
	case 6:
		w.Add(&tracelog.Kernel{GPU: c.gpu(), Name: "k"})
	case 9, 12:
		w.Add(c.event())
	case 10, 11:
		w.Add(&tracelog.Marker{
			PID: c.id(), TID: c.id(), Flags: pick[uint32](c, 0, 1, 2, 4, 6), ID: c.id() * c.id(), Time: c.time(),
			Domain: pick(c, "", "d"),
		})
	case 13:
		w.Add(&tracelog.Symbol{
			PID: c.id(), Time: c.time(), Handle: uint64(c.id()), Of: uint64(c.id()), Name: pick(c, "", "_Z1kv"),
		})
		w.Add(&tracelog.ProcessEnd{PID: c.id(), Time: c.time()})
		w.Add(&tracelog.OpenCall{
			PID: c.id(), TID: c.id(), Func: uint32(c.IntN(6)), Enter: c.time(), Dur: c.dur(), Caller: c.id(),
			Name: pick(c, "", "cuCtxSynchronize"),
		})
	case 7:
		c.nested(c.id(), c.id(), 1000+uint64(c.IntN(60))*50, 1<<c.IntN(12))
	case 8:
		w.Add(&tracelog.Sample{
			Set: c.id(), Start: c.time(), Dur: c.dur(), NValues: 1,
			Values: [tracelog.MaxMetrics]uint64{c.Uint64() >> c.IntN(64)},
		})
		w.Add(&tracelog.Note{Time: c.time(), PID: c.id(), Text: "=1+1"})
		w.Add(&tracelog.Lost{Cause: tracelog.LostCallBuffer, Count: c.Uint64(), From: c.time(), To: c.time()})
	}
}

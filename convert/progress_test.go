package convert

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// How far processes have come stands in the newest part of a long log, but for calls that began long before.
func TestProgressOfLongLog(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := must.Get(tracelog.NewWriter(&log, tracelog.Options{RowsPerBlock: 16}))(t)
	const launch, wait, outer = 1, 2, 3
	call := func(tid uint32, function uint32, enter, dur uint64) {
		w.Add(&tracelog.Call{PID: 7, TID: tid, Func: function, Enter: enter, Dur: dur, NArgs: 1, Args: [tracelog.MaxArgs]uint64{5}})
	}
	waits := func(tid uint32, enter uint64) {
		w.Add(&tracelog.OpenCall{PID: 7, TID: tid, Func: wait, Enter: enter, Dur: 1000, Args: [tracelog.MaxArgs]uint64{5}})
	}
	apiWaits := func(tid uint32, enter uint64) {
		w.Add(&tracelog.OpenCall{PID: 7, TID: tid, Name: "cuCtxSynchronize", Enter: enter, Dur: 1000})
	}
	api := func(tid uint32, name string, start, dur uint64) {
		w.Add(&tracelog.API{PID: 7, TID: tid, Domain: tracelog.DomainDriver, Name: name, Start: start, Dur: dur})
	}
	flush := func() {
		must.Do(t, w.Flush())
	}
	w.Add(&tracelog.Process{PID: 7, Start: 1})
	w.Add(&tracelog.Process{PID: 8, Start: 1}) // it has done nothing
	w.Add(&tracelog.CUPTI{PID: 7, Version: 130001, Status: "on"})
	w.Add(&tracelog.Function{ID: launch, Name: "cuLaunchKernel", Library: "driver", Args: "stream:handle"})
	w.Add(&tracelog.Function{ID: wait, Name: "cuStreamSynchronize", Library: "driver", Args: "stream:handle"})
	w.Add(&tracelog.Function{ID: outer, Name: "cudaStreamSynchronize", Library: "runtime", Args: "stream:handle"})
	for i := range uint64(30_000) {
		at := 1000 + i*1000
		switch i {
		case 10: // it returns, and its thread makes no other call
			waits(11, at)
		case 20:
			call(11, wait, 1000+10*1000, 5000)
		case 30: // it has not returned
			waits(12, at)
		case 40: // it returns, and its thread makes others
			waits(13, at)
		case 50:
			call(13, wait, 1000+40*1000, 5000)
		case 60: // it returns in the newest part
			waits(14, at)
		case 70: // two calls of one thread, of which the inner one has not returned
			w.Add(&tracelog.OpenCall{PID: 7, TID: 15, Func: outer, Enter: at, Dur: 1000})
			w.Add(&tracelog.OpenCall{PID: 7, TID: 15, Func: wait, Enter: at + 1, Dur: 999})
		case 80: // those that CUPTI records: it has not returned
			apiWaits(16, at)
		case 90: // its thread makes another call
			apiWaits(17, at)
		case 95:
			api(17, "cuEventSynchronize", at, 10)
		case 100: // it returns in the newest part
			apiWaits(18, at)
		case 29_990:
			api(18, "cuCtxSynchronize", 1000+100*1000, 29_000_000)
			call(14, wait, 1000+60*1000, 29_900_000)
			call(13, wait, at, 10)
		}
		call(10, launch, at, 100)
		w.Add(&tracelog.API{PID: 7, TID: 10, Domain: tracelog.DomainDriver, Name: "cuLaunchKernel", Start: at + 10, Dur: 50, Correlation: uint32(i + 1)})
		if i < 29_999 {
			w.Add(&tracelog.Kernel{GPU: tracelog.GPU{PID: 7, Context: 1, Stream: 9, Correlation: uint32(i + 1), Start: at + 2500, Dur: 300}, Name: "k"})
		}
		if i%1000 == 999 {
			w.Add(&tracelog.Flushed{PID: 7, Until: at})
			w.Add(&tracelog.Flushed{Until: at})
			flush()
		}
	}
	w.Add(&tracelog.Flushed{PID: 7, Until: 20e9})
	w.Add(&tracelog.Flushed{Until: 20e9})
	flush()
	want := map[uint32]*Progress{
		7: {GPU: true, Streams: []StreamProgress{{Name: "stream 9", Work: "the work of cuLaunchKernel", Time: 1000 + 29_999*1000}},
			Calls: []OpenCall{{12, "cuStreamSynchronize", true, 1000 + 30*1000}, {15, "cudaStreamSynchronize", true, 1000 + 70*1000}, {16, "cuCtxSynchronize", true, 1000 + 80*1000}}},
		8: {},
	}
	for _, from := range []int64{0, int64(log.Len() - 1<<14)} {
		got := must.Get(readProgress(logtest.InMemory(log.Bytes()), from, time.Now().Add(time.Minute)))(t)
		goldentest.Same(t, want, got, "from byte %d of %d", from, log.Len())
	}
	if got, err := ReadProgress(logtest.InMemory(log.Bytes()), time.Now().Add(time.Minute)); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ReadProgress(logtest.InMemory(log.Bytes()), time.Now()); err != errLate {
		t.Errorf("out of time: %v", err)
	}
}

// A wait that has returned tells that the work before it has ended, also where its record is still with CUPTI.
func TestProgressAfterWait(t *testing.T) {
	t.Parallel()
	const begin = `
process pid=1 start=1000 exe=/bin/app args=app
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
thread pid=1 tid=1 name=main
cupti pid=1 version=130001 driver_version=13000 path=/x status=on
function id=1 name=cuLaunchKernel library=driver args="f:handle stream:handle"
function id=2 name=cuStreamSynchronize library=driver args=stream:handle
function id=3 name=cuCtxSynchronize library=driver
symbol pid=1 handle=0x77 name=_Z5shortPi time=1000
symbol pid=1 handle=0x78 name=_Z4spinPi time=1000
call pid=1 tid=1 func=cuLaunchKernel enter=1000000 dur=5000 args: f=0x77 stream=0x5
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1001000 dur=3000 correlation=1
`
	const end = `
call pid=1 tid=1 func=cuLaunchKernel enter=3000000 dur=5000 args: f=0x78 stream=0x5
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=3001000 dur=3000 correlation=2
call pid=1 tid=1 func=cuLaunchKernel enter=4000000 dur=5000 args: f=0x77 stream=0x5
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=4001000 dur=3000 correlation=3
flushed until=20000000000
flushed pid=1 until=20000000000
`
	short := []StreamProgress{{Name: "the stream with handle 0x5", Work: "kernel short", Time: 1000000, Queued: 2}}
	spin := []StreamProgress{{Name: "the stream with handle 0x5", Work: "kernel spin", Time: 3000000, Queued: 1}}
	own := []StreamProgress{{Name: "the stream with handle 0x2", Work: "kernel short", Time: 900000}, short[0]}
	for _, c := range []struct {
		name, waits string
		want        []StreamProgress
	}{
		{"none", "", short},
		{"for the stream", "call pid=1 tid=1 func=cuStreamSynchronize enter=2000000 dur=1000 args: stream=0x5", spin},
		{"for the context", "call pid=1 tid=1 func=cuCtxSynchronize enter=2000000 dur=1000", spin},
		{"for another stream", "call pid=1 tid=1 func=cuStreamSynchronize enter=2000000 dur=1000 args: stream=0x6", short},
		{"during the launch", "call pid=1 tid=2 func=cuStreamSynchronize enter=1002000 dur=1000 args: stream=0x5", short},
		{"for a thread's own stream", "call pid=1 tid=1 func=cuLaunchKernel enter=900000 dur=5000 args: f=0x77 stream=0x2\n" +
			"call pid=1 tid=2 func=cuStreamSynchronize enter=2000000 dur=1000 args: stream=0x2", own},
		{"that failed", "call pid=1 tid=1 func=cuCtxSynchronize enter=2000000 dur=1000 ret=700", short},
		{"for one of two contexts", "context pid=1 id=1 device=0 null_stream=7\ncontext pid=1 id=2 device=1 null_stream=8\n" +
			"call pid=1 tid=1 func=cuCtxSynchronize enter=2000000 dur=1000", short},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := must.Get(readProgress(logtest.Assemble(t, begin+c.waits+end), 0, time.Now().Add(time.Minute)))(t)
			goldentest.Same(t, c.want, all[1].Streams, "result")
		})
	}
}

// Of launches that CUPTI alone has recorded the place tells the stream: one that hangs is seen beside another that goes on.
func TestProgressBesideOthers(t *testing.T) {
	t.Parallel()
	all := must.Get(readProgress(logtest.Assemble(t, `
process pid=1 start=1000 exe=/bin/app args=app
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
thread pid=1 tid=1 name=main
cupti pid=1 version=130001 driver_version=13000 path=/x status=on
caller id=1 function=cudaLaunchKernel module=/bin/app build_id="" address=1 symbol=one
caller id=2 function=cudaLaunchKernel module=/bin/app build_id="" address=2 symbol=two
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1001000 dur=3000 correlation=1 caller=1
kernel pid=1 context=1 stream=7 start=1100000 dur=1000 name=_Z4spinPi correlation=1
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=1201000 dur=3000 correlation=2 caller=2
kernel pid=1 context=1 stream=8 start=1300000 dur=1000 name=_Z5otherPi correlation=2
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=2101000 dur=3000 correlation=3 caller=1
api pid=1 tid=1 domain=1 name=cuLaunchKernel start=3201000 dur=3000 correlation=4 caller=2
kernel pid=1 context=1 stream=8 start=3300000 dur=1000 name=_Z5otherPi correlation=4
flushed until=20000000000
flushed pid=1 until=20000000000
`), 0, time.Now().Add(time.Minute)))(t)
	want := []StreamProgress{{Name: "stream 7", Work: "kernel spin", Time: 2101000}, {Name: "stream 8", Work: "other", Ended: true, Time: 3301000}}
	goldentest.Same(t, want, all[1].Streams, "result")
}

package read

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// openLog opens a log for the time of a test.
func openLog(t testing.TB, open logtest.Opener) *tracelog.Reader {
	t.Helper()
	r := must.Get(open())(t)
	t.Cleanup(func() { r.Close() })
	return r
}

// take gives a catalog what a reader still has.
func take(t testing.TB, c *Catalog, r *tracelog.Reader) *Catalog {
	t.Helper()
	must.Do(t, c.Read(r, func(float64) {}))
	return c
}

const never = timeline.Never

// catalogOf returns the catalog of a log.
func catalogOf(t testing.TB, open logtest.Opener) *Catalog {
	t.Helper()
	return take(t, NewCatalog(nil), openLog(t, open))
}

// resolved returns the catalog of a log with its programs.
func resolved(t testing.TB, open logtest.Opener) *Catalog {
	t.Helper()
	c := catalogOf(t, open)
	must.Do(t, c.Processes.Resolve(open, c.Contents))
	return c
}

// numbered returns the catalog of a log with its programs and numbered GPUs.
func numbered(t testing.TB, open logtest.Opener) *Catalog {
	t.Helper()
	c := resolved(t, open)
	new(Inventory).Number(c)
	return c
}

// The time of a log is from its earliest to its latest known time, of whatever record.
func TestTimeOfLog(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, log   string
		first, last uint64
	}{
		{"nothing", "", 0, 0},
		{"definitions have no time", "device pid=1\nthread pid=1 tid=1", 0, 0},
		{"a call until its return", "call pid=1 tid=1 func=#1 enter=100 dur=50", 100, 150},
		{"a kernel until its end", "kernel pid=1 stream=7 start=100 dur=50", 100, 150},
		{"an event without a duration", "marker pid=1 tid=1 time=100", 100, 100},
		{"unknown times", "call pid=1 tid=1 func=#1 enter=0 dur=50\nkernel pid=1 start=0 dur=9\nmarker pid=1 time=0", 0, 0},
		{"events in any order", "memory pid=1 time=300\nmemory pid=1 time=100\nmemory pid=1 time=200", 100, 300},
		{"a longer call inside of the log", "call pid=1 tid=1 func=#1 enter=100 dur=900\ncall pid=1 tid=2 func=#1 enter=200 dur=10", 100, 1000},
		{"the longest duration", "call pid=1 tid=1 func=#1 enter=100 dur=9223372036854775707", 100, 1<<63 - 1},
		{"times that cannot be", "marker pid=1 time=100\ncall pid=1 tid=1 func=#1 enter=100 dur=9223372036854775708\nnote time=0xffffffffffffffff text=x", 100, 100},
		{"a process that was seen before its first event", "process pid=1 start=50\nmarker pid=1 time=100", 50, 100},
		{"a clock reading", "clock monotonic=70 realtime=1000\nmarker pid=1 time=100", 70, 100},
		{"a note", "marker pid=1 time=100\nnote time=120 text=x", 100, 120},
		{"the end of a process", "marker pid=1 time=100\nprocess_end pid=1 time=130", 100, 130},
		{"a note without a time", "marker pid=1 time=100\nnote text=x", 100, 100},
		{"what a loss says is not when something happened", "marker pid=1 time=100\nlost cause=ring_buffer count=1 from=1 to=900", 100, 100},
		{"the end of the recording", "marker pid=1 time=100\nend time=140", 100, 140},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := catalogOf(t, logtest.Assemble(t, test.log))
			if c.First() != test.first || c.Last() != test.last {
				t.Errorf("the log lasts from %d to %d, want %d to %d", c.First(), c.Last(), test.first, test.last)
			}
			if c.KnownTime(0) != test.first || c.KnownTime(42) != 42 {
				t.Errorf("an unknown time is %d, 42 is %d", c.KnownTime(0), c.KnownTime(42))
			}
		})
	}
}

// The last of several values of a fact counts.
func TestMeta(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, "meta key=host value=a\nmeta key=host value=b\nmeta key=pid value=7"))
	goldentest.Same(t, map[string]string{"host": "b", "pid": "7"}, c.Meta, "facts")
}

// A filter leaves out the definitions and statements that it does not want; the end of the
// recording is always taken.
func TestFilter(t *testing.T) {
	t.Parallel()
	open := logtest.Assemble(t, `process pid=1 start=100 exe=/bin/one
process pid=2 start=50 exe=/bin/two
note time=300 pid=2 text=left
note time=200 pid=1 text=taken
end time=500 complete=1`)
	filter := tracelog.Filter{PIDs: []uint32{1}, Kinds: []tracelog.Kind{tracelog.KindProcess, tracelog.KindNote}}
	c := take(t, NewCatalog(&filter), openLog(t, open))
	goldentest.Same(t, []uint32{1}, c.Processes.PIDs, "processes")
	goldentest.Same(t, []tracelog.Note{{Time: 200, PID: 1, Text: "taken"}}, c.Outcome.Notes, "notes")
	if c.Outcome.End == nil || c.First() != 100 || c.Last() != 500 {
		t.Errorf("the end is %+v, the time %d to %d", c.Outcome.End, c.First(), c.Last())
	}
	if !c.Filtered() || NewCatalog(nil).Filtered() {
		t.Error("the catalog does not know that it has a filter")
	}
}

// everything has a record of each kind that the first reading takes something from.
const everything = `meta key=host value=a
function id=1 name=cuLaunchKernel library=driver args="function:handle stream:handle"
process pid=10 ppid=1 start=90 exe=/bin/app args=app
thread pid=10 tid=11 local_tid=2 name=worker
device pid=10 id=1 name=H200 uuid=ab
context pid=10 id=1 device=1 null_stream=7
stream pid=10 context=1 id=13 priority=-5
clock monotonic=95 realtime=1000 boottime=96
cupti pid=10 status=on clock_error=3
symbol pid=10 time=99 handle=0x7 name=kernel
name pid=10 object_kind=2 id=2 name=loader
call pid=10 tid=11 func=#1 enter=100 dur=10 args: function=7 stream=0
api pid=10 tid=2 domain=1 cbid=307 name=cuLaunchKernel start=101 dur=8 correlation=1
kernel pid=10 device=1 context=1 stream=13 correlation=1 start=200 dur=30 name=kernel
memcpy pid=10 device=1 context=1 stream=13 correlation=2 start=240 dur=30 bytes=9
memset pid=10 device=1 context=1 stream=13 correlation=3 start=280 dur=30 bytes=9
memset pid=10 device=2 context=2 stream=14 correlation=4 start=320 dur=30
overhead pid=10 overhead_kind=1 start=340 dur=40
marker pid=10 tid=2 flags=1 id=1 time=350 name=mark
memory pid=10 operation=1 device=1 time=360 address=0x10 bytes=5
memory_pool pid=10 operation=1 device=3 time=370
lost pid=10 cause=ring_buffer count=2 from=100 to=110
note time=380 text=note
process_end pid=10 time=390 complete=1 until=385
flushed pid=0 until=200
end time=400 complete=1
`

// A log that is read while it is written has after each step the catalog that its blocks so
// far have, and in the end that of the whole log.
func TestReadInSteps(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	r := g.Follow()
	defer r.Close()
	c := NewCatalog(nil)
	for line := range strings.Lines(everything) {
		g.Append(line)
		take(t, c, r)
		if want := catalogOf(t, logtest.InMemory(bytes.Clone(g.Bytes()))); !reflect.DeepEqual(c, want) {
			t.Fatalf("behind %sthe catalog is\n%+v, want\n%+v", line, c, want)
		}
	}
	g.Finish(tracelog.End{Time: 400, Complete: 1})
	if take(t, c, r); c.Outcome.End == nil || c.Totals[tracelog.KindEnd] != 1 {
		t.Errorf("the end is %+v", c.Outcome.End)
	}
}

// Read says now and then how much of the file it has read.
func TestReadProgress(t *testing.T) {
	t.Parallel()
	var parts []string
	for i := range 200 {
		parts = append(parts, fmt.Sprintf("marker pid=1 time=%d", 1+i))
	}
	r := openLog(t, logtest.Parts(t, parts...))
	var shares []float64
	must.Do(t, NewCatalog(nil).Read(r, func(share float64) { shares = append(shares, share) }))
	if len(shares) != 4 || !slices.IsSorted(shares) || shares[0] <= 0 || shares[0] > 0.5 || shares[3] < 0.9 || shares[3] > 1 {
		t.Errorf("the shares of 200 blocks are %v", shares)
	}
}

// What is damaged in a log is no error of its reading: the intact blocks are taken. That the
// file can't be read is one.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	g.Append("marker pid=1 time=100")
	from := g.Len()
	g.Append("marker pid=1 time=200")
	g.Append("marker pid=1 time=300")
	g.Finish(tracelog.End{})
	log := g.Bytes()
	log[from+30] ^= 1 // in the second block's payload
	r := openLog(t, logtest.InMemory(log))
	if c := take(t, NewCatalog(nil), r); c.Totals[tracelog.KindMarker] != 2 || c.First() != 100 || c.Last() != 300 || r.Damage().Count != 1 {
		t.Errorf("%d markers from %d to %d, damage %v", c.Totals[tracelog.KindMarker], c.First(), c.Last(), r.Damage())
	}
	r = must.Get(tracelog.NewReader(failingFile{bytes.NewReader(log), int64(from)}, int64(len(log)), "test"))(t)
	if err := NewCatalog(nil).Read(r, func(float64) {}); !errors.Is(err, errFile) || errors.Is(err, io.EOF) {
		t.Errorf("the error is %v", err)
	}
}

func TestCommunicators(t *testing.T) {
	t.Parallel()
	c := catalogOf(t, logtest.Assemble(t, `
nccl_call pid=1 tid=1 name=ncclAllReduce time=10 known=0x3 communicator=0xa00000001 bytes=100
nccl_call pid=1 tid=1 name=ncclAllGather time=20 known=0x3 communicator=0xb00000001 bytes=7
nccl_call pid=2 tid=2 name=ncclAllReduce time=20 known=0x3 communicator=0xa00000001 bytes=18446744073709551615
nccl_call pid=2 tid=2 name=ncclAllReduce time=30 known=0x3 communicator=0xa00000001 bytes=1
nccl_call pid=1 tid=1 name=ncclSend time=40 known=0x3 communicator=0xa00000001 bytes=11
nccl_call pid=1 tid=1 name=ncclFuture time=50
nccl_call pid=3 tid=3 name=ncclReduce time=60 known=0x2 bytes=5
nccl_call pid=1 tid=1 name=ncclCommDestroy time=70 known=0x5 communicator=0xa00000001 ranks=8 rank=3
end time=100 complete=1
`))
	got := ""
	for _, x := range c.Communicators.List {
		got += fmt.Sprintf("%d %#x rank %d of %d: %d, %d\n", x.PID, x.Hash, x.Rank, x.Ranks, x.Calls, x.Bytes)
	}
	const want = `1 0xa00000001 rank 3 of 8: 2, 111
1 0xb00000001 rank 0 of 0: 1, 7
2 0xa00000001 rank 0 of 0: 2, 18446744073709551615
3 0x0 rank 0 of 0: 1, 5
`
	if got != want || c.Communicators.Further != 0 {
		t.Errorf("%s and %d, want %s", got, c.Communicators.Further, want)
	}
}

// A log may name any number of communicators.
func TestManyCommunicators(t *testing.T) {
	t.Parallel()
	var c Communicators
	for i := range uint64(maxCommunicators + 10) {
		if of := c.of(communicatorKey{1, i}); (of == nil) != (i >= maxCommunicators) {
			t.Fatalf("communicator %d is %v", i, of)
		}
	}
}

// The symbol of a host stub names its kernel. Other symbols name none.
func TestHostStub(t *testing.T) {
	t.Parallel()
	for symbol, want := range map[string]string{
		"_Z24__device_stub__Z5smallPfPf":                    "_Z5smallPf",
		"_ZL24__device_stub__Z5smallPfPf":                   "_Z5smallPf",
		"_Z24__device_stub__Z5smallPfPf.constprop.0":        "_Z5smallPf",
		"_Z20__device_stub__Z1kPiPi":                        "_Z1kPi",
		"_ZL37__device_stub__Z4axpyIfEvT_PKS0_PS0_ifPKfPfi": "_Z4axpyIfEvT_PKS0_PS0_i",
		"_Z31__device_stub__ZN2ns5smallEPfS_PfS_":           "_ZN2ns5smallEPfS_",
		"_Z24__device_stub__Z5smallPf":                      "_Z5smallPf",
		"_Z25__device_stub__Z5smallPf":                      "", // cut off
		"_Z14__device_stub_v":                               "",
		"_Z3__device_stub__Z5smallPf":                       "",
		"_Z99999999999999999999__device_stub__Z5smallPfPf":  "",
		"_Z-24__device_stub__Z5smallPfPf":                   "",
		"_Z+24__device_stub__Z5smallPfPf":                   "",
		"_Z5smallPf":                                        "",
		"_ZN3abc24__device_stub__Z5smallPfEPf":              "",
		"_Z19__device_stub__plaini":                         "",
		"__device_stub__Z5smallPf":                          "",
		"_Z31__wrapper__device_stub_smallIfEvRPf":           "",
		"main": "", "": "", "_Z": "",
	} {
		got := ""
		if k := hostStub(symbol); k != nil {
			got = k.Name
		}
		if got != want {
			t.Errorf("%q is the host stub of %q, want %q", symbol, got, want)
		}
	}
}

package cupti

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// collect is a sink that keeps everything as text.
type collect struct{ lines []string }

func (c *collect) Add(r tracelog.Record) {
	c.lines = append(c.lines, fmt.Sprintf("%v %+v", r.Kind(), copyOf(r)))
}

// record is a record of a kind whose fields, each of 4 bytes, are given from
// its offset 4 on.
func record(kind tracelog.Kind, fields ...uint32) []byte {
	b := le.AppendUint16(nil, uint16(kind))
	b = le.AppendUint16(b, 0)
	for _, f := range fields {
		b = le.AppendUint32(b, f)
	}
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	return b
}

func stringRecord(id uint32, s string) []byte {
	b := record(tracelog.KindString, id, uint32(len(s)), 0)
	b = append(b, s...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	return b
}

// markerRecord is the start of a range.
func markerRecord(id, domain uint32, text string) []byte {
	b := record(tracelog.KindMarker, 43, 1000, 0, tracelog.MarkerStart, id, uint32(len(text)), domain)
	b = append(b, text...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	return b
}

func concat(parts ...[]byte) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// TestDecode has each form in which a member is sent: schema.Wire. The kinds are decoded by one generator;
// TestKernelFields and TestOtherRecords have the library send each.
func TestDecode(t *testing.T) {
	t.Parallel()
	gpu := []uint32{1, 5, 0, 1000, 0, 1500, 0, 2, 3, 7, 4}
	tests := []struct {
		name string
		in   []byte
		want any
	}{
		{"kernel", concat(stringRecord(1, "_Z3addPfS_"), record(tracelog.KindKernel, append(gpu, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 32)...)),
			tracelog.Kernel{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Graph: 4, GraphNode: 5, Start: 1000, Dur: 500},
				Name: "_Z3addPfS_", Registers: 32, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Cluster: [3]uint32{7, 8, 9},
				StaticShared: 10, DynamicShared: 11, LocalPerThread: 12}},
		{"api", concat(stringRecord(1, "cudaMemcpy"), record(tracelog.KindAPI, 43, 1000, 0, 1500, 0, 2, 31, 1, 7, 1, 0, 0, 0)),
			tracelog.API{PID: 42, TID: 43, Domain: 2, CBID: 31, Name: "cudaMemcpy", Start: 1000, Dur: 500, Correlation: 7, Ret: 1}},
		{"chain", concat(stringRecord(1, "cuLaunchKernel"), record(tracelog.KindCaller, 3, 9, 0, 2, 0, 0x1000, 0, 0x2000, 1), record(tracelog.KindAPI, 43, 1000, 0, 1500, 0, 1, 307, 1, 7, 0, 3, 0, 0)),
			tracelog.API{PID: 42, TID: 43, Domain: 1, CBID: 307, Name: "cuLaunchKernel", Start: 1000, Dur: 500, Correlation: 7, Caller: 90206}},
		{"device", concat(stringRecord(1, "H200"), record(tracelog.KindDevice, 1, 0x03020100, 0, 0, 0x0f000000, 2, 0, 3, 0, 1, 9, 0, 132,
			50, 51, 52, 1, 32, 64, 31, 60, 61, 62, 63, 1024)),
			tracelog.Device{PID: 42, ID: 1, Memory: 2, Bandwidth: 3, UUID: "0001020300000000000000000000000f", Name: "H200",
				Multiprocessors: 132, Major: 9, L2Cache: 50, Clock: 51, CopyEngines: 52, ECC: 1, WarpSize: 32, MaxWarps: 64, MaxBlocks: 31,
				MaxShared: 60, MaxRegisters: 61, BlockRegisters: 62, BlockShared: 63, BlockThreads: 1024}},
		{"stream", record(tracelog.KindStream, 1, 13, 0xffffffff, 2, 0), tracelog.Stream{PID: 42, Context: 1, ID: 13, Priority: -1, Flags: 2}},
		{"marker", concat(stringRecord(1, "NCCL"), markerRecord(9, 1, "step 7")),
			tracelog.Marker{PID: 42, TID: 43, Flags: tracelog.MarkerStart, ID: 9, Time: 1000, Name: "step 7", Domain: "NCCL"}},
		{"no-end", record(tracelog.KindMemset, 1, 0, 0, 1000, 0, 0, 0, 2, 3, 7, 0, 1, 0, 0, 0),
			tracelog.Memset{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Start: 1000}, Bytes: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got collect
			d := decoder{pid: 42, shared: new(peerMemory), sink: &got, callers: callerTable{find: sumOfChain, tell: func(uint64, int) {}}}
			must.Do(t, d.batch(test.in))
			kind := test.name
			switch kind {
			case "no-end":
				kind = "memset"
			case "chain":
				kind = "api"
			}
			if diff := cmp.Diff([]string{fmt.Sprintf("%s %+v", kind, test.want)}, got.lines); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTimeNamespace has a process send records whose clock is another one. An unknown time stays unknown, and a
// duration is no time.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	var got collect
	d := decoder{pid: 42, shared: new(peerMemory), sink: &got, shift: 700}
	in := concat(record(tracelog.KindMemset, 1, 0, 0, 1000, 0, 1500, 0, 2, 3, 7, 0, 1, 0, 0, 0), markerRecord(9, 0, ""),
		record(tracelog.KindOverhead, 1<<16, 0, 0, 0, 0, 2, 43))
	must.Do(t, d.batch(in))
	want := []string{
		fmt.Sprintf("memset %+v", tracelog.Memset{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Start: 300, Dur: 500}, Bytes: 1}),
		fmt.Sprintf("marker %+v", tracelog.Marker{PID: 42, TID: 43, Flags: tracelog.MarkerStart, ID: 9, Time: 300}),
		fmt.Sprintf("overhead %+v", tracelog.Overhead{PID: 42, OverheadKind: 1 << 16, ObjectKind: 2, TID: 43}),
	}
	if diff := cmp.Diff(want, got.lines); diff != "" {
		t.Error(diff)
	}
}

// sumOfChain makes a number of a chain that tells the parts of the chain.
func sumOfChain(c Chain, need func(int)) uint32 {
	need(1)
	n := 10000 * uint32(c.Epoch)
	for i, a := range c.Addresses {
		n += uint32(a>>32)*200 + uint32(a)>>12*uint32(i+1) + uint32(i)
	}
	return n
}

// malformedBatches are batches that must be refused, each with a word of why.
var malformedBatches = []struct {
	name, why string
	batch     []byte
}{
	{"chain-zero", "out of range", record(tracelog.KindCaller, 0, 1, 0, 1, 0, 1, 0)},
	{"chain-beyond", "out of range", record(tracelog.KindCaller, chainsMax, 1, 0, 1, 0, 1, 0)},
	{"chain-twice", "sent before", concat(record(tracelog.KindCaller, 1, 1, 0, 1, 0, 1, 0), record(tracelog.KindCaller, 1, 1, 0, 1, 0, 1, 0))},
	{"chain-empty", "0 addresses", record(tracelog.KindCaller, 1, 1, 0, 0, 0)},
	{"chain-long", "7 addresses", record(tracelog.KindCaller, 1, 1, 0, 7, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0)},
	{"chain-cut", "2 addresses in 32", record(tracelog.KindCaller, 1, 1, 0, 2, 0, 1, 0)},
	{"chain-not-sent", "never sent", concat(stringRecord(1, "cuLaunchKernel"), record(tracelog.KindAPI, 43, 1, 0, 2, 0, 1, 307, 1, 7, 0, 5, 0, 0))},
	{"trailing-bytes", "behind the last record", concat(record(tracelog.KindContext, 1, 2, 7), []byte{1, 2, 3})},
	{"size-zero", "and 0 bytes", []byte{8, 0, 0, 0, 0, 0, 0, 0}},
	{"size-odd", "and 12 bytes", []byte{8, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	{"size-beyond-batch", "and 104 bytes in 8", []byte{8, 0, 104, 0, 0, 0, 0, 0}},
	{"record-too-short", "in 16 bytes", record(tracelog.KindKernel, 1, 2, 3)},
	{"string-not-sent", "never sent", record(tracelog.KindAPI, 43, 1, 0, 2, 0, 2, 31, 5, 7, 1, 0, 0, 0)},
	{"string-number-repeated", "name number 1 after 1", concat(stringRecord(1, "a"), stringRecord(1, "a"))},
	{"string-number-skipped", "name number 3 after 0", stringRecord(3, "a")},
	{"string-number-zero", "name number 0 after 0", stringRecord(0, "a")},
	{"string-longer-than-record", "a name of 9 bytes", record(tracelog.KindString, 1, 9, 0)},
	{"mark-longer-than-record", "a text of 9 bytes", concat(markerRecord(1, 0, "12345678")[:24], []byte{9, 0, 0, 0, 0, 0, 0, 0}, []byte("12345678"))},
	{"mark-huge", "a text of 4294967295 bytes", record(tracelog.KindMarker, 43, 1000, 0, 2, 1, 0xffffffff, 0)},
	{"mark-of-unknown-domain", "never sent", markerRecord(1, 3, "a")},
	{"name-not-sent", "never sent", record(tracelog.KindName, 5, 13, 1, 2, 1)},
	{"pool-too-short", "in 16 bytes", record(tracelog.KindMemoryPool, 1, 2, 3)},
	{"string-huge", "a name of 4294967295 bytes", record(tracelog.KindString, 1, 0xffffffff, 0)},
}

func TestMalformedBatches(t *testing.T) {
	t.Parallel()
	for _, test := range malformedBatches {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := decoder{pid: 42, shared: new(peerMemory), sink: &collect{}}
			err := d.batch(test.batch)
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want an error with %q", err, test.why)
			}
		})
	}
}

func TestUnknownRecordIsSkipped(t *testing.T) {
	t.Parallel()
	var got collect
	d := decoder{pid: 42, shared: new(peerMemory), sink: &got}
	in := concat(record(99, 1, 2, 3, 4, 5), record(0, 1), append([]byte{231, 3, 16, 0}, make([]byte, 12)...), record(tracelog.KindContext, 1, 2, 7))
	if err := d.batch(in); err != nil || len(got.lines) != 1 {
		t.Errorf("got %q and %v, want the context alone", got.lines, err)
	}
}

func helloPayload(version uint32) []byte {
	b := le.AppendUint32(nil, version)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, 1000)
	return le.AppendUint64(b, 0x7f0000001000)
}

func TestHello(t *testing.T) {
	t.Parallel()
	h, err := parseHello(helloPayload(wireVersion))
	if err != nil || h != (hello{wireVersion, 1000, 0x7f0000001000}) {
		t.Errorf("got %+v, %v", h, err)
	}
	for _, bad := range [][]byte{nil, helloPayload(wireVersion)[1:], helloPayload(wireVersion + 1)} {
		var e protocolError
		if _, err := parseHello(bad); !errors.As(err, &e) {
			t.Errorf("%x: got %v, want it refused", bad, err)
		}
	}
}

func TestCallBase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"cudaMalloc": "cudaMalloc", "cudaMalloc_v3020": "cudaMalloc", "cudaLaunchKernel_ptsz_v7000": "cudaLaunchKernel",
		"cuMemcpyHtoD_v2": "cuMemcpyHtoD", "cuMemcpyHtoD_v2_ptds": "cuMemcpyHtoD", "cuCtxCreate_v4": "cuCtxCreate",
		"cudaStreamGetCaptureInfo_v2_v11030": "cudaStreamGetCaptureInfo", "cuMemcpy2D_v2": "cuMemcpy2D",
		"cuMemsetD32": "cuMemsetD32", "x_v": "x_v", "": "",
	} {
		if got := callBase(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// TestGo reads a GO as the library does.
func TestGo(t *testing.T) {
	t.Parallel()
	c := GoConfig{
		Candidates: []Candidate{{Path: "/lib/libcupti.so.13", Major: 13}}, Records: RecordWork | RecordNVTX,
		Calls:  []string{"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cudaMalloc"},
		Paused: true, CaptureRange: true, OwnClock: true, NoCUPTI: true, WatchClients: true,
		within: pattern.Ranges{Name: "step", Domain: "*"}, steps: pattern.Numbers{First: 1 << 32, Count: 11},
	}.withDefaults()
	b := appendGo(nil, c)[frameSize:]
	var got []uint32
	for i := goFlagsAt; i < goPythonAt; i += 4 {
		got = append(got, le.Uint32(b[i:]))
	}
	if diff := cmp.Diff([]uint32{31, 1, 2, 1 | 2, 6, 0, 1, 11, 0}, got); diff != "" {
		t.Error(diff)
	}
	const want = "\r\x00\x00\x00\x13\x00\x00\x00/lib/libcupti.so.13\f\x00\x00\x00cuMemcpyHtoD\n\x00\x00\x00cudaMallocstep\x00*"
	if diff := cmp.Diff(want, string(b[goSize:])); diff != "" {
		t.Error(diff)
	}
}

// TestHugeGo gives more than the library takes: it is cut, never refused.
func TestHugeGo(t *testing.T) {
	t.Parallel()
	var c GoConfig
	for i := range 10000 {
		c.Candidates = append(c.Candidates, Candidate{Path: fmt.Sprintf("/%d/%s", i, strings.Repeat("a", 4000))})
		c.Calls = append(c.Calls, fmt.Sprintf("cuCall%dx%s", i, strings.Repeat("a", 100)))
	}
	b := appendGo(nil, c)[frameSize:]
	if candidates, calls := le.Uint32(b[24:]), le.Uint32(b[28:]); len(b) > goMax || candidates != 32 || calls < 1000 || calls > 1300 {
		t.Errorf("%d bytes with %d candidates and %d calls", len(b), candidates, calls)
	}
}

func TestMessageReader(t *testing.T) {
	t.Parallel()
	whole := appendFrame(nil, msgFlush, []byte("12345678"))
	for cut := range whole {
		r := messageReader{memory: new(peerMemory), r: strings.NewReader(string(whole[:cut]))}
		want := io.ErrUnexpectedEOF
		if cut == 0 {
			want = io.EOF
		}
		if _, _, err := r.next(); !errors.Is(err, want) {
			t.Errorf("cut at %d: got %v, want %v", cut, err, want)
		}
	}
	huge := le.AppendUint32(nil, 0xffffffff)
	r := messageReader{memory: new(peerMemory), r: strings.NewReader(string(append(huge, 0, 0, 0, 0)))}
	if _, _, err := r.next(); err == nil || cap(r.buf) != 0 {
		t.Errorf("a huge length: got %v and a buffer of %d bytes", err, cap(r.buf))
	}
}

// stream is what a process that behaves sends.
func stream(parts ...[]byte) []byte {
	return append(appendFrame(nil, msgHello, helloPayload(wireVersion)), concat(parts...)...)
}

// seeds are the streams that fuzzing starts from. Each is kept under its name in
// testdata/fuzz/FuzzPeer, where the go command finds them.
func seeds() map[string][]byte {
	all := map[string][]byte{
		"hello":               stream(),
		"wrong-version":       appendFrame(nil, msgHello, helloPayload(wireVersion+1)),
		"no-hello":            appendFrame(nil, msgBatch, record(tracelog.KindContext, 1, 2, 3)),
		"second-hello":        stream(stream()),
		"cut-message":         stream(appendFrame(nil, msgBatch, record(tracelog.KindContext, 1, 2, 3)))[:50],
		"huge-length":         stream([]byte{255, 255, 255, 255, 3, 0, 0, 0}),
		"unknown-message":     stream(appendFrame(nil, 999, nil)),
		"status":              stream(appendFrame(nil, msgStatus, append(make([]byte, statusSize), "x"...))),
		"status-text-too-big": stream(appendFrame(nil, msgStatus, append(make([]byte, statusSize-1), 255))),
		"lost-unknown-cause":  stream(appendFrame(nil, msgLost, append([]byte{200}, make([]byte, lostSize-1)...))),
		"bye":                 stream(appendFrame(nil, msgBye, make([]byte, byeSize))),
		"bye-short":           stream(appendFrame(nil, msgBye, make([]byte, byeSize-1))),
		"flushed":             stream(appendFrame(nil, msgFlushed, []byte{1, 2, 3, 4, 5, 6, 7, 8})),
		"flushed-short":       stream(appendFrame(nil, msgFlushed, make([]byte, flushedSize-1))),
		"flushed-backwards":   stream(appendFrame(nil, msgFlushed, []byte{9, 0, 0, 0, 0, 0, 0, 0}), appendFrame(nil, msgFlushed, []byte{1, 0, 0, 0, 0, 0, 0, 0})),
		"handover":            stream(appendFrame(nil, msgHandover, byePayload(byeSignal, 11, 5))),
		"handover-no-until":   stream(appendFrame(nil, msgHandover, byePayload(byeSignal, 0xffffffff, 0))),
		"handover-twice":      stream(appendFrame(nil, msgHandover, byePayload(byeAsked, 0, 5)), appendFrame(nil, msgHandover, byePayload(byeQuickExit, 0, 4))),
		"handover-short":      stream(appendFrame(nil, msgHandover, make([]byte, byeSize-1))),
		"handover-goes-on":    stream(appendFrame(nil, msgHandover, byePayload(byeSignal, 2, 5)), appendFrame(nil, msgBatch, record(tracelog.KindContext, 1, 2, 3))),
		"note":                stream(appendFrame(nil, msgNote, append(make([]byte, noteSize), "x"...))),
		"locate":              appendFrame(nil, msgLocate, nil),
		"taken":               stream(appendFrame(nil, msgStatus, append([]byte{2}, make([]byte, statusSize-1)...))),
		"taken-text-too-big":  stream(appendFrame(nil, msgStatus, append(append([]byte{2}, make([]byte, statusSize-2)...), 255))),
		"clock":               stream(appendFrame(nil, msgClock, make([]byte, clockSize))),
		"clock-silent":        stream(appendFrame(nil, msgClock, append([]byte{3}, make([]byte, clockSize-1)...))),
		"extras": stream(appendFrame(nil, msgBatch, concat(stringRecord(1, "a"),
			record(tracelog.KindOverhead, 1<<16, 1000, 0, 1500, 0, 2, 43),
			markerRecord(9, 1, "step 7"), markerRecord(9, 1, ""), record(tracelog.KindName, 5, 13, 1, 2, 1),
			record(tracelog.KindMemoryPool, 3, 1000, 0, 0x9000, 0, 4096, 0, 64, 0, 32, 0, 1024, 0, 1, 2, 7, 0),
			record(tracelog.KindNCCLCall, 43, 1000, 0, 1, 2, 4096, 0, 1, 7, 2, 1)))),
		"names": stream(appendFrame(nil, msgBatch, concat(stringRecord(1, "a"), stringRecord(2, "b")))),
	}
	for _, b := range malformedBatches {
		all[b.name] = stream(appendFrame(nil, msgBatch, b.batch))
	}
	return all
}

// byePayload is that of a BYE or a HANDOVER.
func byePayload(reason, detail uint32, until uint64) []byte {
	b := le.AppendUint32(nil, reason)
	b = le.AppendUint32(b, detail)
	b = append(b, make([]byte, byeSize-16)...)
	return le.AppendUint64(b, until)
}

// TestReasons has processes end in all the ways that the wire knows of.
func TestReasons(t *testing.T) {
	t.Parallel()
	bye := func(m messageType, reason, detail uint32, until uint64) []byte {
		return appendFrame(nil, m, byePayload(reason, detail, until))
	}
	batch := appendFrame(nil, msgBatch, record(tracelog.KindContext, 1, 2, 3))
	flushed := appendFrame(nil, msgFlushed, []byte{3, 0, 0, 0, 0, 0, 0, 0})
	on := appendFrame(nil, msgStatus, append([]byte{statusOn}, make([]byte, statusSize-1)...))
	taken := appendFrame(nil, msgStatus, append([]byte{statusTaken}, make([]byte, statusSize-1)...))
	tests := []struct {
		name     string
		in       []byte
		complete uint32
		until    uint64
		reason   string
	}{
		{"exit", bye(msgBye, byeExit, 0, 5), 1, 5, "exit"},
		{"stop", bye(msgBye, byeStop, 0, 5), 1, 5, ""},
		{"signal", concat(batch, bye(msgHandover, byeSignal, 11, 5)), 1, 5, "signal 11 (SIGSEGV)"},
		{"signal-without-name", bye(msgHandover, byeSignal, 99, 5), 1, 5, "signal 99"},
		{"quick-exit", bye(msgHandover, byeQuickExit, 0, 5), 1, 5, "quick_exit"},
		{"asked", bye(msgHandover, byeAsked, 0, 5), 1, 5, ""},
		{"cupti-hung", concat(flushed, bye(msgHandover, byeSignal, 2, 0)), 0, 3, "signal 2 (SIGINT)"},
		{"goes-on", concat(bye(msgHandover, byeSignal, 2, 5), batch), 0, 5, ""},
		{"own-doings", concat(bye(msgHandover, byeSignal, 2, 5), appendFrame(nil, msgBatch, record(tracelog.KindOverhead, 1, 1000, 0, 1500, 0, 2, 43))), 1, 5,
			"signal 2 (SIGINT)"},
		{"goes-on-and-exits", concat(bye(msgHandover, byeSignal, 2, 5), batch, bye(msgBye, byeExit, 0, 7)), 1, 7, "exit"},
		{"taken", concat(taken, bye(msgHandover, byeSignal, 2, 5)), 0, 0, "signal 2 (SIGINT)"},
		{"killed", concat(on, flushed, batch), 0, 3, ""},
		{"killed-unrecorded", appendFrame(nil, msgStatus, make([]byte, statusSize)), 1, 0, ""},
		{"nonsense", concat(bye(msgHandover, byeSignal, 2, 5), appendFrame(nil, 99, nil)), 0, 5, "signal 2 (SIGINT)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := &peer{server: &Server{sink: nowhere{}}, listener: silent{}, decoder: decoder{pid: 1, shared: new(peerMemory), sink: nowhere{}}}
			p.complain(p.receive(&messageReader{memory: new(peerMemory), r: strings.NewReader(string(test.in))}))
			e := p.end()
			if e.Complete != test.complete || e.Until != test.until || e.Reason != test.reason {
				t.Errorf("got %+v", e)
			}
		})
	}
}

var update = flag.Bool("update", false, "rewrite the seeds in testdata")

func TestSeeds(t *testing.T) {
	t.Parallel()
	for name, seed := range seeds() {
		file := filepath.Join("testdata/fuzz/FuzzPeer", name)
		want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", seed)
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
				t.Error(err)
			}
			continue
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not the seed of that name; run go test -update (%v)", file, err)
		}
	}
}

func FuzzPeer(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		got := &collect{}
		p := &peer{server: &Server{sink: got}, listener: silent{}, decoder: decoder{pid: 1, shared: new(peerMemory), sink: got}}
		m := &messageReader{memory: new(peerMemory), r: strings.NewReader(string(in))}
		kind, payload, err := m.next()
		if err != nil || kind != msgHello {
			return
		}
		if _, err := parseHello(payload); err != nil {
			return
		}
		err = p.receive(m)
		if p.bye == nil && err == nil {
			t.Error("the stream ended without a goodbye and without an error")
		}
		p.complain(err)
		e := p.end()
		if whole := p.bye != nil || p.lastWord != nil || p.cupti.Status != ""; e.Complete == 1 && (!whole || p.broken || p.taken) {
			t.Errorf("%+v", e)
		}
		if e.Until != p.until {
			t.Errorf("%+v, but all is here up to %d", e, p.until)
		}
	})
}

// silent is a listener that hears everything and says nothing.
type silent struct{ Listener }

func (silent) Status(tracelog.CUPTI)            {}
func (silent) WatchExit(uint32, uint64, uint64) {}
func (silent) Note(uint32, string)              {}

// nowhere is a sink without a bottom.
type nowhere struct{}

func (nowhere) Add(tracelog.Record) {}

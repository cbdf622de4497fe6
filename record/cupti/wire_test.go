package cupti

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// layout is every number that the Go side takes from wire.h, as C would print it.
var layout = map[string]int{
	"CT_WIRE_VERSION": wireVersion, "CT_MESSAGE_MAX": messageMax, "CT_NAME_MAX": nameMax,
	"CT_NAMES_MAX": stringsMax, "CT_STATUS_ON": statusOn, "CT_STATUS_TAKEN": statusTaken,
	"CT_CLOCK_SILENT": clockSilent, "CT_GO_NO_CUPTI": goNoCUPTI, "CT_GO_PAUSED": goPaused,
	"CT_GO_CAPTURE_RANGE": goCaptureRange, "CT_GO_OWN_CLOCK": goOwnClock, "CT_GO_WATCH_RIVALS": goWatch,
	"CT_RECORDS_SYNC": int(RecordSync) >> 1, "CT_RECORDS_OVERHEAD": int(RecordOverhead) >> 1,
	"CT_RECORDS_NVTX": int(RecordNVTX) >> 1, "CT_RECORDS_MEMORY": int(RecordMemory) >> 1,
	"CT_RECORDS_GRAPHS": int(RecordGraphs) >> 1,
	"CT_MSG_LOCATE":     int(msgLocate), "CT_MSG_PAUSE": int(msgPause), "CT_MSG_RESUME": int(msgResume),
	"CT_MSG_READY": int(msgReady), "CT_MSG_RIVAL": int(msgForeign), "CT_REC_SYNC": int(recSync), "CT_REC_OVERHEAD": int(recOverhead),
	"CT_REC_MARKER": int(recMarker), "CT_REC_NAME": int(recName), "CT_REC_MEMORY": int(recMemory),
	"CT_REC_POOL": int(recPool), "CT_REC_GRAPH": int(recGraph),
	"CT_MSG_HELLO": int(msgHello), "CT_MSG_STATUS": int(msgStatus), "CT_MSG_BATCH": int(msgBatch),
	"CT_MSG_CLOCK": int(msgClock), "CT_MSG_LOST": int(msgLost), "CT_MSG_NOTE": int(msgNote),
	"CT_MSG_BYE": int(msgBye), "CT_MSG_GO": int(msgGo), "CT_MSG_STOP": int(msgStop), "CT_MSG_FLUSH": int(msgFlush),
	"CT_REC_STRING": int(recString), "CT_REC_KERNEL": int(recKernel), "CT_REC_MEMCPY": int(recMemcpy),
	"CT_REC_MEMSET": int(recMemset), "CT_REC_API": int(recAPI), "CT_REC_DEVICE": int(recDevice),
	"CT_REC_CONTEXT": int(recContext), "CT_REC_STREAM": int(recStream),
	"CT_LOST_CAUSES": len(lostCauses), "CT_LOST_QUEUE": 1, "CT_LOST_CUPTI": 2, "CT_LOST_BUFFER": 3,
	"CT_LOST_TIME": 4, "CT_LOST_CLOCK": 5, "CT_LOST_NAME": 6, "CT_LOST_UNREADABLE": 7, "CT_LOST_UNFINISHED": 8,

	"sizeof(struct ct_frame)": frameSize, "sizeof(struct ct_hello)": helloSize, "sizeof(struct ct_go)": goSize,
	"sizeof(struct ct_status)": statusSize, "sizeof(struct ct_clock)": clockSize, "sizeof(struct ct_lost)": lostSize,
	"CT_MSG_FLUSHED": int(msgFlushed), "CT_MSG_HANDOVER": int(msgHandover), "sizeof(struct ct_flushed)": flushedSize,
	"CT_BYE_EXIT": byeExit, "CT_BYE_STOP": byeStop, "CT_BYE_SIGNAL": byeSignal, "CT_BYE_QUICK_EXIT": byeQuickExit,
	"CT_BYE_ASKED": byeAsked, "offsetof(struct ct_bye, detail)": 4, "offsetof(struct ct_bye, until)": 72,
	"offsetof(struct ct_status, exit_signal)": 24, "offsetof(struct ct_status, exit_handler)": 32,
	"sizeof(struct ct_note)": noteSize, "sizeof(struct ct_bye)": byeSize, "sizeof(struct ct_string)": stringSize,
	"sizeof(struct ct_gpu)": gpuSize, "sizeof(struct ct_kernel)": kernelSize, "sizeof(struct ct_memcpy)": memcpySize,
	"sizeof(struct ct_memset)": memsetSize, "sizeof(struct ct_api)": apiSize, "sizeof(struct ct_device)": deviceSize,
	"sizeof(struct ct_context)": contextSize, "sizeof(struct ct_stream)": streamSize,
	"sizeof(struct ct_sync)": syncSize, "sizeof(struct ct_overhead)": overheadSize,
	"sizeof(struct ct_marker)": markerSize, "sizeof(struct ct_name)": nameSize,
	"sizeof(struct ct_memory)": memorySize, "sizeof(struct ct_pool)": poolSize,

	"offsetof(struct ct_hello, request)": 24,
	"offsetof(struct ct_go, calls)":      28, "offsetof(struct ct_go, records)": 32,
	"offsetof(struct ct_sync, correlation)": 4, "offsetof(struct ct_sync, start)": 8, "offsetof(struct ct_sync, end)": 16,
	"offsetof(struct ct_sync, type)": 24, "offsetof(struct ct_sync, context)": 28, "offsetof(struct ct_sync, stream)": 32,
	"offsetof(struct ct_sync, event)":   36,
	"offsetof(struct ct_overhead, tid)": 4, "offsetof(struct ct_overhead, start)": 8, "offsetof(struct ct_overhead, end)": 16,
	"offsetof(struct ct_overhead, overhead)": 24, "offsetof(struct ct_overhead, object)": 28,
	"offsetof(struct ct_marker, id)": 4, "offsetof(struct ct_marker, time)": 8, "offsetof(struct ct_marker, tid)": 16,
	"offsetof(struct ct_marker, flags)": 20, "offsetof(struct ct_marker, domain)": 24, "offsetof(struct ct_marker, length)": 28,
	"offsetof(struct ct_name, object)": 4, "offsetof(struct ct_name, id)": 8, "offsetof(struct ct_name, context)": 12,
	"offsetof(struct ct_name, device)": 16, "offsetof(struct ct_name, name)": 20,
	"offsetof(struct ct_memory, correlation)": 4, "offsetof(struct ct_memory, time)": 8, "offsetof(struct ct_memory, address)": 16,
	"offsetof(struct ct_memory, bytes)": 24, "offsetof(struct ct_memory, pool)": 32, "offsetof(struct ct_memory, operation)": 40,
	"offsetof(struct ct_memory, memory_kind)": 44, "offsetof(struct ct_memory, device)": 48, "offsetof(struct ct_memory, context)": 52,
	"offsetof(struct ct_memory, stream)": 56, "offsetof(struct ct_memory, async)": 60,
	"offsetof(struct ct_pool, correlation)": 4, "offsetof(struct ct_pool, time)": 8, "offsetof(struct ct_pool, address)": 16,
	"offsetof(struct ct_pool, bytes)": 24, "offsetof(struct ct_pool, release_threshold)": 32,
	"offsetof(struct ct_pool, min_bytes_to_keep)": 40, "offsetof(struct ct_pool, operation)": 48,
	"offsetof(struct ct_pool, pool_kind)": 52, "offsetof(struct ct_pool, device)": 56,

	"offsetof(struct ct_frame, type)": 4, "offsetof(struct ct_hello, pid)": 4, "offsetof(struct ct_hello, now)": 8,
	"offsetof(struct ct_hello, path_len)": 16, "offsetof(struct ct_go, flush_ms)": 4,
	"offsetof(struct ct_go, memory_limit)": 8, "offsetof(struct ct_go, exit_ms)": 16,
	"offsetof(struct ct_go, flags)": 20, "offsetof(struct ct_go, candidates)": 24,
	"offsetof(struct ct_status, cupti_version)": 4, "offsetof(struct ct_status, driver_version)": 8,
	"offsetof(struct ct_status, apis)": 12, "offsetof(struct ct_status, path_len)": 16,
	"offsetof(struct ct_status, text_len)": 20, "offsetof(struct ct_clock, error)": 16,
	"offsetof(struct ct_lost, count)": 8, "offsetof(struct ct_lost, from)": 16, "offsetof(struct ct_lost, to)": 24,
	"offsetof(struct ct_note, text_len)": 4, "offsetof(struct ct_bye, now)": 8,
	"offsetof(struct ct_bye, kernels)": 16, "offsetof(struct ct_bye, memcpys)": 24,
	"offsetof(struct ct_bye, memsets)": 32, "offsetof(struct ct_bye, apis)": 40,
	"offsetof(struct ct_bye, objects)": 48, "offsetof(struct ct_bye, extras)": 56,
	"offsetof(struct ct_bye, others)": 64,
	"offsetof(struct ct_string, id)":  4, "offsetof(struct ct_string, length)": 8,
	"offsetof(struct ct_gpu, size)": 2, "offsetof(struct ct_gpu, correlation)": 4,
	"offsetof(struct ct_gpu, start)": 8, "offsetof(struct ct_gpu, end)": 16,
	"offsetof(struct ct_gpu, device)": 24, "offsetof(struct ct_gpu, context)": 28,
	"offsetof(struct ct_gpu, stream)": 32, "offsetof(struct ct_gpu, graph)": 36,
	"offsetof(struct ct_gpu, graph_node)": 40, "offsetof(struct ct_kernel, name)": 48,
	"offsetof(struct ct_kernel, registers)": 52, "offsetof(struct ct_kernel, grid)": 56,
	"offsetof(struct ct_kernel, block)": 68, "offsetof(struct ct_kernel, cluster)": 80,
	"offsetof(struct ct_kernel, static_shared)": 92, "offsetof(struct ct_kernel, dynamic_shared)": 96,
	"offsetof(struct ct_kernel, local_per_thread)": 100, "offsetof(struct ct_memcpy, bytes)": 48,
	"offsetof(struct ct_memcpy, copy_kind)": 56, "offsetof(struct ct_memcpy, src_kind)": 60,
	"offsetof(struct ct_memcpy, dst_kind)": 64, "offsetof(struct ct_memcpy, src_device)": 68,
	"offsetof(struct ct_memcpy, dst_device)": 72, "offsetof(struct ct_memset, bytes)": 48,
	"offsetof(struct ct_memset, value)": 56, "offsetof(struct ct_api, correlation)": 4,
	"offsetof(struct ct_api, start)": 8, "offsetof(struct ct_api, end)": 16, "offsetof(struct ct_api, tid)": 24,
	"offsetof(struct ct_api, domain)": 28, "offsetof(struct ct_api, cbid)": 32, "offsetof(struct ct_api, ret)": 36,
	"offsetof(struct ct_api, name)": 40, "offsetof(struct ct_device, id)": 4,
	"offsetof(struct ct_device, memory)": 8, "offsetof(struct ct_device, bandwidth)": 16,
	"offsetof(struct ct_device, uuid)": 24, "offsetof(struct ct_device, name)": 40,
	"offsetof(struct ct_device, multiprocessors)": 44, "offsetof(struct ct_device, major)": 48,
	"offsetof(struct ct_device, minor)": 52, "offsetof(struct ct_context, device)": 8,
	"offsetof(struct ct_context, null_stream)": 12, "offsetof(struct ct_stream, context)": 8,
	"offsetof(struct ct_stream, priority)": 12, "offsetof(struct ct_stream, flags)": 16,
}

// TestLayout holds the Go side against what the C compiler makes of wire.h.
func TestLayout(t *testing.T) {
	t.Parallel()
	var c strings.Builder
	c.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"wire.h\"\nint main(void)\n{\n")
	for what := range layout {
		fmt.Fprintf(&c, "\tprintf(\"%%s=%%lld\\n\", \"%s\", (long long)%s);\n", what, what)
	}
	c.WriteString("\treturn 0;\n}\n")
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(c.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=c11", "-Iinject", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		what, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if want := fmt.Sprint(layout[what]); value != want {
			t.Errorf("%s is %s in C and %s in Go", what, value, want)
		}
	}
}

// collect is a sink that keeps everything as text.
type collect struct{ lines []string }

func (c *collect) add(kind string, r any) { c.lines = append(c.lines, fmt.Sprintf("%s %+v", kind, r)) }

func (c *collect) Kernel(r *tracelog.Kernel)         { c.add("kernel", *r) }
func (c *collect) Memcpy(r *tracelog.Memcpy)         { c.add("memcpy", *r) }
func (c *collect) Memset(r *tracelog.Memset)         { c.add("memset", *r) }
func (c *collect) API(r *tracelog.API)               { c.add("api", *r) }
func (c *collect) Device(r *tracelog.Device)         { c.add("device", *r) }
func (c *collect) Context(r *tracelog.Context)       { c.add("context", *r) }
func (c *collect) Stream(r *tracelog.Stream)         { c.add("stream", *r) }
func (c *collect) Sync(r *tracelog.Sync)             { c.add("sync", *r) }
func (c *collect) Overhead(r *tracelog.Overhead)     { c.add("overhead", *r) }
func (c *collect) Marker(r *tracelog.Marker)         { c.add("marker", *r) }
func (c *collect) Name(r *tracelog.Name)             { c.add("name", *r) }
func (c *collect) Memory(r *tracelog.Memory)         { c.add("memory", *r) }
func (c *collect) MemoryPool(r *tracelog.MemoryPool) { c.add("pool", *r) }
func (c *collect) Graph(r *tracelog.Graph)           { c.add("graph", *r) }
func (c *collect) CUPTI(r *tracelog.CUPTI)           { c.add("cupti", *r) }
func (c *collect) Lost(r *tracelog.Lost)             { c.add("lost", *r) }
func (c *collect) Flushed(r *tracelog.Flushed)       { c.add("flushed", *r) }

// record is a record of a kind whose fields, each of 4 bytes, are given from
// its offset 4 on.
func record(kind recordKind, fields ...uint32) []byte {
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
	b := record(recString, id, uint32(len(s)), 0)
	b = append(b, s...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	return b
}

// markerRecord is the start of a range.
func markerRecord(id, domain uint32, text string) []byte {
	b := record(recMarker, id, 1000, 0, 43, tracelog.MarkerStart, domain, uint32(len(text)))
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

func TestDecode(t *testing.T) {
	t.Parallel()
	gpu := []uint32{7, 1000, 0, 1500, 0, 1, 2, 3, 4, 5, 0}
	tests := []struct {
		name string
		in   []byte
		want any
	}{
		{"kernel", concat(stringRecord(1, "_Z3addPfS_"), record(recKernel, append(gpu, 1, 32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)...)),
			tracelog.Kernel{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Graph: 4, GraphNode: 5, Start: 1000, Dur: 500},
				Name: "_Z3addPfS_", Registers: 32, Grid: [3]uint32{1, 2, 3}, Block: [3]uint32{4, 5, 6}, Cluster: [3]uint32{7, 8, 9},
				StaticShared: 10, DynamicShared: 11, LocalPerThread: 12}},
		{"memcpy", record(recMemcpy, append(gpu, 4096, 0, 1, 2, 3, 6, 7, 0)...),
			tracelog.Memcpy{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Graph: 4, GraphNode: 5, Start: 1000, Dur: 500},
				Bytes: 4096, CopyKind: 1, SrcKind: 2, DstKind: 3, SrcDevice: 6, DstDevice: 7}},
		{"memset", record(recMemset, append(gpu, 4096, 0, 255, 0)...),
			tracelog.Memset{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Graph: 4, GraphNode: 5, Start: 1000, Dur: 500},
				Bytes: 4096, Value: 255}},
		{"api", concat(stringRecord(1, "cudaMemcpy"), record(recAPI, 7, 1000, 0, 1500, 0, 43, 2, 31, 1, 1, 0)),
			tracelog.API{PID: 42, TID: 43, Domain: 2, CBID: 31, Name: "cudaMemcpy", Start: 1000, Dur: 500, Correlation: 7, Ret: 1}},
		{"device", concat(stringRecord(1, "H200"), record(recDevice, 1, 2, 0, 3, 0, 0x03020100, 0, 0, 0x0f000000, 1, 132, 9, 0)),
			tracelog.Device{PID: 42, ID: 1, Memory: 2, Bandwidth: 3, UUID: "0001020300000000000000000000000f", Name: "H200",
				Multiprocessors: 132, Major: 9}},
		{"context", record(recContext, 1, 2, 7), tracelog.Context{PID: 42, ID: 1, Device: 2, NullStream: 7}},
		{"stream", record(recStream, 13, 1, 0xffffffff, 2, 0), tracelog.Stream{PID: 42, Context: 1, ID: 13, Priority: -1, Flags: 2}},
		{"sync", record(recSync, 7, 1000, 0, 1500, 0, 3, 1, 13, 0xffffffff),
			tracelog.Sync{PID: 42, Type: 3, Context: 1, Stream: 13, Event: 0xffffffff, Correlation: 7, Start: 1000, Dur: 500}},
		{"overhead", record(recOverhead, 43, 1000, 0, 1500, 0, 1<<16, 2),
			tracelog.Overhead{PID: 42, Kind: 1 << 16, ObjectKind: 2, TID: 43, Start: 1000, Dur: 500}},
		{"marker", concat(stringRecord(1, "NCCL"), markerRecord(9, 1, "step 7")),
			tracelog.Marker{PID: 42, TID: 43, Flags: tracelog.MarkerStart, ID: 9, Time: 1000, Name: "step 7", Domain: "NCCL"}},
		{"name", concat(stringRecord(1, "loader"), record(recName, tracelog.ObjectStream, 13, 1, 2, 1)),
			tracelog.Name{PID: 42, ObjectKind: tracelog.ObjectStream, ID: 13, Context: 1, Device: 2, Name: "loader"}},
		{"memory", record(recMemory, 7, 1000, 0, 0x7000, 1, 4096, 0, 0x9000, 0, 1, 3, 2, 4, 13, 1),
			tracelog.Memory{PID: 42, Operation: 1, MemoryKind: 3, Device: 2, Context: 4, Stream: 13, Correlation: 7, Async: 1,
				Time: 1000, Address: 1<<32 + 0x7000, Bytes: 4096, Pool: 0x9000}},
		{"pool", record(recPool, 7, 1000, 0, 0x9000, 0, 4096, 0, 64, 0, 32, 0, 3, 1, 2, 0),
			tracelog.MemoryPool{PID: 42, Operation: 3, PoolKind: 1, Device: 2, Correlation: 7, Time: 1000, Address: 0x9000,
				Size: 4096, ReleaseThreshold: 64, MinBytesToKeep: 32}},
		{"graph", record(recGraph, gpu...),
			tracelog.Graph{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Graph: 4, GraphNode: 5, Start: 1000, Dur: 500}}},
		{"no-end", record(recMemset, 7, 1000, 0, 0, 0, 1, 2, 3, 0, 0, 0, 1, 0, 0, 0),
			tracelog.Memset{GPU: tracelog.GPU{PID: 42, Device: 1, Context: 2, Stream: 3, Correlation: 7, Start: 1000}, Bytes: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got collect
			d := decoder{pid: 42, sink: &got}
			if err := d.batch(test.in); err != nil {
				t.Fatal(err)
			}
			kind := test.name
			if kind == "no-end" {
				kind = "memset"
			}
			if diff := cmp.Diff([]string{fmt.Sprintf("%s %+v", kind, test.want)}, got.lines); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// malformedBatches are batches that must be refused, each with a word of why.
var malformedBatches = []struct {
	name, why string
	batch     []byte
}{
	{"trailing-bytes", "behind the last record", concat(record(recContext, 1, 2, 7), []byte{1, 2, 3})},
	{"size-zero", "and 0 bytes", []byte{2, 0, 0, 0, 0, 0, 0, 0}},
	{"size-odd", "and 12 bytes", []byte{2, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	{"size-beyond-batch", "and 104 bytes in 8", []byte{2, 0, 104, 0, 0, 0, 0, 0}},
	{"record-too-short", "in 16 bytes", record(recKernel, 1, 2, 3)},
	{"string-not-sent", "never sent", record(recAPI, 7, 1, 0, 2, 0, 43, 2, 31, 1, 5, 0)},
	{"string-number-repeated", "name number 1 after 1", concat(stringRecord(1, "a"), stringRecord(1, "a"))},
	{"string-number-skipped", "name number 3 after 0", stringRecord(3, "a")},
	{"string-number-zero", "name number 0 after 0", stringRecord(0, "a")},
	{"string-longer-than-record", "a name of 9 bytes", record(recString, 1, 9, 0)},
	{"mark-longer-than-record", "a mark of 9 bytes", concat(markerRecord(1, 0, "12345678")[:28], []byte{9, 0, 0, 0}, []byte("12345678"))},
	{"mark-huge", "a mark of 4294967295 bytes", record(recMarker, 1, 1000, 0, 43, 2, 0, 0xffffffff)},
	{"mark-of-unknown-domain", "never sent", markerRecord(1, 3, "a")},
	{"name-not-sent", "never sent", record(recName, 5, 13, 1, 2, 1)},
	{"memory-too-short", "in 16 bytes", record(recMemory, 1, 2, 3)},
	{"string-huge", "a name of 4294967295 bytes", record(recString, 1, 0xffffffff, 0)},
}

func TestMalformedBatches(t *testing.T) {
	t.Parallel()
	for _, test := range malformedBatches {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := decoder{pid: 42, sink: &collect{}}
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
	d := decoder{pid: 42, sink: &got}
	in := concat(record(999, 1, 2, 3, 4, 5), record(0, 1), record(recContext, 1, 2, 7))
	if err := d.batch(in); err != nil || len(got.lines) != 1 {
		t.Errorf("got %q and %v, want the context alone", got.lines, err)
	}
}

func helloPayload(version, pathLen uint32) []byte {
	b := le.AppendUint32(nil, version)
	b = le.AppendUint32(b, 42)
	b = le.AppendUint64(b, 1000)
	b = le.AppendUint32(b, pathLen)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, 0x7f0000001000)
	return append(b, "/lib"...)
}

func TestHello(t *testing.T) {
	t.Parallel()
	h, err := parseHello(helloPayload(wireVersion, 4))
	if err != nil || h != (hello{wireVersion, 42, 1000, 0x7f0000001000, "/lib"}) {
		t.Errorf("got %+v, %v", h, err)
	}
	for _, bad := range [][]byte{nil, helloPayload(wireVersion, 5), helloPayload(wireVersion, 0xffffffff), helloPayload(wireVersion+1, 4)} {
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
		Candidates: []Candidate{{"/lib/libcupti.so.13", 13}}, Records: RecordWork | RecordSync | RecordGraphs,
		Calls:  []string{"cuMemcpyHtoD_v2", "cuMemcpyHtoD_v2_ptds", "cudaMalloc"},
		Paused: true, CaptureRange: true, OwnClock: true, NoCUPTI: true, WatchClients: true,
	}.withDefaults()
	b := appendGo(nil, c)[frameSize:]
	var got []uint32
	for i := 20; i < goSize; i += 4 {
		got = append(got, le.Uint32(b[i:]))
	}
	if diff := cmp.Diff([]uint32{31, 1, 2, 1 | 16, 0}, got); diff != "" {
		t.Error(diff)
	}
	const want = "\r\x00\x00\x00\x13\x00\x00\x00/lib/libcupti.so.13\f\x00\x00\x00cuMemcpyHtoD\n\x00\x00\x00cudaMalloc"
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
		r := messageReader{r: strings.NewReader(string(whole[:cut]))}
		want := io.ErrUnexpectedEOF
		if cut == 0 {
			want = io.EOF
		}
		if _, _, err := r.next(); !errors.Is(err, want) {
			t.Errorf("cut at %d: got %v, want %v", cut, err, want)
		}
	}
	huge := le.AppendUint32(nil, 0xffffffff)
	r := messageReader{r: strings.NewReader(string(append(huge, 0, 0, 0, 0)))}
	if _, _, err := r.next(); err == nil || cap(r.buf) != 0 {
		t.Errorf("a huge length: got %v and a buffer of %d bytes", err, cap(r.buf))
	}
}

// session is the stream of a process that behaves.
func session(parts ...[]byte) []byte {
	return append(appendFrame(nil, msgHello, helloPayload(wireVersion, 4)), concat(parts...)...)
}

// seeds are the streams that fuzzing starts from. Each is kept under its name in
// testdata/fuzz/FuzzPeer, where the go command finds them.
func seeds() map[string][]byte {
	all := map[string][]byte{
		"hello":               session(),
		"wrong-version":       appendFrame(nil, msgHello, helloPayload(9, 4)),
		"no-hello":            appendFrame(nil, msgBatch, record(recContext, 1, 2, 3)),
		"second-hello":        session(session()),
		"cut-message":         session(appendFrame(nil, msgBatch, record(recContext, 1, 2, 3)))[:50],
		"huge-length":         session([]byte{255, 255, 255, 255, 3, 0, 0, 0}),
		"unknown-message":     session(appendFrame(nil, 999, nil)),
		"status":              session(appendFrame(nil, msgStatus, append(make([]byte, statusSize), "x"...))),
		"status-text-too-big": session(appendFrame(nil, msgStatus, append(make([]byte, statusSize-1), 255))),
		"lost-unknown-cause":  session(appendFrame(nil, msgLost, append([]byte{200}, make([]byte, lostSize-1)...))),
		"bye":                 session(appendFrame(nil, msgBye, make([]byte, byeSize))),
		"bye-short":           session(appendFrame(nil, msgBye, make([]byte, byeSize-1))),
		"flushed":             session(appendFrame(nil, msgFlushed, []byte{1, 2, 3, 4, 5, 6, 7, 8})),
		"flushed-short":       session(appendFrame(nil, msgFlushed, make([]byte, flushedSize-1))),
		"flushed-backwards":   session(appendFrame(nil, msgFlushed, []byte{9, 0, 0, 0, 0, 0, 0, 0}), appendFrame(nil, msgFlushed, []byte{1, 0, 0, 0, 0, 0, 0, 0})),
		"handover":            session(appendFrame(nil, msgHandover, byePayload(byeSignal, 11, 5))),
		"handover-no-until":   session(appendFrame(nil, msgHandover, byePayload(byeSignal, 0xffffffff, 0))),
		"handover-twice":      session(appendFrame(nil, msgHandover, byePayload(byeAsked, 0, 5)), appendFrame(nil, msgHandover, byePayload(byeQuickExit, 0, 4))),
		"handover-short":      session(appendFrame(nil, msgHandover, make([]byte, byeSize-1))),
		"handover-goes-on":    session(appendFrame(nil, msgHandover, byePayload(byeSignal, 2, 5)), appendFrame(nil, msgBatch, record(recContext, 1, 2, 3))),
		"note":                session(appendFrame(nil, msgNote, append(make([]byte, noteSize), "x"...))),
		"locate":              appendFrame(nil, msgLocate, nil),
		"taken":               session(appendFrame(nil, msgStatus, append([]byte{2}, make([]byte, statusSize-1)...))),
		"taken-text-too-big":  session(appendFrame(nil, msgStatus, append(append([]byte{2}, make([]byte, statusSize-2)...), 255))),
		"clock":               session(appendFrame(nil, msgClock, make([]byte, clockSize))),
		"clock-silent":        session(appendFrame(nil, msgClock, append([]byte{3}, make([]byte, clockSize-1)...))),
		"extras": session(appendFrame(nil, msgBatch, concat(stringRecord(1, "a"),
			record(recSync, 7, 1000, 0, 1500, 0, 3, 1, 13, 0xffffffff), record(recOverhead, 43, 1000, 0, 1500, 0, 1<<16, 2),
			markerRecord(9, 1, "step 7"), markerRecord(9, 1, ""), record(recName, 5, 13, 1, 2, 1),
			record(recMemory, 7, 1000, 0, 0x7000, 1, 4096, 0, 0x9000, 0, 1, 3, 2, 4, 13, 1),
			record(recPool, 7, 1000, 0, 0x9000, 0, 4096, 0, 64, 0, 32, 0, 3, 1, 2, 0),
			record(recGraph, 7, 1000, 0, 1500, 0, 1, 2, 3, 4, 5, 0)))),
		"names": session(appendFrame(nil, msgBatch, concat(stringRecord(1, "a"), stringRecord(2, "b")))),
	}
	for _, b := range malformedBatches {
		all[b.name] = session(appendFrame(nil, msgBatch, b.batch))
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
	batch := appendFrame(nil, msgBatch, record(recContext, 1, 2, 3))
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
		{"own-doings", concat(bye(msgHandover, byeSignal, 2, 5), appendFrame(nil, msgBatch, record(recOverhead, 43, 1000, 0, 1500, 0, 1, 2))), 1, 5,
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
			p := &peer{server: &Server{sink: nowhere{}}, handler: silent{}, decoder: decoder{pid: 1, sink: nowhere{}}}
			p.complain(p.receive(&messageReader{r: strings.NewReader(string(test.in))}))
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
		p := &peer{server: &Server{sink: got}, handler: silent{}, decoder: decoder{pid: 1, sink: got}}
		m := &messageReader{r: strings.NewReader(string(in))}
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
		if whole := p.bye != nil || p.handed != nil || p.cupti.Status != ""; e.Complete == 1 && (!whole || p.broken || p.taken) {
			t.Errorf("%+v", e)
		}
		if e.Until != p.until {
			t.Errorf("%+v, but all is here up to %d", e, p.until)
		}
	})
}

// silent is a handler that hears everything and says nothing.
type silent struct{}

func (silent) Hello(Peer) GoConfig           { return GoConfig{} }
func (silent) End(Peer, tracelog.ProcessEnd) {}
func (silent) Note(Peer, uint32, string)     {}

func BenchmarkDecode(b *testing.B) {
	kernel := record(recKernel, 7, 1000, 0, 1500, 0, 1, 2, 3, 4, 5, 0, 1, 32, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	api := record(recAPI, 7, 1000, 0, 1500, 0, 43, 2, 31, 1, 1, 0)
	d := decoder{pid: 42, sink: nowhere{}}
	if err := d.batch(stringRecord(1, "_Z3addPfS_")); err != nil {
		b.Fatal(err)
	}
	var batch []byte
	for range 300 {
		batch = concat(batch, kernel, api)
	}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.batch(batch); err != nil {
			b.Fatal(err)
		}
	}
}

// nowhere is a sink without a bottom.
type nowhere struct{}

func (nowhere) Kernel(*tracelog.Kernel)         {}
func (nowhere) Memcpy(*tracelog.Memcpy)         {}
func (nowhere) Memset(*tracelog.Memset)         {}
func (nowhere) API(*tracelog.API)               {}
func (nowhere) Device(*tracelog.Device)         {}
func (nowhere) Context(*tracelog.Context)       {}
func (nowhere) Stream(*tracelog.Stream)         {}
func (nowhere) Sync(*tracelog.Sync)             {}
func (nowhere) Overhead(*tracelog.Overhead)     {}
func (nowhere) Marker(*tracelog.Marker)         {}
func (nowhere) Name(*tracelog.Name)             {}
func (nowhere) Memory(*tracelog.Memory)         {}
func (nowhere) MemoryPool(*tracelog.MemoryPool) {}
func (nowhere) Graph(*tracelog.Graph)           {}
func (nowhere) CUPTI(*tracelog.CUPTI)           {}
func (nowhere) Lost(*tracelog.Lost)             {}
func (nowhere) Flushed(*tracelog.Flushed)       {}

package cupti

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/armedpage"
	"github.com/cudatrace/cudatrace/record/cupti/shared"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// wireNumbers are the numbers that the Go side takes from wire.h: constants, sizes of
// messages, offsets of their fields. Those of records are generated.
var wireNumbers = map[string]int{
	"CT_BYE_EXIT": byeExit, "CT_BYE_STOP": byeStop, "CT_BYE_SIGNAL": byeSignal, "CT_BYE_QUICK_EXIT": byeQuickExit,
	"CT_BYE_ASKED": byeAsked, "CT_BYE_FAILED": byeFailed, "CT_CLOCK_SILENT": clockSilent, "CT_GO_NO_CUPTI": goNoCUPTI,
	"CT_GO_PAUSED": goPaused, "CT_GO_CAPTURE_RANGE": goCaptureRange, "CT_GO_OWN_CLOCK": goOwnClock,
	"CT_GO_WATCH_RIVALS": goWatchRivals, "CT_GO_CALLERS": goCallers, "CT_GO_LATE": goLate, "CT_ARMED_PIDS": armedpage.MaxPIDs, "ct_armed": armedpage.Size, "CT_CHAINS": chainsMax, "CT_CHAIN_MAX": chainMax, "CT_LOST_CAUSES": len(lostCauses), "CT_LOST_QUEUE": 1,
	"CT_LOST_CUPTI": 2, "CT_LOST_BUFFER": 3, "CT_LOST_TIME": 4, "CT_LOST_CLOCK": 5, "CT_LOST_NAME": 6,
	"CT_LOST_UNREADABLE": 7, "CT_LOST_UNFINISHED": 8, "CT_LOST_CUT": 9, "CT_MESSAGE_MAX": messageMax,
	"CT_MSG_LOCATE": int(msgLocate), "CT_MSG_PAUSE": int(msgPause), "CT_MSG_RESUME": int(msgResume),
	"CT_MSG_READY": int(msgReady), "CT_MSG_RIVAL": int(msgRival), "CT_MSG_HELLO": int(msgHello),
	"CT_MSG_STATUS": int(msgStatus), "CT_MSG_BATCH": int(msgBatch), "CT_MSG_CLOCK": int(msgClock),
	"CT_MSG_LOST": int(msgLost), "CT_MSG_NOTE": int(msgNote), "CT_MSG_BYE": int(msgBye), "CT_MSG_GO": int(msgGo),
	"CT_MSG_STOP": int(msgStop), "CT_MSG_FLUSH": int(msgFlush), "CT_MSG_FLUSHED": int(msgFlushed),
	"CT_MSG_HANDOVER": int(msgHandover), "CT_MSG_MAPPED": int(msgMapped), "CT_MSG_DEPTH": int(msgDepth), "CT_MSG_RUNTIME": int(msgRuntime), "CT_MSG_RANGE": int(msgRange), "CT_MSG_WAIT": int(msgWait), "CT_NAME_MAX": nameMax, "CT_NAMES_MAX": namesMax,
	"CT_RECORDS_WORK": int(RecordWork) >> 1, "CT_RECORDS_SYNC": int(RecordSync) >> 1, "CT_RECORDS_OVERHEAD": int(RecordOverhead) >> 1,
	"CT_RECORDS_NVTX": int(RecordNVTX) >> 1, "CT_RECORDS_MEMORY": int(RecordMemory) >> 1,
	"CT_RECORDS_GRAPHS": int(RecordGraphs) >> 1, "CT_STATUS_ON": statusOn, "CT_STATUS_TAKEN": statusTaken,
	"CT_WIRE_VERSION": wireVersion,

	"ct_frame": frameSize, "ct_hello": helloSize, "ct_go": goSize, "ct_status": statusSize, "ct_clock": clockSize,
	"ct_lost": lostSize, "ct_flushed": flushedSize, "ct_note": noteSize, "ct_bye": byeSize, "ct_depth": depthSize,

	"ct_frame.type": 4, "ct_hello.pid": 4, "ct_hello.since": 8, "ct_hello.path_len": 16, "ct_hello.request": 24,
	"CT_CLOCK_COMMON": clockCommon, "CT_OPEN_CALLS": openCalls, "CT_OPEN_PLACES": openPlaces,
	"ct_open": openSize, "ct_shared": shared.Size(openEntries), "ct_shared.places": 8, "ct_shared.bell": shared.BellAt, "ct_shared.closed": shared.ClosedAt,
	"ct_shared.left": shared.LeftAt, "ct_shared.out": shared.OutAt, "ct_shared.in": shared.InAt, "ct_shared.sender": shared.SenderAt,
	"ct_shared.calls": shared.HeadSize, "ct_shared.in_data": shared.HeadSize + openEntries, "ct_shared.out_data": shared.HeadSize + openEntries + shared.InSize,
	"ct_ring.written": 0, "ct_ring.read": shared.ReadAt, "ct_ring.waits": shared.WaitsAt, "CT_OUT_SIZE": shared.OutSize, "CT_IN_SIZE": shared.InSize,
	"ct_recorder": shared.HubSize, "ct_recorder.asleep": shared.AsleepAt, "ct_recorder.life": shared.LifeAt, "CT_DIED": shared.Died,
	"ct_open.tid": 4, "ct_open.last": openLastAt, "ct_open.time": openTimeAt, "ct_open.inner": openInnerAt,
	"ct_open.epoch": openEpochAt, "ct_open.count": openCountAt, "ct_open.address": openAddressAt,

	"ct_armed.count": armedpage.CountAt, "ct_armed.filters": armedpage.FiltersAt, "ct_armed.space": armedpage.SpaceAt, "ct_armed.pids": armedpage.PIDsAt,
	"ct_go.flush_ms": 4, "ct_go.memory_limit": 8, "ct_go.exit_ms": 16, "ct_go.flags": 20, "ct_go.candidates": 24,
	"ct_go.calls": 28, "ct_go.records": 32, "ct_status.cupti_version": 4, "ct_status.driver_version": 8,
	"ct_status.apis": 12, "ct_status.path_len": 16, "ct_status.text_len": 20, "ct_status.exit_signal": 24,
	"ct_status.exit_handler": 32, "ct_clock.error": 16, "ct_lost.count": 8, "ct_lost.from": 16, "ct_lost.to": 24,
	"ct_note.text_len": 4, "ct_bye.detail": 4, "ct_bye.now": 8, "ct_bye.kernels": 16, "ct_bye.memcpys": 24,
	"ct_bye.memsets": 32, "ct_bye.apis": 40, "ct_bye.objects": 48, "ct_bye.extras": 56, "ct_bye.others": 64,
	"ct_bye.until": 72, "ct_depth.depth": 8, "ct_chain.id": 4, "ct_chain.epoch": 8, "ct_chain.count": 16, "ct_string": stringSize, "ct_chain": chainSize,
	"CT_NCCL_COMMUNICATOR": tracelog.NCCLCommunicator, "CT_NCCL_BYTES": tracelog.NCCLBytes, "CT_NCCL_RANKS": tracelog.NCCLRanks,
}

var (
	wireConstant = regexp.MustCompile(`(?m)^(?:#define (CT_[A-Z_]+) .*\d|\t(CT_[A-Z_]+)(?: = \d+)?,?\s*$)`)
	wireStruct   = regexp.MustCompile(`(?s)\nstruct (ct_\w+) \{\n(.*?)\n\};`)
	wireField    = regexp.MustCompile(`(?m)^\t(?:struct |_Atomic )?\w+ ([^;/]+);`)
	cComment     = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// layoutProgram is a C program that prints every constant of wire.h and the layout of
// every struct.
func layoutProgram(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("inject/wire.h")
	if err != nil {
		t.Fatal(err)
	}
	header := cComment.ReplaceAllString(string(b), "")
	var c strings.Builder
	print := func(name, value string) {
		fmt.Fprintf(&c, "\tprintf(\"%s %%lld\\n\", (long long)%s);\n", name, value)
	}
	c.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"wire.h\"\nint main(void)\n{\n")
	for _, m := range wireConstant.FindAllStringSubmatch(header, -1) {
		print(m[1]+m[2], m[1]+m[2])
	}
	for _, s := range wireStruct.FindAllStringSubmatch(header, -1) {
		print(s[1], "sizeof(struct "+s[1]+")")
		for _, f := range wireField.FindAllStringSubmatch(s[2], -1) {
			for _, field := range strings.Split(f[1], ", ") {
				field, _, _ = strings.Cut(field, "[")
				print(s[1]+"."+field, "offsetof(struct "+s[1]+", "+field+")")
			}
		}
	}
	return c.String() + "\treturn 0;\n}\n"
}

// wireLayout returns what the C compiler makes of wire.h, a number a line.
func wireLayout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	if err := os.WriteFile(source, []byte(layoutProgram(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-std=c11", "-iquote", "inject", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(program).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestWireLayout holds the format of the socket against testdata/wire.txt, and the Go side
// against both.
func TestWireLayout(t *testing.T) {
	t.Parallel()
	const golden = "testdata/wire.txt"
	got := wireLayout(t)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the wire format has changed; if it was meant to, run go test -update\n%s", diff)
	}
	inC := map[string]int{}
	for line := range strings.Lines(got) {
		var name string
		var value int
		if _, err := fmt.Sscan(line, &name, &value); err != nil {
			t.Fatal(err)
		}
		inC[name] = value
	}
	for name, value := range wireNumbers {
		if is, ok := inC[name]; !ok || is != value {
			t.Errorf("%s is %d in C and %d in Go", name, is, value)
		}
	}
}

package gpumetrics

import (
	"encoding/binary"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// fromC is what the Go side takes from sampler/wire.h.
var fromC = map[string]int{
	"GS_VERSION": wireVersion, "GS_SOCKET": 3, "GS_MESSAGE_MAX": messageMax, "GS_DEVICES_MAX": devicesMax,
	"GS_METRICS_MAX": tracelog.MaxMetrics, "GS_NAME_SIZE": nameSize,
	"GS_READY": msgReady, "GS_FAILED": msgFailed, "GS_DEVICE": msgDevice, "GS_SET": msgSet, "GS_ROWS": msgRows, "GS_LOST": msgLost,
	"GS_PROCESSES": msgProcesses, "GS_DONE": msgDone, "GS_START": orderStart, "GS_STOP": orderStop, "GS_END": orderEnd,
	"GS_DEVICE_MIG": deviceMIG, "GS_SOURCE_NVML": int(metric.NVML), "GS_SOURCE_GPM": int(metric.GPM), "GS_SOURCE_PM": int(metric.PM),
	"GS_REFUSED": msgRefused, "GS_METRIC": msgMetric, "GS_NO_LIBRARY": noLibrary, "GS_NO_NVML": noNVML, "GS_NO_CUDA": noCUDA, "GS_BUSY": busy,
	"GS_NO_RIGHTS": noRights, "GS_OLD_GPU": oldGPU, "GS_NO_METRIC": noMetric, "GS_BROKEN": broken, "GS_OLD_LIBRARY": oldLibrary,
	"offsetof(struct gs_refused, why)": 12, "offsetof(struct gs_refused, text)": 16, "offsetof(struct gs_metric, passes)": 12, "offsetof(struct gs_metric, name)": 16,
	"sizeof(struct gs_head)": 8, "sizeof(struct gs_order)": 8,
	"offsetof(struct gs_ready, version)": 8, "offsetof(struct gs_ready, devices)": 12,
	"offsetof(struct gs_failed, text)":  12,
	"offsetof(struct gs_device, flags)": 12, "offsetof(struct gs_device, uuid)": 16, "sizeof(struct gs_device)": 16 + uuidSize,
	"offsetof(struct gs_set, count)": 20, "offsetof(struct gs_set, interval)": 24, "offsetof(struct gs_set, names)": 32,
	"offsetof(struct gs_rows, words)": 16, "offsetof(struct gs_lost, start)": 16, "offsetof(struct gs_lost, end)": 24,
	"offsetof(struct gs_processes, count)": 12, "offsetof(struct gs_processes, list)": 16,
	"sizeof(struct gs_process)": processSize, "offsetof(struct gs_process, memory)": 8,
}

func TestWireLayout(t *testing.T) {
	t.Parallel()
	c := "#include <stddef.h>\n#include \"wire.h\"\n"
	for expression, value := range fromC {
		c += fmt.Sprintf("_Static_assert(%s == %d, \"%s\");\n", expression, value, expression)
	}
	cmd := exec.Command("gcc", "-std=c11", "-fsyntax-only", "-iquote", "sampler", "-x", "c", "-")
	cmd.Stdin = strings.NewReader(c)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("wire.go and sampler/wire.h differ: %v\n%s", err, out)
	}
}

// words makes a message from numbers and texts, as the sampler does.
func words(kind uint32, parts ...any) []byte {
	b := make([]byte, 8)
	for _, part := range parts {
		switch part := part.(type) {
		case uint32:
			b = binary.NativeEndian.AppendUint32(b, part)
		case int:
			b = binary.NativeEndian.AppendUint64(b, uint64(part))
		case float64:
			b = binary.NativeEndian.AppendUint64(b, math.Float64bits(part))
		case string:
			b = append(b, part...)
		}
	}
	binary.NativeEndian.PutUint32(b, kind)
	binary.NativeEndian.PutUint32(b[4:], uint32(len(b)))
	return b
}

func field(text string, size int) string { return text + strings.Repeat("\x00", size-len(text)) }

func uuidOf(ordinal int) string { return fmt.Sprintf("6375646173696d2d6465766963652d%02x", ordinal) }

// nvmlUUID is a UUID as NVML writes it.
func nvmlUUID(ordinal int) string {
	u := uuidOf(ordinal)
	return "GPU-" + u[:8] + "-" + u[8:12] + "-" + u[12:16] + "-" + u[16:20] + "-" + u[20:]
}

func deviceMessage(index uint32, flags uint32) []byte {
	return words(msgDevice, index, flags, field(nvmlUUID(int(index)), uuidSize))
}

func setMessage(number, device uint32, names ...string) []byte {
	parts := []any{number, device, uint32(metric.NVML), uint32(len(names)), int(1e8)}
	for _, name := range names {
		parts = append(parts, field(name, nameSize))
	}
	return words(msgSet, parts...)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		message []byte
		want    any
	}{
		{words(msgReady, uint32(wireVersion), uint32(2)), ready{2}},
		{words(msgReady, uint32(9), uint32(2)), "it speaks version 9"},
		{words(msgReady), errCut.Error()},
		{words(msgFailed, uint32(1), field("no library", 40)), failure{1, "no library"}},
		{deviceMessage(1, deviceMIG), device{1, uuidOf(1), true}},
		{words(msgDevice, uint32(0), uint32(0), field("GPU-short", uuidSize)), device{0, "", false}},
		{words(msgDevice, uint32(0), uint32(0), "GPU-"), errCut.Error()},
		{setMessage(4, 1, "power"), set{4, 1, 1, 1e8, []string{"power"}}},
		{words(msgSet, uint32(4), uint32(1), uint32(1), uint32(1<<30), int(1e8)), errCut.Error()},
		{words(msgSet, uint32(4), uint32(1), uint32(1), uint32(2), int(1e8), field("power", nameSize)), errCut.Error()},
		{words(msgLost, uint32(4), uint32(0), 5, 6), gap{4, 5, 6}},
		{words(msgProcesses, uint32(1), uint32(1), uint32(77), uint32(0), 1024), processes{1, []user{{77, 1024}}}},
		{words(msgProcesses, uint32(1), uint32(1<<31), uint32(77), uint32(0), 1024), errCut.Error()},
		{words(msgDone), done{}},
		{words(99), "a message has type 99"},
		{words(msgDone)[:7], errCut.Error()},
		{append(words(msgDone), 0), errCut.Error()},
		{nil, errCut.Error()},
	} {
		got, err := parse(c.message)
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(device{}, set{}, gap{}, processes{}, user{}, failure{}, ready{})); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.message, diff)
		}
	}
}

// FuzzMessages gives a recorder messages that no sampler of ours sends. They end the sampler at worst.
func FuzzMessages(f *testing.F) {
	f.Add(words(msgRows, uint32(1), uint32(1), 5, 6, 1.5))
	f.Add(words(msgRows, uint32(1), uint32(1<<31), 5, 6, 1.5))
	f.Add(words(msgRows, uint32(1), uint32(2), 5, 6, 1.5))
	f.Add(words(msgRows, uint32(1), uint32(1), 6, 5, 1.5))
	f.Add(words(msgRows, uint32(1), uint32(1), 5, math.MaxInt64, 1.5))
	f.Add(words(msgRows, uint32(9), uint32(0)))
	f.Add(words(msgLost, uint32(1), uint32(0), 5, 6))
	f.Add(words(msgProcesses, uint32(0), uint32(1), uint32(77), uint32(0), 1024))
	f.Add(words(msgProcesses, uint32(7), uint32(0)))
	f.Add(deviceMessage(0, 0))
	f.Add(deviceMessage(5, 0))
	f.Add(deviceMessage(1<<31, 0))
	f.Add(setMessage(2, 0, "power", "temperature"))
	f.Add(setMessage(2, 0, "password"))
	f.Add(setMessage(2, 0))
	f.Add(setMessage(2, 9, "power"))
	f.Fuzz(func(t *testing.T, message []byte) {
		s := newTestSampler(t)
		for _, b := range [][]byte{deviceMessage(0, 0), setMessage(1, 0, "power"), message} {
			m, err := parse(b)
			if err != nil {
				return
			}
			if _, err := s.takeMessage(s.board, m); err != nil {
				return
			}
		}
		s.gpus.cut(false)
		s.gpus.end()
	})
}

// Only folders that root alone can change hold libraries for root.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	mine := filepath.Dir(library(t))
	env := []string{"LD_LIBRARY_PATH=relative:" + mine, "LD_PRELOAD=x", "CUDA_VISIBLE_DEVICES=1", "CUDA_INJECTION64_PATH=y", "CUDASIM_DEVICES=2"}
	if got := environment(env, false); len(got) != 2 || got[0] != "CUDASIM_DEVICES=2" || !strings.HasPrefix(got[1], "LD_LIBRARY_PATH="+mine+":") {
		t.Errorf("the environment is %q", got)
	}
}

var nobody = &invoker.Invoker{UID: 65534, GID: 65534}

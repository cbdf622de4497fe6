package bpf

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/cudatrace/cudatrace/record/must"
)

var objects = []string{"probes_x86_bpfel.o", "probes_arm64_bpfel.o"}

func types(t *testing.T, object string) *btf.Spec {
	t.Helper()
	spec := must.Get(ebpf.LoadCollectionSpec(object))(t)
	return spec.Types
}

// The program that reads Python frames loads for both processors, and its records are those that the recorder reads.
func TestPythonFrames(t *testing.T) {
	for _, object := range []string{"python_x86_bpfel.o", "python_arm64_bpfel.o"} {
		spec := must.Get(ebpf.LoadCollectionSpec(object))(t)
		if p := spec.Programs[PythonProgReadPython]; p == nil || p.Type != ebpf.PerfEvent || p.License != "Dual BSD/GPL" {
			t.Errorf("%s: the program is %v", object, p)
		}
		var sample *btf.Struct
		must.Do(t, spec.Types.TypeByName("python_sample", &sample))
		want := map[string]uint32{"time": 0, "thread": 8, "count": 12, "cut": 14, "failed": 15, "frames": PythonHead}
		for _, m := range sample.Members {
			if at, ok := want[m.Name]; !ok || m.Offset.Bytes() != at {
				t.Errorf("%s: %s is at %d, want %d", object, m.Name, m.Offset.Bytes(), at)
			}
		}
		if size, err := btf.Sizeof(sample); err != nil || size != PythonHead+64*PythonFrameSize {
			t.Errorf("%s: a sample has %d bytes, %v", object, size, err)
		}
		var event, work *btf.Struct
		must.Do(t, errors.Join(spec.Types.TypeByName("torch_event", &event), spec.Types.TypeByName("work", &work)))
		want = map[string]uint32{"time": 0, "address": 8, "bytes": 16, "allocated": 24, "reserved": 32, "pid": 40, "tid": 44,
			"device": 48, "out_of_memory": 52}
		for _, m := range event.Members {
			if at, ok := want[m.Name]; !ok || m.Offset.Bytes() != at {
				t.Errorf("%s: %s is at %d, want %d", object, m.Name, m.Offset.Bytes(), at)
			}
		}
		if event.Size != TorchHead || work.Members[1].Name != "sample" || work.Members[1].Offset.Bytes() != TorchHead {
			t.Errorf("%s: an event has %d bytes, and is followed by %s", object, event.Size, work.Members[1].Name)
		}
	}
}

// The compiled programs lay an event out as the package comment says.
func TestEventLayout(t *testing.T) {
	want := map[string]uint32{
		"enter": 0, "exit": 8, "pid": 16, "tid": 20, "func": 24, "nargs": 26, "flags": 27, "ret": 28, "chain": 32, "args": HeaderSize,
	}
	for _, object := range objects {
		var event *btf.Struct
		must.Do(t, types(t, object).TypeByName("event", &event))
		if len(event.Members) != len(want) || event.Size != HeaderSize+8*MaxArgs {
			t.Errorf("%s: an event has %d members and %d bytes", object, len(event.Members), event.Size)
		}
		for _, m := range event.Members {
			if at, ok := want[m.Name]; !ok || m.Offset.Bytes() != at {
				t.Errorf("%s: %s is at %d, want %d", object, m.Name, m.Offset.Bytes(), at)
			}
		}
	}
}

func TestThreadLayout(t *testing.T) {
	for _, object := range objects {
		var thread *btf.Struct
		must.Do(t, types(t, object).TypeByName("thread", &thread))
		at := map[string]uint32{}
		for _, m := range thread.Members {
			at[m.Name] = m.Offset.Bytes()
			if frames, ok := m.Type.(*btf.Array); ok && m.Name == "frames" && frames.Nelems != MaxDepth {
				t.Errorf("%s: %d frames", object, frames.Nelems)
			}
		}
		if at["block"]-at["words"] != BlockAt || at["pad"]-at["block"] != BlockSize {
			t.Errorf("%s: words at %d, block at %d, pad at %d", object, at["words"], at["block"], at["pad"])
		}
	}
}

// The constants of the C source are those of this package.
func TestConstants(t *testing.T) {
	var source []byte
	for _, name := range []string{"cudatrace.bpf.c", "ends.h", "store.h", "cookie.h", "callers.h"} {
		b := must.Get(os.ReadFile(name))(t)
		source = append(source, b...)
	}
	for _, line := range []string{
		"#define MAX_ARGS 12", "#define MAX_DEPTH 8", "#define MAX_FUNCTIONS 1024", "#define MAX_PROCESSES 4096", "#define MAX_STACK_ARGS 8",
		"#define BLOCK_SIZE 128", "#define UNFINISHED 1", "#define NO_RETURN 2", "#define THREAD_EVENT 0x80",
		"#define SYMBOL_EVENT 0x40", "#define QUIET 0x20", "#define RAW 0x10", "#define CHAIN_EVENT 8", "#define FAILURE 4", "#define MAX_CHAIN 7", "#define SITE_LENGTH 7",
		"#define COOKIE_CHAIN(cookie) ((u32)((cookie) >> 48) & 7)", "#define CHUNK_ROOM 256", "#define LESS_REGISTERS 4",
		"#define COOKIE_PLAIN (1ull << 16)", "#define COOKIE_ALWAYS (1ull << 17)", "#define COOKIE_ALL_REGISTERS (1ull << 18)",
		"#define COOKIE_LAUNCH_BIT 19 ",
		"#define COOKIE_STACK_WORDS(cookie) ((u32)((cookie) >> 20) & 7)", "#define COOKIE_BLOCK_WORDS(cookie) ((u32)((cookie) >> 24) & 7)",
		"#define COOKIE_BLOCK_REGISTER(cookie) ((u32)((cookie) >> 28) & 3)", "#define COOKIE_BLOCK_OFFSET(cookie) ((u32)((cookie) >> 32) & 0xffff)", "#define MAX_NAME 4096", "CUT_NAME = 4,",
		"END_EXIT = 1,", "END_EXEC = 2,", "END_SIGNAL = 3,", "#define MAX_FAULT_ASKS 10",
		"RANGE_NONE = 0,", "RANGE_BEGIN = 1,", "RANGE_END = 2,", "SYMBOL_NONE = 0,", "SYMBOL_NAMED = 1,", "SYMBOL_DERIVED = 2,",
		"OP_COPY = 0,", "OP_FIELD = 1,", "OP_OUT = 2,",
		"LOST_BUFFER_FULL = 0,", "LOST_THREAD_TABLE = 1,", "LOST_NESTING = 2,", "READ_FAULT = 3,",
		"LOST_CALIBRATION = 5,", "LOST_FUNCTION_RATE = 6,", "LOST_FUNCTION_BUFFER = 7,", "LOST_FUNCTION_NESTING = 8,", "#define MAX_NESTED 32 ",
		"#define COOKIE_WORDS(cookie) ((u32)((cookie) >> 20) & 7)", "#define COOKIE_ALONE_BIT 23",
		"#define COOKIE_RETURN (1ull << 30)", "#define COOKIE_BEHIND (1ull << 31)", "#define RATE_WINDOW 100000000",
		"#define TARGET_CALIBRATION 2",
	} {
		if !strings.Contains(string(source), line) {
			t.Errorf("the source lacks %q", line)
		}
	}
	if MaxArgs != 12 || MaxDepth != 8 || MaxFunctions != 1024 || MaxProcesses != 4096 || MaxStackArgs != 8 || BlockSize != 128 || FlagThread != 0x80 ||
		FlagSymbol != 0x40 || FlagQuiet != 0x20 || FlagRaw != 0x10 || ChunkRoom != 256 || LessRegisters != 4 || MaxName != 4096 {
		t.Error("a constant differs from the source's")
	}
	if CookiePlain != 1<<16 || CookieAlways != 1<<17 || CookieAllRegisters != 1<<18 || CookieLaunch != 1<<19 || CookieStackWords != 20 || MaxStackWords != 7 ||
		CookieBlockWords != 24 || MaxBlockWords != 7 || CookieWords != 20 || CookieAlone != 1<<23 || CookieReturn != 1<<30 || CookieBehind != 1<<31 || CookieBlockRegister != 28 || CookieBlockOffset != 32 {
		t.Error("a field of the attach cookie differs from the source's")
	}
	if EndExit != 1 || EndExec != 2 || EndSignal != 3 || MaxFaultAsks != 10 {
		t.Error("a constant of the ends of processes differs from the source's")
	}
	if OpCopy != 0 || OpField != 1 || OpOut != 2 || LostBufferFull != 0 || LostThreadTable != 1 || LostNesting != 2 || ReadFault != 3 ||
		CutName != 4 || LostCalibration != 5 || LostFunctionRate != 6 || LostFunctionBuffer != 7 || LostFunctionNesting != 8 || MaxNested != 32 || TargetCalibration != 2 || RangeNone != 0 || RangeBegin != 1 || RangeEnd != 2 || SymbolNone != 0 || SymbolNamed != 1 || SymbolDerived != 2 {
		t.Error("an enumeration differs from the source's")
	}
}

// Both objects hold the same programs, and none names a path of the machine it was built on.
func TestObjects(t *testing.T) {
	for _, object := range objects {
		spec := must.Get(ebpf.LoadCollectionSpec(object))(t)
		for _, name := range []string{
			ProbesProgCallMulti, ProbesProgCallSingle, ProbesProgFunctionMulti, ProbesProgFunctionSingle, ProbesProgThreadExit, ProbesProgProcessExec,
			ProbesProgSignalDeliver, ProbesProgEndingMulti, ProbesProgEndingSingle, ProbesProgTreeFork, ProbesProgTreeExec, ProbesProgTreeExit,
		} {
			if p := spec.Programs[name]; p == nil || p.License != "Dual BSD/GPL" {
				t.Errorf("%s: program %s is %v", object, name, p)
			}
		}
		b := must.Get(os.ReadFile(object))(t)
		for _, path := range []string{"/root/", "/home/", "/tmp/"} {
			if strings.Contains(string(b), path) {
				t.Errorf("%s contains a path below %s", object, path)
			}
		}
	}
}

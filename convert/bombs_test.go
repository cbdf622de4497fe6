package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Two nanoseconds for each pair of bombRows, in one of the conversions, pass bombTime; 4 KiB for each row pass bombMemory.
const (
	bombRows   = 1 << 16
	bombTime   = 8 * time.Second // of the processor
	bombMemory = 320 << 20
)

// A bomb is a log that takes little room and asks for much.
type bomb struct {
	name string
	fill func(w *tracelog.Writer)
	says string // part of the error, "" for a log that is converted
}

func bombs() []bomb {
	huge, many := strings.Repeat("x", 2<<20), strings.Repeat("a ", 1<<20)
	nothing := strings.Repeat("\x00", 1<<20)
	variables := ""
	for i := range 3000 {
		variables += fmt.Sprintf("%x\x00", i)
	}
	call := func(i int) tracelog.Call { return tracelog.Call{PID: 1, TID: 1, Func: 2, Enter: 1000 + uint64(i)} }
	kernel := func(i int) tracelog.Kernel {
		return tracelog.Kernel{GPU: tracelog.GPU{PID: 1, Context: 1, Stream: 7, Start: 1000 + 10*uint64(i), Dur: 5}, Name: "k"}
	}
	return []bomb{
		{"calls inside each other", times(bombRows, func(i int) tracelog.Record { c := call(i); c.Dur = 1<<30 - 2*uint64(i); return &c }), ""},
		{"waiting calls inside each other", times(bombRows, func(i int) tracelog.Record { c := call(i); c.Func, c.Dur = 1, 1<<30-2*uint64(i); return &c }), ""},
		{"calls that have not returned", times(bombRows, func(i int) tracelog.Record { c := call(i); c.Flags = tracelog.CallUnfinished; return &c }), ""},
		{"blocks of a call at one time", blocks(20_000, func(i int) tracelog.Record { c := call(0); c.Dur = 10; return &c }), ""},
		{"blocks of a kernel, the last one first", blocks(20_000, func(i int) tracelog.Record { k := kernel(20_000 - i); return &k }), ""},
		{"equal calls", times(bombRows, func(i int) tracelog.Record { c := call(0); c.Dur = 10; return &c }), ""},
		{"equal marks", times(bombRows, func(i int) tracelog.Record {
			return &tracelog.Marker{PID: 1, TID: 1, Flags: 2, ID: uint32(i), Time: 1000, Name: "r"}
		}), ""},
		{"equal overhead", times(bombRows, func(i int) tracelog.Record {
			return &tracelog.Overhead{PID: 1, OverheadKind: 1, Start: 1000, Dur: uint64(i)}
		}), ""},
		{"equal work", times(bombRows, func(i int) tracelog.Record {
			k := kernel(0)
			k.Correlation, k.Grid[0] = uint32(i), uint32(i)
			return &k
		}), ""},
		{"programs of one process", func(w *tracelog.Writer) {
			times(20_000, func(i int) tracelog.Record {
				return &tracelog.Process{PID: 1, Start: 1000 + 10*uint64(i), Exe: "a", Args: "a"}
			})(w)
			times(500, func(i int) tracelog.Record { c := call(1000 * i); c.TID, c.Dur = uint32(i), 5; return &c })(w)
			times(500, func(i int) tracelog.Record { k := kernel(100 * i); k.Stream = uint32(i); return &k })(w)
		}, ""},
		{"threads of one call", times(3_000, func(i int) tracelog.Record { c := call(10 * i); c.TID, c.Dur = uint32(i+1), 5; return &c }), ""},
		{"streams of one kernel", times(3_000, func(i int) tracelog.Record { k := kernel(i); k.Stream = uint32(i); return &k }), ""},
		{"devices", times(20_000, func(i int) tracelog.Record { k := kernel(i); k.Device = uint32(i); return &k }), ""},
		{"callers with huge names", times(100, func(i int) tracelog.Record {
			return &tracelog.Caller{ID: uint32(i + 1), Module: huge, Symbol: huge, Address: uint64(i)}
		}), "bytes of names"},
		{"a huge name again and again", times(1000, func(i int) tracelog.Record { k := kernel(i); k.Name = huge; return &k }), ""},
		{"a huge note again and again", times(1000, func(i int) tracelog.Record {
			return &tracelog.Note{Time: 1000, Severity: tracelog.NoteWarning, Text: huge}
		}), ""},
		{"a huge cause of loss again and again", times(60, func(i int) tracelog.Record { return &tracelog.Lost{Cause: huge, Count: 1 << 63} }), "larger than the trace of a log of this size"},
		{"huge arguments of functions", times(300, func(i int) tracelog.Record {
			return &tracelog.Function{ID: uint32(i + 10), Name: huge, Library: "driver", Args: many}
		}), ""},
		{"arguments of programs", times(1000, func(i int) tracelog.Record {
			return &tracelog.Process{PID: uint32(i), Start: 1, Args: nothing}
		}), "bytes of names"},
		{"environments of programs", times(400, func(i int) tracelog.Record {
			return &tracelog.Process{PID: uint32(i), Start: 1, Environment: fmt.Sprintf("%d\x00%s", i, variables)}
		}), "bytes of names"},
		{"processes with a call each", times(FormatNamed("chrome").most, func(i int) tracelog.Record { c := call(i); c.PID, c.Dur = uint32(i+1), 1; return &c }), ""},
		{"processes", times(1<<17, func(i int) tracelog.Record { return &tracelog.Process{PID: 1, Start: uint64(i)} }), "more than 65536 processes"},
		{"records", times(1<<21, func(i int) tracelog.Record { c := call(i); return &c }), "no recorder writes such a log"},
	}
}

// times adds n records.
func times(n int, record func(i int) tracelog.Record) func(*tracelog.Writer) {
	return func(w *tracelog.Writer) {
		for i := range n {
			w.Add(record(i))
		}
	}
}

// blocks adds n records, each in a block of its own.
func blocks(n int, record func(i int) tracelog.Record) func(*tracelog.Writer) {
	return func(w *tracelog.Writer) {
		for i := range n {
			w.Add(record(i))
			if err := w.Flush(); err != nil {
				panic(err)
			}
		}
	}
}

func (b *bomb) log(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := tracelog.NewWriter(&out, tracelog.Options{RowsPerBlock: 65536, MaxMemory: 1 << 30, MaxOpen: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	w.Add(&tracelog.Function{ID: 1, Name: "cuStreamSynchronize", Library: "driver", Args: "stream:handle"})
	w.Add(&tracelog.Function{ID: 2, Name: "cuLaunchKernel", Library: "driver", Args: "f:handle"})
	b.fill(w)
	must.Do(t, w.Close(tracelog.End{Time: 1 << 40, Complete: 1}))
	return withoutPadding(out.Bytes())
}

// withoutPadding takes the blocks out of a log with which its writer keeps to the limits that go by the log's size.
func withoutPadding(log []byte) []byte {
	const fileHeader, blockHeader, trailer, padding = 16, 24, 24, 5 // FORMAT.md
	out := bytes.Clone(log[:fileHeader])
	for rest := log[fileHeader:]; len(rest) > 0; {
		n := trailer
		if len(rest) > trailer {
			n = blockHeader + int(binary.LittleEndian.Uint32(rest[12:]))
		}
		if len(rest) == trailer || rest[4] != padding {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

const bombVariable = "CUDATRACE_BOMB_LOG"

// A log takes bounded memory and time, whatever is in it, or an error says what is too much.
func TestBombs(t *testing.T) {
	t.Parallel()
	for i, b := range bombs() {
		path, start := t.TempDir()+"/bomb.cudatrace", time.Now()
		must.Do(t, os.WriteFile(path, b.log(t), 0o600))
		limit := fmt.Sprint(2 * int(bombTime.Seconds())) // s of processor time: the kernel kills a conversion that takes more
		cmd := exec.Command("sh", "-c", `ulimit -t "$0" && exec "$@"`, limit, os.Args[0], "-test.run=^TestBombOfVariable$", "-test.count=1")
		cmd.Env = append(os.Environ(), programMemory, fmt.Sprintf("%s=%d %s", bombVariable, i, path))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", b.name, err, out)
		}
		t.Logf("%s: made and read in %v", b.name, time.Since(start))
		use := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		if took := time.Duration(use.Utime.Nano() + use.Stime.Nano()); took > bombTime {
			t.Errorf("%s took %v of processor time", b.name, took)
		}
	}
}

// TestBombOfVariable converts a bomb in a process of its own.
func TestBombOfVariable(t *testing.T) {
	var i int
	var path string
	if _, err := fmt.Sscan(os.Getenv(bombVariable), &i, &path); err != nil {
		t.Skip("TestBombs runs it")
	}
	defer checkPeak(t, bombMemory)
	_, summed := Timeline([]Log{Path(path)}, Options{}, nil)
	var out logtest.Counter
	_, converted := FilesTo([]Log{Path(path)}, &out, TraceOptions{Compress: output.None})
	b := bombs()[i]
	switch {
	case b.says == "" && (summed != nil || converted != nil):
		t.Errorf("errors %v and %v", summed, converted)
	case b.says != "" && (converted == nil || !strings.Contains(converted.Error(), b.says)):
		t.Errorf("the error is %v, want %s", converted, b.says)
	}
	info, err := os.Stat(path)
	if err != nil || out.Bytes > 64<<20+2048*info.Size() {
		t.Errorf("the trace has %d bytes (%v)", out.Bytes, err)
	}
	if converted != nil && out.Bytes == 0 {
		return // it is refused before any format matters
	}
	var all logtest.Counter
	c := newConversion([]Log{Path(path)}, Options{})
	if err = c.read(); err == nil {
		o := TraceOptions{Format: FormatNamed("chrome"), Compress: output.Gzip}
		_, err = c.write(o, func(string) (io.Writer, error) { return &all, nil })
	}
	if err == nil && b.says != "" || all.Bytes > 64<<20+8192*info.Size() {
		t.Errorf("the Chrome trace has %d bytes (%v)", all.Bytes, err)
	}
}

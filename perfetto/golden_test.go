package perfetto

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// golden compares the text of a trace with testdata/NAME.txt.
func golden(t *testing.T, name string, trace []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	got := must.Get(tracetest.Text(trace))(t)
	goldentest.Hold(t, path, got)
}

func TestGoldenSample(t *testing.T) {
	t.Parallel()
	golden(t, "sample", encode(t, sampleOptions(), sample))
}

func TestGoldenOdd(t *testing.T) {
	t.Parallel()
	golden(t, "odd", encode(t, Options{Start: 1000}, odd))
}

// odd writes what a normal trace doesn't have: text that is not UTF-8, messages
// longer than 127 bytes, times that go back, values at the ends of their range.
func odd(w *Writer) {
	w.Process(Process{PID: 1, Name: "a\xffb\x00c", Args: []string{"", "\xf0\x28", strings.Repeat("long ", 30)}, Rank: -1})
	w.Process(Process{PID: 2})
	w.Process(Process{PID: 3, Args: []string{"/bin/unnamed"}})
	t := w.Thread(Thread{PID: 1, TID: 1, Name: "first name"})
	w.Thread(Thread{PID: 1, TID: 1, Name: "ß\xc3"})
	begin(t, 900, "", "", nil, []Arg{Uint("", ^uint64(0)), Int("min", -1<<63), String("s", ""), String("s", "\xff"), Pointer("null", 0)})
	instant(t, 800, strings.Repeat("n", 128), "c\x00", []Arg{String("v", strings.Repeat("v", longestValue+1))})
	t.End(2000)
	q := w.Queue(QueueInfo{PID: 9, GPU: 3, Context: 1<<32 - 1, Stream: 1<<32 - 1, Name: "\xfe"})
	k := w.Kernel(Kernel{Name: strings.Repeat("k", 200), Args: []Arg{Pointer("p", 255), Float("f", 0.5)}})
	work(q, 1, 3000, 0, RenderStageEvent{Kernel: k, Grid: [3]uint32{1<<32 - 1, 1, 1}, Args: []Arg{Uint("device", 8), String("stream", "own")}})
	work(q, 2, 2500, 1, RenderStageEvent{Stage: StageMemset, Name: "x"})
}

// A Thread that is described twice stays one track.
func TestThreadTwice(t *testing.T) {
	t.Parallel()
	encode(t, Options{}, func(w *Writer) {
		a := w.Thread(Thread{PID: 1, TID: 2, Name: "a"})
		b := w.Thread(Thread{PID: 1, TID: 2, Name: "b"})
		if a != b {
			t.Error("the second description made a second track")
		}
	})
}

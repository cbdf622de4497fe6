package browser

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/cudatrace/cudatrace/perfetto"
)

// work is a trace whose queues have pieces of work: start and duration.
func work(t testing.TB, queues ...[][2]uint64) []byte {
	t.Helper()
	var trace bytes.Buffer
	w := perfetto.NewWriter(&trace, perfetto.Options{Start: 1000, PieceBytes: 64})
	kernel := new(perfetto.RenderStageTemplate)
	kernel.Encode(w, &perfetto.RenderStageEvent{Name: "k", Stage: perfetto.StageKernel})
	thread := w.Thread(perfetto.Thread{PID: 1, TID: 1})
	call := new(perfetto.TrackEventTemplate)
	call.Encode(w, "call", "runtime", nil)
	id := uint64(0)
	for i, list := range queues {
		q := w.Queue(perfetto.QueueInfo{PID: 1, Stream: uint32(i), Name: "Stream"})
		for _, p := range list {
			thread.Begin(p[0]-1, call, 0, perfetto.UintArgs{})
			thread.End(p[0])
			id++
			q.Event(kernel, id, p[0], p[1], perfetto.UintArgs{})
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return trace.Bytes()
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	if closing := w.Close(); err != nil || closing != nil {
		t.Fatal(err, closing)
	}
	return z.Bytes()
}

func TestFirstWork(t *testing.T) {
	t.Parallel()
	many := make([][2]uint64, 0, 2*pieces)
	for i := range uint64(2 * pieces) {
		many = append(many, [2]uint64{5000 + 10*i, 4})
	}
	late := [][2]uint64{{90_000, 5}}
	two := work(t, [][2]uint64{{3000, 100}, {4000, 10}}, [][2]uint64{{2500, 9000}})
	for name, c := range map[string]struct {
		trace []byte
		want  Span
	}{
		"one piece":                                {work(t, [][2]uint64{{2000, 7}}), Span{2000, 2007}},
		"before the trace's start":                 {work(t, [][2]uint64{{900, 7}}), Span{900, 907}},
		"two queues":                               {two, Span{2500, 11_500}},
		"the first fifty of a queue":               {work(t, many), Span{5000, 5000 + 10*(pieces-1) + 4}},
		"an early one on a queue that stands last": {work(t, late, many), Span{5000, 5000 + 10*(pieces-1) + 4}},
		"gzip":                {zipped(t, two), Span{2500, 11_500}},
		"cut off in gzip":     {zipped(t, work(t, many, late))[:len(zipped(t, work(t, many, late)))-8], Span{5000, 5000 + 10*(pieces-1) + 4}},
		"cut off":             {append(work(t, many), 0x0a, 0x7f, 8), Span{5000, 5000 + 10*(pieces-1) + 4}},
		"something behind":    {append(work(t, many), "what is this"...), Span{5000, 5000 + 10*(pieces-1) + 4}},
		"a duration too long": {work(t, [][2]uint64{{2000, ^uint64(0) - 5}}), Span{2000, ^uint64(0)}},
	} {
		got, ok, err := FirstWork(bytes.NewReader(c.trace))
		if !ok || err != nil || got != c.want {
			t.Errorf("%s: %d, %t, %v, want %d", name, got, ok, err, c.want)
		}
	}
}

func TestFirstWorkNothing(t *testing.T) {
	t.Parallel()
	for name, trace := range map[string]string{
		"no work": string(work(t)), "nothing": "", "JSON": `{"traceEvents": []}`, "text": "hello", "an empty packet": "\x0a\x00",
		"a length without end": "\x0a" + strings.Repeat("\xff", 20), "a packet longer than a trace can be": "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
	} {
		if s, ok, err := FirstWork(strings.NewReader(trace)); ok || err != nil {
			t.Errorf("%s: %d, %t, %v", name, s, ok, err)
		}
	}
	if _, ok, err := FirstWork(strings.NewReader("\x1f\x8bno gzip at all")); ok || err == nil {
		t.Errorf("what only begins like gzip: %t, %v", ok, err)
	}
}

// A trace may be anything: FirstWork ends, and what it finds is a time from and to.
func FuzzFirstWork(f *testing.F) {
	f.Add(work(f, [][2]uint64{{2000, 7}}))
	f.Add(zipped(f, work(f, [][2]uint64{{2000, 7}, {3000, 1}})))
	f.Fuzz(func(t *testing.T, trace []byte) {
		if s, ok, _ := FirstWork(bytes.NewReader(trace)); ok && s.To < s.From {
			t.Errorf("from %d to %d", s.From, s.To)
		}
	})
}

package perfetto

import (
	"errors"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

func TestShift(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ time, to, from, want uint64 }{
		{100, 50, 50, 100},
		{100, 70, 50, 120},
		{100, 50, 70, 80},
		{10, 50, 70, 0}, // it would be negative
	} {
		if got := shift(c.time, c.to, c.from); got != c.want {
			t.Errorf("shift(%d, %d, %d) is %d, want %d", c.time, c.to, c.from, got, c.want)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	var out countingWriter
	w := NewWriter(&out, Options{})
	w.Process(Process{PID: 1})
	for range 2 {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

type failingWriter struct {
	left int
	err  error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return len(p), nil
}

// The first error stays, memory stays bounded, and later calls do no harm.
func TestWriteError(t *testing.T) {
	t.Parallel()
	full := errors.New("no space left on device")
	w := NewWriter(&failingWriter{left: 100_000, err: full}, Options{})
	th := w.Thread(Thread{PID: 1, TID: 1})
	for i := range 100_000 {
		instant(th, uint64(i), "x", "c", nil)
	}
	if !errors.Is(w.output.err, full) {
		t.Errorf("the error is %v, want %v", w.output.err, full)
	}
	if cap(w.output.packets.b) > 2*reservedBytes {
		t.Errorf("the buffer grew to %d bytes", cap(w.output.packets.b))
	}
	if err := w.Close(); !errors.Is(err, full) {
		t.Errorf("Close is %v, want %v", err, full)
	}
}

func TestMisuse(t *testing.T) {
	t.Parallel()
	for name, misuse := range map[string]func(w *Writer){
		"GPUs twice":        func(w *Writer) { w.GPUs(nil); w.GPUs(nil) },
		"GPU ids with gaps": func(w *Writer) { w.GPUs([]GPU{{ID: 1}}) },
		"unknown stage":     func(w *Writer) { work(w.Queue(QueueInfo{}), 1, 0, 0, RenderStageEvent{Stage: stages}) },
		"unknown kernel":    func(w *Writer) { work(w.Queue(QueueInfo{}), 1, 0, 0, RenderStageEvent{Kernel: 1}) },
		"event without id":  func(w *Writer) { work(w.Queue(QueueInfo{}), 0, 0, 0, RenderStageEvent{}) },
		"event after Close": func(w *Writer) {
			w.Close()
			w.Process(Process{PID: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := NewWriter(&failingWriter{left: 1 << 30}, Options{})
			misuse(w)
			if w.Close() == nil {
				t.Error("no error")
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, Options{Monotonic: 5, Start: 5}, func(w *Writer) {
		w.Metadata(nil)
		w.Metadata([]Fact{{"host", "node"}, {"args", "a b\x00\xff"}})
		w.Metadata([]Fact{{"host", "other"}})
	}))
	tptest.NoErrors(t, tr)
	rows(t, tr, `select name, str_value from metadata where name glob 'cr-*' order by name`,
		row{"cr-2-host", "other"}, row{"cr-args", "a b��"}, row{"cr-host", "node"})
}

// begin opens a slice with a template of its own.
func begin(t *Track, ts uint64, name, category string, submitted []uint64, args []Arg) {
	var e TrackEventTemplate
	e.Encode(t.w, name, category, args)
	t.Begin(ts, &e, Links{Submitted: submitted})
}

// instant writes an instant event with a template of its own.
func instant(t *Track, ts uint64, name, category string, args []Arg) {
	var e TrackEventTemplate
	e.Encode(t.w, name, category, args)
	t.Instant(ts, &e)
}

// work writes GPU work with a template of its own.
func work(q *Queue, id, start, dur uint64, e RenderStageEvent) {
	var t RenderStageTemplate
	t.Encode(q.sequence.w, &e)
	q.Event(&t, id, start, dur)
}

// Beginnings of slices go to one sequence where they lie in no other slice, and to another
// one inside of slices. An end too many changes nothing.
func TestTrackSequences(t *testing.T) {
	t.Parallel()
	w := NewWriter(new(countingWriter), Options{})
	track := w.Thread(Thread{PID: 1, TID: 1})
	var e TrackEventTemplate
	e.Encode(w, "call", "driver", nil)
	last := func() (times [trackSequences]uint64) {
		for i, s := range track.sequences {
			if s != nil {
				times[i] = s.last
			}
		}
		return times
	}
	for _, step := range []struct {
		write func()
		want  [trackSequences]uint64
	}{
		{func() { track.End(1) }, [...]uint64{0, 0, 1}},
		{func() { track.Begin(2, &e, Links{}) }, [...]uint64{2, 0, 1}},
		{func() { track.Instant(3, &e) }, [...]uint64{2, 3, 1}},
		{func() { track.Begin(4, &e, Links{}) }, [...]uint64{2, 4, 1}},
		{func() { track.End(5) }, [...]uint64{2, 4, 5}},
		{func() { track.End(6) }, [...]uint64{2, 4, 6}},
		{func() { track.Instant(7, &e) }, [...]uint64{7, 4, 6}},
	} {
		step.write()
		if got := last(); got != step.want {
			t.Errorf("the sequences end at %v, want %v", got, step.want)
		}
	}
}

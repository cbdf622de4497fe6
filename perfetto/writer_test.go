package perfetto

import (
	"errors"
	"testing"
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

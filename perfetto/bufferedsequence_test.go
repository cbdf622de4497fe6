package perfetto

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/must"
)

// pieces keeps each write.
type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, bytes.Clone(b))
	return len(b), nil
}

// Events of one sequence are written in pieces of Options.PieceBytes.
func TestPieces(t *testing.T) {
	t.Parallel()
	const size = 4 << 10
	var out pieces
	w := NewWriter(&out, Options{PieceBytes: size})
	track := w.Thread(Thread{PID: 1, TID: 1})
	var e TrackEventTemplate
	e.Encode(w, "call", "driver", nil)
	for i := range uint64(10_000) {
		track.Begin(10*i+1, &e, Links{})
		track.End(10*i + 2)
	}
	full := 0
	for _, piece := range out {
		if len(piece) > size+1<<7 {
			t.Errorf("a piece has %d bytes", len(piece))
		}
		if len(piece) >= size {
			full++
		}
	}
	if full < 20 || len(out)-full > 4 {
		t.Errorf("of %d pieces %d are full", len(out), full)
	}
	if w.output.buffered != buffered(w) {
		t.Errorf("%d bytes are buffered, %d are counted", buffered(w), w.output.buffered)
	}
	if err := w.Close(); err != nil || buffered(w) != 0 || w.output.buffered != 0 {
		t.Errorf("%d bytes remain after Close, %v", buffered(w), err)
	}
}

// buffered adds up the bytes in the buffers of sequences.
func buffered(w *Writer) (n int) {
	for _, s := range w.output.sequences {
		n += len(s.buffer.b)
	}
	return n
}

// What all sequences buffer together is bounded.
func TestBufferedBound(t *testing.T) {
	t.Parallel()
	var out countingWriter
	w := NewWriter(&out, Options{})
	var e TrackEventTemplate
	e.Encode(w, "call", "driver", []Arg{String("long", strings.Repeat("x", longestValue+1))})
	most := 0
	var tracks []*Track
	for tid := range uint32(50) {
		tracks = append(tracks, w.Thread(Thread{PID: 1, TID: tid}))
	}
	for i := range uint64(400_000) {
		tracks[i%50].Begin(10*i+1, &e, Links{Submitted: []uint64{1 << 40}})
		most = max(most, w.output.buffered)
	}
	if most > maxBuffered+1<<10 || out.n < maxBuffered {
		t.Errorf("up to %d bytes were buffered, %d were written", most, out.n)
	}
	must.Do(t, w.Close())
}

// An event never goes out before an earlier one of its track that has the same time.
func TestOrderAtOneTime(t *testing.T) {
	t.Parallel()
	var out pieces
	w := NewWriter(&out, Options{})
	track := w.Thread(Thread{PID: 1, TID: 1})
	var first, second TrackEventTemplate
	first.Encode(w, "first", "", nil)
	second.Encode(w, "second", "", nil)
	track.Begin(10, &first, Links{})
	track.End(20)
	track.Begin(20, &second, Links{})
	track.End(20)
	must.Do(t, w.Close())
	trace := slices.Concat(out...)
	end := bytes.Index(trace, sliceEndEvent)
	if next := bytes.Index(trace, []byte("second")); end < 0 || next < end {
		t.Errorf("the end stands at %d, the slice that begins then at %d", end, next)
	}
}

// A packet has the size that its parts have, however large they are.
func TestLargePackets(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, 128, 16_300, 16_384, 1 << 18} {
		name := string(bytes.Repeat([]byte{'n'}, size))
		trace := encode(t, Options{}, func(w *Writer) {
			track, queue := w.Thread(Thread{PID: 1, TID: 1}), w.Queue(QueueInfo{PID: 1, Name: "Stream"})
			for i := range uint64(3) {
				begin(track, 10*i+1, name, "", []uint64{1 << 60}, []Arg{String("s", name)})
				work(queue, i+1, 10*i, 5, RenderStageEvent{Name: name, Args: []Arg{String("s", name)}})
			}
		})
		if _, err := tracetest.Text(trace); err != nil {
			t.Errorf("with names of %d bytes: %v", size, err)
		}
	}
}

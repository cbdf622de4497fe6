package perfetto

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// A packet that is made from the one before is, byte for byte, what it would be without.
func TestImages(t *testing.T) {
	t.Parallel()
	if again, anew := numbered(t, false), numbered(t, true); !bytes.Equal(again, anew) {
		t.Errorf("%d bytes with images differ from %d bytes without", len(again), len(anew))
	}
}

// numbered writes events with numbers of all sizes, in packets of all sizes. Where
// templates are made anew for each event there is no image.
func numbered(t *testing.T, anew bool) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, Options{})
	rnd := rand.New(rand.NewPCG(1, 2))
	name, other := w.ArgName("correlation"), w.ArgName("other")
	tracks := []*Track{w.Thread(Thread{PID: 1, TID: 1}), w.Thread(Thread{PID: 1, TID: 2})}
	queue := w.Queue(QueueInfo{PID: 1, Context: 1, Stream: 7, Name: "Stream 07"})
	calls, works := make([]TrackEventTemplate, 80), make([]RenderStageTemplate, 80)
	for i := range 20_000 {
		size := rnd.IntN(len(calls))
		m, g := &calls[size], &works[size]
		if m.id == 0 || anew {
			text := strings.Repeat("x", longestValue+size)[:2*size]
			m.Encode(w, "call", "driver", []Arg{Float(text, 1), String("text", strings.Repeat(text, 2))})
			g.Encode(w, &RenderStageEvent{Name: "work", Args: []Arg{String("text", strings.Repeat(text, 2))}})
		}
		number := func() uint64 { return rnd.Uint64() >> rnd.IntN(64) }
		track, at := tracks[rnd.IntN(2)], uint64(i)<<20+number()>>44
		switch rnd.IntN(5) {
		case 0:
			track.Begin(at, m, 0, name.Value(number()))
		case 1:
			track.Begin(at, m, number()|1, []*ArgName{name, other}[rnd.IntN(2)].Value(number()))
		case 2:
			track.Begin(at, m, number()|1, UintArg{})
		case 3:
			track.End(at)
		case 4:
			queue.Event(g, number()|1, at, number(), name.Value(number()))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

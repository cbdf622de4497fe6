package perfetto

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A packet that is patched is, byte for byte, the packet that is encoded.
func FuzzPatchedPackets(f *testing.F) {
	for _, seed := range []string{
		"",
		strings.Repeat("\x01\x01\x05\x07\x00", 5),         // slices that differ in one number
		strings.Repeat("\x04\x01\x05\x07\x03\x00", 5),     // GPU work
		strings.Repeat("\x01\xfb\x05\x07\x00", 5),         // packets of about 16 KiB
		strings.Repeat("\x01\x09\x05\xfe\x05\x0a\x00", 5), // packets of about 128 bytes
	} {
		f.Add([]byte(seed))
	}
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		events := make([]byte, 2000)
		for i := range events {
			events[i] = byte(rnd.IntN(1 + rnd.IntN(256))) // small numbers, so that much is equal
		}
		f.Add(events)
	}
	f.Fuzz(comparePatched)
}

func comparePatched(t *testing.T, events []byte) {
	t.Helper()
	patched := encode(t, Options{Start: 1000}, func(w *Writer) { newPatchTest(w, events, false).run() })
	encoded := encode(t, Options{Start: 1000}, func(w *Writer) { newPatchTest(w, events, true).run() })
	if !bytes.Equal(patched, encoded) {
		t.Fatalf("%d bytes with patches differ from %d bytes without; events %x", len(patched), len(encoded), events)
	}
	must.Get(tracetest.Text(patched))(t)
}

// A patchTest writes events that bytes stand for.
type patchTest struct {
	w          *Writer
	events     []byte // what is left of them
	encodeEach bool   // encode templates anew for each event: nothing is patched
	time       uint64
	tracks     [2]*Track
	queues     [2]*Queue
	names      [2]*ArgName
	slices     [256]TrackEventTemplate
	work       [256]RenderStageTemplate
}

func newPatchTest(w *Writer, events []byte, encodeEach bool) *patchTest {
	p := &patchTest{w: w, events: events, encodeEach: encodeEach, time: 1000}
	for i := range 2 {
		p.names[i] = w.ArgName([]string{"correlation", "other"}[i])
		p.tracks[i] = w.Thread(Thread{PID: 1, TID: uint32(i)})
		p.queues[i] = w.Queue(QueueInfo{PID: 1, Context: 1, Stream: uint32(i), Name: "Stream"})
	}
	return p
}

func (p *patchTest) next() byte {
	if len(p.events) == 0 {
		return 0
	}
	b := p.events[0]
	p.events = p.events[1:]
	return b
}

// number is small three times of four, and else of a size that one byte says.
func (p *patchTest) number() uint64 {
	b := p.next()
	if b%4 != 3 {
		return uint64(b)
	}
	return (uint64(p.next()%64) | 1) << (b / 4 % 10 * 7)
}

// args make packets of all sizes.
func (p *patchTest) args(size byte) (args []Arg) {
	if size > 250 {
		return []Arg{String("long", strings.Repeat("x", 16_200+40*int(size-250)))}
	}
	for range size / 10 {
		args = append(args, Int("number", -1))
	}
	return append(args, Int("number", 1<<(7*(size%10))))
}

func (p *patchTest) slice() *TrackEventTemplate {
	size := p.next()
	e := &p.slices[size]
	if e.id == 0 || p.encodeEach {
		e.Encode(p.w, "call", "driver", p.args(size))
	}
	return e
}

func (p *patchTest) gpuWork() *RenderStageTemplate {
	size := p.next()
	e := &p.work[size]
	if e.id == 0 || p.encodeEach {
		e.Encode(p.w, &RenderStageEvent{Name: "work", Args: p.args(size)})
	}
	return e
}

// last returns two arguments, one, or none.
func (p *patchTest) last() UintArgs {
	switch p.next() % 5 {
	case 0:
		return UintArgs{}
	case 1:
		return UintArgs{p.names[1].Value(p.number())}
	case 2:
		return UintArgs{p.names[0].Value(p.number()), p.names[1].Value(p.number())}
	case 3:
		return UintArgs{1: p.names[1].Value(p.number())}
	}
	return UintArgs{p.names[0].Value(p.number())}
}

func (p *patchTest) run() {
	for len(p.events) > 0 {
		op := p.next()
		track, queue := p.tracks[op>>3&1], p.queues[op>>3&1]
		p.time += p.number()
		switch op % 8 {
		case 0, 1, 2:
			track.Begin(p.time, p.slice(), p.number(), p.last())
		case 3:
			if op>>4&1 == 0 {
				track.End(p.time)
			} else {
				track.EndWith(p.time, []uint64{p.number(), 2})
			}
		case 4, 5:
			queue.Event(p.gpuWork(), p.number()+1, p.time, p.number(), p.last())
		case 6:
			track.Instant(p.time, p.slice())
		case 7:
			p.time -= min(p.time, 100)
			track.BeginWith(p.time, p.slice(), []uint64{p.number()}, p.last(), Float("rate", 1))
		}
	}
}

// From its third event on a template is patched: its fields are not looked at any more.
func TestPatchIsUsed(t *testing.T) {
	t.Parallel()
	write := func(lose bool) []byte {
		return encode(t, Options{}, func(w *Writer) {
			track, queue := w.Thread(Thread{PID: 1, TID: 1}), w.Queue(QueueInfo{PID: 1, Name: "Stream"})
			var slice TrackEventTemplate
			var work RenderStageTemplate
			slice.Encode(w, "call", "driver", []Arg{Uint("size", 5)})
			work.Encode(w, &RenderStageEvent{Name: "work"})
			track.Begin(1, &slice, 0, UintArgs{}) // the rest is inside of it, in one sequence
			for i := range uint64(5) {
				if lose && i == 3 {
					slice.fields, work.fields, work.launch = nil, nil, nil
				}
				track.Begin(10+i, &slice, 1+i, UintArgs{})
				queue.Event(&work, 1+i, 20+i, 3, UintArgs{})
			}
		})
	}
	if !bytes.Equal(write(true), write(false)) {
		t.Error("the later events were encoded")
	}
}

// edges are numbers at which the size of a varint changes.
func edges() (list []uint64) {
	for bit := range 64 {
		list = append(list, 1<<bit-1, 1<<bit, 1<<bit|1)
	}
	return append(list, ^uint64(0))
}

func TestVarints(t *testing.T) {
	t.Parallel()
	for _, v := range edges() {
		want := protowire.AppendVarint(nil, v)
		if got := sizeVarint(v); got != len(want) {
			t.Errorf("%d takes %d bytes, want %d", v, got, len(want))
		}
		b := bytes.Repeat([]byte{0xaa}, 3+len(want)+spareBytes)
		if end := putVarint(b, 3, v); !bytes.Equal(b[3:end], want) || !bytes.Equal(b[:3], []byte{0xaa, 0xaa, 0xaa}) {
			t.Errorf("putVarint of %d: %x, want %x", v, b[:end], want)
		}
		b = bytes.Repeat([]byte{0xaa}, len(want)+2)
		overwriteVarint(b, 1, v, len(want))
		if whole := slices.Concat([]byte{0xaa}, want, []byte{0xaa}); !bytes.Equal(b, whole) {
			t.Errorf("overwriteVarint of %d: %x, want %x", v, b, whole)
		}
		if got := appendVarint(nil, v); !bytes.Equal(got, want) {
			t.Errorf("appendVarint of %d: %x, want %x", v, got, want)
		}
	}
}

func TestFragment(t *testing.T) {
	t.Parallel()
	for size := range 17 {
		want := []byte("0123456789abcdef")[:size]
		f := newFragment(want[:size/2], want[size/2:])
		b := make([]byte, 2+size+spareBytes)
		if end := f.put(b, 2); !bytes.Equal(b[2:end], want) {
			t.Errorf("%q was put as %q", want, b[2:end])
		}
	}
}

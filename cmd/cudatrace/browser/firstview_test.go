package browser

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/must"
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
	must.Do(t, w.Close())
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

func TestFirstView(t *testing.T) {
	t.Parallel()
	many := make([][2]uint64, 0, 2*pieces)
	for i := range uint64(2 * pieces) {
		many = append(many, [2]uint64{5000 + 10*i, 4})
	}
	late := [][2]uint64{{90_000, 5}}
	two := work(t, [][2]uint64{{3000, 100}, {4000, 10}}, [][2]uint64{{2500, 9000}})
	room := func(from, to uint64) View { // of a twentieth, or 1 µs
		some := max((to-from)/20, 1000)
		return View{From: from - min(from, some), To: to + min(some, ^to)}
	}
	all := room(5000, 5000+10*(pieces-1)+4)
	own := View{Start: 1, From: 10, To: 20, Pins: []string{"^a$", "a > b"}, Notes: []Note{{15, "here"}}}
	withView := func(v perfetto.View) []byte {
		var trace bytes.Buffer
		w := perfetto.NewWriter(&trace, perfetto.Options{Start: 1000})
		w.Metadata([]perfetto.Fact{{Name: "host", Value: "node"}})
		w.View(v)
		must.Do(t, w.Close())
		return append(trace.Bytes(), two...)
	}
	viewed := withView(perfetto.View{Start: 1, From: 10, To: 20, Pins: own.Pins, Notes: []perfetto.Note{{At: 15, Text: "here"}}})
	for name, c := range map[string]struct {
		trace []byte
		want  View
	}{
		"one piece":                                {work(t, [][2]uint64{{2000, 7}}), room(2000, 2007)},
		"before the trace's start":                 {work(t, [][2]uint64{{900, 7}}), room(900, 907)},
		"two queues":                               {two, room(2500, 11_500)},
		"the first fifty of a queue":               {work(t, many), all},
		"an early one on a queue that stands last": {work(t, late, many), all},
		"gzip":                   {zipped(t, two), room(2500, 11_500)},
		"cut off in gzip":        {zipped(t, work(t, many, late))[:len(zipped(t, work(t, many, late)))-8], all},
		"cut off":                {append(work(t, many), 0x0a, 0x7f, 8), all},
		"something behind":       {append(work(t, many), "what is this"...), all},
		"a duration too long":    {work(t, [][2]uint64{{2000, ^uint64(0) - 5}}), room(2000, ^uint64(0))},
		"a view of its own":      {viewed, own},
		"a view, compressed":     {zipped(t, viewed), own},
		"a view of no time":      {withView(perfetto.View{Start: 1, From: 10, To: 10}), room(2500, 11_500)},
		"a view of another form": {bytes.Replace(viewed, []byte(`{"start":1,`), []byte(`["start":1,`), 1), room(2500, 11_500)},
	} {
		if got, err := FirstView(bytes.NewReader(c.trace)); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// Around a moment the view has the length that it had, as far as there is time.
func TestAround(t *testing.T) {
	t.Parallel()
	v := View{From: 10_000, To: 30_000, Notes: []Note{{12_000, "step"}}}
	for at, want := range map[uint64][2]uint64{50_000: {40_000, 60_000}, 5: {0, 10_005}, ^uint64(0): {^uint64(0) - 10_000, ^uint64(0)}} {
		got := v.Around(at, "here")
		if got.From != want[0] || got.To != want[1] || len(got.Notes) != 2 || got.Notes[1] != (Note{at, "here"}) || len(v.Notes) != 1 {
			t.Errorf("around %d: %+v of %+v", at, got, v)
		}
	}
}

func TestFirstViewNothing(t *testing.T) {
	t.Parallel()
	for name, trace := range map[string]string{
		"no work": string(work(t)), "nothing": "", "JSON": `{"traceEvents": []}`, "text": "hello", "an empty packet": "\x0a\x00",
		"a length without end": "\x0a" + strings.Repeat("\xff", 20), "a packet longer than a trace can be": "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
	} {
		if v, err := FirstView(strings.NewReader(trace)); err != nil || v.To != 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
	if v, err := FirstView(strings.NewReader("\x1f\x8bno gzip at all")); err == nil {
		t.Errorf("what only begins like gzip: %+v", v)
	}
}

// A trace may be anything: FirstView ends, and what it finds is a time from and to.
func FuzzFirstView(f *testing.F) {
	f.Add(work(f, [][2]uint64{{2000, 7}}))
	f.Add(zipped(f, work(f, [][2]uint64{{2000, 7}, {3000, 1}})))
	f.Fuzz(func(t *testing.T, trace []byte) {
		if v, err := FirstView(bytes.NewReader(trace)); err == nil && v.To < v.From {
			t.Errorf("from %d to %d", v.From, v.To)
		}
	})
}

package browser

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/must"
)

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

// viewed is a trace that has a view.
func viewed(t testing.TB, v perfetto.View) []byte {
	t.Helper()
	var trace bytes.Buffer
	w := perfetto.NewWriter(&trace, perfetto.Options{Start: 1000})
	w.Metadata([]perfetto.Fact{{Name: "host", Value: "node"}})
	w.View(v)
	must.Do(t, w.Close())
	return trace.Bytes()
}

func TestFirstView(t *testing.T) {
	t.Parallel()
	want := View{Start: 1, From: 10, To: 20, Pins: []string{"^a$", "a > b"}, Notes: []Note{{15, "here"}}}
	trace := viewed(t, perfetto.View{Start: 1, From: 10, To: 20, Pins: want.Pins, Notes: []perfetto.Note{{At: 15, Text: "here"}}})
	more := append(slices.Clone(trace), trace...)
	for name, trace := range map[string][]byte{
		"whole": trace, "gzip": zipped(t, trace), "cut off in gzip": zipped(t, more)[:len(zipped(t, more))-8],
		"cut off": append(slices.Clone(trace), 0x0a, 0x7f, 8), "something behind": append(slices.Clone(trace), "what is this"...),
	} {
		if got, err := FirstView(bytes.NewReader(trace)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
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
		"nothing": "", "a view that ends before it begins": string(viewed(t, perfetto.View{From: 2, To: 1})),
		"a view of another form": strings.Replace(string(viewed(t, perfetto.View{From: 1, To: 2})), `{"start":`, `["start":`, 1),
		"JSON":                   `{"traceEvents": []}`, "text": "hello", "an empty packet": "\x0a\x00",
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
	f.Add(viewed(f, perfetto.View{From: 1, To: 2}))
	f.Add(zipped(f, viewed(f, perfetto.View{From: 3, To: 2})))
	f.Fuzz(func(t *testing.T, trace []byte) {
		if v, err := FirstView(bytes.NewReader(trace)); err == nil && v.To < v.From {
			t.Errorf("from %d to %d", v.From, v.To)
		}
	})
}

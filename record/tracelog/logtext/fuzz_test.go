package logtext

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/logtest"
)

// No log makes Dump fail.
func FuzzDump(f *testing.F) {
	for _, log := range seeds(f) {
		f.Add(log)
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		for _, json := range []bool{false, true} {
			r, err := tracelog.NewReader(bytes.NewReader(log), int64(len(log)), "fuzz")
			if err != nil {
				return
			}
			if err := Dump(&logtest.FailingWriter{Room: 1 << 20}, r, Options{JSON: json}); err != nil && err != logtest.ErrFull {
				t.Fatal(err)
			}
		}
	})
}

// Any text is refused or becomes a log whose text is the same when it has been a log again.
func FuzzAssemble(f *testing.F) {
	text := golden(f)
	f.Add(text)
	for line := range strings.Lines(text) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, out := newWriter(t)
		end, err := Assemble(strings.NewReader(text), w)
		if err != nil {
			return
		}
		must.Do(t, w.Close(end))
		first := dump(t, out.Bytes())
		second := dump(t, assemble(t, first))
		if !slices.Equal(sortedLines(first), sortedLines(second)) {
			t.Fatalf("first\n%s\nthen\n%s", first, second)
		}
	})
}

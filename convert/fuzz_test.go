package convert

import (
	"io"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/output"
)

// No log makes a conversion panic or slices cross, and the numbers add up.
func FuzzConvert(f *testing.F) {
	for _, log := range logtest.Texts(f, "testdata") {
		f.Add(log.Text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := logtest.Assembled(text)
		if err != nil {
			return
		}
		if _, s := timelineOf(t, logtest.InMemory(data)); s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Memsets {
			t.Fatalf("%+v", s)
		}
		traceTo(t, logtest.InMemory(data), TraceOptions{Compress: output.None}, io.Discard)
		files, _ := chromeFilesOf(t, logtest.InMemory(data), TraceOptions{})
		for _, f := range files {
			f.parse(t)
		}
	})
}

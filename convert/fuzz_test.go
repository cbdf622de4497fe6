package convert

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// No log makes a conversion panic or slices cross, and the numbers add up.
func FuzzConvert(f *testing.F) {
	logs, err := filepath.Glob("testdata/*.log.txt")
	if err != nil || len(logs) == 0 {
		f.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		data, err := assembled(text)
		if err != nil {
			return
		}
		tl := timelineOf(t, inMemory(data))
		if s := tl.Summary; s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Sets+s.Graphs {
			t.Fatalf("%+v", s)
		}
		traceTo(t, inMemory(data), Options{Compress: None}, io.Discard)
	})
}

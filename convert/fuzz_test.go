package convert

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// nesting fails the test for a slice that is not within the one around it, or
// begins before its predecessor.
type nesting struct {
	counts
	t    *testing.T
	ends []uint64
	last uint64
}

func (n *nesting) begin(start, end uint64) {
	if len(n.ends) > 0 && end > n.ends[len(n.ends)-1] || start > end || start < n.last {
		n.t.Fatalf("a slice from %d to %d, after %d, within ends %d", start, end, n.last, n.ends)
	}
	n.ends, n.last = append(n.ends, end), start
}

func (n *nesting) Begin(sl *Slice)        { n.begin(sl.Start, sl.End) }
func (n *nesting) BeginSpan(sp *Span)     { n.begin(sp.Start, sp.End) }
func (n *nesting) Thread(*Thread)         { n.last = 0 }
func (n *nesting) Track(t *Track, _ bool) { n.last = 0 }

func (n *nesting) Instant(sp *Span) {
	n.begin(sp.Start, sp.End)
	n.ends = n.ends[:len(n.ends)-1]
}

func (n *nesting) End(ts uint64) {
	if ts != n.ends[len(n.ends)-1] || ts < n.last {
		n.t.Fatalf("a slice ends at %d instead of %d", ts, n.ends)
	}
	n.ends, n.last = n.ends[:len(n.ends)-1], ts
}

// No log makes Build panic or slices cross, and the numbers add up.
func FuzzBuild(f *testing.F) {
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
		tl := buildText(t, text)
		if tl == nil {
			return
		}
		tl.Send(&nesting{t: t})
		if s := tl.Summary; s.Matched+s.Unmatched != s.Kernels+s.Copies+s.Sets+s.Graphs {
			t.Fatalf("%+v", s)
		}
		if err := Perfetto(tl, &countingWriter{}); err != nil {
			t.Fatal(err)
		}
	})
}

// buildText builds the timeline of a log's text, nil where it is none.
func buildText(t *testing.T, text string) *Timeline {
	t.Helper()
	var log bytes.Buffer
	w, err := tracelog.NewWriter(&log, tracelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := tracelog.Assemble(strings.NewReader(text), w)
	if err != nil {
		return nil
	}
	if err := w.Close(end); err != nil {
		t.Fatal(err)
	}
	r, err := tracelog.NewReader(bytes.NewReader(log.Bytes()), int64(log.Len()), "fuzz")
	if err != nil {
		t.Fatal(err)
	}
	tl, err := Build(r)
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

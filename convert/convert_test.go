package convert

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// assemble makes a log from its text form.
func assemble(t testing.TB, text string) opener {
	t.Helper()
	data, err := assembled(text)
	if err != nil {
		t.Fatal(err)
	}
	return inMemory(data)
}

func assembled(text string) ([]byte, error) {
	var log bytes.Buffer
	w, err := tracelog.NewWriter(&log, tracelog.Options{})
	if err != nil {
		return nil, err
	}
	end, err := logtext.Assemble(strings.NewReader(text), w)
	if err != nil {
		return nil, err
	}
	err = w.Close(end)
	return log.Bytes(), err
}

// TestGolden shows for each log in testdata what becomes of it: the tracks with
// their slices, and the numbers.
func TestGolden(t *testing.T) {
	logs, err := filepath.Glob("testdata/*.log.txt")
	if err != nil || len(logs) == 0 {
		t.Fatalf("no logs in testdata: %v", err)
	}
	for _, path := range logs {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".log.txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			open := assemble(t, string(text))
			tl := timelineOf(t, open)
			var got textForm
			got.timeline(tl)
			got.summary(&tl.Summary)
			golden := strings.TrimSuffix(path, ".log.txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatalf("%v (make it with -update)", err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", golden, diff)
			}
			traceTo(t, open, Options{}, io.Discard)
		})
	}
}

// textForm is a timeline as indented text.
type textForm struct {
	strings.Builder
	depth int
}

func (s *textForm) line(format string, args ...any) {
	fmt.Fprintf(s, strings.Repeat("  ", s.depth)+format+"\n", args...)
}

func (s *textForm) timeline(tl *timeline) {
	for _, g := range tl.GPUs {
		s.line("GPU %d: %s (device %d of process %d)", g.Index, g.Name, g.ID, g.PID)
	}
	for _, p := range tl.Processes {
		s.line("process %d %q %q", p.PID, p.Name, p.Args)
	}
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			s.thread(th)
		}
		for _, t := range p.Tracks {
			s.track(t, "process")
		}
		for _, c := range p.Counters {
			s.counter(c)
		}
		for _, q := range p.Queues {
			s.queue(q)
		}
	}
	s.depth = 0
	for _, m := range tl.Marks {
		s.line("mark at %d: %s", m.Time, m.Text)
	}
}

// closeTo ends slices until no more than depth are open.
func (s *textForm) closeTo(ends []uint64, depth int) []uint64 {
	for len(ends) > depth {
		s.depth--
		s.line("%d END", ends[len(ends)-1])
		ends = ends[:len(ends)-1]
	}
	return ends
}

func (s *textForm) thread(t *threadTracks) {
	s.depth = 0
	s.line("thread %d/%d %q", t.PID, t.TID, t.Name)
	s.depth = 1
	var ends []uint64
	for i := range t.Slices {
		sl := &t.Slices[i]
		ends = s.closeTo(ends, int(sl.Depth))
		s.line("%s", sliceText(sl))
		s.depth++
		ends = append(ends, sl.End)
	}
	s.closeTo(ends, 0)
	for _, track := range t.Tracks {
		s.track(track, "the thread")
	}
}

func sliceText(sl *Slice) string {
	var args []string
	for i, v := range sl.Args {
		args = append(args, fmt.Sprintf("%s=%d", sl.ArgNames[i].name, v))
	}
	line := fmt.Sprintf("%d BEGIN %s %s(%s)", sl.Start, sl.Category, sl.Name, strings.Join(args, " "))
	if sl.Correlation != 0 {
		line += fmt.Sprintf(" correlation=%d", sl.Correlation)
	}
	if name := resultName(sl.Category, sl.Ret); name != "" {
		line += " error=" + name
	}
	if sl.Flags != 0 {
		line += fmt.Sprintf(" flags=%d", sl.Flags)
	}
	if len(sl.Work()) > 0 {
		line += fmt.Sprintf(" -> %d", sl.Work())
	}
	if len(sl.Waits()) > 0 {
		line += fmt.Sprintf(" <- %d", sl.Waits())
	}
	if sl.Kernel != nil {
		line += " kernel=" + titleOf(sl.Kernel.Name).full
	}
	return line
}

func (s *textForm) track(t *spanTrack, of string) {
	s.depth = 0
	s.line("track of %s: %s %q", of, t.Category, t.Name)
	s.depth = 1
	var ends []uint64
	for i := range t.Spans {
		sp := &t.Spans[i]
		ends = s.closeTo(ends, sp.Depth)
		if sp.Instant {
			s.line("%d INSTANT %s%s", sp.Start, sp.Name, details(&sp.Span))
			continue
		}
		s.line("%d BEGIN %s%s", sp.Start, sp.Name, details(&sp.Span))
		s.depth++
		ends = append(ends, sp.End)
	}
	s.closeTo(ends, 0)
}

func details(sp *Span) string {
	var b strings.Builder
	for _, d := range sp.Args {
		fmt.Fprintf(&b, " %s=%d%s", d.Name, d.Value, d.Text)
	}
	return b.String()
}

func (s *textForm) counter(c *counterTrack) {
	s.depth = 0
	s.line("counter of process %d %q", c.PID, c.Name)
	for _, p := range c.Points {
		s.line("  %d: %d", p.Time, p.Value)
	}
}

func (s *textForm) queue(q *queueTrack) {
	s.depth = 0
	s.line("queue of process %d: GPU %d context %d stream %d default=%t", q.PID, q.GPU, q.Context, q.Stream, q.Default)
	if q.Name+q.ContextName != "" {
		s.line("  called %q in context %q", q.Name, q.ContextName)
	}
	s.depth = 1
	for i := range q.Work {
		w := &q.Work[i]
		s.line("%d +%d #%d %s untimed=%t", w.Start, w.Dur, w.ID, workText(w), w.Untimed)
	}
}

func workText(w *Work) string {
	switch w.Kind {
	case WorkKernel:
		k := &w.Shape.Kernel
		return fmt.Sprintf("kernel %s grid=%d block=%d", titleOf(k.Name).short, k.Grid, k.Block)
	case WorkMemcpy:
		return fmt.Sprintf("memcpy kind=%d bytes=%d", w.Shape.Memcpy.CopyKind, w.Shape.Memcpy.Bytes)
	case WorkMemset:
		return fmt.Sprintf("memset bytes=%d", w.Shape.Memset.Bytes)
	}
	return fmt.Sprintf("graph %d", w.Graph)
}

func (s *textForm) summary(m *Summary) {
	s.depth = 0
	s.line("processes %d threads %d streams %d", m.ProcessCount, m.ThreadCount, m.StreamCount)
	s.line("kernels %d copies %d sets %d graphs %d calls %d launches %d failed %d unfinished %d",
		m.Kernels, m.Copies, m.Sets, m.Graphs, m.Calls, m.Launches, m.Failed, m.Open)
	s.line("waits %d ambiguous %d unmatched %d", m.Waits, m.WaitsAmbiguous, m.WaitsUnmatched)
	s.line("NVTX ranges %d marks %d unmatched %d", m.Ranges, m.RangeMarks, m.RangesUnmatched)
	s.line("overhead %d ns, peak of device memory %d bytes", m.OverheadNS, m.PeakDevice)
	for _, name := range slices.Sorted(maps.Keys(m.Errors)) {
		s.line("error %s: %d", name, m.Errors[name])
	}
	s.line("matched %d unmatched %d early %d", m.Matched, m.Unmatched, m.Early)
	s.line("pairs %d API records %d joined %d unprobed %d", m.Pairs, m.APIRecords, m.APIJoined, m.Unprobed)
	s.line("lost: %s", LostWords(m.Lost))
	s.line("complete %t damaged %t %q", m.Complete, m.Damaged, m.Reasons)
}

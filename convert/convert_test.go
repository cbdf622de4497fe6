package convert

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// assemble makes a log from its text form.
func assemble(t testing.TB, text string) *tracelog.Reader {
	t.Helper()
	var log bytes.Buffer
	w, err := tracelog.NewWriter(&log, tracelog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	end, err := tracelog.Assemble(strings.NewReader(text), w)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(end); err != nil {
		t.Fatal(err)
	}
	r, err := tracelog.NewReader(bytes.NewReader(log.Bytes()), int64(log.Len()), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	return r
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
			tl, err := Build(assemble(t, string(text)))
			if err != nil {
				t.Fatal(err)
			}
			var got textSink
			tl.Send(&got)
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
			if err := Perfetto(tl, &bytes.Buffer{}); err != nil {
				t.Errorf("as a Perfetto trace: %v", err)
			}
		})
	}
}

// textSink writes a timeline as indented text.
type textSink struct {
	strings.Builder
	depth int
}

func (s *textSink) line(format string, args ...any) {
	fmt.Fprintf(s, strings.Repeat("  ", s.depth)+format+"\n", args...)
}

func (s *textSink) GPUs(gpus []GPU) {
	for _, g := range gpus {
		s.line("GPU %d: %s (device %d of process %d)", g.Index, g.Name, g.ID, g.PID)
	}
}

func (s *textSink) Process(p *Process) { s.line("process %d %q %q", p.PID, p.Name, p.Args) }

func (s *textSink) Thread(t *Thread) {
	s.depth = 0
	s.line("thread %d/%d %q", t.PID, t.TID, t.Name)
	s.depth = 1
}

func (s *textSink) Begin(sl *Slice) {
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
	if len(sl.Work) > 0 {
		line += fmt.Sprintf(" -> %d", sl.Work)
	}
	if len(sl.Waits) > 0 {
		line += fmt.Sprintf(" <- %d", sl.Waits)
	}
	if sl.Kernel != nil {
		line += " kernel=" + titleOf(sl.Kernel.Name).full
	}
	s.line("%s", line)
	s.depth++
}

func (s *textSink) End(ts uint64) {
	s.depth--
	s.line("%d END", ts)
}

func (s *textSink) Track(t *Track, thread bool) {
	s.depth = 0
	of := "process"
	if thread {
		of = "the thread"
	}
	s.line("track of %s: %s %q", of, t.Category, t.Name)
	s.depth = 1
}

func (s *textSink) BeginSpan(sp *Span) {
	s.line("%d BEGIN %s%s", sp.Start, sp.Name, details(sp))
	s.depth++
}

func (s *textSink) Instant(sp *Span) { s.line("%d INSTANT %s%s", sp.Start, sp.Name, details(sp)) }

func details(sp *Span) string {
	var b strings.Builder
	for _, d := range sp.Args {
		fmt.Fprintf(&b, " %s=%d%s", d.Name, d.Value, d.Text)
	}
	return b.String()
}

func (s *textSink) Counter(c *Counter) {
	s.depth = 0
	s.line("counter of process %d %q", c.PID, c.Name)
	for _, p := range c.Points {
		s.line("  %d: %d", p.Time, p.Value)
	}
}

func (s *textSink) Queue(q *Queue) {
	s.depth = 0
	s.line("queue of process %d: GPU %d context %d stream %d default=%t", q.PID, q.GPU, q.Context, q.Stream, q.Default)
	if q.Name+q.ContextName != "" {
		s.line("  called %q in context %q", q.Name, q.ContextName)
	}
	s.depth = 1
}

func (s *textSink) Work(w *Work) {
	what := ""
	switch w.Kind {
	case WorkKernel:
		k := w.Kernel()
		what = fmt.Sprintf("kernel %s grid=%d block=%d", titleOf(k.Name).short, k.Grid, k.Block)
	case WorkMemcpy:
		what = fmt.Sprintf("memcpy kind=%d bytes=%d", w.Memcpy().CopyKind, w.Memcpy().Bytes)
	case WorkMemset:
		what = fmt.Sprintf("memset bytes=%d", w.Memset().Bytes)
	case WorkGraph:
		what = fmt.Sprintf("graph %d", w.Graph)
	}
	s.line("%d +%d #%d %s untimed=%t", w.Start, w.Dur, w.ID, what, w.Untimed)
}

func (s *textSink) Mark(m *Mark) {
	s.depth = 0
	s.line("mark at %d: %s", m.Time, m.Text)
}

func (s *textSink) summary(m *Summary) {
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

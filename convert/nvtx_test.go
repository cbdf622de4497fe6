package convert

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// rangesLog is the log of NVTX ranges on streams. Its recording begins at 100.
func rangesLog(t *testing.T) Log {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/ranges.log.txt"))(t)
	return Log{"log", logtest.Assemble(t, string(text))}
}

// spansOf shows the spans of a category: name and times.
func spansOf(tl *timelinetest.Timeline, c timeline.Category) string {
	var all []string
	add := func(tracks []*timelinetest.Track) {
		for _, t := range tracks {
			for _, sp := range t.Spans {
				if t.Category == c {
					all = append(all, fmt.Sprintf("%s@%d-%d", sp.Name, sp.Start, sp.End))
				}
			}
		}
	}
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			add(th.Tracks)
		}
		add(p.Tracks)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// rangesOf is the pattern that a text is.
func rangesOf(text string) pattern.Ranges {
	r, err := pattern.ParseRanges(text)
	if err != nil {
		panic(err)
	}
	return r
}

// TestNVTXFilter chooses what is in NVTX ranges. At a limit of time, a range that is under way is
// known.
func TestNVTXFilter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		filter        Filter
		chosen        string
		ranges, onGPU string
		words         string
	}{
		"an outer range": {Filter{NVTX: rangesOf("st*")},
			"40@1100 40@1120 40@1170 embed@1200 node1@1290 node2@1330 prefetch@1210",
			"backward@1160-1195 forward@1010-1150 no work@1196-1197 step@1000-1198",
			"backward@1290-1450 forward@1200-1300 forward@1210-1260 step@1200-1450 step@1210-1260", `NVTX ranges matching "st*": 1 range`},
		"an inner range": {Filter{NVTX: rangesOf("forward")}, "40@1100 40@1120 embed@1200 prefetch@1210", "forward@1010-1150", "forward@1200-1300 forward@1210-1260",
			`NVTX ranges matching "forward": 1 range`},
		"of a domain": {Filter{NVTX: rangesOf("*@torch")}, "40@1170 node1@1290 node2@1330", "backward@1160-1195", "backward@1290-1450",
			`NVTX ranges matching "*@torch": 1 range`},
		"across threads": {Filter{NVTX: rangesOf("request")}, "40@1230 requested@1700", "request@1220-1250", "request@1700-1800", `NVTX ranges matching "request": 1 range`},
		"without work":   {Filter{NVTX: rangesOf("no *")}, "", "no work@1196-1197", "", `NVTX ranges matching "no *": 1 range`},
		"without an end, work without times": {Filter{NVTX: rangesOf("never*")}, "41@1310 41@1330 untimed@1340 of the loader@2000",
			"never ends@1300-9000", "never ends@2000-2010", `NVTX ranges matching "never*": 1 range`},
		"and a name":     {Filter{NVTX: rangesOf("step"), Name: "*node*"}, "node1@1290 node2@1330", "", "", `NVTX ranges matching "step": 1 range`},
		"and a stream":   {Filter{NVTX: rangesOf("step"), Streams: []uint32{13}}, "40@1100 40@1120 40@1170 prefetch@1210", "backward@1160-1195 forward@1010-1150 no work@1196-1197 step@1000-1198", "forward@1210-1260 step@1210-1260", `NVTX ranges matching "step": 1 range`},
		"and a duration": {Filter{NVTX: rangesOf("step"), MinDuration: 100}, "embed@1200 node1@1290 node2@1330", "forward@1010-1150 step@1000-1198", "backward@1290-1450 forward@1200-1300 step@1200-1450", `NVTX ranges matching "step": 1 range`},
		"under way":      {Filter{NVTX: rangesOf("step"), From: 1060, To: 1097}, "40@1170", "backward@1160-1195 no work@1196-1197 step@1000-1198", "", `NVTX ranges matching "step": 1 range`},
		"limits of time": {Filter{From: 1060, To: 1080}, "40@1170", "backward@1160-1195 step@1000-1198", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl, all := timelineWith(t, Options{Filter: c.filter}, rangesLog(t))
			if got := chosen(tl); got != c.chosen {
				t.Errorf("chosen are %s, want %s", got, c.chosen)
			}
			if got := spansOf(tl, timeline.NVTX); got != c.ranges {
				t.Errorf("ranges: %s, want %s", got, c.ranges)
			}
			if got := spansOf(tl, timeline.GPURanges); got != c.onGPU {
				t.Errorf("on streams: %s, want %s", got, c.onGPU)
			}
			if all[0].LeftOut.NVTX != c.words || len(all[0].Reasons) > 0 {
				t.Errorf("it says %q, %q", all[0].LeftOut.NVTX, all[0].Reasons)
			}
			var notes []string
			for _, r := range tl.Remarks {
				notes = append(notes, r.Text)
			}
			if want := "only what is in " + c.words; c.words != "" && !slices.Contains(notes, want) {
				t.Errorf("the timeline says %q, want %q", notes, want)
			}
		})
	}
}

// A glob that no range matches makes no trace, and the error names what there is.
func TestNVTXFilterMatchesNothing(t *testing.T) {
	t.Parallel()
	without := Log{"other", logtest.Assemble(t, "process pid=1 start=100\ncall pid=1 tid=1 func=#1 enter=200 dur=5\n")}
	for name, c := range map[string]struct {
		logs []Log
		glob string
		want string
	}{
		"no match":       {[]Log{rangesLog(t)}, "stop*", `no NVTX range matches "stop*" [backward forward never ends no work request step]`},
		"no range":       {[]Log{without}, "step", "there are no NVTX ranges []"},
		"of two logs":    {[]Log{without, rangesLog(t)}, "step", ""},
		"in none of two": {[]Log{rangesLog(t), without}, "x", `no NVTX range matches "x" [backward forward never ends no work request step]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			_, err := FilesTo(c.logs, &out, TraceOptions{Options: Options{Filter: Filter{NVTX: rangesOf(c.glob)}}})
			if c.want == "" {
				if err != nil || out.Len() == 0 {
					t.Fatalf("%d bytes, %v", out.Len(), err)
				}
				return
			}
			var none *NoRangeError
			if !errors.As(err, &none) || out.Len() > 0 {
				t.Fatalf("%d bytes, %v", out.Len(), err)
			}
			if got := fmt.Sprint(none, " ", none.Names); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The counts of a log are not held against the part that --nvtx or --caller selects.
func TestSelectedPartIsComplete(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/ranges.log.txt"))(t)
	open := logtest.Assemble(t, strings.Replace(string(text), "process_end pid=40", "process_end pid=40 kernels=10", 1))
	for _, f := range []Filter{{}, {NVTX: rangesOf("step")}, {Caller: "*"}} {
		all := must.Get(Timeline([]Log{{"log", open}}, Options{Filter: f}, nil))(t)
		if diff := cmp.Diff([]string{}, all[0].Reasons); diff != "" {
			t.Errorf("%+v: %s", f, diff)
		}
	}
}

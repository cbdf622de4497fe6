package pythontest

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Launch is a launch with its Python frames, innermost first: "file:line function (from first line)".
type Launch struct {
	TID    uint32
	Frames []string
}

func frame(file, function string, first, line uint32) string {
	return fmt.Sprintf("%s:%d %s (from %d)", file, line, function, first)
}

// MemsetD8 is CUPTI's number of the driver's function by which the test programs launch.
const MemsetD8 = 249

// Launches gathers the launches of a log, with the frames above them.
type Launches struct {
	Lost   uint64 // launches whose frames were lost
	frames map[uint32]string
	stacks map[uint32]tracelog.PythonStack
	calls  []tracelog.API
}

// Add takes a record of the log. It does not keep it.
func (l *Launches) Add(r tracelog.Record) {
	if l.frames == nil {
		l.frames, l.stacks = map[uint32]string{}, map[uint32]tracelog.PythonStack{}
	}
	switch r := r.(type) {
	case *tracelog.PythonFrame:
		l.frames[r.ID] = frame(r.File, r.Function, r.FirstLine, r.Line)
	case *tracelog.PythonStack:
		l.stacks[r.ID] = *r
	case *tracelog.API:
		if r.CBID == MemsetD8 {
			l.calls = append(l.calls, *r)
		}
	case *tracelog.Lost:
		if r.Cause == tracelog.LostPython {
			l.Lost += r.Count
		}
	}
}

// All returns the launches in order of time.
func (l *Launches) All() (all []Launch) {
	slices.SortStableFunc(l.calls, func(a, b tracelog.API) int { return int(int64(a.Start - b.Start)) })
	for _, a := range l.calls {
		launch := Launch{TID: a.TID}
		for s := l.stacks[a.Python]; s.ID != 0; s = l.stacks[s.Parent] {
			launch.Frames = append(launch.Frames, l.frames[s.Frame])
		}
		all = append(all, launch)
	}
	return all
}

// Truth reads what cmd/cudatrace/testdata/python/lines.py says of its launches.
func Truth(t *testing.T, path string) (all []Launch) {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	var said [][2]json.RawMessage
	must.Do(t, json.Unmarshal(text, &said))
	for _, s := range said {
		var l Launch
		var frames [][4]any
		must.Do(t, json.Unmarshal(s[0], &l.TID))
		must.Do(t, json.Unmarshal(s[1], &frames))
		for _, f := range frames {
			first, line := uint32(f[2].(float64)), uint32(f[3].(float64))
			l.Frames = append(l.Frames, frame(f[0].(string), f[1].(string), first, line))
		}
		all = append(all, l)
	}
	return all
}

// MostFrames is CT_PYTHON_DEPTH of record/internal/cupti/inject/python.h.
const MostFrames = 128

// LeftOut is what stands for the frames beyond.
var LeftOut = frame("", "(frames further out are left out)", 0, 0)

// byThread puts launches beside each other that are the same ones: each thread has its own in order.
func byThread(all []Launch) map[uint32][][]string {
	m := map[uint32][][]string{}
	for _, l := range all {
		m[l.TID] = append(m[l.TID], l.Frames)
	}
	return m
}

// Compare compares launches with the truth. It returns the number that have frames.
func Compare(t *testing.T, got, want []Launch) (framed int) {
	t.Helper()
	is, wrong := byThread(got), 0
	for tid, list := range byThread(want) {
		if len(is[tid]) != len(list) {
			t.Fatalf("thread %d: %d launches, not %d", tid, len(is[tid]), len(list))
		}
		for i, frames := range list {
			if len(frames) > MostFrames {
				frames = append(frames[:MostFrames:MostFrames], LeftOut)
			}
			if len(is[tid][i]) == 0 {
				continue
			}
			framed++
			if !slices.Equal(is[tid][i], frames) {
				if wrong++; wrong < 4 {
					t.Errorf("thread %d, launch %d:\n got %s\nwant %s", tid, i, strings.Join(is[tid][i], "\n     "),
						strings.Join(frames, "\n     "))
				}
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%d wrong", wrong)
	}
	return framed
}

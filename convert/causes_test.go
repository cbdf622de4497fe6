package convert

import (
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// In recordings of GPUs, work and its call name each other, and work begins after its call does. Goldens show that of
// the other logs.
func TestWorkAndItsCall(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, open logtest.Opener) (early uint64) {
		tl, sum := timelineOf(t, open)
		callers := make(map[uint64]*timeline.Slice)
		for _, p := range tl.Processes {
			for _, th := range p.Threads {
				for i := range th.Slices {
					for _, id := range th.Slices[i].Work() {
						if callers[id] != nil {
							t.Errorf("work %d has two calls", id)
						}
						callers[id] = &th.Slices[i]
					}
				}
			}
		}
		matched := 0
		var streams []*timelinetest.Stream
		for _, p := range tl.Processes {
			streams = append(streams, p.Streams...)
		}
		for _, s := range streams {
			for i := range s.Work {
				w, c := &s.Work[i], callers[s.Work[i].ID]
				if (c != nil) != (w.Call.Function != nil) || c != nil && (c.Start != w.Call.Start || c.End != w.Call.End || c.Function != w.Call.Function) {
					t.Errorf("work %d at %d was caused by %+v, its call is %+v", w.ID, w.Start, c, w.Call)
				}
				if c == nil {
					continue
				}
				matched++
				if w.Start < c.Start {
					early++
				}
			}
		}
		if matched != len(callers) || uint64(matched) != sum.Matched || early != sum.Early {
			t.Errorf("%d pieces of work have a call, %d before it; calls have %d; the summary says %d and %d", matched, early, len(callers), sum.Matched, sum.Early)
		}
		return early
	}
	for _, pattern := range []string{"*", "conditional/*"} {
		paths, err := filepath.Glob("../testdata/gpu/logs/" + pattern + ".cudatrace")
		if err != nil || len(paths) == 0 {
			t.Fatalf("no logs of GPUs: %v", err)
		}
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				t.Parallel()
				if early := check(t, Path(path).Open); early != 0 {
					t.Errorf("%d pieces of work begin before their call", early)
				}
			})
		}
	}
}

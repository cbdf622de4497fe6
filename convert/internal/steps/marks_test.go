package steps_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/steps"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/must"
)

// A finding finds the steps of a timeline, and those that it would have without ranges.
type finding struct {
	marked, bare *steps.Finder
	streams      map[*timeline.Stream]*steps.Stream
}

func (f *finding) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.SpanBegin:
			f.marked.Begin(e)
		case *timeline.SpanEnd:
			f.marked.End(e)
		case *timeline.WorkList:
			if f.streams[e.Stream] == nil {
				f.streams[e.Stream] = f.bare.Stream(e.Stream)
			}
			for i := range e.List {
				f.streams[e.Stream].Work(&e.List[i])
			}
		case *timeline.Slices:
			for i := range e.List {
				f.marked.Call(e.Thread, &e.List[i])
			}
		}
	}
	return nil
}

func (f *finding) End(error) error {
	f.marked.Finish()
	f.bare.Finish()
	return nil
}

// median is the median length of steps.
func median(k *steps.Kind) uint64 {
	var all []uint64
	for i := range k.Parts {
		all = append(all, k.Parts[i].Length())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Without their ranges most programs that mark their steps have the same ones, but for the last one, which has no end; as
// long within 25 % in the median: on the GPU a step may begin later than its range. The others have none.
func TestStepsWithoutMarks(t *testing.T) {
	t.Parallel()
	var paths []string
	for _, glob := range []string{"*", "ranks/*"} {
		more := must.Get(filepath.Glob("../../../testdata/gpu/logs/" + glob + ".cudatrace"))(t)
		paths = append(paths, more...)
	}
	mark := func(*timeline.Process, uint64) {}
	marked, same := 0, 0
	for _, path := range paths {
		f := &finding{steps.New(mark), steps.New(mark), make(map[*timeline.Stream]*steps.Stream)}
		must.Get(convert.Timeline([]convert.Log{convert.Path(path)}, convert.Options{}, f))(t)
		with, without := f.marked.Main(), f.bare.Main()
		if len(with) == 0 {
			continue
		}
		marked++
		text := fmt.Sprintf("%s: %d steps of %d ns", filepath.Base(path), len(with[0].Parts), median(with[0]))
		if len(without) == 0 {
			t.Logf("%s, none without ranges %q", text, f.bare.Unclaimed())
			continue
		}
		n, length := len(without[0].Parts), median(without[0])
		text += fmt.Sprintf(", without ranges %d of %d ns, %.3f of the work", n, length, without[0].Covers)
		t.Log(text)
		low := median(with[0])
		if n != len(with[0].Parts)-1 || length*4 < low*3 || length*4 > low*5 {
			t.Errorf("%s: not the steps of the program", text)
		}
		same++
	}
	if marked != 17 || same < 11 {
		t.Errorf("%d logs have marks, %d of them have the same steps without, want 11", marked, same)
	}
}

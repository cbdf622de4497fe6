package probe

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Of the object only what was asked for is left, and the constants.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		part objectPart
		maps []string
	}{
		{objectPart{programs: []string{bpf.ProbesProgSignalDeliver}, maps: []string{bpf.ProbesMapEnds}}, []string{".rodata", "ends"}},
		{objectPart{programs: []string{bpf.ProbesProgSignalDeliver}, maps: []string{}}, []string{".rodata"}},
	} {
		spec := c.part.cut(embeddedObject(t))
		goldentest.Same(t, c.part.programs, slices.Sorted(maps.Keys(spec.Programs)), "programs")
		goldentest.Same(t, c.maps, slices.Sorted(maps.Keys(spec.Maps)), "maps")
	}
	object := embeddedObject(t)
	programs, all := len(object.Programs), len(object.Maps)
	spec := objectPart{}.cut(object)
	if len(spec.Programs) != 0 || len(spec.Maps) != all {
		t.Errorf("%d programs and %d maps of %d are left", len(spec.Programs), len(spec.Maps), all)
	}
	if len(object.Programs) != programs || len(object.Maps) != all {
		t.Errorf("the object has only %d programs and %d maps of its own left", len(object.Programs), len(object.Maps))
	}
}

// Only programs that will be attached are loaded: the kernel takes 10 ms to check that of calls.
func TestProgramsThatAreLoaded(t *testing.T) {
	functions := []pattern.Functions{{File: "libm.so.6", Name: "cos"}}
	type loaded struct{ Calls, List, Functions bool }
	for _, c := range []struct {
		options Options
		want    loaded
	}{
		{Options{}, loaded{Calls: true, List: true}},
		{Options{OfFiles: functions}, loaded{Calls: true, List: true, Functions: true}},
		{Options{OnlyOfFiles: true, OfFiles: functions, Paused: true}, loaded{List: true, Functions: true}},
		{Options{OnlyOfFiles: true}, loaded{}},
	} {
		p := open(t, c.options).program
		got := loaded{
			p.calls.alone.Program != nil || p.calls.pairs.Program != nil, p.list.Program != nil, p.functions.Program != nil,
		}
		if got != c.want {
			t.Errorf("%+v: loaded %+v, want %+v", c.options, got, c.want)
		}
	}
}

func embeddedObject(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	spec := must.Get(bpf.LoadProbes())(t)
	return spec
}

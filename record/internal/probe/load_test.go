package probe

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

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
			p.calls.Program != nil, p.list.Program != nil, p.functions.Program != nil,
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

// inMemory makes a ring buffer in plain memory.
func ringInMemory(size int, records ...[]byte) *nameRing {
	r := &nameRing{consumer: make([]byte, 8), producer: make([]byte, 8), data: make([]byte, 2*size), mask: uint64(size - 1)}
	for _, b := range records {
		r.put(uint32(len(b)), b)
	}
	return r
}

func (r *nameRing) put(length uint32, b []byte) {
	at := binary.LittleEndian.Uint64(r.producer)
	record := binary.LittleEndian.AppendUint32(nil, length)
	record = append(append(record, 0, 0, 0, 0), b...)
	for i, c := range record {
		place := (at + uint64(i)) & r.mask
		r.data[place], r.data[place+r.mask+1] = c, c
	}
	binary.LittleEndian.PutUint64(r.producer, at+uint64(len(record)+7)&^7)
}

func (r *nameRing) texts(t *testing.T) []string {
	t.Helper()
	var got []string
	must.Get(r.drain(func(b []byte) error { got = append(got, string(b)); return nil }))(t)
	return got
}

func TestNameRing(t *testing.T) {
	r := ringInMemory(64, []byte("one"), []byte("eleven char"))
	if diff := cmp.Diff([]string{"one", "eleven char"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if got := r.texts(t); got != nil {
		t.Errorf("again: %q", got)
	}
	// The next ones wrap around, one is dropped by its writer, one is being written.
	r.put(20, []byte("twenty characters ab"))
	r.put(3|recordDiscard, []byte("bad"))
	r.put(2|recordBusy, []byte("no"))
	if diff := cmp.Diff([]string{"twenty characters ab"}, r.texts(t)); diff != "" {
		t.Error(diff)
	}
	if at, end := binary.LittleEndian.Uint64(r.consumer), binary.LittleEndian.Uint64(r.producer); end-at != 16 {
		t.Errorf("the reader stands at %d of %d", at, end)
	}
}

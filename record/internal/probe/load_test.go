package probe

import (
	"maps"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/bpf"
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
		if diff := cmp.Diff(c.part.programs, slices.Sorted(maps.Keys(spec.Programs))); diff != "" {
			t.Errorf("programs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.maps, slices.Sorted(maps.Keys(spec.Maps))); diff != "" {
			t.Errorf("maps (-want +got):\n%s", diff)
		}
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

func embeddedObject(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := bpf.LoadProbes()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

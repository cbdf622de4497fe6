package loader

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
		part Part
		maps []string
	}{
		{Part{Programs: []string{bpf.ProbesProgSignalDeliver}, Maps: []string{bpf.ProbesMapEnds}}, []string{".rodata", "ends"}},
		{Part{Programs: []string{bpf.ProbesProgSignalDeliver}, Maps: []string{}}, []string{".rodata"}},
	} {
		spec := embedded(t)
		c.part.cut(spec)
		if diff := cmp.Diff(c.part.Programs, slices.Sorted(maps.Keys(spec.Programs))); diff != "" {
			t.Errorf("programs (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(c.maps, slices.Sorted(maps.Keys(spec.Maps))); diff != "" {
			t.Errorf("maps (-want +got):\n%s", diff)
		}
	}
	spec, all := embedded(t), len(embedded(t).Maps)
	Part{}.cut(spec)
	if len(spec.Programs) != 0 || len(spec.Maps) != all {
		t.Errorf("%d programs and %d maps of %d are left", len(spec.Programs), len(spec.Maps), all)
	}
}

func embedded(t *testing.T) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := bpf.LoadProbes()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

package cudaapi

import (
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

func selectNames(t *testing.T, set string, probe, noProbe []string) []string {
	t.Helper()
	chosen := must.Get(Select(set, probe, noProbe))(t)
	var names []string
	for i, f := range chosen {
		if i > 0 && f.ID <= chosen[i-1].ID {
			t.Errorf("%s is out of order", f.Name)
		}
		names = append(names, f.Name)
	}
	return names
}

func TestSelect(t *testing.T) {
	for set, want := range map[string]Set{"default": Default, "minimal": Minimal, "all": All} {
		if got := selectNames(t, set, nil, nil); len(got) != len(Functions(want)) {
			t.Errorf("%s is %d functions, want %d", set, len(got), len(Functions(want)))
		}
	}
	minimal := selectNames(t, "minimal", []string{"cudaMalloc*", "cudaEventRecord"}, []string{"*Async", "cuLaunchGrid?sync"})
	for name, want := range map[string]bool{
		"cuLaunchKernel": true, "cudaMalloc": true, "cudaMallocHost": true, "cudaMallocAsync": false,
		"cudaMallocAsync_ptsz": false, "cudaEventRecord": true, "cudaEventRecord_ptsz": true,
		"cudaEventRecordWithFlags": false, "cuLaunchGridAsync": false, "cuLaunchGrid": true,
	} {
		if slices.Contains(minimal, name) != want {
			t.Errorf("%s: %v, want %v", name, !want, want)
		}
	}
}

// A function that is asked for is traced beside a runtime too.
func TestSelectFallback(t *testing.T) {
	chosen := must.Get(Select("default", []string{"cuStreamSynchronize"}, nil))(t)
	for _, f := range chosen {
		if f.Base() == "cuStreamSynchronize" && f.Fallback {
			t.Errorf("%s is a fallback", f.Name)
		}
		if f.Name == "cuEventSynchronize" && !f.Fallback {
			t.Errorf("%s is no fallback any more", f.Name)
		}
	}
	if !ByName("cuStreamSynchronize").Fallback {
		t.Error("the table was changed")
	}
}

func TestSelectRefuses(t *testing.T) {
	for _, c := range []struct {
		set            string
		probe, noProbe []string
		want           string
	}{
		{"some", nil, nil, `must be minimal, default or all, not "some"`},
		{"default", []string{"cudaMaloc*"}, nil, `no function matches "cudaMaloc*"; did you mean cudaMalloc?`},
		{"default", nil, []string{"cudamalloc"}, `no function matches "cudamalloc"; did you mean cudaMalloc?`},
		{"default", []string{"cuLaunchKernal"}, nil, `no function matches "cuLaunchKernal"; did you mean cuLaunchKernel?`},
		{"all", []string{"ncclAllReduce"}, nil, `no function matches "ncclAllReduce"`},
		{"all", []string{""}, nil, `no function matches ""`},
		{"all", []string{"cuda[M"}, nil, `"cuda[M" is not a pattern`},
		{"all", nil, []string{"*"}, "no function is left to record"},
		{"all", []string{"aaaaaaa", "bbbbbbb"}, nil, "no function matches \"aaaaaaa\"\nno function matches \"bbbbbbb\""},
	} {
		got, err := Select(c.set, c.probe, c.noProbe)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s +%s -%s: %d functions, error %v", c.set, c.probe, c.noProbe, len(got), err)
		}
	}
}

func FuzzSelect(f *testing.F) {
	f.Add("cudaMalloc*")
	f.Add("cuda[a-")
	f.Add("\\")
	f.Add("**?*")
	f.Fuzz(func(t *testing.T, glob string) {
		chosen, err := Select("minimal", []string{glob}, nil)
		if (err == nil) != (len(chosen) > 0) {
			t.Errorf("%q: %d functions and %v", glob, len(chosen), err)
		}
	})
}

package cupti

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/builttest"
)

// The libraries that are committed and embedded.
var libraries = builttest.Files{"inject_amd64.so": elf.EM_X86_64, "inject_arm64.so": elf.EM_AARCH64}

func TestLibraryIsOfTheseSources(t *testing.T) {
	t.Parallel()
	libraries.OfSources(t, "inject", "*.c", "*.h", "*.def", "Makefile", "stubs.sh", "glibc.list")
}

func TestLibraryNeedsOldGlibc(t *testing.T) {
	t.Parallel()
	libraries.NeedOldGlibc(t)
}

func TestLibraryShowsItsEntryPoints(t *testing.T) {
	t.Parallel()
	libraries.Each(t, func(t *testing.T, lib *elf.File) {
		symbols, err := lib.DynamicSymbols()
		if err != nil {
			t.Fatal(err)
		}
		var shown []string
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF && s.Name != "" {
				shown = append(shown, s.Name)
			}
		}
		slices.Sort(shown)
		want := []string{"InitializeInjection", "InitializeInjectionNvtx", "InitializeInjectionNvtx2",
			"cudaTraceRangeBegins", "cudaTraceRangeEnds"}
		if !slices.Equal(shown, want) {
			t.Errorf("it shows %q", shown)
		}
	})
}

func TestLibraryTellsNoPaths(t *testing.T) {
	t.Parallel()
	libraries.TellNoPaths(t)
}

package cupti

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The libraries that are committed and embedded, with their processors.
var libraries = map[string]elf.Machine{"inject_amd64.so": elf.EM_X86_64, "inject_arm64.so": elf.EM_AARCH64}

func eachLibrary(t *testing.T, f func(t *testing.T, lib *elf.File)) {
	for name, machine := range libraries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lib, err := elf.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer lib.Close()
			if lib.Machine != machine {
				t.Fatalf("it is for %v", lib.Machine)
			}
			f(t, lib)
		})
	}
}

// sourcesSHA is the SHA-256 of the library's sources one after the other, by name.
func sourcesSHA(t *testing.T) string {
	var files []string
	for _, pattern := range []string{"*.c", "*.h", "*.def", "Makefile", "stubs.sh", "glibc.list"} {
		found, err := filepath.Glob(filepath.Join("inject", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	h := sha256.New()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestLibraryIsOfTheseSources(t *testing.T) {
	t.Parallel()
	want := "sources sha256 " + sourcesSHA(t)
	eachLibrary(t, func(t *testing.T, lib *elf.File) {
		section := lib.Section(".cudatrace")
		if section == nil {
			t.Fatal("it has no section .cudatrace")
		}
		got, err := section.Data()
		if err != nil || string(bytes.TrimRight(got, "\x00")) != want {
			t.Errorf("it was built from other sources (%s, %v); run make -C record/cupti/inject", got, err)
		}
	})
}

// TestLibraryNeedsOldGlibc checks that any glibc from 2.28 on has what the
// library asks for.
func TestLibraryNeedsOldGlibc(t *testing.T) {
	t.Parallel()
	eachLibrary(t, func(t *testing.T, lib *elf.File) {
		needed, err := lib.ImportedLibraries()
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range needed {
			if !slices.Contains([]string{"libc.so.6", "libpthread.so.0", "libdl.so.2"}, n) {
				t.Errorf("it needs %s", n)
			}
		}
		symbols, err := lib.ImportedSymbols()
		if err != nil || len(symbols) == 0 {
			t.Fatalf("%d symbols, %v", len(symbols), err)
		}
		for _, s := range symbols {
			minor, err := strconv.Atoi(strings.Split(strings.TrimPrefix(s.Version, "GLIBC_2."), ".")[0])
			if err != nil || minor > 28 {
				t.Errorf("it needs %s of version %q", s.Name, s.Version)
			}
		}
	})
}

func TestLibraryShowsItsEntryPoints(t *testing.T) {
	t.Parallel()
	eachLibrary(t, func(t *testing.T, lib *elf.File) {
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

// TestLibraryTellsNoPaths checks that nothing of the building machine is inside.
func TestLibraryTellsNoPaths(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name := range libraries {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, []byte(here)) || bytes.Contains(b, []byte("GCC:")) {
			t.Errorf("%s names the folder or the compiler that it was built with", name)
		}
	}
}

// Package builttest checks libraries and programs in C that are built, committed and embedded. Input: their
// paths, and the folder of their sources. Output: failed tests.
package builttest

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

	"github.com/cudatrace/cudatrace/record/must"
)

// Files are built files, with their processors.
type Files map[string]elf.Machine

// Each runs a test for each file.
func (files Files) Each(t *testing.T, f func(t *testing.T, file *elf.File)) {
	for name, machine := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := must.Get(elf.Open(name))(t)
			defer file.Close()
			if file.Machine != machine {
				t.Fatalf("it is for %v", file.Machine)
			}
			f(t, file)
		})
	}
}

// OfSources checks that the files were built from the sources in a folder, of these patterns: they hold the
// SHA-256 of the sources one after the other, by name.
func (files Files) OfSources(t *testing.T, folder string, patterns ...string) {
	t.Helper()
	want := "sources sha256 " + sourcesSHA(t, folder, patterns)
	files.Each(t, func(t *testing.T, file *elf.File) {
		section := file.Section(".cudatrace")
		if section == nil {
			t.Fatal("it has no section .cudatrace")
		}
		got, err := section.Data()
		if err != nil || string(bytes.TrimRight(got, "\x00")) != want {
			t.Errorf("it was built from other sources (%s, %v); run make -C %s", got, err, folder)
		}
	})
}

func sourcesSHA(t *testing.T, folder string, patterns []string) string {
	t.Helper()
	var sources []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		sources = append(sources, found...)
	}
	slices.Sort(sources)
	h := sha256.New()
	for _, source := range sources {
		b := must.Get(os.ReadFile(source))(t)
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// NeedOldGlibc checks that any glibc from 2.28 on has what the files ask for.
func (files Files) NeedOldGlibc(t *testing.T) {
	t.Helper()
	files.Each(t, func(t *testing.T, file *elf.File) {
		needed := must.Get(file.ImportedLibraries())(t)
		for _, n := range needed {
			if !slices.Contains([]string{"libc.so.6", "libpthread.so.0", "libdl.so.2"}, n) {
				t.Errorf("it needs %s", n)
			}
		}
		symbols, err := file.ImportedSymbols()
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

// TellNoPaths checks that nothing of the building machine is inside.
func (files Files) TellNoPaths(t *testing.T) {
	t.Helper()
	here := must.Get(os.Getwd())(t)
	for name := range files {
		b := must.Get(os.ReadFile(name))(t)
		if bytes.Contains(b, []byte(here)) || bytes.Contains(b, []byte("GCC:")) {
			t.Errorf("%s names the folder or the compiler that it was built with", name)
		}
	}
}

package convert

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

// A log of each version of the format is converted.
func TestEarlierVersions(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../record/tracelog/testdata/version*.log")
	if err != nil || len(paths) < 4 {
		t.Fatalf("%d logs, error %v", len(paths), err)
	}
	for _, path := range paths {
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(strings.TrimSuffix(path, ".log") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		records := func(kind string) uint64 { return uint64(strings.Count("\n"+string(text), "\n"+kind+" ")) }
		if _, s := timelineOf(t, logtest.InMemory(log)); s.Kernels != records("kernel") || s.Copies != records("memcpy") || s.Calls < records("call") || s.Damaged || len(s.Notes) == 0 {
			t.Errorf("%s: %+v", path, s)
		}
	}
}

// Records of kinds that a later version has added are left out, and the summary says so.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	seed, err := os.ReadFile("../record/tracelog/testdata/fuzz/FuzzReader/newer_minor_version")
	if err != nil {
		t.Fatal(err)
	}
	_, bytes, _ := strings.Cut(string(seed), "[]byte(")
	log, err := strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(bytes), ")"))
	if err != nil {
		t.Fatal(err)
	}
	_, s := timelineOf(t, logtest.InMemory([]byte(log)))
	want := "2 records are left out, of kinds that this version of cudatrace does not know: kind88, range; convert the log with a newer version"
	if !slices.Contains(s.Notes, want) {
		t.Errorf("the notes are %q", s.Notes)
	}
}

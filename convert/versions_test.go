package convert

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
)

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

package convert

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// Records of kinds that a later version has added are left out, and the summary says so.
func TestLaterVersion(t *testing.T) {
	t.Parallel()
	seed := must.Get(os.ReadFile("../record/tracelog/testdata/fuzz/FuzzReader/newer_minor_version"))(t)
	_, bytes, _ := strings.Cut(string(seed), "[]byte(")
	log := must.Get(strconv.Unquote(strings.TrimSuffix(strings.TrimSpace(bytes), ")")))(t)
	_, s := timelineOf(t, logtest.InMemory([]byte(log)))
	want := "2 records are left out, of kinds that this version of cudatrace does not know: kind88, range; convert the log with a newer version"
	if !slices.Contains(s.Notes, want) {
		t.Errorf("the notes are %q", s.Notes)
	}
}

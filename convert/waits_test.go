package convert

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// TestWaitsFromCalls takes the Sync records out of a log of a real program and finds the
// same arrows from the calls.
func TestWaitsFromCalls(t *testing.T) {
	t.Parallel()
	r, err := tracelog.Open("../testdata/gpu/logs/train.cudatrace")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var text bytes.Buffer
	if err := logtext.Dump(&text, r, logtext.Options{}); err != nil {
		t.Fatal(err)
	}
	var without strings.Builder
	records := 0
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "sync ") {
			records++
			continue
		}
		without.WriteString(line)
	}
	want, got := arrowsToWaits(t, logtest.Assemble(t, text.String())), arrowsToWaits(t, logtest.Assemble(t, without.String()))
	if records == 0 || len(want) < 100 {
		t.Fatalf("%d Sync records and %d arrows are no test", records, len(want))
	}
	for call, work := range want {
		if got[call] != work {
			t.Errorf("%s waited for %s, with Sync records %s", call, got[call], work)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d calls waited, with Sync records %d", len(got), len(want))
	}
}

// arrowsToWaits gives for each call that waited, by thread and time, what it waited for.
func arrowsToWaits(t *testing.T, open logtest.Opener) map[string]string {
	found := make(map[string]string)
	tl, _ := timelineOf(t, open)
	for _, p := range tl.Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				if sl := &th.Slices[i]; len(sl.Waits()) > 0 {
					found[fmt.Sprintf("%s of thread %d at %d", sl.Name, th.TID, sl.Start)] = workOf(sl)
				}
			}
		}
	}
	return found
}

// workOf is the numbers of the work that a call waited for.
func workOf(sl *timeline.Slice) string {
	var ids []uint64
	for _, w := range sl.Waits() {
		ids = append(ids, w.Work)
	}
	return fmt.Sprint(ids)
}

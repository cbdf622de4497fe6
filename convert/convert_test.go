package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

func TestMain(m *testing.M) { logtest.Main(m) }

// TestGolden shows for each log in testdata what becomes of it: the tracks with
// their slices, and the numbers.
func TestGolden(t *testing.T) {
	for _, log := range slices.Concat(logtest.Texts(t, "testdata"), logtest.Texts(t, "testdata/python")) {
		t.Run(log.Name, func(t *testing.T) {
			t.Parallel()
			tl, sum := timelineOf(t, logtest.Assemble(t, log.Text))
			got := timelinetest.Text(tl) + summaryText(&sum)
			goldentest.Hold(t, log.Golden(".golden"), got)
		})
	}
}

// summaryText shows the numbers of a summary as text.
func summaryText(m *Summary) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("processes %d threads %d streams %d", m.ProcessCount, m.ThreadCount, m.StreamCount)
	line("kernels %d copies %d memsets %d calls %d launches %d failed %d unfinished %d",
		m.Kernels, m.Copies, m.Memsets, m.Calls, m.Launches, m.Failed, m.Unfinished)
	for _, name := range ByCount(m.Functions) {
		line("called %s: %d", name, m.Functions[name])
	}
	line("waits %d ambiguous %d", m.Waits, m.WaitsAmbiguous)
	line("NVTX ranges %d marks %d unmatched %d", m.Ranges, m.RangeMarks, m.RangesUnmatched)
	line("overhead %d ns, peak of device memory %d bytes", m.OverheadNS, m.PeakDevice)
	for _, name := range slices.Sorted(maps.Keys(m.Errors)) {
		line("error %s: %d", name, m.Errors[name])
	}
	line("matched %d unmatched %d early %d", m.Matched, m.Unmatched, m.Early)
	line("pairs %d API records %d joined %d unprobed %d", m.Pairs, m.APIRecords, m.APIJoined, m.Unprobed)
	if m.Unnamed > 0 {
		line("launches without a kernel name: %d", m.Unnamed)
	}
	if m.Callers != nil {
		line("callers known %d unknown %d: %.1f %%", m.Callers.Known, m.Callers.Unknown, m.Callers.Share())
	}
	line("lost: %s", LostWords(m.Lost))
	line("complete %t damaged %t %q", m.Complete, m.Damaged, m.Reasons)
	return b.String()
}

package record

import (
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestOneReason finishes processes whose last records are missing: each has one reason, the most exact one.
func TestOneReason(t *testing.T) {
	t.Parallel()
	ts := newTracees(newLog(t), func(uint32) (probe.Exit, bool) { return probe.Exit{}, false })
	for id := range uint64(4) {
		ts.byID[id] = &tracee{pid: uint32(100 + id)}
		ts.end(id, tracelog.ProcessEnd{PID: uint32(100 + id), Status: -1})
	}
	ts.setCut(1)
	ts.setAbsent(2, "why")
	ts.change(103, func(t *tracee) { t.rival = true })
	got := ts.finish(nil, false)
	if len(got) != 2 || !strings.HasPrefix(got[0], "process 100 ended before") || !slices.Contains(got, "1 process is not recorded (102): why") {
		t.Errorf("reasons %q", got)
	}
}

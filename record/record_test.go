package record

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// newLog makes a log that nobody reads.
func newLog(t *testing.T) *tracelog.Writer {
	t.Helper()
	f := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	w := must.Get(tracelog.NewFileWriter(f, tracelog.Options{}))(t)
	t.Cleanup(func() { w.Close(tracelog.End{}) })
	return w
}

// A text is said once, and counted beyond those that are kept.
func TestReport(t *testing.T) {
	said := 0
	r := report{log: newLog(t), say: func(string) { said++ }}
	for range 2 {
		r.miss(0, "the first")
	}
	r.remark(0, "nothing is missing")
	for i := range maxMissing + 4 {
		r.miss(0, fmt.Sprint("number ", i))
	}
	list := r.missing.list()
	if said != maxMissing+1 || len(list) != maxMissing+1 || list[0] != "the first" || list[maxMissing] != "and 5 more reasons" {
		t.Errorf("said %d lines, %d reasons: %q", said, len(list), list)
	}
}

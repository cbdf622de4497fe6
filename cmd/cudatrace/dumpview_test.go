package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// TestDumpView holds what people see of a record of every kind.
func TestDumpView(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "all.cudatrace")
	w := must.Get(createLog(log))(t)
	end, err := logtext.Assemble(strings.NewReader(readRepository(t, "record/tracelog/testdata/all.txt")), w)
	if err == nil {
		err = w.Close(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkOutput(t, "testdata/dump.golden", "dump", log)
	checkOutput(t, "testdata/dump_all.golden", "dump", "--all", log)
}

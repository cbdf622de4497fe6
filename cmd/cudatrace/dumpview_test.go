package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// TestDumpView holds what people see of a record of every kind.
func TestDumpView(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "all.cudatrace")
	w, err := createLog(log)
	if err != nil {
		t.Fatal(err)
	}
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

// TestEnumerations: every field that holds an enumeration of CUPTI has names, and every name is of
// a field.
func TestEnumerations(t *testing.T) {
	t.Parallel()
	fields := make(map[string]bool)
	for _, table := range schema.Records() {
		for _, f := range table.Fields {
			name := table.Name + "." + f.Name
			fields[name] = true
			if strings.Contains(f.Meaning, "CUpti_") && enumerations[name] == nil {
				t.Errorf("%s has no names: %s", name, f.Meaning)
			}
		}
	}
	for name, names := range enumerations {
		if !fields[name] {
			t.Errorf("no record has %s", name)
		}
		if s := names(1 << 40); s != "" && !strings.HasPrefix(name, "overhead.overhead") {
			t.Errorf("%s calls a value that nobody knows %s", name, s)
		}
	}
}

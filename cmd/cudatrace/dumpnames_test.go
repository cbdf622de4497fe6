package main

import (
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

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

// A person sees both ends of a long text.
func TestLongText(t *testing.T) {
	t.Parallel()
	long := "begin" + strings.Repeat("x", 1<<20) + "end"
	if got := dumpView(0).Text(long); len(got) > 2*figures.LongText || !strings.HasPrefix(got, "beginx") || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes", len(got))
	}
}

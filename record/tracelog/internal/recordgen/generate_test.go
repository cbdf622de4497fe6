package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// The committed source is what the tables give.
func TestCommittedSourceIsCurrent(t *testing.T) {
	files := must.Get(generate(schema.Records()))(t)
	for name, want := range files {
		got := must.Get(os.ReadFile(filepath.Join("..", "..", name)))(t)
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the tables give; go generate ./record/tracelog writes it anew (-tables +file):\n%s", name, diff)
		}
	}
}

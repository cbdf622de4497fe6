package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// The committed source is what the tables give.
func TestCommittedSourceIsCurrent(t *testing.T) {
	files, err := generate(schema.Records())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the tables give; go generate ./record/tracelog writes it anew (-tables +file):\n%s", name, diff)
		}
	}
}

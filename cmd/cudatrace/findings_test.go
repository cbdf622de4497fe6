package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// The query of each finding runs, and shows rows of the reports that it names.
func TestQueriesOfFindings(t *testing.T) {
	t.Parallel()
	logs := func(names ...string) (paths []string) {
		for _, name := range names {
			paths = append(paths, filepath.Join("..", "..", "testdata", "gpu", "logs", name+".cudatrace"))
		}
		return paths
	}
	output := func(words ...string) string {
		stdout, _ := succeed(t, append([]string{"stats"}, words...)...)
		return stdout
	}
	for _, paths := range [][]string{logs("train"), logs("nccl-rank0", "nccl-rank1")} {
		var all struct {
			Findings []struct{ Name, Query string }
		}
		must.Do(t, json.Unmarshal([]byte(output(append(slices.Clone(paths), "--format", "json")...)), &all))
		if len(all.Findings) < 2 {
			t.Fatalf("findings %v", all.Findings)
		}
		for _, f := range all.Findings {
			words := strings.Fields(f.Query)
			text := output(words[2:]...)
			for _, report := range strings.Split(words[3+len(paths)], ",") {
				if !strings.Contains(text, report+": ") || strings.Contains(text, report+": no ") {
					t.Errorf("%s: %s\n%s", f.Name, f.Query, text)
				}
			}
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestJobs: each command of docs/jobs.md has the answer where the page says.
func TestJobs(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("(?m)^\\| (\\d+)\\. .* \\| `([^`]+)` \\| `([^`]+)` \\| (?:`([^`]+)` )?\\|$")
	rows := row.FindAllStringSubmatch(readRepository(t, "docs/jobs.md"), -1)
	for _, r := range rows {
		command := "cudatrace " + strings.ReplaceAll(r[2], "LOGS", "testdata/gpu/logs") + " --format json"
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = root
		out, err := cmd.Output()
		var document any
		if failed := json.Unmarshal(out, &document); failed != nil {
			t.Errorf("%s: %v, %v", command, err, failed)
			continue
		}
		got, err := member(document, r[3])
		if len(out) > 28<<10 || err != nil || r[4] != "" && got != r[4] || got == "" {
			t.Errorf("%s: %d bytes, %v; %s is %q, want %q", command, len(out), err, r[3], got, r[4])
		}
	}
	if len(rows) != 12 {
		t.Errorf("docs/jobs.md has %d jobs", len(rows))
	}
}

// member returns what a path names: a.b, a[0], a[key=value].
func member(v any, path string) (string, error) {
	for _, m := range regexp.MustCompile(`(\w+)(?:\[([^\]]+)\])?\.?`).FindAllStringSubmatch(path, -1) {
		object, ok := v.(map[string]any)
		if !ok || object[m[1]] == nil {
			return "", fmt.Errorf("there is no %s", m[1])
		}
		v = object[m[1]]
		if m[2] == "" {
			continue
		}
		list, ok := v.([]any)
		if !ok || len(list) == 0 {
			return "", fmt.Errorf("%s is no list, or empty", m[1])
		}
		v = list[0]
		if key, value, named := strings.Cut(m[2], "="); named {
			v = nil
			for _, row := range list {
				if row.(map[string]any)[key] == value {
					v = row
				}
			}
		}
	}
	if number, ok := v.(float64); ok {
		return strconv.FormatFloat(number, 'f', -1, 64), nil
	}
	return fmt.Sprint(v), nil
}

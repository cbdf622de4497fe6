package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestGitAttributes checks that each pattern of .gitattributes matches a file, and that every
// file that a generator has signed is marked as generated.
func TestGitAttributes(t *testing.T) {
	t.Parallel()
	if git(t, "rev-parse", "--show-toplevel") == "" {
		t.Skip("this is no git repository")
	}
	for line := range strings.Lines(readRepository(t, ".gitattributes")) {
		pattern, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if pattern == "" || pattern == "#" {
			continue
		}
		if git(t, "ls-files", "--", pattern) == "" {
			t.Errorf("no file matches %s", pattern)
		}
	}
	for path := range strings.FieldsSeq(git(t, "grep", "-l", "-E", "^(//|#|[*]) Code generated ")) {
		if !strings.HasSuffix(git(t, "check-attr", "linguist-generated", "--", path), ": true\n") {
			t.Errorf("%s is generated: .gitattributes does not say so", path)
		}
	}
}

// git returns what git prints in the repository; "" after an error.
func git(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(out)
}

// Package goldentest compares results with golden files, and with wanted values. Input: a text and the path of its golden file.
// Output: a failed test with the difference, or the file rewritten, where the tests run with -update.
package goldentest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/must"
)

// Update says that golden files are rewritten.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Hold compares a text with a golden file, line by line.
func Hold(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		must.Do(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (-want +got), go test -update rewrites it:\n%s", path, diff)
	}
}

// Section is Hold for the part of a file between two marks.
func Section(t testing.TB, path, begin, end, got string) {
	t.Helper()
	head, rest, begun := strings.Cut(string(must.Get(os.ReadFile(path))(t)), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has lost the marks %q and %q", path, begin, end)
	}
	Hold(t, path, head+begin+got+end+tail)
}

// Same compares a result with the one that is wanted. The format and its arguments name the result.
func Same(t testing.TB, want, got any, format string, args ...any) {
	if diff := cmp.Diff(want, got); diff != "" {
		t.Helper()
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(format, args...), diff)
	}
}

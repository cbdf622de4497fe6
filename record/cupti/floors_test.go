package cupti

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	floorRow     = regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]*) \|`)
	floorFile    = regexp.MustCompile("`(\\w+)\\.c`")
	ownInclude   = regexp.MustCompile(`(?m)^#include "(\w+)\.h"`)
	ownPrototype = regexp.MustCompile(`(?m)^(?:extern )?[a-z][^=;{}]*\bct_\w+\([^;{}]*\);`)
)

// floors reads the table of floors in the library's README.
func floors(t *testing.T) map[string]int {
	t.Helper()
	readme, err := os.ReadFile("inject/README.md")
	if err != nil {
		t.Fatal(err)
	}
	floor := map[string]int{}
	for _, row := range floorRow.FindAllStringSubmatch(string(readme), -1) {
		n, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range floorFile.FindAllStringSubmatch(row[2], -1) {
			if floor[file[1]] != 0 {
				t.Errorf("%s.c is on two floors", file[1])
			}
			floor[file[1]] = n
		}
	}
	return floor
}

// included returns the library's headers that a file and its own header include.
func included(t *testing.T, name string) []string {
	t.Helper()
	var all []string
	for _, file := range []string{name + ".c", name + ".h"} {
		source, err := os.ReadFile(filepath.Join("inject", file))
		if os.IsNotExist(err) && file != name+".c" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".c") {
			for _, p := range ownPrototype.FindAllString(string(source), -1) {
				t.Errorf("%s declares what belongs into a header: %s", file, p)
			}
		}
		for _, m := range ownInclude.FindAllStringSubmatch(string(source), -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// TestFloors holds the C files against the floors of the README: a file includes headers
// of lower floors alone, so no calls go round in a circle. The compiler sees to it that
// each function has its prototype in a header.
func TestFloors(t *testing.T) {
	t.Parallel()
	floor := floors(t)
	sources, err := filepath.Glob("inject/*.c")
	if err != nil || len(sources) != len(floor) {
		t.Errorf("%d files are on floors, there are %d (%v)", len(floor), len(sources), err)
	}
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".c")
		if floor[name] == 0 {
			t.Errorf("%s.c is on no floor", name)
		}
		for _, other := range included(t, name) {
			if other != name && floor[other] >= floor[name] && floor[other] != 0 {
				t.Errorf("%s.c on floor %d includes %s.h of floor %d", name, floor[name], other, floor[other])
			}
		}
	}
}

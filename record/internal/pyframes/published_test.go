package pyframes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// TestFiles looks into interpreters for another processor, on which this test runs in an emulator.
func TestFiles(t *testing.T) {
	t.Parallel()
	root := os.Getenv("CUDATRACE_PYTHON_ARM64")
	if root == "" || runtime.GOARCH != "arm64" {
		t.Skip("run `make package-test` in the root of the repository")
	}
	files, err := filepath.Glob(filepath.Join(root, "usr/bin/python3.[0-9]*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Python in %s (%v)", root, err)
	}
	for _, path := range files {
		f := must.Get(os.Open(path))(t)
		defer f.Close()
		i, _, err := inFile(path, f)
		if err != nil || i == nil {
			t.Fatal(i, err)
		}
		if filepath.Base(path) != "python"+i.Version || *i.Layout != *layoutOf(i.Layout.Minor) {
			t.Errorf("%s is taken for %s with %+v", path, i.Version, i.Layout)
		}
	}
}

// TestPublished reads what interpreters publish of themselves: testdata/published.txt has the first words of _PyRuntime
// of releases, as they were printed by each. The layouts in the table are the same; those of the states are taken.
func TestPublished(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("testdata/published.txt"))(t)
	host := hostProgram(t)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		var minor, micro int
		must.Get(fmt.Sscanf(words[0], "3.%d.%d", &minor, &micro))(t)
		l := layoutOf(minor)
		moved := *l
		moved.Threads += 16
		for name, c := range map[string]struct {
			place, change int
			want          *Layout
			why           string
		}{
			"as is":         {publishedThreads, 0, l, ""},
			"moved threads": {publishedThreads, 16, &moved, ""},
			"far threads":   {publishedThreads, maxState, nil, "publishes another layout of its structures"},
			"free-threaded": {publishedFreeThreaded, 1, nil, "is a free-threaded build of CPython"},
			"another code":  {l.Published.Previous + 1, 8, nil, "publishes another layout of its structures"},
			"another owner": {l.Published.Previous + 4, 8, nil, "publishes another layout of its structures"},
			"no cookie":     {publishedCookie, 1, nil, "publishes another layout of its structures"},
			"another minor": {publishedVersion, 1 << 16, nil, "publishes another layout of its structures"},
		} {
			t.Run(words[0]+" "+name, func(t *testing.T) {
				t.Parallel()
				words := slices.Clone(words[1:])
				words[c.place] += fmt.Sprint("+", c.change)
				f := fake{name: fmt.Sprintf("libpython3.%d.so.1.0", minor), runtime: strings.Join(words, ", "),
					version: uint32(3<<24 | minor<<16 | micro<<8 | 0xf0)}
				pid, _ := start(t, exec.Command(host, f.build(t, t.TempDir())))
				i, err := Find(pid)
				var why Unusable
				switch {
				case c.want != nil && (err != nil || i == nil || *i.Layout != *c.want):
					t.Errorf("%+v, %v", i, err)
				case c.want == nil && (!errors.As(err, &why) || !strings.Contains(err.Error(), c.why)):
					t.Errorf("%v; want %q", err, c.why)
				}
			})
		}
	}
}

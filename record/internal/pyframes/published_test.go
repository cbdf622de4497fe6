package pyframes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPublished reads what interpreters publish of themselves: testdata/published.txt has the first words of _PyRuntime
// of releases, as they were printed by each. The layouts in the table are the same; those of the states are taken.
func TestPublished(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/published.txt")
	if err != nil {
		t.Fatal(err)
	}
	host := hostProgram(t)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		var minor, micro int
		if _, err := fmt.Sscanf(words[0], "3.%d.%d", &minor, &micro); err != nil {
			t.Fatal(err)
		}
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
				runtime := slices.Clone(words[1:])
				runtime[c.place] += fmt.Sprint("+", c.change)
				f := fake{name: fmt.Sprintf("libpython3.%d.so.1.0", minor), runtime: strings.Join(runtime, ", "),
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

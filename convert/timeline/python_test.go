package timeline

import (
	"strings"
	"testing"
)

// TestOwn finds the program's own line of stacks, the innermost frame first.
func TestOwn(t *testing.T) {
	t.Parallel()
	const (
		torch     = "/venv/lib/python3.12/site-packages/torch/_inductor/runtime/triton_heuristics.py"
		generated = "/tmp/torchinductor_ann/gs/cgsbwwqxio2guwux4k6ztm5ldm4lltpjm7vwpoqnpvtawxrhhey4.py"
		like      = "/home/ann/gs/cgsbwwqxio2guwux4k6ztm5ldm4lltpjm7vwpoqnpvtawxrhhey41.py" // 1 is no character of a hash
	)
	for _, c := range []struct {
		name, want string
		files      []string
	}{
		{"a package's", "train.py", []string{torch, "train.py", "main.py"}},
		{"packages alone", torch, []string{torch, "/usr/lib/python3.12/runpy.py"}},
		{"compiled code", "train.py", []string{torch, "<string>", torch, generated, torch, "train.py"}},
		{"compiled code of the command line", "<string>", []string{generated, torch, "<string>"}},
		{"compiled code of the backward pass", generated, []string{torch, "<string>", torch, generated, torch}},
		{"code that the program makes", "<string>", []string{torch, "<string>", "train.py"}},
		{"a file that is no hash", like, []string{torch, like, "train.py"}},
		{"frames that are left out", "", []string{""}},
	} {
		var stack *Python
		for i := len(c.files) - 1; i >= 0; i-- {
			stack = &Python{PythonFrame: &PythonFrame{File: c.files[i]}, Parent: stack}
		}
		if got := stack.Own(); got.File != c.want || strings.HasSuffix(c.name, "command line") && got.Parent != nil {
			t.Errorf("%s: %q, want %q", c.name, got.File, c.want)
		}
	}
}

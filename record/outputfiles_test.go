package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDefaultName finds the names of files in command lines.
func TestDefaultName(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"./app":                         "app",
		"app train.py":                  "app",
		"python":                        "python",
		"/usr/bin/python3 train.py":     "train",
		"python3.12 dir/train.py -x":    "train",
		"python3 -u -W ignore a.b.py":   "a.b",
		"python3 -c print train.py":     "python3",
		"python3 -m pkg.train --x":      "train",
		"python3 -m":                    "python3",
		"python3 -m torch.run train.py": "train",
		"torchrun --nproc 2 train.py":   "train",
		"mpirun -n 4 python train.py":   "train",
		"bash run.sh":                   "run",
		"sh -c ./a.sh":                  "sh",
		"env A=1 ./app":                 "env",
		"python3 --config=x.py":         "python3",
		"python3 .py":                   "python3",
	} {
		args := strings.Fields(line)
		if got := defaultName(args[0], args[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestBaseName(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for output, want := range map[string]struct {
		base  string
		named bool
	}{
		"": {"app", false}, dir: {dir + "/app", false}, file: {file, true},
		"x": {"x", true}, "x.cudatrace": {"x", true}, "x.pftrace": {"x", true},
	} {
		if base, named := BaseName(output, "./app", nil); base != want.base || named != want.named {
			t.Errorf("-o %q: %q, %t", output, base, named)
		}
	}
}

package outname

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/ranks"
)

// TestProgram finds the names of files in command lines.
func TestProgram(t *testing.T) {
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
		if got := Program(args[0], args[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	third := ranks.Rank{Number: 3, Of: 8, Known: true}
	for _, test := range []struct {
		output   string
		rank     ranks.Rank
		launches bool
		path     string
		named    bool
	}{
		{"", ranks.Rank{}, false, "app", false},
		{"", third, false, "app-rank3", false},
		{"", third, true, "app", false},
		{"", ranks.Rank{Of: 1, Known: true}, false, "app", false},
		{dir, ranks.Rank{}, false, dir + "/app", false},
		{dir, third, false, dir + "/app-rank3", false},
		{file, third, false, file, true},
		{"x", ranks.Rank{}, false, "x", true},
		{"x.cudatrace", ranks.Rank{}, false, "x", true},
		{"x.pftrace", ranks.Rank{}, false, "x", true},
		{"%n-%r.cudatrace", third, true, "app-3", true},
	} {
		base, err := Of(test.output, Values{Name: "app", Rank: test.rank, Launches: test.launches})
		if err != nil || base.Path != test.path || base.Named != test.named || base.WithPID != nil {
			t.Errorf("-o %q, %v: %+v, %v", test.output, test.rank, base, err)
		}
	}
}

// A PID that is not known yet can be in the file's name only.
func TestLaterPID(t *testing.T) {
	t.Parallel()
	base, err := Of("dir/run-%p-%%p.cudatrace", Values{})
	if err != nil || base.Path != "dir/run-%p-%p" || base.WithPID(4711) != "dir/run-4711-%p" {
		t.Errorf("%+v, %v", base, err)
	}
	if base, err := Of("%p/x-%p", Values{PID: 12}); err != nil || base.Path != "12/x-12" || base.WithPID != nil {
		t.Errorf("%+v, %v", base, err)
	}
	if base, err := Of("%p/x", Values{}); err == nil {
		t.Errorf("%+v", base)
	}
}

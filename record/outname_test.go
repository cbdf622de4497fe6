package record

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/ranks"
)

func TestExpandPatterns(t *testing.T) {
	t.Parallel()
	v := nameValues{
		host: "node1", pid: 7, rank: ranks.Rank{Number: 3, Known: true}, job: "12.pbs/x\n", name: "train",
		time: time.Date(2026, 11, 22, 9, 5, 7, 0, time.UTC), variables: map[string]string{"DIR": "a/b", "EMPTY": ""},
	}
	for path, want := range map[string]string{
		"":                    "",
		"plain":               "plain",
		"%h-%p-%r":            "node1-7-3",
		"%j":                  "12.pbs_x_",
		"out/%n.%t.cudatrace": "out/train.20261122-090507.cudatrace",
		"%%h%%%h":             "%h%node1",
		"%q{DIR}/%r":          "a/b/3",
		"%hé%r":               "node1é3",
		"50%":                 "error: -o 50%: a name ends in %; write %% for a percent sign",
		"a%xb":                "error: -o a%xb: %x is no pattern; patterns are " + namePatterns,
		"%é":                  "error: -o %é: %é is no pattern; patterns are " + namePatterns,
		"%q":                  "error: -o %q: %q lacks the name of a variable; write %q{NAME}",
		"%q}":                 "error: -o %q}: %q lacks the name of a variable; write %q{NAME}",
		"%q{A":                "error: -o %q{A: %q lacks the name of a variable; write %q{NAME}",
		"%q{EMPTY}":           "error: -o %q{EMPTY}: %q{EMPTY} has no value: the environment variable is empty or not set",
		"%q{}":                "error: -o %q{}: %q lacks the name of a variable; write %q{NAME}",
	} {
		got, err := expandPatterns(path, v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", path, got, want)
		}
	}
}

// A pattern without a value is an error that says where the value comes from.
func TestPatternsWithoutValue(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"%r": "RANK", "%j": "SLURM_JOB_ID", "%h": "host"} {
		if got, err := expandPatterns(path, nameValues{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}

// Each pattern of the list for people is one.
func TestPatterns(t *testing.T) {
	t.Parallel()
	v := nameValues{host: "h", pid: 1, rank: ranks.Rank{Known: true}, job: "j", name: "n", variables: map[string]string{"VARIABLE": "v"}}
	text := strings.ReplaceAll(namePatterns, "%%", "%%%%")
	if got, err := expandPatterns(text, v); err != nil || strings.Count(got, "%") != 2 {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzExpandPatterns(f *testing.F) {
	for _, path := range []string{"%h-%r.%p", "%q{A}", "%q{", "%", "%%", "\xff%\xff"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		v := nameValues{host: "h", pid: 1, rank: ranks.Rank{Known: true}, job: "j", name: "n"}
		if got, err := expandPatterns(path, v); err == nil && !strings.Contains(path, "%") && got != path {
			t.Errorf("%q became %q", path, got)
		}
	})
}

// TestProgram finds the names of files in command lines.
func TestProgramName(t *testing.T) {
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
		if got := programName(args[0], args[1:]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestOutputOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(file, nil, 0o600))
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
		var o Options
		err := o.setOutput(test.output, nameValues{name: "app", rank: test.rank, launches: test.launches})
		if err != nil || o.Output != test.path || o.OutputNamed != test.named || o.OutputOf != nil {
			t.Errorf("-o %q, %v: %q, named %t, %v", test.output, test.rank, o.Output, o.OutputNamed, err)
		}
	}
}

// A PID that is not known yet can be in the file's name only.
func TestLaterPID(t *testing.T) {
	t.Parallel()
	var o Options
	if err := o.setOutput("dir/run-%p-%%p.cudatrace", nameValues{}); err != nil || o.Output != "dir/run-%p-%p" || o.OutputOf(4711) != "dir/run-4711-%p" {
		t.Errorf("%q, %v", o.Output, err)
	}
	if err := o.setOutput("%p/x-%p", nameValues{pid: 12}); err != nil || o.Output != "12/x-12" || o.OutputOf != nil {
		t.Errorf("%q, %v", o.Output, err)
	}
	if err := o.setOutput("%p/x", nameValues{}); err == nil {
		t.Errorf("%q", o.Output)
	}
}

// TestLongName has a program's name be as long as a file's can be.
func TestLongName(t *testing.T) {
	long := strings.Repeat("lr\u00e9_", 51)[:254]
	for _, got := range []string{programName("/bin/"+long, nil), programName("python3", []string{long + ".py"})} {
		if len(got) > maxName || len(got) < maxName-3 || !strings.HasPrefix(long, got) || !utf8.ValidString(got) {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

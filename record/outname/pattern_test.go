package outname

import (
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/ranks"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	v := Values{
		Host: "node1", PID: 7, Rank: ranks.Rank{Number: 3, Known: true}, Job: "12.pbs/x\n", Name: "train",
		Time: time.Date(2026, 11, 22, 9, 5, 7, 0, time.UTC), Variables: map[string]string{"DIR": "a/b", "EMPTY": ""},
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
		"a%xb":                "error: -o a%xb: %x is no pattern; patterns are " + Patterns,
		"%é":                  "error: -o %é: %é is no pattern; patterns are " + Patterns,
		"%q":                  "error: -o %q: %q lacks the name of a variable; write %q{NAME}",
		"%q}":                 "error: -o %q}: %q lacks the name of a variable; write %q{NAME}",
		"%q{A":                "error: -o %q{A: %q lacks the name of a variable; write %q{NAME}",
		"%q{EMPTY}":           "error: -o %q{EMPTY}: %q{EMPTY} has no value: the environment variable is empty or not set",
		"%q{}":                "error: -o %q{}: %q lacks the name of a variable; write %q{NAME}",
	} {
		got, err := expand(path, v)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", path, got, want)
		}
	}
}

// A pattern without a value is an error that says where the value comes from.
func TestExpandNothing(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"%r": "RANK", "%j": "SLURM_JOB_ID", "%h": "host"} {
		if got, err := expand(path, Values{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", path, got, err)
		}
	}
}

// Each pattern of the list for people is one.
func TestPatterns(t *testing.T) {
	t.Parallel()
	v := Values{Host: "h", PID: 1, Rank: ranks.Rank{Known: true}, Job: "j", Name: "n", Variables: map[string]string{"VARIABLE": "v"}}
	text := strings.ReplaceAll(Patterns, "%%", "%%%%")
	if got, err := expand(text, v); err != nil || strings.Count(got, "%") != 2 {
		t.Errorf("%q, %v", got, err)
	}
}

func FuzzExpand(f *testing.F) {
	for _, path := range []string{"%h-%r.%p", "%q{A}", "%q{", "%", "%%", "\xff%\xff"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		v := Values{Host: "h", PID: 1, Rank: ranks.Rank{Known: true}, Job: "j", Name: "n"}
		if got, err := expand(path, v); err == nil && !strings.Contains(path, "%") && got != path {
			t.Errorf("%q became %q", path, got)
		}
	})
}

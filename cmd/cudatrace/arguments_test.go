package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
)

func quiet() *console.Console { return console.New(new(bytes.Buffer), new(bytes.Buffer)) }

// TestArguments: what a person types, and what the library is to read.
func TestArguments(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"":                                     "",
		"./app":                                "./app",
		"record -d5s -oNAME ./app -x":          "record --duration=5s --output=NAME -- ./app -x",
		"record -d 5 --output=a=b -- -app -h":  "record --duration=5 --output=a=b -- -app -h",
		"record -qd5 -o - ./app --help":        "record --quiet --duration=5 --output=- -- ./app --help",
		"record -qo NAME -d=7 ./app":           "record --quiet --output=NAME --duration=7 -- ./app",
		"record -p 1 -p2 --pid=3":              "record --pid=1 --pid=2 --pid=3 --",
		"record -output x --quiet=false ./app": "record --output=x --quiet=false -- ./app",
		"record -d -5 ./app":                   "record --duration=-5 -- ./app",
		"convert a b -o c --from 1s":           "convert --output=c --from=1s -- a b",
		"convert - -o -":                       "convert --output=- -- -",
		"convert -- -a -o":                     "convert -- -a -o",
		"dump a --pid 7 --kind=call":           "dump --pid=7 --kind=call -- a",
		"convert a --pid 7":                    "convert --process=7 -- a",
		"help record":                          "help -- record",
		"record -o x --help ./app":             "help record",
		"record --nonsense -h":                 "help record",
		"record -o -h":                         "help record",
		"convert a b -h":                       "help convert",
		"-h":                                   "help",
		"--help dump":                          "help dump",
		"help --help":                          "help",
		"--version":                            "version",
		"probes --probe a --probe b":           "probes --probe=a --probe=b --",
	} {
		got, err := arguments(newApp(quiet()), append([]string{"cudatrace"}, strings.Fields(typed)...))
		if err != nil || !slices.Equal(got[1:], strings.Fields(want)) {
			t.Errorf("%q is read as %q, %v", typed, got, err)
		}
	}
}

// TestWrongArguments: each message names what is wrong and, where one is near, what was meant.
func TestWrongArguments(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]string{
		"recrod ./app":                   `unknown command "recrod" (did you mean 'record'?); see 'cudatrace help'`,
		"conv a":                         `unknown command "conv" (did you mean 'convert'?); see 'cudatrace help'`,
		"./app":                          `unknown command "./app"; to record a program, write 'cudatrace record ./app'; see 'cudatrace help'`,
		"sh -c true":                     `unknown command "sh"; to record a program, write 'cudatrace record sh'; see 'cudatrace help'`,
		"app.cudatrace":                  `unknown command "app.cudatrace"; to read a log, write 'cudatrace stats app.cudatrace'; see 'cudatrace help'`,
		"app.pftrace":                    `unknown command "app.pftrace"; to look at a trace, write 'cudatrace open app.pftrace'; see 'cudatrace help'`,
		"train.py -n 1":                  `unknown command "train.py"; to record a program, write 'cudatrace record python3 train.py'; see 'cudatrace help'`,
		"critical_path app.cudatrace":    `unknown command "critical_path"; it is a report: write 'cudatrace stats LOG --report critical_path'; see 'cudatrace help'`,
		"findings":                       `unknown command "findings"; it is a report: write 'cudatrace stats LOG --report findings'; see 'cudatrace help'`,
		"zzz":                            `unknown command "zzz"; see 'cudatrace help'`,
		"help convrt":                    `unknown command "convrt" (did you mean 'convert'?); see 'cudatrace help'`,
		"-o x ./app":                     `-o is an option of record: write 'cudatrace record -o ...'; see 'cudatrace help'`,
		"--wrong":                        `unknown option --wrong; see 'cudatrace help'`,
		"-- ./app":                       `no command given; see 'cudatrace help'`,
		"record --outptu x ./app":        `record: unknown option --outptu (did you mean --output?); see 'cudatrace help record'`,
		"record -ouptut x ./app":         `record: unknown option -ouptut (did you mean --output?); see 'cudatrace help record'`,
		"record -x ./app":                `record: unknown option -x; see 'cudatrace help record'`,
		"record -qx ./app":               `record: unknown option -qx; see 'cudatrace help record'`,
		"record -o":                      `record: -o needs a value; see 'cudatrace help record'`,
		"record -o= ./app":               `record: -o needs a name; see 'cudatrace help record'`,
		"convert a --output=":            `convert: -o needs a name; see 'cudatrace help convert'`,
		"record --probe":                 `record: --probe needs a value; see 'cudatrace help record'`,
		"record --quiet=maybe ./app":     `record: --quiet takes no value; see 'cudatrace help record'`,
		"record -d 5x ./app":             `record: --duration "5x" is not a time: write 10 (seconds), 500ms or 2m; see 'cudatrace help record'`,
		"record -d= ./app":               `record: --duration "" is not a time: write 10 (seconds), 500ms or 2m; see 'cudatrace help record'`,
		"record -d -5 ./app":             `record: --duration -5 must not be negative; see 'cudatrace help record'`,
		"record --delay 1e9s ./app":      `record: --delay "1e9s" is not a time: write 10 (seconds), 500ms or 2m; see 'cudatrace help record'`,
		"record --flush-interval 1h a":   `record: --flush-interval must be between 10ms and 1m; see 'cudatrace help record'`,
		"record --memory-limit 1X ./app": `record: --memory-limit "1X" is not a size: write 500K, 64M or 1GiB; see 'cudatrace help record'`,
		"record -p abc":                  `record: --pid "abc" is not the number of a process; see 'cudatrace help record'`,
		"record -p 0":                    `record: --pid "0" is not the number of a process; see 'cudatrace help record'`,
		"record --api al ./app":          `record: --api must be minimal, default or all, not "al"; see 'cudatrace help record'`,
		"record --probe cudaMaloc ./app": `record: --probe: no function matches "cudaMaloc"; similar: cudaMalloc; see 'cudatrace help record'`,
		"probes --no-probe cu[":          `probes: --no-probe: "cu[" is not a pattern: a [ lacks its ], or nothing follows a \; see 'cudatrace help probes'`,
		"probes --no-probe *":            `probes: --no-probe: no function is left to record; see 'cudatrace help probes'`,
		"convert a --from 1x":            `convert: --from "1x" is not a time: write 1.5 (seconds), 200ms or 'last 5s'; see 'cudatrace help convert'`,
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"cudatrace"}, strings.Fields(typed)...), &stdout, &stderr)
		if got := stderr.String(); code != exitUsage || got != "cudatrace: "+want+"\n" {
			t.Errorf("%q: exit code %d, %s", typed, code, got)
		}
	}
}

// TestHelp: a page for each command is as wide as asked for, names each option once, and says no
// default that tells nothing.
func TestHelp(t *testing.T) {
	for _, columns := range []string{"", "50", "120"} {
		t.Setenv("COLUMNS", columns)
		width := map[string]int{"": 80, "50": 50, "120": 120}[columns]
		app := newApp(quiet())
		pages := map[string]string{"": appHelp(app)}
		for _, c := range app.Commands {
			pages[c.Name] = commandHelp(c)
			for _, o := range visibleOptions(c) {
				if n := strings.Count(pages[c.Name], "\n  "+o.Names()); n != 1 {
					t.Errorf("help %s has %d lines of %s", c.Name, n, o.Names())
				}
			}
		}
		for name, page := range pages {
			if strings.ContainsAny(page, "`\t") || strings.Contains(page, "(default: false)") || strings.Contains(page, "(default: default)") {
				t.Errorf("help %s is %s", name, page)
			}
			headings := make(map[string]bool)
			for line := range strings.SplitSeq(page, "\n") {
				if strings.HasSuffix(line, ":") && line[0] != ' ' {
					if headings[line] {
						t.Errorf("help %s has two groups %s", name, line)
					}
					headings[line] = true
				}
				copied := strings.HasPrefix(line, "  cudatrace ") || strings.HasPrefix(line, "Example: ")
				if limit := max(width, 80); len(line) > width && !copied || len(line) > limit {
					t.Errorf("help %s has %d columns, not %d: %s", name, len(line), width, line)
				}
			}
		}
	}
}

// TestHelpGroups: the help of record begins with the options that most people want.
func TestHelpGroups(t *testing.T) {
	t.Parallel()
	var groups []string
	for line := range strings.SplitSeq(commandHelp(recordCommand(quiet())), "\n") {
		if name, ok := strings.CutSuffix(line, ":"); ok && !strings.HasPrefix(line, " ") {
			groups = append(groups, name)
		}
	}
	if want := []string{"Usage", commonGroup, whatGroup, whenGroup, limitGroup, outputGroup}; !slices.Equal(groups, want) {
		t.Errorf("groups %q, want %q", groups, want)
	}
}

// FuzzArguments: whatever is typed, it is an error, a request for help, or options in front of the
// arguments that were typed.
func FuzzArguments(f *testing.F) {
	for _, typed := range []string{"record -d5s -oNAME -- a -b", "convert a - -o - --x", "dump -h", "-", "--", "record -q=1 -qqo= a", "help help", "h x", "- record"} {
		f.Add(typed)
	}
	f.Fuzz(func(t *testing.T, typed string) {
		args := append([]string{"cudatrace"}, strings.Split(typed, " ")...)
		app := newApp(quiet())
		got, err := arguments(app, args)
		if err != nil {
			return
		}
		cmd := app.Command(got[min(1, len(got)-1)])
		if end := slices.Index(got, "--"); cmd != nil && end > 0 {
			for _, option := range got[2:end] {
				if !strings.HasPrefix(option, "--") {
					t.Errorf("%q is read as %q", args, got)
				}
			}
		}
	})
}

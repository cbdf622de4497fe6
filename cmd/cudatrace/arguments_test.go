package main

import (
	"bytes"
	"regexp"
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
		"recrod ./app":                   `unknown command "recrod"; write: cudatrace record ./app`,
		"conv a":                         `unknown command "conv"; write: cudatrace convert a`,
		"conv":                           `unknown command "conv" (did you mean 'convert'?); see 'cudatrace help convert'`,
		"./app -o x":                     `unknown command "./app"; write: cudatrace record ./app -o x`,
		"sh -c true":                     `unknown command "sh"; write: cudatrace record sh -c true`,
		"app.cudatrace --top 3":          `unknown command "app.cudatrace"; write: cudatrace stats app.cudatrace --top 3`,
		"app.pftrace":                    `unknown command "app.pftrace"; write: cudatrace open app.pftrace`,
		"train.py -n 1":                  `unknown command "train.py"; write: cudatrace record python3 train.py -n 1`,
		"critical_path app.cudatrace":    `unknown command "critical_path"; write: cudatrace stats app.cudatrace --report critical_path`,
		"findings":                       `unknown command "findings"; write: cudatrace stats LOG --report findings`,
		"zzz":                            `unknown command "zzz"; see 'cudatrace help'`,
		"help convrt":                    `unknown command "convrt"; write: cudatrace help convert`,
		"-o x ./app":                     `-o is an option of record; write: cudatrace record -o x ./app`,
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
		"record --probe cudaMaloc ./app": `record: --probe: no function matches "cudaMaloc"; did you mean cudaMalloc?; see 'cudatrace help record'`,
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

// TestWrongValues: an option without what it needs, with a value that it has not, or beside one that excludes it. Each
// message is matched by a regular expression.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ typed, want string }{
		{"record", "^cudatrace: record: no program and no -p PID given; see 'cudatrace help record'$"},
		{"record --call-buffer 1K true", "^cudatrace: record: --call-buffer 1K must be between 64K and 1G"},
		{"convert", "convert: no log given"},
		{"info --format xml some.cudatrace", `info: --format must be text or json, not "xml"`},
		{"convert a b", "convert: several logs need -o OUT"},
		{"help record convert", "^cudatrace: help: takes one command"},
		{"completion", "^cudatrace: completion: name one shell: bash, zsh, fish; see 'cudatrace help completion'$"},
		{"completion tcsh", `completion: no shell "tcsh"; the shells are bash, zsh, fish`},
		{"man bogus", `^cudatrace: man: unknown command "bogus"; see 'cudatrace help man'$`},
		{"man record convert", "man: takes one command"},
		{"man -o x record", "man: -o writes all pages, not that of record alone"},
		{"stats", "stats: no log given"},
		{"stats x --format xml", `stats: --format must be text, json, csv, markdown, folded or prom, not "xml"`},
		{"stats x --report kernel", `stats: no report "kernel" \(did you mean kernels\?\); see`},
		{"stats x --report flops",
			`stats: no report "flops"; the reports are findings, step_kinds, critical_path, profile, kernels, ` +
				"kernel_shapes, kernel_python, calls,"},
		{"stats x --sort duration", `stats: --sort "duration" is no column of the reports`},
		{"stats x --report kernels --sort first_ns", `stats: --sort "first_ns" is no column of the reports`},
		{"stats x --top -1", `stats: --top "-1" is not a number of rows`},
		{"stats x --format csv",
			`stats: --format csv prints one report: name it \(--report kernels\), or have a file for each ` +
				`of [0-9]+ \(--output FOLDER\)`},
		{"stats x -o reports", "stats: --output needs --format csv"},
		{"record --capture-range step true",
			`record: --capture-range must be cudaProfilerApi, nvtx:RANGES or none, not "step"`},
		{"record --gpu-metrics=maybe true", `record: --gpu-metrics must be on, off or a rate in Hz, not "maybe"`},
		{"record --gpu-metrics 20000 true",
			"record: --gpu-metrics must be 10000 Hz or less: CUPTI takes up to 60 µs"},
		{"record --gpu-metrics=99 true", "record: --gpu-metrics must be 100 Hz or more: the GPU"},
		{"record --gpu-metrics off --gpu-metrics-set sm__cycles_active.sum true",
			"record: --gpu-metrics-set needs metrics, which --gpu-metrics off leaves out"},
		{"record --gpu-metrics-set sm__cycles_active true",
			`record: --gpu-metrics-set "sm__cycles_active" does not say what is asked of the metric: add an ending`},
		{"probes --gpu-metrics --api all",
			"probes: --gpu-metrics lists no functions: --api, --probe and --no-probe do not apply"},
		{"record --gpu-metrics", "no program and no -p PID given"},
		{"record --gpu-metrics-devices 0 true", `record: --gpu-metrics-devices must be used or all, not "0"`},
		{"record --steps 7-5 true", `record: --steps "7-5" are no steps: write 100-110 or 100`},
		{"record --steps 0-65536 true", "record: --steps 0-65536: at most 65,536 steps are recorded"},
		{"record --steps 5 -p 1", "record: -p records from its own start: --steps needs a program to run"},
		{"record --steps 5 --gpu none true", "record: --steps needs CUPTI, which --gpu none leaves out"},
		{"record --steps 5 --last 5s true", "record: --steps records some steps, --last the newest time: give one of them"},
		{"record --steps 5 --step a --capture-range nvtx:b true",
			"record: --steps are NVTX ranges: name them with --step RANGES or --capture-range nvtx:RANGES, not both"},
		{"record --steps 5 --step a[ true", `record: --step "a\[" is not a pattern`},
		{"record --capture-range nvtx:step --gpu none true",
			"record: --capture-range nvtx: needs CUPTI, which --gpu none leaves out"},
		{"record --capture-range nvtx:step -p 1",
			"record: -p records from its own start: --capture-range nvtx: needs a program to run"},
		{"stats x --min-duration 5x", `stats: --min-duration "5x" is not a time`},
		{"stats x --ranks 5-2",
			`stats: --ranks "5-2" is no list of ranks: the range 5-2 ends before it begins: write ranks, ` +
				`ranges and "last"`},
		{"convert x --ranks first", `convert: --ranks "first" is no list of ranks: "first" is no rank`},
		{"stats x --compress none", "stats: unknown option --compress"},
		{"record --from-start true",
			"^cudatrace: record: --from-start says from when -d and --delay count: give one of them; see "},
		{"record --from-start -d 1 -p 1",
			"^cudatrace: record: with -p, -d and --delay count from when recording is ready: --from-start " +
				"does not apply; see "},
		{"record --trigger call-failed true",
			"^cudatrace: record: --trigger, --cool-down, --max-files and --disk-limit need --last TIME; see "},
		{"record --max-files 3 true",
			"record: --trigger, --cool-down, --max-files and --disk-limit need --last TIME; see "},
		{"record --step step true",
			"record: --step names the steps of --steps, or of --trigger 'step>FACTOR', which needs --last TIME; see "},
		{"record --last 1m --trigger step>3 --step @x true",
			`record: --step "@x" is not a pattern: it lacks the name of a range; see `},
		{"record --last 10ms true", "record: --last must be between 1s and 24h; see "},
		{"record --last x true", `record: --last "x" is not a time: write 10`},
		{"record --last 1m --trigger calls true",
			`record: --trigger must be call-failed, call>TIME, kernel>TIME or step>FACTOR, not "calls"; see `},
		{"record --last 1m --trigger step>2 true",
			"record: --trigger 'step>FACTOR' and --step RANGES need each other; see "},
		{"record --last 1m --step step true",
			"record: --trigger 'step>FACTOR' and --step RANGES need each other; see "},
		{"record --last 1m --trigger kernel>1s --gpu none true",
			`record: --trigger "kernel>1s" needs CUPTI, which --gpu none leaves out; see `},
		{"record --last 1m --max-files -1 true", "record: --max-files must be between 0 and 1000000; see "},
		{"record --last 1m --disk-limit 1M true", "record: --disk-limit 1M must be between 32M and "},
		{"record --calls gpu true",
			`^cudatrace: record: --calls must be auto, uprobe, cupti or none, not "gpu"; see `},
		{"top", "^cudatrace: top: no log, no -p PID and no -- PROGRAM given; see .cudatrace help top.$"},
		{"top --", "no program given behind --"},
		{"top a b", "takes one log, and a program behind --; write: cudatrace top -- a b$"},
		{"top -p 1 a", "give one of LOG, -p PID and -- PROGRAM"},
		{"top -p 1 -p 2", "--pid names one process"},
		{"top --format xml a", `--format must be text, json or ndjson, not "xml"`},
		{"top --calls both -- true", "top: --calls must be auto, uprobe, cupti or none"},
		{"top -", "not standard input"},
		{"open", "^cudatrace: open: no trace and no log given; see 'cudatrace help open'$"},
		{"open a b", "open: takes one trace or log"},
		{"open a --port 0", "open: --port must be between 1 and 65535"},
		{"open a --ui ui.perfetto.dev", "open: --ui ui.perfetto.dev: it must begin with https:// or http://"},
		{"open a --timeout 0", "open: --timeout must be longer than 0"},
		{"record --open --no-convert true", "record: --no-convert makes no trace: --open does not apply"},
		{"doctor --format xml", "^cudatrace: doctor: --format must be text or json, not .xml.; see"},
		{"doctor -p x", "is not the number of a process"},
		{"report x --max-bytes 1K", "report: --max-bytes 1K must be between 256K and 200M"},
		{"convert x -o x.pftrace --min-duration 5x",
			`^cudatrace: convert: --min-duration "5x" is not a time: write 10us, 1.5ms or 2 \(seconds\); see `},
		{"convert x -o x.pftrace --from last 5s",
			`--from "last" is not a time: write 1.5 \(seconds\), 200ms or 'last 5s'`},
		{"convert x -o x.pftrace --to 0s", "--to 0s leaves nothing"},
		{"convert x -o x.pftrace --from 2s --to 1s", "--from 2s is later than --to 1s"},
		{"convert x -o x.pftrace --stream 7,x", `--stream "x" is not a number: write 7 or 7,8`},
		{"convert x -o x.json --format json", `^cudatrace: convert: --format must be perfetto, .* not "json"; see`},
		{"watch", "^cudatrace: watch: name a folder for the windows: -o FOLDER; see"},
		{"watch -o w ./app", `^cudatrace: watch: takes no arguments, but "./app":`},
		{"watch -o w --prometheus -",
			"^cudatrace: watch: -o names a folder and --prometheus a file: neither is written to standard output; see"},
		{"watch -o w --budget 0", `^cudatrace: watch: --budget "0" is no share: write 1%, from 0.01% to 100%; see`},
		{"watch -o w --every 3s --for 2s", "^cudatrace: watch: --for must be between 10ms and half of --every; see"},
		{"watch -o w --calls cupti", `^cudatrace: watch: --calls must be none, auto or uprobe, not "cupti"; see`},
		{"watch -o w --convert svg", `^cudatrace: watch: --convert must be of perfetto, .* not "svg"; see`},
		{"convert x -o x --run 7", "^cudatrace: convert: --run needs --format parquet or ndjson; see"},
		{"convert x -o x --format parquet --run a/b",
			`^cudatrace: convert: --run must be of letters, digits, .* not "a/b"; see`},
		{"convert x -o x --format parquet --compress none",
			"^cudatrace: convert: --compress needs --format perfetto or chrome; see"},
		{"convert x -o - --format parquet",
			"^cudatrace: convert: --format parquet makes a folder: name it with -o; see"},
		{"convert x -o x.pftrace --step step",
			"^cudatrace: convert: --step needs --steps FIRST-LAST, or --format chrome, parquet or ndjson; see"},
		{"diff x x --step step", "^cudatrace: diff: --step needs --steps FIRST-LAST; see"},
		{"stats x --steps 1-2", "^cudatrace: stats: --steps needs --step RANGES, the NVTX ranges that are steps; see"},
		{"stats x --step step --steps 2-1",
			`^cudatrace: stats: --steps "2-1" are no steps: write 100-110 or 100; see`},
		{"stats x --step step --steps 1-x", `--steps "1-x" are no steps`},
		{"stats x --step @x --steps 1",
			`^cudatrace: stats: --step "@x" is not a pattern: it lacks the name of a range; see`},
		{"convert LOG LOG -o x.pftrace", "streams.cudatrace is given twice"},
		{"dump LOG --from 2s --to 1s", "--from 2s is later than --to 1s"},
		{"diff old/1.json old/2.json new/1.json",
			"diff: takes BASE and NEW; for several files a side, write a pattern between quotes, or --base"},
		{"diff", "diff: BASE and NEW are needed"},
		{"diff base.json", "diff: BASE and NEW are needed"},
		{"diff --base base.json", "diff: no NEW given"},
		{"diff - base.json", "diff: reads files, not standard input"},
		{"diff base.json base.json --format xml", `diff: --format must be text, markdown, junit or json, not "xml"`},
		{"diff base.json base.json --format junit",
			"diff: --format junit needs conditions: add --fail-on or --budget"},
		{"diff base.json base.json --top x", `diff: --top "x" is not a number of rows`},
		{"diff base.json base.json --min-change x", `diff: --min-change "x" is not a percentage: write 5%`},
		{"diff base.json base.json --significance 0", "diff: --significance 0 must be above 0% and below 100%"},
		{"convert - - -o x.pftrace", "convert: - is given twice"},
		{"convert -", "convert: a log from standard input needs -o OUT"},
		{"repair -", "repair: LOG must be a file, not standard input"},
		{"record -o - true", "record: -o must name files, not standard output: that is the program"},
		{"dump LOG --kind kernels",
			`^cudatrace: dump: --kind "kernels" is unknown \(did you mean kernel\?\); the kinds are meta, function, .*, caller, `},
		{"dump LOG --pid app", `^cudatrace: dump: --pid "app" is not a number: write 7 or 7,8; `},
		{"dump LOG --from noon", `^cudatrace: dump: --from "noon" is not a time: `},
		{"dump x --format xml", `^cudatrace: dump: --format must be text or ndjson, not "xml"; `},
		{"repair cut.cudatrace -o -", "repair: -o must name a file"},
		{"open streams.cudatrace --finding 1 --from 1ms",
			"findings are those of a whole log: --finding and --from 1ms do not go together"},
		{"open streams.cudatrace --finding 1 --at 1", "open: give --finding or --at, not both"},
	} {
		var stdout, stderr bytes.Buffer
		typed := strings.Fields(strings.ReplaceAll(c.typed, "LOG", gpuLog))
		code := run(append([]string{"cudatrace"}, typed...), &stdout, &stderr)
		if code != exitUsage || !regexp.MustCompile("(?m)"+c.want).MatchString(stderr.String()) {
			t.Errorf("%q: exit code %d, %s", c.typed, code, &stderr)
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
			if !strings.Contains(pages[c.Name], "\nExample: ") && c.Name != "version" {
				t.Errorf("help %s has no example", c.Name)
			}
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

package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/cmd/cudatrace/console"
	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/record"
	"github.com/cudatrace/cudatrace/record/must"
)

// committedLogs are the logs that were recorded on GPUs.
func committedLogs(t *testing.T) (logs []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Dir(gpuLog), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, record.LogSuffix) {
			logs = append(logs, path)
		}
		return err
	})
	if err != nil || len(logs) < 20 {
		t.Fatal(logs, err)
	}
	return logs
}

// bothOutputs is what a command prints, on both outputs.
func bothOutputs(args ...string) string {
	var out bytes.Buffer
	run(append([]string{"cudatrace"}, args...), &out, &out)
	return out.String()
}

// summaryOf is what a recording prints at its end.
func summaryOf(t *testing.T, log string) string {
	t.Helper()
	f := must.Get(os.Open(log))(t)
	defer f.Close()
	r := convertFiles(f, nil)
	if r.Error != "" {
		t.Fatal(log, r.Error)
	}
	var out bytes.Buffer
	trace := strings.TrimSuffix(log, record.LogSuffix) + record.TraceSuffix
	printSummary(console.New(&out, &out), r.Summary, r.First, []madeFile{{path: trace}, {path: log}})
	return out.String()
}

// What is printed about the committed logs names files where a command to type needs them, and each command stands in one
// line and is a right command line. It has no word of ours that the screen does not explain.
func TestPrintedCommandsCanBePasted(t *testing.T) {
	t.Setenv("COLUMNS", "60")
	logs := committedLogs(t)
	texts := []string{bothOutputs("stats", filepath.Dir(logs[len(logs)-1])), bothOutputs("stats", logs[0], "none.cudatrace")}
	for _, log := range logs {
		texts = append(texts, summaryOf(t, log), bothOutputs("stats", log), bothOutputs("stats", "--format", "markdown", log))
	}
	for _, format := range []string{"text", "markdown", "junit"} {
		for i := 1; i < len(logs); i += 4 {
			texts = append(texts, bothOutputs("diff", "--format", format, logs[i-1], logs[i]))
		}
	}
	placeholder := regexp.MustCompile(`\b(LOG|FILE|NAME|TRACE|PROGRAM|FOLDER)\b|-p PID`)
	command := regexp.MustCompile("(?m)cudatrace (?:stats|open|info|convert) [^;`'\n]+")
	private := regexp.MustCompile(`steady state|not to be trusted|not judged|, certain\)|, likely\)|\bawaited\b|` +
		`pieces? of work|not sampled|not known by what|\brefused\b|\barmed\b[^-]|\bowners?\b`)
	commands := 0
	for _, text := range texts {
		if at := private.FindStringIndex(text); at != nil {
			t.Errorf("a word that nothing explains: %s", text[max(at[0]-100, 0):min(at[1]+100, len(text))])
		}
		if at := placeholder.FindStringIndex(text); at != nil {
			t.Errorf("a placeholder: %s", text[max(at[0]-200, 0):min(at[1]+200, len(text))])
		}
		for _, line := range command.FindAllString(text, -1) {
			line, _, _ = strings.Cut(line, "  ") // what it does stands beside it
			words, err := arguments(newApp(quiet()), strings.Fields(line))
			named := slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, filepath.Dir(gpuLog)) })
			if commands++; err != nil || !named {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
	if commands < 2*len(logs) {
		t.Errorf("%d commands in all", commands)
	}
}

// Many logs are named by their folder, if it has no others.
func TestLogArgs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var logs []convert.Log
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		path := filepath.Join(dir, name+record.LogSuffix)
		must.Do(t, os.WriteFile(path, nil, 0o600))
		logs = append(logs, convert.Log{Name: path})
	}
	if got := logArgs(logs); len(got) != 1 || got[0] != dir {
		t.Errorf("all of a folder: %q", got)
	}
	if got := logArgs(logs[1:]); len(got) != 4 {
		t.Errorf("few: %q", got)
	}
	if got := logArgs(append(logs[1:], convert.Log{Name: inputName})); len(got) != 5 || got[4] != stdio {
		t.Errorf("others of a folder, and standard input: %q", got)
	}
}

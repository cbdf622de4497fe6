package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// jsonOut, linesOut and csvOut are forms of output; nil is any.
func jsonOut(out string) error {
	if !json.Valid([]byte(out)) {
		return fmt.Errorf("no JSON")
	}
	return nil
}

func linesOut(out string) error {
	for line := range strings.Lines(out) {
		if err := jsonOut(line); err != nil {
			return fmt.Errorf("%w in %s", err, line)
		}
	}
	return nil
}

func csvOut(out string) error {
	r := csv.NewReader(strings.NewReader(out))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	for _, row := range rows {
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") || cell == "NaN" || strings.HasSuffix(cell, "Inf") {
				return fmt.Errorf("a cell is %s", cell)
			}
		}
	}
	return err
}

// Whatever records a log has, no command that reads logs panics, and what they write is of the form that was asked for.
func TestEveryReader(t *testing.T) {
	t.Parallel()
	commands := []struct {
		line  string
		check func(string) error
	}{
		{"info LOG", nil}, {"info LOG --format json", jsonOut},
		{"stats LOG --report all", nil}, {"stats LOG --format json", jsonOut}, {"stats LOG --format csv -o DIR/reports", nil}, {"stats LOG --format csv --report findings", csvOut},
		{"stats LOG --format markdown", nil},
		{"stats LOG OTHER --format json", jsonOut},
		{"diff LOG OTHER", nil}, {"diff OTHER LOG --format json", jsonOut}, {"diff LOG OTHER --format junit --fail-on kernel_time>+1%", nil},
		{"convert LOG -o - --compress none", nil}, {"convert LOG --format chrome --compress none -o DIR/chrome.json", nil}, {"convert LOG --format parquet -o DIR/tables", nil},
		{"dump LOG", nil}, {"dump LOG --format ndjson --all", linesOut}, {"dump LOG --raw --all", nil},
		{"top LOG", nil}, {"top LOG --format ndjson", linesOut},
		{"repair LOG -o DIR/repaired", nil},
	}
	for seed := range logtest.Seeds(12, 2) { // logs small and large
		dir, rnd := t.TempDir(), rand.New(rand.NewPCG(seed, 2))
		for _, name := range []string{"LOG", "OTHER"} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name), logtest.Chaos(t, rnd, 20+30*int(seed)), 0o600))
		}
		for _, c := range commands {
			var stdout, stderr bytes.Buffer
			args := []string{"cudatrace"}
			for _, word := range strings.Fields(c.line) {
				if word == "LOG" || word == "OTHER" {
					word = filepath.Join(dir, word)
				}
				args = append(args, strings.ReplaceAll(word, "DIR", dir))
			}
			code := run(args, &stdout, &stderr)
			if code != 0 && code != exitFailure && code != 3 || strings.Contains(stderr.String(), "panic") {
				t.Fatalf("seed %d: %s: exit code %d\n%s", seed, c.line, code, &stderr)
			}
			if c.check != nil && stdout.Len() > 0 {
				if err := c.check(stdout.String()); err != nil {
					t.Errorf("seed %d: %s: %v", seed, c.line, err)
				}
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "chrome", "*"))
		if err != nil || len(files) == 0 {
			t.Errorf("seed %d: no Chrome trace (%v)", seed, err)
		}
		for _, f := range files {
			if data, err := os.ReadFile(f); err != nil || !json.Valid(data) {
				t.Errorf("seed %d: %s is no JSON (%v)", seed, f, err)
			}
		}
	}
}

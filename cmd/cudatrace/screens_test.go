package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/figures"
)

// planted is what the first finding about logs says of the cause that was planted in the program: a part of its title,
// or "" where there is nothing to find but a start-up. The programs are testdata/savings/README.md's and, for ranks,
// testdata/gpu/ranks.py.
var planted = map[string]string{
	"sim/behind": "", "sim/beside": "", "sim/covered": "", "sim/pipeline": "", "sim/queue": "", // they cost nothing
	"sim/partly": "sleeps in clock_nanosleep", "sim/longer": "sleeps in clock_nanosleep",
	"sim/mid":   "sleeps in clock_nanosleep",
	"sim/sleep": "sleeps in clock_nanosleep", "sim/fed": "blocked in read on a pipe",
	"sim/pipe": "blocked in read on a pipe",
	"sim/one":  "sleeps in clock_nanosleep",
	"sim/lock": "waits for a lock", "sim/compute": "on CPU outside of CUDA calls", "sim/copy": "Memcpy HtoD",
	"sim/pageable": "large copies of pageable memory", "sim/small": "small copies",
	"sim/sync":     "waits for the whole device at savings: cause_sync",
	"sim/needless": "waits for the whole device", "sim/even": "sleeps in clock_nanosleep",
	"sim/straggler": "rank 1 is 3.1 ms late, 38 times: sleeps in clock_nanosleep",
	"gpu/loader":    "savings.py:48 load, sleeps in clock_nanosleep", "gpu/item": "on CPU outside of CUDA calls",
	"gpu/sync":     "waits for the whole device at savings.py:66 step",
	"gpu/pageable": "of pageable memory at savings.py:71 step",
	"gpu/alloc":    "allocations and frees between launches at savings.py:75 step",
	"gpu/copy":     "", "gpu/behind": "is idle 4 times",
	"ranks/straggler": "rank 3 is 4.3 ms late every step: ranks.py:68 train_step, sleeps in clock_nanosleep",
	"ranks/loader":    "rank 3 is 8.2 ms late every step: ranks.py:40 next_batch, blocked in read on a pipe",
	"ranks/kernel":    "rank 3 computes 284 % longer than rank 0: the kernel gemm",
	"ranks/starved":   "ready to run, no CPU free, on rank 3",
	"logs/train":      "launch-bound", "logs/nvtx": "launch-bound", "logs/streams": "",
}

// A printedFinding is a finding in JSON.
type printedFinding struct {
	Name, Title, Evidence, Try, Query, Cause string
	PID                                      uint32
	GPU                                      *uint32
	Cost                                     *uint64  `json:"cost_ns"`
	At                                       []uint64 `json:"at_ns"`
}

// screenLogs are the committed logs, each alone, and those of the ranks of a run together.
func screenLogs(t *testing.T) map[string][]string {
	t.Helper()
	savings, err := filepath.Glob("../../testdata/savings/*/*.cudatrace")
	if err != nil || len(savings) < 50 {
		t.Fatal(savings, err)
	}
	all := make(map[string][]string)
	for _, log := range append(savings, committedLogs(t)...) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(log), filepath.Ext(log)), "-with")
		all[filepath.Base(filepath.Dir(log))+"/"+name] = []string{log}
	}
	for _, run := range []string{"straggler", "loader", "kernel", "starved", "clocks"} {
		logs, err := filepath.Glob(filepath.Join(filepath.Dir(gpuLog), "ranks", run+"-rank*"))
		if err != nil || len(logs) < 2 {
			t.Fatal(run, logs, err)
		}
		all["ranks/"+run] = logs
	}
	return all
}

// Of each committed log the first finding is the planted cause, a screen has no line that is too wide, and nothing is
// said twice.
func TestScreens(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	all := screenLogs(t)
	for name := range planted {
		if all[name] == nil {
			t.Errorf("no log of %s", name)
		}
	}
	for name, logs := range all {
		for _, line := range strings.Split(bothOutputs(append([]string{"stats"}, logs...)...), "\n") {
			command := strings.Contains(line, "cudatrace stats ") || strings.HasPrefix(line, "cudatrace: ")
			if n := len([]rune(line)); n > 80 && !command {
				t.Errorf("%s: %d columns: %s", name, n, line)
			}
		}
		var out, errs bytes.Buffer
		run(append([]string{"cudatrace", "stats", "--format", "json", "--report", "findings"}, logs...), &out, &errs)
		var of struct{ Findings []printedFinding }
		if err := json.Unmarshal(out.Bytes(), &of); err != nil {
			t.Fatal(name, err, errs.String())
		}
		list := of.Findings
		switch title, known := planted[name]; {
		case !known:
		case title == "" && len(list) > 0 && list[0].Name != "startup":
			t.Errorf("%s: %s", name, list[0].Title)
		case title != "" && (len(list) == 0 || !strings.Contains(list[0].Title, title)):
			t.Errorf("%s: no %q first in %+v", name, title, list)
		}
		for i := range list {
			checkFinding(t, name, &list[i])
			for j := range list[:i] {
				if isTwice(&list[i], &list[j]) {
					t.Errorf("%s: two of one cause: %s; %s", name, list[j].Title, list[i].Title)
				}
			}
		}
	}
}

// isTwice reports whether two findings of a process may have one cause: they name it, or their GPU is idle.
func isTwice(x, y *printedFinding) bool {
	idle := []string{"gaps", "idle_gpu", "tiny_kernels"}
	switch {
	case x.PID != y.PID || x.GPU != nil && y.GPU != nil && *x.GPU != *y.GPU:
		return false
	case x.Cause != "" && x.Cause == y.Cause || x.Name == y.Name:
		return true
	}
	return slices.Contains(idle, x.Name) && slices.Contains(idle, y.Name) || x.At[0] == y.At[0]
}

var aFigure = regexp.MustCompile(`\b([0-9][0-9.]*) (ns|µs|ms|s|%)`)

// checkFinding checks that what a finding has is not there twice with different digits.
func checkFinding(t *testing.T, name string, x *printedFinding) {
	t.Helper()
	text := x.Title + "; " + x.Evidence
	if x.Cost != nil {
		text = figures.Duration(*x.Cost) + "; " + text
	}
	all := aFigure.FindAllStringSubmatch(text, -1)
	for i, a := range all {
		for _, b := range all[:i] {
			if a[2] == b[2] && a[1] != b[1] && len(a[1]) > 3 && len(b[1]) > 3 && sameButDigits(a[1], b[1]) {
				t.Errorf("%s: %s and %s: %s", name, b[0], a[0], text)
			}
		}
	}
	if strings.Contains(text+x.Try+x.Query, "LOG") {
		t.Errorf("%s: a placeholder: %+v", name, x)
	}
}

// sameButDigits reports whether one of two numbers is the other one, rounded.
func sameButDigits(a, b string) bool {
	digits := func(s string) int { _, after, _ := strings.Cut(s, "."); return len(after) }
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	least := min(digits(a), digits(b))
	return errX == nil && errY == nil && fmt.Sprintf("%.*f", least, x) == fmt.Sprintf("%.*f", least, y)
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// succeed runs a command, which must succeed, and returns what it writes.
func succeed(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append([]string{"cudatrace"}, args...), &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d\n%s", args, code, &errs)
	}
	return out.String(), errs.String()
}

type rankReports struct {
	Ranks, Collectives []map[string]any
}

// reportsOfRanks returns the reports on the ranks of logs.
func reportsOfRanks(t *testing.T, logs []string) (r rankReports) {
	t.Helper()
	out, _ := succeed(t, append([]string{"stats", "--format", "json", "--report", "ranks,collectives"}, logs...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// whoWasLast are the columns that depend on who was last, which the clocks of hosts leave uncertain for some collectives.
var whoWasLast = []string{"last", "awaited_ns", "waited_for_share", "last_rank", "last_share", "late_median_ns", "ties", "uncertain"}

// differ compares two reports' rows. Each of their waits may differ by 20 us, other numbers by 1/1000.
func differ(t *testing.T, got, want map[string]any) {
	t.Helper()
	count := max(numberOf(want, "count"), numberOf(want, "collectives"))
	for key, w := range want {
		g := got[key]
		switch n, isNumber := w.(float64); {
		case slices.Contains(whoWasLast, key) || key == "host":
			continue
		case isNumber:
			room := math.Abs(n) / 1000
			switch {
			case strings.Contains(key, "wait") || strings.Contains(key, "late"):
				room += 20e3 * count
			case key == "starting": // a start-up ends where a clock says so
				room = 1
			}
			if math.Abs(numberOf(got, key)-n) > room {
				t.Errorf("%s of %v is %v, want %v", key, want["name"], g, n)
			}
		case g != w:
			t.Errorf("%s of %v is %v, want %v", key, want["name"], g, w)
		}
	}
}

// numberOf returns a number of a row, 0 where it has none.
func numberOf(row map[string]any, key string) float64 {
	n, _ := row[key].(float64)
	return n
}

// Logs of ranks on one host, and the same logs from several hosts whose clocks differ: convert tells the bound of each clock, and the reports are the same.
func TestRanksOfHosts(t *testing.T) {
	t.Parallel()
	for _, capture := range logtest.Captures {
		t.Run(fmt.Sprintf("%d ranks", capture.Ranks), func(t *testing.T) {
			t.Parallel()
			dir, own := t.TempDir(), capture.Paths(root)
			r, err := tracelog.Open(own[0])
			if err != nil {
				t.Fatal(err)
			}
			end, _ := r.End()
			r.Close()
			var moved []string
			for i, clock := range logtest.HostClocks(capture.Ranks, end.Time, 7e12, 12) {
				moved = append(moved, filepath.Join(dir, fmt.Sprintf("rank%d.cudatrace", i)))
				if err := os.WriteFile(moved[i], logtest.OnHost(t, own[i], fmt.Sprintf("node-%d", i), clock), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, said := succeed(t, append([]string{"convert", "-o", filepath.Join(dir, "all.pftrace")}, moved...)...)
			if n := strings.Count(said, " collectives: right to "); n != capture.Ranks-1 {
				t.Errorf("%d clocks are aligned by collectives, want %d:\n%s", n, capture.Ranks-1, said)
			}
			var waits, doubtful int
			if m := regexp.MustCompile(`waited for the last one (\d+) times, of which (\d+) have no arrow`).FindStringSubmatch(said); m != nil {
				waits, _ = strconv.Atoi(m[1])
				doubtful, _ = strconv.Atoi(m[2])
			}
			if waits < 100 || doubtful > waits/10 {
				t.Errorf("%d of %d waits have no arrow:\n%s", doubtful, waits, said)
			}
			got, want := reportsOfRanks(t, moved), reportsOfRanks(t, own)
			if len(got.Ranks) != len(want.Ranks) || len(got.Collectives) != len(want.Collectives) || len(want.Ranks) != capture.Ranks {
				t.Fatalf("%d ranks and %d rows of collectives, want %d and %d", len(got.Ranks), len(got.Collectives), len(want.Ranks), len(want.Collectives))
			}
			uncertain := 0.0 // collectives in which two ranks came so close together that the clocks don't tell which was last
			for i, row := range want.Collectives {
				differ(t, got.Collectives[i], row)
				uncertain += numberOf(got.Collectives[i], "uncertain")
			}
			for i, row := range want.Ranks {
				differ(t, got.Ranks[i], row)
				if least, last, most := numberOf(row, "last")-uncertain, numberOf(got.Ranks[i], "last"), numberOf(row, "last"); last < least || last > most {
					t.Errorf("%v was last %v times, want %v to %v", row["name"], last, least, most)
				}
				if awaited, most := numberOf(got.Ranks[i], "awaited_ns"), numberOf(row, "awaited_ns"); awaited <= 0 || awaited > most+20e3*numberOf(row, "collectives") {
					t.Errorf("the others waited %v ns for %v, want up to %v ns", awaited, row["name"], most)
				}
			}
		})
	}
}

// Four armed ranks on GPUs, recorded twice: both logs are complete, and all ranks are of one communicator, although the recordings begin in its middle.
func TestArmedTwice(t *testing.T) {
	t.Parallel()
	for i, kernels := range []float64{6828, 9347} {
		log := filepath.Join(root, fmt.Sprintf("testdata/gpu/logs/ranks/armed-%d.cudatrace", i+1))
		out, _ := succeed(t, "info", "--format", "json", log)
		var info map[string]any
		if err := json.Unmarshal([]byte(out), &info); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{"complete": true, "processes": 4., "unmatched": 0., "kernels": kernels} {
			if info[key] != want {
				t.Errorf("%s: %s is %v, want %v", log, key, info[key], want)
			}
		}
		got := reportsOfRanks(t, []string{log})
		if len(got.Ranks) != 4 || len(got.Collectives) != 1 || got.Collectives[0]["ranks"] != "0-3" || got.Collectives[0]["uncertain"] != 0. {
			t.Errorf("%s: %d ranks, collectives %v", log, len(got.Ranks), got.Collectives)
		}
	}
}

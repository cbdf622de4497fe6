package cupti

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// An activityKind is a line of inject/kinds.def.
type activityKind struct {
	number    int
	group     Records // that it belongs to
	name      string
	essential bool
	stays     bool // on while recording is paused
}

var (
	kindLine   = regexp.MustCompile(`(?m)^KIND\((KIND_\w+), (\w+), "([^"]+)", (\w+), (\w+),`)
	kindNumber = regexp.MustCompile(`(?m)^#define (KIND_\w+) (\d+)u`)
)

func activityKinds(t *testing.T) []activityKind {
	t.Helper()
	table, err := os.ReadFile("inject/kinds.def")
	if err != nil {
		t.Fatal(err)
	}
	abi, err := os.ReadFile("inject/cupti_abi.h")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]int{}
	for _, m := range kindNumber.FindAllStringSubmatch(string(abi), -1) {
		if numbers[m[1]], err = strconv.Atoi(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	var kinds []activityKind
	for _, m := range kindLine.FindAllStringSubmatch(string(table), -1) {
		k := activityKind{number: numbers[m[1]], group: Records(wireNumbers[m[2]] << 1), name: m[3], essential: m[4] == "ESSENTIAL", stays: m[5] == "STAYS"}
		if k.number == 0 || k.group == 0 {
			t.Fatalf("%s has no number, or %s is no group", m[1], m[2])
		}
		kinds = append(kinds, k)
	}
	return kinds
}

// What is on in the fake CUPTI beside kinds: a call of each domain that keeps CUPTI ready,
// and the calls that create GPU work.
const (
	anchorsOn = 2
	fakeCalls = 4 + 4 // of the runtime, of the driver
)

// pausedOn is how much is on while recording is paused.
func pausedOn(t *testing.T) int {
	n := anchorsOn
	for _, k := range activityKinds(t) {
		if k.stays {
			n++
		}
	}
	return n
}

// allOn is how much is on while these groups of records are recorded.
func allOn(t *testing.T, groups Records) int {
	n := anchorsOn + fakeCalls
	for _, k := range activityKinds(t) {
		if groups&k.group != 0 {
			n++
		}
	}
	return n
}

// TestRecords checks what each choice of records switches on.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, records := range []Records{
		0, DefaultRecords, DefaultRecords | RecordGraphs, RecordCalls, RecordWork, RecordWork | RecordSync,
		RecordWork | RecordOverhead, RecordWork | RecordNVTX, RecordWork | RecordMemory, RecordGraphs,
	} {
		t.Run(fmt.Sprint(records), func(t *testing.T) {
			t.Parallel()
			groups := records
			if groups == 0 {
				groups = DefaultRecords
			}
			s := newStage(t, Options{}, GoConfig{Records: records})
			c := s.converse(t, "phases")
			if got, want := c.say("s"), allOn(t, groups); got != fmt.Sprint(want) {
				t.Errorf("%s are on, want %d", got, want)
			}
			c.finish(s)
		})
	}
}

// TestKindRefused has CUPTI refuse each kind in turn. Without an essential one nothing is
// recorded; otherwise a note says what is missing.
func TestKindRefused(t *testing.T) {
	t.Parallel()
	for _, k := range activityKinds(t) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{}, GoConfig{Records: DefaultRecords | RecordGraphs})
			s.run(t, play{"program", []string{"return", "2", "10"}, []string{fmt.Sprintf("FAKE_FAIL=kind %02d", k.number)}})
			words := "cuptiActivityEnable of records of kind " + k.name + " failed: FAKE_ERROR (error 999)"
			if k.essential {
				if got := s.status().Status; got != words || s.counts["kernel"] != 0 {
					t.Errorf("the status is %q, %v arrived", got, s.counts)
				}
				return
			}
			if len(s.notes) != 1 || s.notes[0] != "CUPTI does not record everything: "+words || s.counts["kernel"] != 20 {
				t.Errorf("notes %q, %v arrived", s.notes, s.counts)
			}
		})
	}
}

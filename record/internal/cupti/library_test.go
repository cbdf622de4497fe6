package cupti

import (
	"debug/elf"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/builttest"
	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The libraries that are committed and embedded.
var libraries = builttest.Files{"inject_amd64.so": elf.EM_X86_64, "inject_arm64.so": elf.EM_AARCH64}

func TestLibraryIsOfTheseSources(t *testing.T) {
	t.Parallel()
	libraries.OfSources(t, "inject", "*.c", "*.h", "*.def", "Makefile", "stubs.sh", "glibc.list")
}

func TestLibraryNeedsOldGlibc(t *testing.T) {
	t.Parallel()
	libraries.NeedOldGlibc(t)
}

func TestLibraryShowsItsEntryPoints(t *testing.T) {
	t.Parallel()
	libraries.Each(t, func(t *testing.T, lib *elf.File) {
		symbols := must.Get(lib.DynamicSymbols())(t)
		var shown []string
		for _, s := range symbols {
			if s.Section != elf.SHN_UNDEF && s.Name != "" && elf.ST_VISIBILITY(s.Other) != elf.STV_HIDDEN {
				shown = append(shown, s.Name)
			}
		}
		slices.Sort(shown)
		want := []string{"InitializeInjection", "InitializeInjectionNvtx", "InitializeInjectionNvtx2",
			"cudaTraceRangeBegins", "cudaTraceRangeEnds", "cudatrace_copy",
			"cudatrace_range_end", "cudatrace_range_start", "cudatrace_range_taken"}
		if !slices.Equal(shown, want) {
			t.Errorf("it shows %q", shown)
		}
	})
}

func TestLibraryTellsNoPaths(t *testing.T) {
	t.Parallel()
	libraries.TellNoPaths(t)
}

var (
	fileRow      = regexp.MustCompile("(?m)^(\\d+)\\. `(\\w+)\\.c` ")
	ownInclude   = regexp.MustCompile(`(?m)^#include "(\w+)\.h"`)
	ownName      = regexp.MustCompile(`\bct_\w+`)
	ownPrototype = regexp.MustCompile(`(?m)^(?:extern )?[a-z][^=;{}]*\b(ct_\w+)\([^;{}]*\);`)
)

// TestOrder holds the C files against the list in the library's README: a file includes headers of files above it
// alone, so no calls go round in a circle. A header has what other files call, and nothing else does.
func TestOrder(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	for _, pattern := range []string{"inject/*.c", "inject/*.h"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, file := range files {
			b := must.Get(os.ReadFile(file))(t)
			sources[filepath.Base(file)] = string(b)
		}
	}
	readme := must.Get(os.ReadFile("inject/README.md"))(t)
	uses := usesOf(sources)
	place := map[string]int{}
	for i, row := range fileRow.FindAllStringSubmatch(string(readme), -1) {
		if place[row[2]] = i + 1; row[1] != strconv.Itoa(i+1) || sources[row[2]+".c"] == "" {
			t.Errorf("line %d of the list is %s, %s.c", i+1, row[1], row[2])
		}
	}
	for file, source := range sources {
		name, isCode := strings.CutSuffix(file, ".c")
		if !isCode {
			continue
		}
		if place[name] == 0 {
			t.Errorf("%s has no place in the list", file)
		}
		if p := ownPrototype.FindString(source); p != "" {
			t.Errorf("%s declares what belongs into a header: %s", file, p)
		}
		for _, m := range ownInclude.FindAllStringSubmatch(source+sources[name+".h"], -1) {
			if m[1] != name && place[m[1]] >= place[name] {
				t.Errorf("%s, number %d, includes %s.h, number %d", file, place[name], m[1], place[m[1]])
			}
		}
		for _, p := range ownPrototype.FindAllStringSubmatch(sources[name+".h"], -1) {
			if !calledElsewhere(uses, name, p[1]) {
				t.Errorf("no other file calls %s of %s.h", p[1], name)
			}
		}
	}
}

// usesOf counts the names of the library's functions in each file.
func usesOf(sources map[string]string) map[string]map[string]int {
	uses := map[string]map[string]int{}
	for file, source := range sources {
		uses[file] = map[string]int{}
		for _, name := range ownName.FindAllString(source, -1) {
			uses[file][name]++
		}
	}
	return uses
}

// calledElsewhere reports whether a file other than its own uses a function, or an inline function in its header does.
func calledElsewhere(uses map[string]map[string]int, own, function string) bool {
	if uses[own+".h"][function] > 1 {
		return true
	}
	for file, names := range uses {
		if name, isCode := strings.CutSuffix(file, ".c"); isCode && name != own && names[function] > 0 {
			return true
		}
	}
	return false
}

var (
	wireConstant = regexp.MustCompile(`(?m)^(?:#define CT_([A-Z_]+) .*\d|\tCT_([A-Z_]+)(?: = \d+)?,?\s*$)`)
	wireStruct   = regexp.MustCompile(`(?s)\nstruct ct_(\w+) \{\n(.*?)\n\};`)
	wireField    = regexp.MustCompile(`(?m)^\t(?:struct |_Atomic )?\w+ ([^;/]+);`)
	cComment     = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// goName is a name of wire.h in Go's form: outSize for OUT_SIZE.
func goName(name string) string {
	var b strings.Builder
	for i, word := range strings.Split(strings.ToLower(name), "_") {
		if i > 0 {
			word = strings.ToUpper(word[:1]) + word[1:]
		}
		b.WriteString(word)
	}
	return b.String()
}

// layoutProgram is a C program that prints Go's constants for wire.h: those of wire.h, the size of each struct as
// helloSize, and the offset of each field as helloPidAt.
func layoutProgram(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile("inject/wire.h"))(t)
	header := cComment.ReplaceAllString(string(b), "")
	var c strings.Builder
	print := func(name, value string) {
		fmt.Fprintf(&c, "\tprintf(\"%s = %%lld\\n\", (long long)%s);\n", name, value)
	}
	c.WriteString("#include <stddef.h>\n#include <stdio.h>\n#include \"wire.h\"\nint main(void)\n{\n")
	for _, m := range wireConstant.FindAllStringSubmatch(header, -1) {
		name := goName(m[1] + m[2])
		if strings.HasPrefix(name, "msg") {
			name += " messageType"
		}
		print(name, "CT_"+m[1]+m[2])
	}
	for _, s := range wireStruct.FindAllStringSubmatch(header, -1) {
		print(goName(s[1])+"Size", "sizeof(struct ct_"+s[1]+")")
		for _, f := range wireField.FindAllStringSubmatch(s[2], -1) {
			for field := range strings.SplitSeq(f[1], ", ") {
				field, _, _ = strings.Cut(field, "[")
				if !strings.HasPrefix(field, "pad") {
					print(goName(s[1]+"_"+field)+"At", "offsetof(struct ct_"+s[1]+", "+field+")")
				}
			}
		}
	}
	return c.String() + "\treturn 0;\n}\n"
}

// wireNumbers returns what the C compiler makes of wire.h, as a Go file.
func wireNumbers(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	must.Do(t, os.WriteFile(source, []byte(layoutProgram(t)), 0o600))
	must.Run(t, exec.Command("gcc", "-std=c11", "-iquote", "inject", "-o", program, source))
	out := must.Get(exec.Command(program).Output())(t)
	formatted, err := format.Source([]byte("// Code generated by TestWireNumbers from inject/wire.h. DO NOT EDIT.\n\npackage cupti\n\nconst (\n" + string(out) + ")\n"))
	if err != nil {
		t.Fatal(err)
	}
	return string(formatted)
}

// TestWireNumbers holds the numbers of the Go side against wire.h.
func TestWireNumbers(t *testing.T) {
	t.Parallel()
	const file = "wire_gen.go"
	got := wireNumbers(t)
	if *update {
		must.Do(t, os.WriteFile(file, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(file))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the wire format has changed; if it was meant to, run go test -update\n%s", diff)
	}
	page := [...]int{privatefolder.PageMaxPIDs, privatefolder.PageSize, privatefolder.PageCountAt, privatefolder.PageFiltersAt, privatefolder.PageSpaceAt, privatefolder.PagePIDsAt}
	if page != [...]int{armedPids, armedSize, armedCountAt, armedFiltersAt, armedSpaceAt, armedPidsAt} {
		t.Errorf("package privatefolder has other numbers: %v", page)
	}
	known := [...]int{tracelog.NCCLCommunicator, tracelog.NCCLBytes, tracelog.NCCLRanks}
	if known != [...]int{ncclCommunicator, ncclBytes, ncclRanks} {
		t.Errorf("package tracelog has other numbers: %v", known)
	}
}

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

var recordGroups = map[string]Records{
	"CT_RECORDS_WORK": RecordWork, "CT_RECORDS_NVTX": RecordNVTX,
}

func activityKinds(t *testing.T) []activityKind {
	t.Helper()
	table, err := os.ReadFile("inject/kinds.def")
	if err != nil {
		t.Fatal(err)
	}
	abi := must.Get(os.ReadFile("inject/cupti_abi.h"))(t)
	numbers := map[string]int{}
	for _, m := range kindNumber.FindAllStringSubmatch(string(abi), -1) {
		if numbers[m[1]], err = strconv.Atoi(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	var kinds []activityKind
	for _, m := range kindLine.FindAllStringSubmatch(string(table), -1) {
		k := activityKind{number: numbers[m[1]], group: recordGroups[m[2]], name: m[3], essential: m[4] == "ESSENTIAL", stays: m[5] == "STAYS"}
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

// pausedOn is how much is on while recording of the default records is paused.
func pausedOn(t *testing.T) int {
	n := anchorsOn
	for _, k := range activityKinds(t) {
		if k.stays && DefaultRecords&k.group != 0 {
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
	for _, records := range []Records{0, DefaultRecords, RecordCalls, RecordWork, RecordNVTX} {
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
			s := newStage(t, Options{}, GoConfig{})
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

// monotonic is the clock of the records.
func monotonic() uint64 { return host.Monotonic() }

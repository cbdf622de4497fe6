package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/perfetto/tptest"
	"github.com/cudatrace/cudatrace/record/must"
)

// checkChrome compares the Chrome trace of a log with its Perfetto trace.
func checkChrome(t *testing.T, log string, perfetto *tptest.Trace, early uint64) {
	t.Helper()
	tptest.SameChrome(t, perfetto, chromeFiles(t, log), early)
}

// chromeFiles makes the Chrome trace of a log and returns its files.
func chromeFiles(t *testing.T, log string) []string {
	t.Helper()
	o := convert.TraceOptions{Format: convert.FormatNamed("chrome")}
	target := must.Get(o.Target(filepath.Join(t.TempDir(), "run.pt.trace.json.gz"), false))(t)
	defer target.Close()
	_, done, err := convert.FilesAt([]convert.Log{convert.Path(log)}, target, o)
	if err != nil {
		t.Fatal(err)
	}
	if done.Files == 0 {
		return []string{done.Path}
	}
	files, err := filepath.Glob(filepath.Join(done.Path, "*_*.pt.trace.json.gz"))
	if err != nil || len(files) != done.Files {
		t.Errorf("%d files in %s, want %d", len(files), done.Path, done.Files)
	}
	return files
}

// TestChromeOfGPULogs holds docs/chrome.md against the logs from real GPUs, and against Kineto.
func TestChromeOfGPULogs(t *testing.T) {
	t.Parallel()
	text, seen := readRepository(t, "docs/chrome.md"), make(map[string]map[string]string)
	for _, name := range []string{"streams", "nvtx", "graphs/copies", "operators"} {
		for _, file := range chromeFiles(t, filepath.Join(filepath.Dir(gpuLog), name+".cudatrace")) {
			seeChrome(t, file, seen)
		}
	}
	events, absent := section(t, text, "## Events"), section(t, text, "## What Kineto writes and this does not")
	t.Run("Kineto", func(t *testing.T) { kinetoIsAccountedFor(t, events, absent, seen) })
	t.Run("documented", func(t *testing.T) { chromeIsDocumented(t, events, absent, seen) })
}

// chromeIsDocumented: each argument is in the table of events, what has no star is there, and what is said to be left out
// is left out.
func chromeIsDocumented(t *testing.T, events, absent string, seen map[string]map[string]string) {
	for _, m := range ofCategory.FindAllStringSubmatch(absent, -1) {
		if seen[m[2]][m[1]] != "" {
			t.Errorf("docs/chrome.md says that %q of %q is left out", m[1], m[2])
		}
	}
	for _, m := range quoted.FindAllStringSubmatch(ofCategory.ReplaceAllString(absent, ""), -1) {
		for cat, names := range seen {
			if names[m[1]] != "" || cat == m[1] {
				t.Errorf("docs/chrome.md says that %q is left out", m[1])
			}
		}
	}
	documented := documentedArgs(events)
	for cat, args := range documented {
		for arg, always := range args {
			if always && seen[cat] != nil && seen[cat][arg] == "" {
				t.Errorf("no %s has the argument %q", cat, arg)
			}
		}
		for arg := range seen[cat] {
			if _, known := args[arg]; !known {
				t.Errorf("%s has the argument %q, which docs/chrome.md does not have", cat, arg)
			}
		}
	}
	for cat, names := range seen {
		if documented[cat] != nil {
			continue
		}
		for name := range names {
			if !strings.Contains(events, "`"+name+"`") {
				t.Errorf("docs/chrome.md does not have %q of %q", name, cat)
			}
		}
		if cat != "" && cat != "M" && cat != "device" {
			t.Errorf("docs/chrome.md does not have the category %q", cat)
		}
	}
}

// kineto is what Kineto's exporter writes of CUDA, by category, with the JSON type of each value; "" has
// the keys beside the events, "device" those of a device, "distributed" those of distributedInfo.
var kineto = map[string]string{
	"": `schemaVersion:number, deviceProperties:list, cupti_version:number, cuda_runtime_version:number, cuda_driver_version:number,
		host_name:string, trace_id:string, distributedInfo:object, displayTimeUnit:string, baseTimeNanoseconds:number,
		traceEvents:list, traceName:string`,
	"device": `id:number, name:string, totalGlobalMem:number, computeMajor:number, computeMinor:number, maxThreadsPerBlock:number,
		maxThreadsPerMultiprocessor:number, regsPerBlock:number, warpSize:number, sharedMemPerBlock:number, numSms:number,
		regsPerMultiprocessor:number, sharedMemPerBlockOptin:number, sharedMemPerMultiprocessor:number`,
	"distributed": `backend:string, rank:number, world_size:number, pg_count:number, pg_config:list, nccl_version:string`,
	"kernel": `External id:number, queued:number, device:number, context:number, stream:number, correlation:number,
		registers per thread:number, shared memory:number, blocks per SM:number, warps per SM:number, grid:list, block:list,
		est. achieved occupancy %:number, occupancy:object, graph id:number, graph node id:number, priority:number, channel:number,
		channel_type:string, Collective name:string, In msg nelems:number, Out msg nelems:number, Group size:number, dtype:string,
		Process Group Name:string`,
	"gpu_memcpy": `External id:number, device:number, context:number, stream:number, correlation:number, bytes:number,
		memory bandwidth (GB/s):number, graph id:number, graph node id:number, channel:number, channel_type:string,
		fromDevice:number, inDevice:number, toDevice:number, fromContext:number, inContext:number, toContext:number`,
	"gpu_memset": `External id:number, device:number, context:number, stream:number, correlation:number, bytes:number,
		memory bandwidth (GB/s):number, graph id:number, graph node id:number`,
	"cuda_runtime":        `External id:number, cbid:number, correlation:number`,
	"cuda_driver":         `External id:number, cbid:number, correlation:number`,
	"cuda_sync":           `cuda_sync_kind:string`,
	"cuda_event":          ``,
	"overhead":            ``,
	"user_annotation":     `External id:number, Record function id:number, Ev Idx:number`,
	"gpu_user_annotation": `External id:number`,
}

// kinetoIsAccountedFor: whatever Kineto writes is either in the table of events, or in the table of what is left out; and
// values have Kineto's types.
func kinetoIsAccountedFor(t *testing.T, events, absent string, seen map[string]map[string]string) {
	documented := documentedArgs(events)
	for cat, words := range kineto {
		for word := range strings.SplitSeq(words, ",") {
			name, want, _ := strings.Cut(strings.TrimSpace(word), ":")
			_, here := documented[cat][name]
			if name != "" && !here && !strings.Contains(absent, "`"+name+"`") && (documented[cat] != nil || !strings.Contains(events, "`"+name+"`")) {
				t.Errorf("docs/chrome.md does not say what became of %q of %q", name, cat)
			}
			if got := seen[cat][name]; got != "" && got != want {
				t.Errorf("%q of %q is a %s, Kineto's is a %s", name, cat, got, want)
			}
		}
	}
}

// ofCategory matches an argument that is left out of one category.
var ofCategory = regexp.MustCompile("`([^`]+)` of `([^`]+)`")

var quoted = regexp.MustCompile("`([^`]+)`(\\\\\\*)?")

// documentedArgs reads the table of events: for each category its arguments, and whether each is
// always there.
func documentedArgs(text string) map[string]map[string]bool {
	all := make(map[string]map[string]bool)
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		cat, args := strings.Trim(cells[1], " `"), make(map[string]bool)
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			if same := all[m[1]]; same != nil { // "as cuda_runtime"
				args = same
				break
			}
			args[m[1]] = m[2] == ""
		}
		all[cat] = args
	}
	return all
}

// seeChrome notes the arguments of each category of a trace, the names of metadata events ("M"), and the keys of the file ("")
// and its devices ("device"), each with the JSON type of its values.
func seeChrome(t *testing.T, path string, seen map[string]map[string]string) {
	t.Helper()
	var file map[string]any
	must.Do(t, json.NewDecoder(tptest.Uncompressed(t, path)).Decode(&file))
	note := func(cat string, values any) {
		object, ok := values.(map[string]any)
		if !ok {
			return
		}
		if seen[cat] == nil {
			seen[cat] = make(map[string]string)
		}
		for name, value := range object {
			kind := reflect.ValueOf(value).Kind()
			seen[cat][name] = cmp.Or(map[reflect.Kind]string{reflect.Float64: "number", reflect.String: "string", reflect.Slice: "list", reflect.Map: "object"}[kind], kind.String())
		}
	}
	list := func(key string) []any {
		l, ok := file[key].([]any)
		if !ok {
			t.Fatalf("%s has no %s", path, key)
		}
		return l
	}
	note("", file)
	for _, d := range list("deviceProperties") {
		note("device", d)
	}
	for _, e := range list("traceEvents") {
		event, _ := e.(map[string]any)
		category, _ := event["cat"].(string)
		if event["ph"] == "M" {
			note("M", map[string]any{fmt.Sprint(event["name"]): event["args"]})
			continue
		}
		note(category, event["args"])
	}
}

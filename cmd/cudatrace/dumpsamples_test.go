package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// sampledLog is a log with the samples of two GPUs and of a process.
func sampledLog(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := must.Get(tracelog.NewWriter(&b, tracelog.Options{}))(t)
	first, second := strings.Repeat("ab", 16), strings.Repeat("cd", 16)
	w.Add(&tracelog.Device{PID: 9, ID: 0, UUID: second})
	for id, set := range map[uint32]metriclog.Set{
		1: {MetricSet: tracelog.MetricSet{Source: uint32(metric.NVML), Device: 0, UUID: first}, Metrics: []metric.Metric{
			{Name: metric.NamePower, Label: "Power", Unit: metric.Watt, Kind: metric.Level, Scale: 1000},
			{Name: metric.NameReasons, Label: "Clock reasons", Unit: metric.BitsOfReason, Kind: metric.Bits}}},
		2: {MetricSet: tracelog.MetricSet{Source: uint32(metric.PM), Device: 1, UUID: second}, Metrics: []metric.Metric{
			{Name: metric.NameDRAMRead, Label: "DRAM read", Unit: metric.BytesPerSec, Kind: metric.Rate}}},
		3: {MetricSet: tracelog.MetricSet{Source: uint32(metric.Host), PID: 9, Device: tracelog.MetricNoDevice}, Metrics: []metric.Metric{
			{Name: metric.NameCPUUse, Label: "CPU", Unit: metric.Percent, Kind: metric.Percentage}}},
	} {
		set.ID = id
		s := must.Get(metriclog.Begin(w, set))(t)
		s.Add(5000, 5000+uint64(id), []float64{float64(id) + 0.25, 6})
	}
	must.Do(t, w.Close(tracelog.End{Time: 9000, Complete: 1}))
	return b.Bytes()
}

func dump(t *testing.T, data []byte, o logtext.Options) string {
	t.Helper()
	r := must.Get(tracelog.NewReader(bytes.NewReader(data), int64(len(data)), "log"))(t)
	var text strings.Builder
	must.Do(t, logtext.Dump(&text, r, o))
	return text.String()
}

// lines are the lines of samples, sorted by their set.
func lines(text string) string {
	var all [4]string
	for line := range strings.Lines(text) {
		for set, name := range []string{"", "set=1", "set=2", "set=3"} {
			if name != "" && strings.HasPrefix(line, "sample "+name) {
				all[set] = line
			}
		}
	}
	return strings.Join(all[:], "")
}

// Values of samples have the names and units of their metrics, even where nothing but samples is
// asked for; in JSON they are numbers.
func TestSamples(t *testing.T) {
	t.Parallel()
	log := sampledLog(t)
	only := tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindSample}}
	want := `sample set=1 start=0.000004s dur=1ns values: Power=1.25W Clock_reasons=application_clocks|power_cap
sample set=2 start=0.000004s dur=2ns values: DRAM_read=2B/s
sample set=3 pid=9 start=0.000004s dur=3ns values: CPU=3.25%
`
	want = strings.ReplaceAll(want, "0.000004s", "0.000004000s")
	goldentest.Same(t, want, lines(dump(t, log, logtext.Options{View: dumpView(1000), Filter: only})), "samples")
	json := dump(t, log, logtext.Options{View: dumpView(1000), Filter: only, JSON: true})
	for _, want := range []string{`"values":{"power":1.25,"clock_reasons":6}}`, `"values":{"cpu":3.25}}`} {
		if !strings.Contains(json, want) {
			t.Errorf("%s is missing in %s", want, json)
		}
	}
	text := dump(t, log, logtext.Options{View: dumpView(1000)})
	for _, want := range []string{"metric_set id=1 source=nvml device=0", "metric_set id=3 source=host pid=9 device=none",
		"metric set=2 index=0 name=dram__bytes_read.sum.per_second label=\"DRAM read\" unit=B/s value_kind=rate"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// TestEnumerations: every field that holds an enumeration of CUPTI has names, and every name is of
// a field.
func TestEnumerations(t *testing.T) {
	t.Parallel()
	fields := make(map[string]bool)
	for _, table := range schema.Records() {
		for _, f := range table.Fields {
			name := table.Name + "." + f.Name
			fields[name] = true
			if strings.Contains(f.Meaning, "CUpti_") && enumerations[name] == nil {
				t.Errorf("%s has no names: %s", name, f.Meaning)
			}
		}
	}
	for name, names := range enumerations {
		if !fields[name] {
			t.Errorf("no record has %s", name)
		}
		if s := names(1 << 40); s != "" && !strings.HasPrefix(name, "overhead.overhead") {
			t.Errorf("%s calls a value that nobody knows %s", name, s)
		}
	}
}

// A person sees both ends of a long text.
func TestLongText(t *testing.T) {
	t.Parallel()
	long := "begin" + strings.Repeat("x", 1<<20) + "end"
	if got := dumpView(0).Text(long); len(got) > 2*figures.LongText || !strings.HasPrefix(got, "beginx") || !strings.HasSuffix(got, "xend") {
		t.Errorf("%d bytes", len(got))
	}
}

// TestDumpView holds what people see of a record of every kind.
func TestDumpView(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "all.cudatrace")
	w := must.Get(createLog(log))(t)
	end, err := logtext.Assemble(strings.NewReader(readRepository(t, "record/tracelog/testdata/all.txt")), w)
	if err == nil {
		err = w.Close(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	checkOutput(t, "testdata/dump_all.golden", "dump", "--all", log)
	all, _ := succeed(t, "dump", "--all", log)
	got, _ := succeed(t, "dump", log)
	unused := regexp.MustCompile(`(?m)^(thread .* tid=1014 |stream .* id=13 |name .*=stream id=13 |symbol .* name=""|caller id=2 ).*\n`)
	goldentest.Same(t, unused.ReplaceAllString(all, ""), got, "without what no other record refers to")
}

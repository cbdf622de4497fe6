package prometheus_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/prometheus"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Lines of the text format, version 0.0.4: prometheus.io/docs/instrumenting/exposition_formats.
var (
	commentLine = regexp.MustCompile(`^# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)$`)
	seriesLine  = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? (\S+)$`)
	labelPart   = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"`)
)

// parse holds a text against the rules of the format, and returns its values by family and labels.
func parse(t *testing.T, text string) map[string]map[string]float64 {
	t.Helper()
	values, current, typed := make(map[string]map[string]float64), "", ""
	if !strings.HasSuffix(text, "\n") {
		t.Errorf("the last line has no end: %q", text)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if c := commentLine.FindStringSubmatch(line); c != nil {
			switch {
			case c[1] == "HELP" && values[c[2]] != nil:
				t.Errorf("%s comes twice", c[2])
			case c[1] == "HELP":
				current, values[c[2]] = c[2], make(map[string]float64)
			case c[2] != current || c[3] != "gauge" && c[3] != "counter":
				t.Errorf("%s behind the help of %s", line, current)
			default:
				typed = current
			}
			continue
		}
		s := seriesLine.FindStringSubmatch(line)
		if s == nil || s[1] != current || typed != current {
			t.Errorf("no series of %s: %s", current, line)
			continue
		}
		names := make(map[string]bool)
		for _, l := range labelPart.FindAllStringSubmatch(s[2], -1) {
			if names[l[1]] || strings.HasPrefix(l[1], "__") || len(l[2]) > 500 {
				t.Errorf("label %s of %s", l[0], line)
			}
			names[l[1]] = true
		}
		v, err := strconv.ParseFloat(s[3], 64)
		if _, twice := values[current][s[2]]; err != nil || twice {
			t.Errorf("%s: %v, twice: %t", line, err, twice)
		}
		values[current][s[2]] = v
	}
	return values
}

// of are the metrics of a log.
func of(t *testing.T, name string) map[string]map[string]float64 {
	t.Helper()
	path := "../../testdata/gpu/logs/" + name + ".cudatrace"
	sink := stats.New()
	all, err := convert.Timeline([]convert.Log{{Name: path, Open: func() (*tracelog.Reader, error) {
		return tracelog.Open(path)
	}}}, convert.Options{}, sink)
	if err != nil {
		t.Fatal(err)
	}
	var m prometheus.Metrics
	m.With("job", "a").Recording(prometheus.Recording{
		Length: time.Duration(all[0].DurationNS), Lost: all[0].LostTotal(), Complete: all[0].Complete,
	}, sink.Tables(stats.Facts{}))
	var text strings.Builder
	must.Do(t, m.Write(&text))
	return parse(t, text.String())
}

// The figures of a log keep to the format, add up, and are few, whatever the program did.
func TestRecording(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ranks/straggler-rank3", "operators", "streams", "graphs/python", "nccl-rank0"} {
		m := of(t, name)
		busy, idle, kernels := 0.0, 0.0, 0.0
		for _, v := range m["cudatrace_gpu_busy_ratio"] {
			busy += v
		}
		for _, v := range m["cudatrace_gpu_idle_ratio"] {
			idle += v
		}
		for _, v := range m["cudatrace_kernel_time_ratio"] {
			kernels += v
		}
		if n := float64(len(m["cudatrace_gpu_busy_ratio"])); n == 0 || math.Abs(busy+idle-n) > 0.001*n {
			t.Errorf("%s: %g GPUs are busy for %g, idle for %g", name, n, busy, idle)
		}
		if kernels <= 0 || kernels > 1.0001 || len(m["cudatrace_kernel_time_ratio"]) > 6 {
			t.Errorf("%s: %d kernels with %g of the time", name, len(m["cudatrace_kernel_time_ratio"]), kernels)
		}
		if m["cudatrace_complete"][`job="a"`] != 1 || m["cudatrace_recording_seconds"][`job="a"`] <= 0 {
			t.Errorf("%s: %v", name, m)
		}
	}
	if got := of(t, "ranks/straggler-rank3")["cudatrace_step_seconds"][`job="a",step="step",source="NVTX",quantile="0.5"`]; got != 0.007503872 {
		t.Errorf("a step takes %g s", got)
	}
}

// docs/stats.md has each metric with its labels.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs := must.Get(os.ReadFile("../../docs/stats.md"))(t)
	for _, f := range prometheus.OfRecording {
		labels := strings.ReplaceAll(f.Labels, " ", "`, `")
		if labels != "" {
			labels = "`" + labels + "` "
		}
		if row := "| `" + f.Name + "` | " + labels + "| "; !strings.Contains(string(docs), row) {
			t.Errorf("docs/stats.md has no row %q", row)
		}
	}
}

// Names that programs choose stay within their label.
func TestHostileLabels(t *testing.T) {
	t.Parallel()
	f := &prometheus.Family{Name: "x", Help: "y", Labels: "name", Counter: true}
	var m prometheus.Metrics
	l := m.With("job", "a\\\"\n")
	for i, name := range []string{"", "\n# TYPE x counter", `"} 1`, `\`, "\xff\xfe", strings.Repeat("é", 400), "ok"} {
		l.Set(f, float64(i), name)
	}
	l.Set(f, math.NaN(), "unknown")
	for i := range 3 { // they are alike once they are cut
		l.Set(f, 1, fmt.Sprintf("%s%d%s", strings.Repeat("a", 300), i, strings.Repeat("a", 300)))
	}
	var text strings.Builder
	must.Do(t, m.Write(&text))
	got := parse(t, text.String())["x"]
	if len(got) != 8 || got[`job="a\\\"\n",name="ok"`] != 6 || got[`job="a\\\"\n",name="\n# TYPE x counter"`] != 1 {
		t.Errorf("got %v of\n%s", got, &text)
	}
	if full := errors.New("disk full"); !errors.Is(m.Write(failing{full}), full) {
		t.Error("an error of writing is lost")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// Package prometheus writes figures of recordings as Prometheus reads them: the text format, version 0.0.4, for a file
// of the node exporter's textfile collector or to push.
//
// Input: the tables of package stats and what is known of their logs. Output: few series, whatever the programs do: names
// of kernels, steps and owners of idle time are labels of the largest ones only.
package prometheus

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Family is a metric with all its series.
type Family struct {
	Name, Help string
	Labels     string // names of its labels, in order; those of [Metrics.With] come first
	Counter    bool
}

// The families of a recording.
var (
	busy = &Family{
		Name: "cudatrace_gpu_busy_ratio", Help: "part of the time with work on the GPU", Labels: "gpu name uuid",
	}
	idle = &Family{
		Name: "cudatrace_gpu_idle_ratio", Help: "part of the time without work, by cause as in 'cudatrace stats'",
		Labels: "gpu cause owner",
	}
	kernels = &Family{
		Name: "cudatrace_kernel_time_ratio", Help: "part of the time of all GPU work", Labels: "kernel",
	}
	step   = &Family{Name: "cudatrace_step_seconds", Help: "time of a step", Labels: "step source quantile"}
	steps  = &Family{Name: "cudatrace_steps", Help: "steps in the recording", Labels: "step source"}
	lost   = &Family{Name: "cudatrace_lost_records", Help: "records missing from the recording"}
	whole  = &Family{Name: "cudatrace_complete", Help: "1 if nothing is missing from the recording"}
	length = &Family{Name: "cudatrace_recording_seconds", Help: "length of the recording"}
	began  = &Family{Name: "cudatrace_recording_start_timestamp_seconds", Help: "when the recording began"}
)

// OfRecording are the families of a recording.
var OfRecording = []*Family{busy, idle, kernels, step, steps, lost, whole, length, began}

// Bounds of what programs name.
const (
	mostNamed = 5   // series of a family, the others are one
	longest   = 120 // characters of a label
)

const counter = "counter"

// other is the label of what is not among the largest.
const other = "(other)"

// Metrics are series with values. The zero Metrics has none.
type Metrics struct {
	list []*series
}

// A series of a family has at most one value for its labels.
type series struct {
	of     *Family
	labels string
	value  float64
}

// A Labelled adds series that have some labels in common.
type Labelled struct {
	to     *Metrics
	labels []string // names and values by turns
}

// With returns what adds series with labels: names and values by turns.
func (m *Metrics) With(labels ...string) *Labelled { return &Labelled{m, labels} }

// Set adds a series: values are those of the family's labels. A value that is not known is left out; two series of the
// same labels, as names that were cut can have, become their sum.
func (l *Labelled) Set(f *Family, value float64, values ...string) {
	if math.IsNaN(value) {
		return
	}
	s := &series{f, l.text(), value}
	for i, name := range strings.Fields(f.Labels) {
		s.labels = joinLabels(s.labels, label(name, values[i]))
	}
	if i := slices.IndexFunc(l.to.list, func(o *series) bool { return o.of == f && o.labels == s.labels }); i >= 0 {
		l.to.list[i].value += value
		return
	}
	l.to.list = append(l.to.list, s)
}

// Read adds the series of a text that [Metrics.Write] has written.
func (l *Labelled) Read(text string) error {
	of := new(Family)
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if help, is := strings.CutPrefix(line, "# HELP "); is {
			name, words, _ := strings.Cut(help, " ")
			of = l.to.family(&Family{Name: name, Help: words})
			continue
		}
		if kind, is := strings.CutPrefix(line, "# TYPE "+of.Name+" "); is {
			of.Counter = kind == counter
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		labels, is := strings.CutPrefix(line[:max(end, 0)], of.Name)
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if !is || err != nil {
			return fmt.Errorf("no line of metrics: %s", line)
		}
		labels = strings.TrimSuffix(strings.TrimPrefix(labels, "{"), "}")
		l.to.list = append(l.to.list, &series{of, joinLabels(l.text(), labels), value})
	}
	return nil
}

// family returns the family of that name that has series already, else a new one.
func (m *Metrics) family(f *Family) *Family {
	if i := slices.IndexFunc(m.list, func(s *series) bool { return s.of.Name == f.Name }); i >= 0 {
		return m.list[i].of
	}
	return f
}

// text is the labels that all have.
func (l *Labelled) text() (text string) {
	for i := 0; i < len(l.labels); i += 2 {
		text = joinLabels(text, label(l.labels[i], l.labels[i+1]))
	}
	return text
}

// label is a label as the format has it.
func label(name, value string) string {
	return name + `="` + labelText.Replace(figures.Cut(strings.ToValidUTF8(value, "\ufffd"), longest)) + `"`
}

func joinLabels(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "," + b
}

// labelText escapes the value of a label.
var labelText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// A Recording is what is known of logs that were recorded together beside their tables.
type Recording struct {
	Start    time.Time // zero where it is not known
	Length   time.Duration
	Lost     uint64
	Complete bool
	UUIDs    map[uint32]string // of GPUs, where they are known
}

// Recording adds the figures of a recording.
func (l *Labelled) Recording(r Recording, tables []*table.Table) {
	spans := l.devices(tables, r.UUIDs)
	l.idle(tables, spans)
	l.kernels(tables)
	l.Set(lost, float64(r.Lost))
	l.Set(length, r.Length.Seconds())
	complete := 0.0
	if r.Complete {
		complete = 1
	}
	l.Set(whole, complete)
	if !r.Start.IsZero() {
		l.Set(began, float64(r.Start.UnixMilli())/1000)
	}
	_, kinds := table.Find[stats.StepKindCells](tables)
	for _, r := range kinds[:min(len(kinds), mostNamed)] {
		l.Set(steps, float64(r.Count), r.Name, r.Source)
		l.Set(step, seconds(r.Median), r.Name, r.Source, "0.5")
		l.Set(step, seconds(r.P95), r.Name, r.Source, "0.95")
	}
}

// devices adds how busy GPUs were, and returns the time that this is a part of, by GPU.
func (l *Labelled) devices(tables []*table.Table, uuids map[uint32]string) map[uint32]uint64 {
	spans := make(map[uint32]uint64)
	_, rows := table.Find[stats.DeviceCells](tables)
	for _, r := range rows {
		if r.Share == nil {
			continue
		}
		_, name, _ := strings.Cut(r.Name, ": ")
		spans[r.GPU] = *r.Span
		l.Set(busy, *r.Share, number(r.GPU), name, uuids[r.GPU])
	}
	return spans
}

// idle adds why GPUs were idle.
func (l *Labelled) idle(tables []*table.Table, spans map[uint32]uint64) {
	_, rows := table.Find[stats.IdleCells](tables)
	for i, r := range rows {
		cause, owner := r.Name, r.What
		if i >= mostNamed {
			cause, owner = other, other
		}
		if span := spans[r.GPU]; span > 0 {
			l.Set(idle, float64(r.Total)/float64(span), number(r.GPU), cause, owner)
		}
	}
}

// kernels adds which kernels take the time.
func (l *Labelled) kernels(tables []*table.Table) {
	t, rows := table.Find[stats.KernelCells](tables)
	short := t.Columns[t.Column("name")].Short
	for i, r := range rows {
		name := r.Name
		switch {
		case i >= mostNamed:
			name = other
		case short != nil:
			name = cmp.Or(short(t.Rows[i]), name)
		}
		if r.Share != nil {
			l.Set(kernels, *r.Share, name)
		}
	}
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func seconds(ns uint64) float64 { return float64(ns) / 1e9 }

// Write writes all series, those of a family together.
func (m *Metrics) Write(to io.Writer) error {
	w := bufio.NewWriter(to) // keeps the first error
	var families []*Family
	for _, s := range m.list {
		if !slices.Contains(families, s.of) {
			families = append(families, s.of)
		}
	}
	for _, f := range families {
		kind := "gauge"
		if f.Counter {
			kind = counter
		}
		w.WriteString("# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " " + kind + "\n")
		for _, s := range m.list {
			if s.of != f {
				continue
			}
			w.WriteString(f.Name)
			if s.labels != "" {
				w.WriteString("{" + s.labels + "}")
			}
			w.WriteString(" " + strconv.FormatFloat(s.value, 'g', -1, 64) + "\n")
		}
	}
	return w.Flush()
}

package logtext

import (
	"strconv"

	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// SampleValues know what the stored numbers of samples stand for.
type SampleValues interface {
	// Take takes in the definitions of a block.
	Take(b *tracelog.Block)
	// Value is what a stored number other than 0 of a metric of a set stands for.
	Value(set uint64, metric int, stored uint64) SampleValue
}

// A SampleValue is the value of a metric.
type SampleValue struct {
	Name  string // of the metric
	Label string // its name for people, without blanks
	Text  string // the value for people
	JSON  string // the value as JSON
}

// sampleFields are the fields of a sample. Its values stand last, behind their number.
var sampleFields = schema.LayoutOf(tracelog.KindSample).Fields

// Numbers of fields of a sample.
var (
	sampleSet    = schema.LayoutOf(tracelog.KindSample).Field("set")
	sampleValue0 = schema.LayoutOf(tracelog.KindSample).Field("value0")
)

// sample appends a sample. With a view that knows its metrics, its values have their names; else it
// has the stored numbers.
func (d *dumper) sample(i int) {
	for f := range sampleValue0 {
		field := &sampleFields[f]
		v := d.columns[f].At(i)
		switch {
		case v == 0 && !d.json && field.Optional:
		case f == sampleValue0-1 && d.namesValues():
		case !d.viewed(f, field, v):
			d.number(field.Name, field.Type, v)
		}
	}
	used := int(min(d.columns[sampleValue0-1].At(i), tracelog.MaxMetrics))
	if d.namesValues() {
		d.sampleValues(i, used)
		return
	}
	for k := range used {
		if v := d.columns[sampleValue0+k].At(i); v != 0 || d.json {
			d.number("value"+strconv.Itoa(k), schema.Uint, v)
		}
	}
}

// namesValues reports whether the values of samples get names.
func (d *dumper) namesValues() bool { return d.view != nil && d.view.Samples != nil }

// sampleValues appends the values of a sample by name.
func (d *dumper) sampleValues(i, used int) {
	d.beginValues()
	for k := range used {
		v := d.columns[sampleValue0+k].At(i)
		if v == 0 {
			continue
		}
		d.value(d.view.Samples.Value(d.columns[sampleSet].At(i), k, v))
	}
	d.endArgs()
}

package diff

import (
	"fmt"
	"math"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// A State is the result of a condition.
type State string

// The states.
const (
	Passed State = "passed" // the condition does not hold
	Failed State = "failed" // the condition holds
	Broken State = "broken" // it is not known whether the condition holds
	Absent State = "absent" // nothing has the name, and that is allowed
)

// An Outcome is the result of a condition.
type Outcome struct {
	*Condition
	State State
	Why   string    // of a Broken or an Absent one
	Cases []checked // the figures that the condition is about
	Holds int       // those of Cases for which the condition holds, which come first
	// of a condition that does not hold, the figure of which most can change unseen; nil if the condition's own change
	// would be seen
	Unseen *checked
}

// A checked is a figure that a condition is about.
type checked struct {
	Name string // of a row, "" of an overall figure
	*compared
	Value    float64 // what the condition compares
	Smallest float64 // smallest change that would have been seen, a part of BASE's figure; NaN where nothing was tested
	Holds    bool
}

// Gate checks conditions. allowAbsent lets names match nothing.
func (d *Diff) Gate(conditions []*Condition, allowAbsent bool) []*Outcome {
	var all []*Outcome
	var compared []*compared
	for _, c := range conditions {
		o := &Outcome{Condition: c}
		o.Why = d.collect(o)
		if o.Why == "" && len(o.Cases) == 0 {
			o.State, o.Why = Absent, d.nothing(c)
			if !allowAbsent {
				o.State, o.Why = Broken, o.Why+"; --allow-missing passes the condition then"
			}
		}
		for _, x := range o.Cases {
			compared = append(compared, x.compared)
		}
		all = append(all, o)
	}
	straighten(compared, d.order, d.drift)
	for _, o := range all {
		for i := range o.Cases {
			o.Cases[i].oneSided(o.Condition)
		}
	}
	adjust(compared)
	for _, o := range all {
		d.decide(o, d.rule.GateRate/float64(max(len(tested(compared)), 1)))
	}
	return all
}

// collect finds the figures that a condition is about. It says why it cannot.
func (d *Diff) collect(o *Outcome) (why string) {
	if o.Figure != "" {
		i := slices.IndexFunc(overalls, func(f overall) bool { return f.name == o.Figure })
		for _, report := range overalls[i].reports {
			if why := d.lacks(report); why != "" {
				return why
			}
		}
		d.add(o, "", d.ofOverall(&overalls[i]), each(d.New, overalls[i].of))
		return ""
	}
	if why := d.lacks(o.Report); why != "" {
		return why
	}
	for _, p := range pairsOf(o.Report, d.Base, d.New) {
		if pattern.Match(o.Name, p.name) || p.was != "" && pattern.Match(o.Name, p.was) {
			_, new := p.values(o.Column)
			d.add(o, p.label, d.ofRow(p, o.Column, o.exact()), new)
		}
	}
	if len(o.Cases) == 0 && isAdded(o.Column) && (o.Name == "*" || o.Report == "calls" && d.probed(o.Name)) {
		none := runValues{base: make([]float64, len(d.Base)), new: make([]float64, len(d.New)), exact: o.exact()}
		d.add(o, o.Name, compare(none), none.new)
	}
	return ""
}

// probed reports whether a function was probed in all runs: if it has no calls, it was not called.
func (d *Diff) probed(name string) bool {
	return !slices.ContainsFunc(d.runs(), func(r *Run) bool { return !slices.Contains(r.Functions, name) })
}

// nothing says that a name matches nothing.
func (d *Diff) nothing(c *Condition) string {
	if c.Report == "calls" {
		return fmt.Sprintf("nothing in calls matches %q, and no function of that name was probed in all runs", c.Name)
	}
	return fmt.Sprintf("nothing in %s matches %q", c.Report, c.Name)
}

// add adds a figure with the values of the runs of NEW.
func (d *Diff) add(o *Outcome, name string, c *compared, new []float64) {
	x := checked{Name: name, compared: c}
	if !o.Change {
		c.P = math.NaN() // nothing is tested
		x.Value = o.absolute(known(new), o.exact())
	}
	o.Cases = append(o.Cases, x)
}

// exact reports whether the condition is about counts or bytes.
func (o *Outcome) exact() bool { return o.Unit == table.Number || o.Unit == table.Bytes }

// absolute is the value of NEW: of counts and bytes the worst of all runs, else the mean.
func (o *Outcome) absolute(new []float64, exact bool) float64 {
	switch {
	case len(new) == 0:
		return math.NaN()
	case exact && o.rises():
		return slices.Max(new)
	case exact:
		return slices.Min(new)
	}
	sum := 0.0
	for _, v := range new {
		sum += v
	}
	return sum / float64(len(new))
}

// oneSided takes the probability of the direction that a condition is about.
func (c *compared) oneSided(of *Condition) {
	c.P /= 2
	if (c.New > c.Base) != of.rises() {
		c.P = 1 - c.P
	}
}

// decide reports whether a condition holds. rate is that of one test.
func (d *Diff) decide(o *Outcome, rate float64) {
	if o.State != "" {
		return
	}
	few, unknown := false, 0
	for i := range o.Cases {
		x := &o.Cases[i]
		x.Value, x.Smallest = o.value(x), math.NaN()
		if !math.IsNaN(x.P) && !d.rule.Untested {
			x.Smallest = x.smallest(rate)
		}
		switch {
		case math.IsNaN(x.Value):
			unknown++
		case o.Change && x.Few && !d.rule.Untested:
			few = true
		default:
			x.Holds = o.Condition.holds(x.Value) && (!o.Change || d.rule.significant(x.compared, d.rule.GateRate) &&
				(d.rule.Untested || x.Exact || o.Condition.holds(o.part(x, x.rest))))
		}
		if x.Holds {
			o.Holds++
		}
	}
	o.sort()
	o.unseen()
	o.State = Passed
	switch {
	case o.Holds > 0:
		o.State = Failed
	case o.Why != "":
		o.State = Broken
	case few:
		o.State, o.Why = Broken, d.needs()+", or --significance none"
	case unknown == len(o.Cases):
		o.State, o.Why = Broken, "the figure is not known"
	}
}

// unseen finds the figure of which most can change unseen.
func (o *Outcome) unseen() {
	for i := range o.Cases {
		x := &o.Cases[i]
		if o.Holds == 0 && o.part(x, x.Smallest*math.Abs(x.Base)) > math.Abs(o.Value) &&
			(o.Unseen == nil || x.Smallest > o.Unseen.Smallest) {
			o.Unseen = x
		}
	}
}

// needs says what a change of a figure that varies needs.
func (d *Diff) needs() string {
	return fmt.Sprintf("a change of a figure that varies needs %d runs on each side (BASE has %s, NEW has %s)", LeastRuns,
		figures.Group(uint64(len(d.Base))), figures.Group(uint64(len(d.New))))
}

// value is what a condition compares of a figure.
func (o *Outcome) value(x *checked) float64 {
	switch {
	case !o.Change:
		return x.Value
	case x.New == x.Base:
		return 0
	}
	return o.part(x, x.New-x.Base)
}

// part is a difference in the unit of a condition.
func (o *Outcome) part(x *checked, difference float64) float64 {
	if o.Percent {
		return difference / x.Base
	}
	return difference
}

// sort puts the figures for which the condition holds first, by how far they are from the limit.
func (o *Outcome) sort() {
	slices.SortStableFunc(o.Cases, func(a, b checked) int {
		switch {
		case a.Holds != b.Holds && a.Holds:
			return -1
		case a.Holds != b.Holds:
			return 1
		case o.rises():
			return compareFloats(b.Value, a.Value)
		}
		return compareFloats(a.Value, b.Value)
	})
}

// compareFloats orders numbers; a NaN comes last.
func compareFloats(a, b float64) int {
	switch {
	case math.IsNaN(a) && math.IsNaN(b):
		return 0
	case math.IsNaN(a):
		return 1
	case math.IsNaN(b), a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

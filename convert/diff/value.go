package diff

import (
	"math"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/table"
)

// valueUnits are the units of values. A unit of bytes is 1024 times the one before.
var valueUnits = map[table.Unit]map[string]float64{
	table.Number:   {"": 1},
	table.Duration: {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9},
	table.Bytes: {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20,
		"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30, "t": 1 << 40, "tb": 1 << 40, "tib": 1 << 40},
	table.Share: {"": 1, "%": 0.01},
	table.Rate:  {"": 1, "gb/s": 1},
}

// unitExamples are values of each unit.
var unitExamples = map[table.Unit]string{
	table.Number: "a number: write 100", table.Duration: "a time: write 500us, 5ms or 1.5s",
	table.Bytes: "a size: write 500K, 64M or 2GiB",
	table.Share: "a share: write 80%", table.Rate: "a rate in GB/s: write 12.5",
}

// value reads the value: a sign makes it a change.
func (p *parser) value() error {
	from := p.at
	sign := 1.0
	switch {
	case strings.HasPrefix(p.rest(), "+"):
		p.c.Change = true
	case strings.HasPrefix(p.rest(), "-"):
		p.c.Change, sign = true, -1
	}
	if p.c.Change {
		p.at++
	}
	digits := p.take(func(c byte) bool { return c >= '0' && c <= '9' || c == '.' })
	number, err := strconv.ParseFloat(digits, 64)
	if digits == "" || err != nil {
		p.take(notSpace)
		hint := ""
		if p.c.Report != "" {
			hint = "; a name with a space, < or > stands between quotes"
		}
		return p.fail(from, p.at-from, "the value is missing: the figure is %s, or as a change +5%% or -5%%%s",
			unitExamples[p.c.Unit], hint)
	}
	at := p.at
	unit := p.take(notSpace)
	if p.c.Value, err = p.scaled(number, at, unit); err != nil {
		return err
	}
	p.c.Value *= sign
	return p.direction(from)
}

// scaled is a number with a unit, in the unit of the figure.
func (p *parser) scaled(number float64, at int, unit string) (float64, error) {
	if unit == "%" && p.c.Change {
		p.c.Percent = true
		return number / 100, nil
	}
	scale, known := valueUnits[p.c.Unit][strings.ToLower(unit)]
	if !known && number == 0 && unit == "" {
		scale, known = 1, true // nothing is the same in each unit
	}
	if !known && unit == "" {
		return 0, p.fail(at, 0, "a unit is missing: the figure is %s", unitExamples[p.c.Unit])
	}
	if !known && unit == "%" {
		return 0, p.fail(at, len(unit), "the figure is %s; a change has a sign: +5%% or -5%%", unitExamples[p.c.Unit])
	}
	if !known {
		return 0, p.fail(at, len(unit), "%q is no unit of the figure, which is %s", unit, unitExamples[p.c.Unit])
	}
	return number * scale, nil
}

// direction checks the sign of a change: a rise has a plus, a fall a minus.
func (p *parser) direction(from int) error {
	switch {
	case math.IsInf(p.c.Value, 0):
		return p.fail(from, p.at-from, "the value is too large")
	case !p.c.Change:
		return nil
	case p.c.rises() && p.text[from] == '-':
		return p.fail(from, 1, "a rise is written %s +5%%, a fall < -5%%", p.c.Op)
	case !p.c.rises() && p.text[from] == '+':
		return p.fail(from, 1, "a fall is written %s -5%%, a rise > +5%%", p.c.Op)
	}
	return nil
}

func notSpace(c byte) bool { return c != ' ' && c != '\t' && c != '\r' && c != '\n' }

package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cudatrace/cudatrace/record/figures"
)

// unknown is what people see in place of a value that is not known.
const unknown = "-"

// Words writes a value for people.
func Words(v any, u Unit) string {
	switch v := v.(type) {
	case nil:
		return unknown
	case Cell:
		return Words(v.Value, v.Unit)
	case string:
		return figures.Clean(v)
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case uint64:
		return whole(v, u)
	case float64:
		return fraction(v, u)
	case []uint64:
		return joined(v, ", ", func(n uint64) string { return whole(n, u) })
	case []float64:
		return joined(v, ", ", func(n float64) string { return fraction(n, u) })
	case []string:
		return joined(v, ", ", figures.Clean)
	}
	return fmt.Sprint(v)
}

// WordsOf writes a value that may be null for people.
func WordsOf[T any](v *T, u Unit) string {
	if v == nil {
		return unknown
	}
	return Words(*v, u)
}

// ShareOf is the share that a part has of a total, null of nothing.
func ShareOf(part, total uint64) *float64 {
	if total == 0 {
		return nil
	}
	return new(float64(part) / float64(total))
}

// joined joins the values of a list.
func joined[T any](list []T, by string, write func(T) string) string {
	var words []string
	for _, v := range list {
		words = append(words, write(v))
	}
	return strings.Join(words, by)
}

func whole(n uint64, u Unit) string {
	switch u {
	case Duration:
		return span(n)
	case Moment:
		return fmt.Sprintf("%.6f s", float64(n)/1e9)
	case Bytes:
		return figures.Bytes(n)
	case Address:
		return fmt.Sprintf("%#x", n)
	case ID:
		return strconv.FormatUint(n, 10)
	}
	return figures.Group(n)
}

// span writes a number of ns with three digits.
func span(ns uint64) string {
	switch v := float64(ns); {
	case ns < 1000:
		return fmt.Sprintf("%d ns", ns)
	case v < 999.5e3:
		return threeDigits(v/1e3) + " µs"
	case v < 999.5e6:
		return threeDigits(v/1e6) + " ms"
	case ns < 600e9:
		return threeDigits(v/1e9) + " s"
	}
	return figures.Duration(ns)
}

// threeDigits writes a number from 1 to 999.
func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func fraction(v float64, u Unit) string {
	if !finite(v) {
		return unknown
	}
	switch u {
	case Share:
		return fmt.Sprintf("%.1f %%", 100*v)
	case Rate:
		return fmt.Sprintf("%.2f", v)
	case OfPeak:
		return fmt.Sprintf("%.1f %%", v)
	case ByteRate:
		return scaled(v, "B/s")
	case Hertz:
		return scaled(v, "Hz")
	case Watt:
		return fmt.Sprintf("%.0f W", v)
	case Celsius:
		return fmt.Sprintf("%.0f °C", v)
	case Percent:
		if v == 0 {
			return "0 %"
		}
		return fmt.Sprintf("%+.1f %%", 100*v)
	case Difference:
		if v < 0 {
			return "-" + span(uint64(0.5-v))
		}
		return "+" + span(uint64(v+0.5))
	}
	return whole(uint64(v+0.5), u)
}

// scaled writes a number with three digits, in thousands of thousands of its unit.
func scaled(v float64, unit string) string {
	prefixes := []string{"", "k", "M", "G", "T", "P"}
	i := 0
	for ; v >= 999.5 && i < len(prefixes)-1; i++ {
		v /= 1000
	}
	if i == 0 {
		return fmt.Sprintf("%.0f %s", v, unit)
	}
	return threeDigits(v) + " " + prefixes[i] + unit
}

// plain writes a value for programs. Fractions have at most six digits.
func plain(v any, u Unit) string {
	switch v := v.(type) {
	case nil:
		return ""
	case Cell:
		return plain(v.Value, v.Unit)
	case string:
		return v
	case uint64:
		if u == Address {
			return fmt.Sprintf("%#x", v)
		}
		return strconv.FormatUint(v, 10)
	case float64:
		return digits(v)
	case []uint64:
		return joined(v, " ", func(n uint64) string { return plain(n, u) })
	case []float64:
		return joined(v, " ", digits)
	case []string:
		return strings.Join(v, " | ")
	}
	return fmt.Sprint(v)
}

// finite reports whether a fraction is a number. Infinities and NaN are written as values that are not known: JSON has
// no words for them.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// digits writes a fraction without zeros at its end, nothing for one that is no number.
func digits(v float64) string {
	if !finite(v) {
		return ""
	}
	s := strconv.FormatFloat(v, 'f', 6, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

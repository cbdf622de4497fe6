// Package figures writes numbers and texts for people, and texts in JSON. Input: numbers and texts. Output: words such
// as "1,234 calls", "1 thread", "1.2 ms", "3.4 MiB", and the ends of a text that is too long.
package figures

import (
	"fmt"
	"math"
	"time"
)

// A Number is not negative.
type Number interface {
	~int | ~int64 | ~uint32 | ~uint64
}

// Group writes a number with a comma before every three digits.
func Group[N Number](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count writes a number of things: "1 thread", "1,234 threads".
func Count[N Number](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Group(n) + " " + many
}

// mostShown is the longest time that is shown, in ns: a time.Duration has no room for more, nor for
// its rounding.
const mostShown = uint64(math.MaxInt64 / time.Hour * time.Hour)

// Duration writes a number of ns in the unit that suits it.
func Duration(ns uint64) string { return DurationBeside(ns, ns) }

// DurationBeside writes a number of ns in the unit that suits another, which stands in the
// same line.
func DurationBeside(ns, other uint64) string {
	d := time.Duration(min(ns, mostShown))
	switch other := time.Duration(min(other, mostShown)); {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case other >= time.Second:
		return inUnit(d, time.Second, "s")
	case other >= time.Millisecond/10:
		return inUnit(d, time.Millisecond, "ms")
	default:
		return inUnit(d, time.Microsecond, "µs")
	}
}

// inUnit has more digits where the first would be 0.
func inUnit(d, unit time.Duration, name string) string {
	digits := 1
	if d > 0 && d < unit/10 {
		digits = 3
	}
	return fmt.Sprintf("%.*f %s", digits, float64(d)/float64(unit), name)
}

// Bytes writes a number of bytes in the unit that suits it, from B to EiB.
func Bytes[N Number](n N) string {
	x, unit := float64(n), 0
	for ; x >= 1<<10 && unit < len(byteUnits)-1; unit++ {
		x /= 1 << 10
	}
	digits := min(unit, 1)
	return fmt.Sprintf("%.*f %s", digits, x, byteUnits[unit])
}

var byteUnits = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

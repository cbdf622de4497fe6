package figures

import (
	"fmt"
	"math"
)

// Between writes the interval in which a time lies, in ns: "40-190 ms", "up to 3 µs". Where it is so short that three
// digits do not tell its ends apart, it is one time.
func Between(low, high uint64) string {
	unit, name := 1.0, "ns"
	switch {
	case high >= 999_500_000:
		unit, name = 1e9, "s"
	case high >= 999_500:
		unit, name = 1e6, "ms"
	case high >= 1000:
		unit, name = 1e3, "µs"
	}
	return between(float64(low)/unit, float64(high)/unit) + " " + name
}

// SharesBetween writes the interval in which a share lies: "12-15 %". 1 is all.
func SharesBetween(low, high float64) string { return between(100*low, 100*high) + " %" }

// between writes two numbers, rounded outwards to a third of what lies between them, or less.
func between(low, high float64) string {
	switch {
	case high <= 0:
		return "0"
	case high-low < high/200:
		return fmt.Sprintf("%.*f", digitsOf(math.Pow(10, math.Floor(math.Log10(high))-2)), (low+high)/2)
	}
	step := math.Pow(10, math.Floor(math.Log10((high-low)/3)))
	low, high = math.Floor(low/step)*step, math.Ceil(high/step)*step
	if low <= 0 {
		return fmt.Sprintf("up to %.*f", digitsOf(step), high)
	}
	return fmt.Sprintf("%.*f-%.*f", digitsOf(step), low, digitsOf(step), high)
}

// digitsOf is the number of digits behind the point that a step needs.
func digitsOf(step float64) int { return max(0, int(-math.Floor(math.Log10(step)+1e-9))) }

// About writes an estimated number, from 10 on with two digits: "about 1,300".
func About(n uint64) string {
	if n < 10 {
		return Group(n)
	}
	step := math.Pow(10, math.Floor(math.Log10(float64(n)))-1)
	return "about " + Group(uint64(math.Round(float64(n)/step)*step))
}

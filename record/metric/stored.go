package metric

import "math"

// A stored number is 0 where a metric has no value. Otherwise it is 1 more than
//
//	Percentage  the value in steps of 0.01
//	Rate        a floating-point number with 10 significant bits: numbers below 1024 are
//	            themselves, a larger c is (c - 512 e) << e, with e = c/512 - 1
//	Level       the zigzag of the value in steps of 1/scale
//	Bits        the bits
//
// Near values have near stored numbers, so that a log keeps most values in about a byte.

// percentSteps is the number of steps of a stored percentage in 1 %.
const percentSteps = 100

// rateBits is the number of significant bits of a stored rate: half a step of the smallest is 1/1024.
const rateBits = 10

// largest bounds the numbers that are stored: beyond it, floating-point numbers are not exact.
const largest = 1 << 53

// Store returns the stored number of a value. NaN and infinities are stored as no value.
func (m *Metric) Store(v float64) uint64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	switch m.Kind {
	case Percentage:
		return 1 + whole(v*percentSteps)
	case Rate:
		return 1 + rateCode(v)
	case Level:
		steps := whole(math.Abs(v) * m.scale())
		if v < 0 && steps > 0 {
			return 2 * steps // 1 + (2*steps - 1)
		}
		return 1 + 2*steps
	}
	return 1 + whole(v)
}

// whole rounds a number that is stored as it is.
func whole(v float64) uint64 { return uint64(min(max(math.Round(v), 0), largest)) }

func (m *Metric) scale() float64 { return float64(max(m.Scale, 1)) }

// Value returns the value of a stored number; ok is false where there is none.
func (m *Metric) Value(stored uint64) (v float64, ok bool) {
	if stored == 0 {
		return 0, false
	}
	n := stored - 1
	switch m.Kind {
	case Percentage:
		return float64(n) / percentSteps, true
	case Rate:
		return rateOf(n), true
	case Level:
		return float64(int64(n>>1)^-int64(n&1)) / m.scale(), true
	}
	return float64(n), true
}

// rateCode is the stored rate, less 1.
func rateCode(v float64) uint64 {
	v = min(max(v, 0), 1<<62)
	_, exponent := math.Frexp(v)
	shift := max(exponent-rateBits, 0)
	// Where rounding carries, the sum is the first number of the next shift.
	return uint64(shift)<<(rateBits-1) + uint64(math.Round(math.Ldexp(v, -shift)))
}

// mostShift is the shift of the largest rate that is stored.
const mostShift = 63 - rateBits

// rateOf is the inverse of rateCode. A code that no recorder writes is some number that rateCode knows.
func rateOf(code uint64) float64 {
	if code < 1<<rateBits {
		return float64(code)
	}
	shift := code>>(rateBits-1) - 1
	return math.Ldexp(float64(code-shift<<(rateBits-1)), int(min(shift, mostShift)))
}

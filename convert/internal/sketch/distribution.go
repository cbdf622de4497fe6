package sketch

import "math"

// A Distribution describes numbers. The zero Distribution has none.
type Distribution struct {
	Count    uint64
	Total    uint64 // the largest number where the sum exceeds 64 bits
	Min, Max uint64

	mean, squares float64 // of the numbers so far; squares is the sum of their squared distances from the mean
	sketch        Sketch
}

// Add adds a number.
func (d *Distribution) Add(v uint64) {
	d.Count++
	d.Total = Sum(d.Total, v)
	if d.Count == 1 {
		d.Min = v
	}
	d.Min, d.Max = min(d.Min, v), max(d.Max, v)
	from := float64(v) - d.mean
	d.mean += from / float64(d.Count)
	d.squares += from * (float64(v) - d.mean)
	d.sketch.Add(v)
}

// Sum adds two numbers; it returns the largest number where the sum exceeds 64 bits.
func Sum(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}

// Percentile returns the number below or at which a percentage of all numbers lies, within
// MaxError, by the nearest rank.
func (d *Distribution) Percentile(percent uint64) uint64 {
	return min(max(d.sketch.Quantile(percent), d.Min), d.Max)
}

// Mean returns the mean, 0 of no number.
func (d *Distribution) Mean() float64 { return d.mean }

// StdDev returns the standard deviation of a sample, 0 of fewer than two numbers.
func (d *Distribution) StdDev() float64 {
	if d.Count < 2 {
		return 0
	}
	return math.Sqrt(d.squares / float64(d.Count-1))
}

// Merge adds the numbers of another distribution.
func (d *Distribution) Merge(o *Distribution) {
	if o.Count == 0 {
		return
	}
	if d.Count == 0 {
		d.Min = o.Min
	}
	d.Min, d.Max, d.Total = min(d.Min, o.Min), max(d.Max, o.Max), Sum(d.Total, o.Total)
	n, m := float64(d.Count), float64(o.Count)
	from := o.mean - d.mean
	d.mean += from * m / (n + m)
	d.squares += o.squares + from*from*n*m/(n+m)
	d.Count += o.Count
	d.sketch.Merge(&o.sketch)
}

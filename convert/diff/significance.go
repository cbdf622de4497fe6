package diff

import (
	"math"
	"slices"
)

// chance returns the probability that two samples of one distribution differ by as much as these
// do, two-sided: the larger one of Student's and of Welch's t-test. Student's is wrong where one
// sample varies more than the other, Welch's where a few values happen to lie close together and
// the other sample is larger. A sample has at least two values. A standard deviation below least
// is taken for least: values can lie closer together than their noise.
//
// Both tests see little where values lie on levels or some lie far out. So samples that do not overlap have at most the
// probability of that, which is the same for any distribution: 1 in 35 for four values each.
func chance(a, b []float64, least float64) float64 {
	x, y := describe(a, least), describe(b, least)
	distance := math.Abs(x.mean - y.mean)
	switch {
	case distance == 0:
		return 1
	case x.variance+y.variance == 0:
		return 0
	}
	p := max(student(distance, x, y), welch(distance, x, y))
	if slices.Max(a)+least < slices.Min(b) || slices.Max(b)+least < slices.Min(a) {
		p = min(p, separated(len(a), len(b)))
	}
	return p
}

// separated returns the probability, two-sided, that all values of one sample are above all of another one: of the ways
// to deal them out, two are like that.
func separated(n, m int) float64 {
	ways := 1.0
	for i := 1; i <= n; i++ {
		ways *= float64(m+i) / float64(i)
	}
	return 2 / ways
}

// A sample is described by its size, its mean and its variance.
type sample struct{ n, mean, variance float64 }

func describe(values []float64, least float64) sample {
	mean, variance := moments(values)
	return sample{float64(len(values)), mean, max(variance, least*least)}
}

// pooled returns the error of the distance between two means where both samples vary alike, and its degrees of freedom.
func pooled(a, b sample) (err, freedom float64) {
	freedom = a.n + b.n - 2
	variance := ((a.n-1)*a.variance + (b.n-1)*b.variance) / freedom
	return math.Sqrt(variance * (1/a.n + 1/b.n)), freedom
}

// apart returns the same, by Welch, where each sample varies in its own way.
func apart(a, b sample) (err, freedom float64) {
	errA, errB := a.variance/a.n, b.variance/b.n
	sum := errA + errB
	return math.Sqrt(sum), sum * sum / (errA*errA/(a.n-1) + errB*errB/(b.n-1))
}

// student is the probability of a distance between two means where both samples vary alike.
func student(distance float64, a, b sample) float64 {
	err, freedom := pooled(a, b)
	return tails(distance/err, freedom)
}

// welch is the probability of a distance between two means.
func welch(distance float64, a, b sample) float64 {
	err, freedom := apart(a, b)
	return tails(distance/err, freedom)
}

// meanOf returns the mean of values, NaN of none.
func meanOf(values []float64) float64 {
	mean, _ := moments(values)
	return mean
}

// moments returns the mean and the variance of a sample.
func moments(values []float64) (mean, variance float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		variance += (v - mean) * (v - mean)
	}
	return mean, variance / float64(max(len(values)-1, 1))
}

// tails returns the probability that a value of Student's distribution lies farther from 0 than t.
func tails(t, freedom float64) float64 {
	return beta(freedom/(freedom+t*t), freedom/2, 0.5)
}

// beta returns the regularized incomplete beta function.
func beta(x, a, b float64) float64 {
	if x <= 0 || x >= 1 {
		return min(max(x, 0), 1)
	}
	if x > (a+1)/(a+b+2) {
		return 1 - beta(1-x, b, a)
	}
	gammaA, _ := math.Lgamma(a)
	gammaB, _ := math.Lgamma(b)
	gammaAB, _ := math.Lgamma(a + b)
	return math.Exp(gammaAB-gammaA-gammaB+a*math.Log(x)+b*math.Log1p(-x)) / a * fraction(x, a, b)
}

// fraction returns the continued fraction of the incomplete beta function, by Lentz's method.
func fraction(x, a, b float64) float64 {
	const (
		tiny     = 1e-300
		accuracy = 1e-15
		most     = 500
	)
	away := func(v float64) float64 {
		if math.Abs(v) < tiny {
			return tiny
		}
		return v
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	sum := d
	for i := 1.0; i < most; i++ {
		even := i * (b - i) * x / ((a + 2*i - 1) * (a + 2*i))
		odd := -(a + i) * (a + b + i) * x / ((a + 2*i) * (a + 2*i + 1))
		before := sum
		for _, term := range []float64{even, odd} {
			d = 1 / away(1+term*d)
			c = away(1 + term/c)
			sum *= c * d
		}
		if math.Abs(sum-before) <= accuracy*math.Abs(sum) {
			break
		}
	}
	return sum
}

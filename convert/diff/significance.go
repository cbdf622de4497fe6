package diff

import (
	"cmp"
	"math"
	"slices"
)

// chance returns the probability that two samples of one distribution differ by as much as these
// do, two-sided: the larger one of Student's and of Welch's t-test. Student's is wrong where one
// sample varies more than the other, Welch's where a few values happen to lie close together and
// the other sample is larger. A sample has at least two values. A standard deviation below least
// is taken for least: values can lie closer together than their noise.
func chance(a, b []float64, least float64) float64 {
	x, y := describe(a, least), describe(b, least)
	distance := math.Abs(x.mean - y.mean)
	switch {
	case distance == 0:
		return 1
	case x.variance+y.variance == 0:
		return 0
	}
	return max(student(distance, x, y), welch(distance, x, y))
}

// A sample is described by its size, its mean and its variance.
type sample struct{ n, mean, variance float64 }

func describe(values []float64, least float64) sample {
	mean, variance := moments(values)
	return sample{float64(len(values)), mean, max(variance, least*least)}
}

// student is the probability of a distance between two means where both samples vary alike.
func student(distance float64, a, b sample) float64 {
	freedom := a.n + b.n - 2
	variance := ((a.n-1)*a.variance + (b.n-1)*b.variance) / freedom
	return tails(distance/math.Sqrt(variance*(1/a.n+1/b.n)), freedom)
}

// welch is the probability of a distance between two means.
func welch(distance float64, a, b sample) float64 {
	errA, errB := a.variance/a.n, b.variance/b.n
	sum := errA + errB
	return tails(distance/math.Sqrt(sum), sum*sum/(errA*errA/(a.n-1)+errB*errB/(b.n-1)))
}

// A series has values at places in time.
type series struct{ at, values []float64 }

// A trend is what changes from run to run, in both sides alike.
type trend struct {
	slope  float64
	chance float64 // probability of so steep a slope by chance
	rest   float64 // probability of what differs beside the trend; 1 if that has another sign than the difference of the means
}

var noTrend = trend{0, 1, 0}

// trendOf fits a straight line to each of two samples, of one slope.
func trendOf(sides [2]series, least float64) trend {
	var at, mean [2]float64
	var n, sxx, sxy, syy, sizes float64
	for i, s := range sides {
		at[i], mean[i] = meanOf(s.at), meanOf(s.values)
		for k, v := range s.values {
			x, y := s.at[k]-at[i], v-mean[i]
			sxx, sxy, syy = sxx+x*x, sxy+x*y, syy+y*y
		}
		n += float64(len(s.values))
		sizes += 1 / float64(len(s.values))
	}
	freedom := n - 3
	if sxx == 0 || freedom < 1 {
		return noTrend
	}
	b := sxy / sxx
	variance := max((syy-b*sxy)/freedom, least*least)
	t := trend{b, tails(math.Abs(b)/math.Sqrt(variance/sxx), freedom), 1}
	along := at[1] - at[0]
	distance := mean[1] - mean[0] - b*along
	if distance*(mean[1]-mean[0]) > 0 {
		t.rest = tails(math.Abs(distance)/math.Sqrt(variance*(sizes+along*along/sxx)), freedom)
	}
	return t
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

// adjust returns, for each probability, the smallest rate of false discoveries at which it is a
// discovery, by Benjamini and Hochberg: where those up to a rate are taken, at most that part of
// them is false on average, and where there is nothing to discover, none is taken but with that
// probability.
func adjust(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	adjusted := make([]float64, len(p))
	least := 1.0
	for rank := len(order); rank > 0; rank-- {
		i := order[rank-1]
		least = min(least, p[i]*float64(len(p))/float64(rank))
		adjusted[i] = least
	}
	return adjusted
}

package sketch

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// exact returns a percentile by the nearest rank.
func exact(sorted []uint64, percent uint64) uint64 {
	rank := (uint64(len(sorted))*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

// check compares a distribution with the numbers themselves.
func check(t *testing.T, numbers []uint64) {
	t.Helper()
	var d Distribution
	var total float64
	for _, v := range numbers {
		d.Add(v)
		total += float64(v)
	}
	slices.Sort(numbers)
	for percent := range uint64(101) {
		got, want := d.Percentile(percent), exact(numbers, percent)
		if off := math.Abs(float64(got) - float64(want)); off > MaxError*float64(want) {
			t.Fatalf("percentile %d of %d numbers is %d, want %d within %g", percent, len(numbers), got, want, MaxError)
		}
	}
	if d.Min != numbers[0] || d.Max != numbers[len(numbers)-1] || d.Count != uint64(len(numbers)) {
		t.Fatalf("%d numbers from %d to %d, want %d from %d to %d", d.Count, d.Min, d.Max, len(numbers), numbers[0], numbers[len(numbers)-1])
	}
	if mean := total / float64(len(numbers)); math.Abs(d.Mean()-mean) > 1e-9*mean {
		t.Fatalf("mean %g, want %g", d.Mean(), mean)
	}
}

// The error is within 1 % whatever the numbers are like.
func TestPercentiles(t *testing.T) {
	t.Parallel()
	for name, number := range map[string]func(r *rand.Rand) uint64{
		"equal":       func(*rand.Rand) uint64 { return 12_345 },
		"small":       func(r *rand.Rand) uint64 { return r.Uint64N(200) },
		"even":        func(r *rand.Rand) uint64 { return r.Uint64N(1e9) },
		"logarithmic": func(r *rand.Rand) uint64 { return r.Uint64() >> r.UintN(64) },
		"two peaks":   func(r *rand.Rand) uint64 { return 1000 + r.Uint64N(2)*5_000_000 + r.Uint64N(50) },
		"long tail":   func(r *rand.Rand) uint64 { return uint64(math.Exp(8 + 3*r.NormFloat64())) },
		"all bits":    func(r *rand.Rand) uint64 { return r.Uint64() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			for _, n := range []int{1, 2, 3, 10, 99, 100, 101, 5000} {
				numbers := make([]uint64, n)
				for i := range numbers {
					numbers[i] = number(r)
				}
				check(t, numbers)
			}
		})
	}
}

// Each number is within MaxError of the middle of its bucket: powers of two and their
// neighbours are where a wrong shift shows.
func TestBuckets(t *testing.T) {
	t.Parallel()
	for bit := range 64 {
		for _, v := range []uint64{1<<bit - 1, 1 << bit, 1<<bit + 1, 1<<bit | 1<<bit>>1, math.MaxUint64 >> bit} {
			page, bucket := bucketOf(v)
			m := middle(page, bucket)
			off := max(m, v) - min(m, v)
			if float64(off) > MaxError*float64(v) {
				t.Errorf("%d is in the bucket of %d", v, m)
			}
		}
	}
	if MaxError > 0.01 {
		t.Errorf("the error is %g, more than 1 %%", MaxError)
	}
}

func TestStdDev(t *testing.T) {
	t.Parallel()
	var d Distribution
	for i, want := range []float64{0, 1.4142135623730951, 2, 2.581988897471611} {
		d.Add(uint64(10 + 2*i))
		if got := d.StdDev(); math.Abs(got-want) > 1e-12 {
			t.Errorf("standard deviation of %d numbers is %g, want %g", d.Count, got, want)
		}
	}
}

// No sum wraps.
func TestTotal(t *testing.T) {
	t.Parallel()
	var d Distribution
	d.Add(math.MaxUint64 - 5)
	d.Add(3)
	if d.Total != math.MaxUint64-2 {
		t.Errorf("total %d", d.Total)
	}
	d.Add(3)
	if d.Total != math.MaxUint64 {
		t.Errorf("total %d, want the largest number", d.Total)
	}
}

// A number more takes no memory once its page exists.
func TestSketchSize(t *testing.T) {
	var d Distribution
	d.Add(1000)
	if n := testing.AllocsPerRun(100, func() { d.Add(1001) }); n != 0 {
		t.Errorf("%g allocations for a number", n)
	}
}

// A merged distribution describes the numbers of both.
func TestMerge(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for _, n := range [][2]int{{0, 0}, {0, 5}, {5, 0}, {1, 1}, {300, 200}} {
		var a, b, all Distribution
		for i, d := range []*Distribution{&a, &b} {
			for range n[i] {
				v := r.Uint64N(1e6) + 1e5*uint64(i)
				d.Add(v)
				all.Add(v)
			}
		}
		a.Merge(&b)
		if a.Count != all.Count || a.Total != all.Total || a.Min != all.Min || a.Max != all.Max || a.Percentile(50) != all.Percentile(50) {
			t.Errorf("%d: %+v, want %+v", n, a, all)
		}
		if math.Abs(a.Mean()-all.Mean()) > 1e-6 || math.Abs(a.StdDev()-all.StdDev()) > 1e-6 {
			t.Errorf("%d: mean %g ± %g, want %g ± %g", n, a.Mean(), a.StdDev(), all.Mean(), all.StdDev())
		}
	}
}

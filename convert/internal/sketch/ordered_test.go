package sketch

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The interval has the median in about 95 of 100 samples, also where neighbours depend on each other, and where only a part of the numbers is kept.
func TestMedianInterval(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		numbers    int
		memory     float64 // part of its neighbour that a number has
		least      float64 // part of the intervals that have the median
		wide, slim float64 // bounds of the mean width, a part of the median
	}{
		{"independent", 100, 0, 0.90, 0.008, 0.003},
		{"dependent", 200, 0.8, 0.80, 0.02, 0.004},
		{"many", 20_000, 0, 0.93, 0.006, 0.002},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		const samples, middle = 300, 1e6
		within, width := 0, 0.0
		for range samples {
			var o Ordered
			x := 0.0
			for range c.numbers {
				x = c.memory*x + r.NormFloat64()
				o.Add(uint64(middle * (1 + 0.01*x)))
			}
			low, high, known := o.MedianInterval()
			if !known || o.Percentile(50) < low || o.Percentile(50) > high {
				t.Fatalf("%s: from %d to %d, known %t, of the median %d", c.name, low, high, known, o.Percentile(50))
			}
			if low <= middle && middle <= high {
				within++
			}
			width += float64(high-low) / middle / samples
		}
		t.Logf("%s: %d of %d intervals have the median; they are %.2f %% wide", c.name, within, samples, 100*width)
		if float64(within) < c.least*samples || width > c.wide || width < c.slim {
			t.Errorf("%s: %d of %d intervals have the median; they are %.2f %% wide", c.name, within, samples, 100*width)
		}
	}
}

// Of numbers that repeat in any pattern each kind is kept, in order.
func TestKept(t *testing.T) {
	t.Parallel()
	for _, period := range []int{2, 3, 4, 8, 16} {
		var o Ordered
		const numbers = 1 << 17
		for i := range numbers {
			v := uint64(i)
			if i%period == 0 {
				v += 1 << 32
			}
			o.Add(v)
		}
		marked, last := 0, -1
		for _, v := range o.kept {
			if v>>32 > 0 {
				marked++
			}
			if int(uint32(v)) <= last {
				t.Fatalf("period %d: %d behind %d", period, uint32(v), last)
			}
			last = int(uint32(v))
		}
		if want := len(o.kept) / period; len(o.kept) < mostKept/2 || marked > 2*want+3 || marked < want/2 || last < numbers-numbers/64 {
			t.Errorf("period %d: %d of %d kept numbers are at its begin, the last one is %d", period, marked, len(o.kept), last)
		}
	}
}

// Few numbers have no interval, equal ones have one without width, and numbers that are merged come behind the others.
func TestFewOrdered(t *testing.T) {
	t.Parallel()
	var o, other, all Ordered
	for range leastKept - 1 {
		o.Add(5)
	}
	if _, _, known := o.MedianInterval(); known {
		t.Error("few numbers have an interval")
	}
	o.Add(5)
	if low, high, known := o.MedianInterval(); low != 5 || high != 5 || !known {
		t.Error(low, high, known)
	}
	other.Add(7)
	all.Merge(&o)
	if !slices.Equal(all.kept, o.kept) || all.Count != o.Count {
		t.Errorf("%v of %d", all.kept, all.Count)
	}
	all.Merge(&other)
	if low, high, known := all.MedianInterval(); low != 5 || high > 7 || !known || all.Count != o.Count+1 || all.Max != 7 {
		t.Errorf("%+v", all.Distribution)
	}
}

// Merged numbers are kept in their order, one of each window, and more may follow.
func TestMergeOrdered(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2_000 {
		var all Ordered
		next := uint64(0)
		for range 1 + r.IntN(5) {
			var more Ordered
			for range r.Uint64N(1 << r.IntN(14)) {
				next++
				more.Add(next)
			}
			all.Merge(&more)
			for range r.IntN(300) {
				next++
				all.Add(next)
			}
		}
		if all.Count != next || next > 0 && uint64(len(all.kept)) != (next+all.every-1)/all.every {
			t.Fatalf("%d of %d numbers are kept, one of %d", len(all.kept), all.Count, all.every)
		}
		if len(all.kept) > mostKept || !slices.IsSorted(all.kept) || next > 2*mostKept && len(all.kept) < mostKept/2 {
			t.Fatalf("%d of %d numbers are kept: %v", len(all.kept), next, all.kept)
		}
	}
}

package metric

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Stored numbers are as exact as their kind says, over all magnitudes, and grow with the value.
func TestStored(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for kind, most := range map[Kind]func(v float64) float64{
		Percentage: func(v float64) float64 { return 0.005 + v*1e-15 },
		Rate:       func(v float64) float64 { return max(v/1000, 0.5) },
		Level:      func(v float64) float64 { return 0.0005 + math.Abs(v)*1e-15 },
	} {
		m := Metric{Kind: kind, Scale: 1000}
		for range 20000 {
			v := math.Exp2(rnd.Float64()*42) - 1
			if kind == Level && rnd.IntN(2) == 0 {
				v = -v
			}
			got, ok := m.Value(m.Store(v))
			if diff := math.Abs(got - v); !ok || diff > most(v) {
				t.Fatalf("%v %g is stored as %g", kind, v, got)
			}
		}
	}
	rate := Metric{Kind: Rate}
	for v, last := uint64(0), uint64(0); v < 1<<40; v += 1 + v/300 {
		if code := rate.Store(float64(v)); code < last {
			t.Fatalf("the stored number of %d is below the one before", v)
		} else {
			last = code
		}
	}
}

// No value is no value, and nothing is stored beyond the bounds.
func TestStoredEdges(t *testing.T) {
	for _, kind := range []Kind{Percentage, Rate, Level, Bits} {
		m := Metric{Kind: kind}
		for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			if got := m.Store(v); got != 0 {
				t.Errorf("%v: %g is stored as %d", kind, v, got)
			}
		}
		if _, ok := m.Value(0); ok {
			t.Errorf("%v: no value has a value", kind)
		}
		if v, ok := m.Value(m.Store(0)); v != 0 || !ok {
			t.Errorf("%v: 0 is stored as %g", kind, v)
		}
		for _, v := range []float64{math.MaxFloat64, 1e30} {
			if got, _ := m.Value(m.Store(v)); got < 1<<46 || got > 1<<62 {
				t.Errorf("%v: %g is stored as %g", kind, v, got)
			}
		}
		if v, _ := m.Value(math.MaxUint64); math.IsNaN(v) || math.IsInf(v, 0) {
			t.Errorf("%v: the largest stored number has no value", kind)
		}
	}
	bits := Metric{Kind: Bits}
	if v, _ := bits.Value(bits.Store(0x1ff)); v != 0x1ff {
		t.Errorf("bits are stored as %g", v)
	}
}

func TestReasons(t *testing.T) {
	var names []string
	for _, r := range (PowerCap | HardwareThermal | 1<<40).List() {
		names = append(names, r.String())
	}
	if len(names) != 3 || names[0] != "power cap" || names[1] != "hardware thermal slowdown" || names[2] != "reason 0x10000000000" {
		t.Errorf("reasons are %q", names)
	}
}

// The names that people see, by the numbers that are in logs.
func TestWireNumbers(t *testing.T) {
	for i, name := range []string{"", "nvml", "gpm", "pm", "host", ""} {
		if got := Source(i).String(); got != name {
			t.Errorf("source %d is %q", i, got)
		}
	}
	for i, name := range []string{"", "%", "B", "B/s", "Hz", "W", "°C", "count", "/s", "ns", "bits", ""} {
		if got := Unit(i).String(); got != name {
			t.Errorf("unit %d is %q", i, got)
		}
	}
	for i, name := range []string{"", "percentage", "rate", "level", "bits", ""} {
		if got := Kind(i).String(); got != name {
			t.Errorf("kind %d is %q", i, got)
		}
	}
}

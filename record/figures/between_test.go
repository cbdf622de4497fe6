package figures

import "testing"

// Intervals are rounded outwards, and no wider than they need to be.
func TestBetween(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		low, high uint64
		want      string
	}{
		{48_100_000, 183_900_000, "40-190 ms"},
		{2_630_000_000, 2_912_000_000, "2.63-2.92 s"},
		{999_400_000, 1_200_000_000, "0.99-1.20 s"},
		{250_000, 55_700_000, "up to 60 ms"},
		{0, 90, "up to 90 ns"},
		{61_300_000, 61_310_000, "61.3 ms"},
		{2_763_000_000, 2_763_000_000, "2.76 s"},
		{120_000, 160_000, "120-160 µs"},
		{9_000, 900_000, "up to 900 µs"},
		{0, 0, "0 ns"},
	} {
		if got := Between(c.low, c.high); got != c.want {
			t.Errorf("%d to %d: %q, want %q", c.low, c.high, got, c.want)
		}
	}
	if got := SharesBetween(0.122, 0.158); got != "12-16 %" {
		t.Errorf("shares %q", got)
	}
	for n, want := range map[uint64]string{7: "7", 1319: "about 1,300", 96: "about 96", 995: "about 1,000"} {
		if got := About(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

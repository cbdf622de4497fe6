package deflate

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPrices compares prices with the entropy of symbols, and the lengths of codes with prices.
func TestPrices(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 12))
	var c Compressor
	for range 200 {
		var total, far float64
		for s := range literals {
			c.ofLiterals[s] = r.Uint32N(1 << r.IntN(14))
			total += float64(c.ofLiterals[s])
		}
		for s := range distances {
			c.ofDistances[s] = r.Uint32N(1 << r.IntN(14))
			far += float64(c.ofDistances[s])
		}
		c.prices.update(c.ofLiterals[:literals], c.ofDistances[:distances])
		want := func(n uint32, total float64) float64 { return math.Log2(total / float64(max(n, 1))) }
		near := func(what string, at int, got price, want float64) {
			if d := float64(got)/bit - want; math.Abs(d) > 0.25 {
				t.Errorf("%s %d takes %.2f bits, and the price is %.2f", what, at, want, float64(got)/bit)
			}
		}
		for b := range 256 {
			near("literal", b, c.prices.literal[b], want(c.ofLiterals[b], total))
		}
		for _, length := range []int{3, 10, 11, 50, 257, 258} {
			s := lengthSymbols[length-minMatch]
			for _, distance := range []int{1, 4, 5, 300, Window} {
				d := distanceSymbol(distance)
				bits := want(c.ofLiterals[firstLength+int(s)], total) + float64(lengthRanges[s].extra) +
					want(c.ofDistances[d], far) + float64(distanceRanges[d].extra)
				near("the match of length", length, c.prices.match(length, distance), bits)
			}
		}
	}
}

package deflate

import "math/bits"

// A price is a number of bits, in sixteenths.
type price = uint32

const (
	priceBits = 4
	bit       = 1 << priceBits

	// pricedTokens is the number of tokens after which prices are computed anew.
	pricedTokens = 1 << 11

	// firstPriced is the number of tokens after which prices are computed for the first time.
	firstPriced = 1 << 9
)

// prices estimate what tokens take in the block that is being made, by the numbers of its symbols so far.
type prices struct {
	literal  [firstLength]price
	length   [256]price            // by length - minMatch
	distance [symbolMask + 1]price // by symbol
	due      int                   // number of tokens at which the prices are computed next
}

func (p *prices) match(length, distance int) price {
	return p.length[uint8(length-minMatch)] + p.distance[distanceSymbol(distance)&symbolMask]
}

func (p *prices) literals(b []byte) (sum price) {
	for _, c := range b {
		sum += p.literal[c]
	}
	return sum
}

// begin sets the prices of the first tokens.
func (p *prices) begin() {
	for b := range p.literal {
		p.literal[b] = 8 * bit
	}
	for l, s := range lengthSymbols {
		p.length[l] = bit * (5 + price(lengthRanges[s].extra))
	}
	for s, r := range distanceRanges {
		p.distance[s] = bit * (3 + price(r.extra))
	}
	p.due = firstPriced
}

// update computes the prices from the numbers of symbols.
func (p *prices) update(ofLiterals, ofDistances []uint32) {
	all := logOfSum(ofLiterals)
	for b := range p.literal {
		p.literal[b] = all - log2(ofLiterals[b])
	}
	for l, s := range lengthSymbols {
		p.length[l] = all - log2(ofLiterals[firstLength+int(s)]) + bit*price(lengthRanges[s].extra)
	}
	all = logOfSum(ofDistances)
	for s, n := range ofDistances {
		p.distance[s] = all - log2(n) + bit*price(distanceRanges[s].extra)
	}
}

func logOfSum(counts []uint32) price {
	sum := uint32(1)
	for _, n := range counts {
		sum += n
	}
	return log2(sum)
}

// log2 is the binary logarithm of n, 0 for 0.
func log2(n uint32) price {
	if n == 0 {
		return 0
	}
	whole := bits.Len32(n) - 1
	return price(whole)<<priceBits + price(mantissas[n<<(31-whole)>>(31-priceBits)&(bit-1)])
}

// mantissas are the logarithms of 1 + 1/32, 1 + 3/32, and so on.
var mantissas = [bit]uint8{1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16}

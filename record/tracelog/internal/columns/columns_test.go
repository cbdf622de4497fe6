package columns

import (
	"bytes"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

func TestZigzag(t *testing.T) {
	for _, v := range []int64{0, -1, 1, math.MaxInt64, math.MinInt64} {
		if got := Unzigzag(Zigzag(v)); got != v {
			t.Errorf("%d becomes %d", v, got)
		}
	}
	if Zigzag(-1) != 1 || Zigzag(1) != 2 {
		t.Error("small magnitudes are not small numbers")
	}
}

// The examples of FORMAT.md, and every boundary between symbols.
func TestSplit(t *testing.T) {
	for v, want := range map[uint64]struct {
		symbol byte
		low    uint
	}{0: {0, 0}, 7: {7, 0}, 8: {8, 1}, 9: {8, 1}, 10: {9, 1}, 15: {11, 1}, 16: {12, 2}, 1000: {35, 7}, math.MaxUint64: {lastSymbol, 61}} {
		symbol, low := splitOne(v)
		if symbol != want.symbol || low != want.low {
			t.Errorf("%d is symbol %d and %d bits, want %v", v, symbol, low, want)
		}
	}
	for shift := range 64 {
		for delta := range uint64(5) {
			v := uint64(1)<<shift + delta - 2
			symbol, low := splitOne(v)
			base, low2 := joinOne(symbol)
			if low != low2 || base|v&(1<<low-1) != v {
				t.Errorf("%#x is symbol %d, which has base %#x and %d bits", v, symbol, base, low2)
			}
		}
	}
}

// The bits of numbers of any length follow each other without a gap, and zeros fill the last byte.
func TestBits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 400 {
		vals := make([]uint64, rnd.IntN(100))
		least := rnd.IntN(64)
		for i := range vals {
			vals[i] = rnd.Uint64() >> rnd.IntN(64-least)
		}
		symbols := make([]byte, len(vals))
		room := bytes.Repeat([]byte{0xFF}, 8*len(vals)+8)
		packed := splitAll(symbols, room, vals)
		pos := uint(0)
		for i, v := range vals {
			base, low := joinOne(symbols[i])
			if got := base | bitsAt(packed, pos, low); got != v {
				t.Fatalf("number %d with %d low bits is %#x, want %#x", i, low, got, v)
			}
			pos += low
		}
		if size := uint(len(packed)); size != (pos+7)/8 || pos%8 > 0 && packed[size-1]>>(pos%8) != 0 {
			t.Fatalf("%d bits take %d bytes or do not end in zeros", pos, size)
		}
		got := make([]uint64, len(vals))
		if !joinAll(got, append(symbols, packed...)) || !slices.Equal(got, vals) {
			t.Fatalf("%#x are joined to %#x", vals, got)
		}
	}
}

// shapes are columns as programs make them and as nobody would.
var shapes = map[string]func(rnd *rand.Rand, i int) uint64{
	"zero":       func(*rand.Rand, int) uint64 { return 0 },
	"constant":   func(*rand.Rand, int) uint64 { return 42 },
	"maximal":    func(*rand.Rand, int) uint64 { return math.MaxUint64 },
	"counting":   func(_ *rand.Rand, i int) uint64 { return uint64(i) },
	"steps":      func(_ *rand.Rand, i int) uint64 { return 1 << 40 * uint64(i) },
	"decreasing": func(_ *rand.Rand, i int) uint64 { return 1<<50 - uint64(i)*1000 },
	"wrapping":   func(_ *rand.Rand, i int) uint64 { return math.MaxUint64 - 100 + uint64(i) },
	"wrapping32": func(_ *rand.Rand, i int) uint64 { return uint64(math.MaxUint32 - 100 + uint32(i)) },
	"times":      func(rnd *rand.Rand, i int) uint64 { return 1<<45 + uint64(i)*3000 + rnd.Uint64N(500) },
	"few":        func(rnd *rand.Rand, _ int) uint64 { return []uint64{0, 7, math.MaxUint64}[rnd.IntN(3)] },
	"pointers":   func(rnd *rand.Rand, _ int) uint64 { return 0x7f0000000000 + 64*rnd.Uint64N(5000) },
	"mostly_0":   func(rnd *rand.Rand, i int) uint64 { return uint64(i) / 990 % 2 * rnd.Uint64() },
	"noise":      func(rnd *rand.Rand, _ int) uint64 { return rnd.Uint64() },
	"magnitudes": func(rnd *rand.Rand, _ int) uint64 { return rnd.Uint64() >> rnd.IntN(64) },
	"extremes":   func(_ *rand.Rand, i int) uint64 { return uint64(i%2) * math.MaxUint64 },
	"parabola":   func(_ *rand.Rand, i int) uint64 { return uint64(i) * uint64(i) },
}

// Any pair of columns, and one that depends on the first, comes back as it was,
// whatever the field's type makes the encoder do.
func TestColumns(t *testing.T) {
	t.Parallel()
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{
		{Name: "a", Type: schema.Uint}, {Name: "b", Type: schema.Time}, {Name: "c", Type: schema.Dur}, {Name: "d", Type: schema.Hex}}})
	e := must.Get(NewEncoder())(t)
	d := must.Get(NewDecoder())(t)
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 15, 16, 17, 100, 1025, 8192} {
		for name, shape := range shapes {
			for other, shape2 := range shapes {
				var rows []uint64
				for i := range n {
					a, b, c := shape(rnd, i), shape2(rnd, i), shape(rnd, i)
					rows = append(rows, a, b, c, bits.Reverse64(a))
				}
				table, err := d.decode(e.appendContent(nil, l, e.Transpose(l, rows), nil))
				if err != nil {
					t.Fatalf("%s, %s: %v", name, other, err)
				}
				if got := rowsOf(table, 4); !slices.Equal(got, rows) {
					t.Fatalf("%s, %s: %d rows are not what they were", name, other, n)
				}
			}
		}
	}
}

// rowsOf puts a table back into rows.
func rowsOf(t *Table, width int) (rows []uint64) {
	for i := range t.Rows {
		for f := range width {
			c := t.Find(f)
			rows = append(rows, c.At(i))
		}
	}
	return rows
}

// How many bytes a column of 8192 rows takes: what repeats must be next to nothing.
func TestColumnSizes(t *testing.T) {
	l := schema.NewLayout(&schema.Table{Kind: 99, Fields: []schema.Field{{Name: "a", Type: schema.Time}}})
	e := must.Get(NewEncoder())(t)
	for name, most := range map[string]int{
		"constant": 10, "counting": 80, "steps": 80, "decreasing": 80, "wrapping": 100,
		"few": 2400, "extremes": 150, "times": 11000, "noise": 8192*8 + 1200,
	} {
		rnd := rand.New(rand.NewPCG(7, 8))
		var rows []uint64
		for i := range 8192 {
			rows = append(rows, shapes[name](rnd, i))
		}
		if got := len(e.appendContent(nil, l, e.Transpose(l, rows), nil)); got > most {
			t.Errorf("%s: %d bytes, want at most %d", name, got, most)
		}
	}
}

// FORMAT.md has the largest symbol, and an example of medians.
func TestFormat(t *testing.T) {
	text := must.Get(os.ReadFile("../../FORMAT.md"))(t)
	differences := []int64{100, 2, 98, 1, -1, 0}
	vals := make([]uint64, len(differences))
	for i, d := range differences {
		vals[i] = Zigzag(d)
	}
	addMedians(vals)
	list := func(numbers any) string {
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
	}
	for _, want := range []string{fmt.Sprintf("largest symbol is %d", lastSymbol), "d = " + list(differences) + " gives s = " + list(vals)} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

// Each relation gives the numbers that FORMAT.md defines, and the values come back from them.
func TestRelations(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 9))
	for name, shape := range shapes {
		for _, n := range []int{1, 2, 5, 6, 7, 300} {
			vals, dur := make([]uint64, n), make([]uint64, n)
			for i := range vals {
				vals[i], dur[i] = shape(rnd, i), rnd.Uint64()>>rnd.IntN(64)
			}
			for _, rel := range timeRelations {
				got := make([]uint64, n)
				relate(got, vals, dur, rel)
				for i := range vals {
					if d := difference(vals, dur, rel, i); rel == relNone && got[i] != d || rel != relNone && got[i] != Zigzag(int64(d)) {
						t.Fatalf("%s: relation %#x gives %#x in row %d, not that of %#x", name, rel, got[i], i, d)
					}
				}
				unrelate(got, Column{Numbers: dur, Mask: -1}, rel)
				if !slices.Equal(got, vals) {
					t.Fatalf("%s: relation %#x does not give the %d values back", name, rel, n)
				}
			}
		}
	}
}

// difference is d(i) of FORMAT.md.
func difference(vals, dur []uint64, rel byte, i int) uint64 {
	at := func(list []uint64, i int) uint64 {
		if i < 0 {
			return 0
		}
		return list[i]
	}
	base := func(i int) uint64 {
		switch rel &^ relMedian {
		case relDelta:
			return at(vals, i-1)
		case relDelta2:
			return 2*at(vals, i-1) - at(vals, i-2)
		case relGap:
			return at(vals, i-1) + at(dur, i-1)
		}
		return 0
	}
	d := vals[i] - base(i)
	if rel&relMedian == 0 {
		return d
	}
	var before []int64
	for k := i - 5; k < i; k++ {
		s := int64(0)
		if k >= 0 {
			s = int64(vals[k] - base(k))
		}
		before = append(before, s)
	}
	slices.Sort(before)
	return d - uint64(before[2])
}

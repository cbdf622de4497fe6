package deflate

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// compress gives the data to a Compressor in pieces of some bytes.
func compress(c *Compressor, data []byte, piece int) []byte {
	var out []byte
	for from := 0; ; from += piece {
		to := min(from+piece, len(data))
		out = c.Append(out, data[:to], from, to == len(data))
		if to == len(data) {
			return out
		}
	}
}

func roundTrip(tb testing.TB, c *Compressor, data []byte, piece int) []byte {
	tb.Helper()
	out := compress(c, data, piece)
	r := bytes.NewReader(out)
	got, err := io.ReadAll(flate.NewReader(r))
	if err != nil || !bytes.Equal(got, data) || r.Len() > 0 {
		tb.Fatalf("%d bytes in pieces of %d: %d come back, %d are left over, %v", len(data), piece, len(got), r.Len(), err)
	}
	return out
}

// packets are like those of a trace: a few kinds, and three numbers that differ.
func packets(n int) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	kinds := make([][]byte, 40)
	for i := range kinds {
		kinds[i] = make([]byte, 60)
		for j := range kinds[i] {
			kinds[i][j] = byte(j)
		}
		copy(kinds[i][20:], binary.AppendUvarint(nil, uint64(i*i*1000)))
	}
	var b []byte
	for i := range n {
		b = append(b, kinds[i%len(kinds)]...)
		b = binary.AppendUvarint(append(b, 8), uint64(100_000+2*i))
		b = binary.AppendUvarint(append(b, 24), uint64(100_000+2*i))
		b = binary.AppendUvarint(append(b, 64), 2000+r.Uint64N(700))
	}
	return b
}

// trace is packets with their tags and lengths, as Perfetto frames them: some shapes in turns, of several lengths.
func trace(n int) []byte {
	r := rand.New(rand.NewPCG(7, 8))
	var b, p []byte
	for i := range n {
		p = append(p[:0], sequenceTag, 9)
		for j := range 40 + i%3*30 {
			p = append(p, byte(j))
		}
		copy(p[20:], binary.AppendUvarint(nil, uint64(1<<14+i%24*100)))
		p = binary.AppendUvarint(append(p, 0x20), uint64(200_000+i))
		p = binary.AppendUvarint(append(p, 0x1a, 2, 0x20), 10*(10+r.Uint64N(90)))
		p = binary.AppendUvarint(append(p, 8), uint64(200_000+i))
		p = binary.AppendUvarint(append(p, 0x40), 2000+r.Uint64N(700))
		if i%500 == 0 {
			p = append(p, random(300)...)
		}
		b = binary.AppendUvarint(append(b, packetTag), uint64(len(p)))
		b = append(b, p...)
	}
	return b
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	noise := random(Window + 70_000)
	far := func(distance int) []byte { // a match at a distance and nowhere else
		b := append([]byte(nil), noise[:distance]...)
		return append(b, b[:40]...)
	}
	cases := map[string][]byte{
		"empty":              nil,
		"one byte":           {7},
		"seven bytes":        []byte("abababa"),
		"eight bytes":        []byte("abababab"),
		"zeros":              make([]byte, 1<<20),
		"noise":              noise,
		"packets":            packets(40_000),
		"a trace":            trace(20_000),
		"a trace cut short":  trace(200)[:9999],
		"a trace in noise":   append(append(append([]byte(nil), noise...), trace(3000)...), noise...),
		"false packets":      bytes.Repeat([]byte{packetTag, 6, sequenceTag, 1, 2, 3, 4, 5}, 5000),
		"a packet too long":  append(trace(10), packetTag, 0xff, 0xff, 0x7f, sequenceTag, 1, 2, 3, 4, 5, 6, 7, 8),
		"packets in noise":   append(append(append([]byte(nil), noise...), packets(3000)...), noise...),
		"the longest match":  append(append(append([]byte(nil), noise[:maxMatch]...), 0), noise[:maxMatch]...),
		"longer than that":   append(append(append([]byte(nil), noise[:1000]...), 0), noise[:1000]...),
		"as far as may be":   far(Window),
		"farther":            far(Window + 1),
		"two bytes in turns": bytes.Repeat([]byte{1, 2}, 50_000),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := new(Compressor)
			for _, piece := range []int{1 << 20, 100_000, Window, 1021, 3} {
				if len(data)/piece < 300 {
					roundTrip(t, c, data, piece)
				}
			}
		})
	}
}

// TestBrokenPackets compresses traces with wrong bytes, among them tags and lengths.
func TestBrokenPackets(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	c := new(Compressor)
	for range 50 {
		data := trace(300)
		for range 1 + r.IntN(20) {
			data[r.IntN(len(data))] = byte(r.Uint32())
		}
		roundTrip(t, c, data[:r.IntN(len(data))], 1000+r.IntN(40_000))
	}
}

// TestSize holds what this package is for, beside Go's own compressor at its best, and that what
// can't be made smaller hardly grows.
func TestSize(t *testing.T) {
	t.Parallel()
	data := packets(100_000)
	var theirs bytes.Buffer
	w, err := flate.NewWriter(&theirs, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	ours := roundTrip(t, new(Compressor), data, 1<<20)
	if len(ours) > theirs.Len()*97/100 {
		t.Errorf("%d bytes become %d; Go's compressor makes %d of them", len(data), len(ours), theirs.Len())
	}
	framed := trace(100_000)
	out := roundTrip(t, new(Compressor), framed, 1<<20)
	plain := roundTrip(t, new(Compressor), append([]byte(strings.Repeat("no packet", syncBytes)), framed...), 10<<20)
	if len(out) > len(plain)*97/100 {
		t.Errorf("%d bytes of packets become %d, and %d where the first packet is not found", len(framed), len(out), len(plain))
	}
	if len(out) > 1_090_000 {
		t.Errorf("%d bytes of packets become %d: they took 1,115,000 before the matches at their ends were chosen by price, and 1,083,000 with it", len(framed), len(out))
	}
	noise := random(1 << 20)
	if out := roundTrip(t, new(Compressor), noise, len(noise)); len(out) > len(noise)+len(noise)/1000 {
		t.Errorf("%d bytes of noise become %d", len(noise), len(out))
	}
}

// TestSame has the result depend on the data alone, not on what was compressed before.
func TestSame(t *testing.T) {
	t.Parallel()
	data, used := packets(5000), new(Compressor)
	compress(used, random(300_000), 50_000)
	if !bytes.Equal(compress(used, data, 70_000), compress(new(Compressor), data, 70_000)) {
		t.Error("a compressor that was used before compresses otherwise")
	}
}

// TestCodes makes codes of all sorts of counts: they are complete, as strict readers want, no word
// is too long, and none of a frequent symbol is longer than that of a rarer one.
func TestCodes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var c code
	for round := range 5000 {
		counts := make([]uint32, 2+r.IntN(literals-2))
		steep := r.Float64() * 2
		last := 1.0
		for s := range counts {
			switch last *= steep; {
			case round%3 == 0:
				counts[s] = uint32(min(last, 1e9)) // Fibonacci's numbers and worse
			case r.IntN(4) > 0:
				counts[s] = r.Uint32N(1 << r.IntN(20))
			}
		}
		limit := maxWord
		if len(counts) <= codeSymbols {
			limit = lengthLimit
		}
		c.make(counts, limit)
		room := 1 << limit
		for s, n := range c.lengths {
			if int(n) > limit || counts[s] > 0 && n == 0 {
				t.Fatalf("%v: symbol %d has %d bits", counts, s, n)
			}
			if n > 0 {
				room -= 1 << (limit - int(n))
			}
			for o, m := range c.lengths {
				if counts[s] > counts[o] && counts[o] > 0 && n > m {
					t.Fatalf("%v: %d has more bits than %d", counts, s, o)
				}
			}
		}
		if room != 0 {
			t.Fatalf("%v: the code is not complete", counts)
		}
	}
}

func FuzzAppend(f *testing.F) {
	f.Add(packets(100), uint16(1000))
	f.Add(trace(100), uint16(1000))
	f.Add(random(500), uint16(7))
	f.Add(make([]byte, 3000), uint16(2999))
	c := new(Compressor)
	f.Fuzz(func(t *testing.T, data []byte, piece uint16) {
		roundTrip(t, c, data, max(int(piece), len(data)/50)+1)
	})
}

func BenchmarkAppend(b *testing.B) {
	data, c := packets(100_000), new(Compressor)
	var out []byte
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		out = c.Append(out[:0], data, 0, true)
	}
	b.ReportMetric(float64(len(out))/100_000, "B/packet")
}

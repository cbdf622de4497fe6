package output

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// trace returns bytes that compress: packets that differ in a few bytes, as those of a trace do.
func trace(n int) []byte {
	rnd := rand.New(rand.NewPCG(3, uint64(n)))
	packet := make([]byte, 40)
	data := make([]byte, 0, n+len(packet))
	for len(data) < n {
		for range 3 {
			packet[rnd.IntN(len(packet))] = byte(rnd.Uint32())
		}
		data = append(data, packet...)
	}
	return data[:n]
}

// noise returns bytes that do not compress.
func noise(n int) []byte {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return data
}

// written writes data in pieces and returns what arrives.
func written(t testing.TB, c Compression, data []byte, piece int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := c.NewWriter(&out)
	for rest := data; len(rest) > 0; {
		n := min(piece, len(rest))
		if got, err := w.Write(rest[:n]); err != nil || got != n {
			t.Fatalf("Write of %d bytes takes %d: %v", n, got, err)
		}
		rest = rest[n:]
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

// unzipped reads a stream of one member with nothing behind it.
func unzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	in := bytes.NewReader(data)
	z := must.Get(gzip.NewReader(in))(t)
	z.Multistream(false)
	plain, err := io.ReadAll(z)
	if err != nil || in.Len() != 0 {
		t.Fatalf("%d bytes stand behind the stream, %v", in.Len(), err)
	}
	return plain
}

// sizes are those around the ends of what writers collect.
var sizes = []int{
	0, 1, plainPiece/2 - 1, plainPiece / 2, plainPiece - 1, plainPiece, plainPiece + 1, 3*plainPiece + 7,
	gzipBlock - 1, gzipBlock, gzipBlock + 1, 2*gzipBlock + gzipWindow + 3,
}

// Whatever the sizes of writes, what is read is what was written, and a compressed trace has
// the same bytes.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			data := trace(size)
			whole := written(t, Gzip, data, size+1)
			if !bytes.Equal(unzipped(t, whole), data) {
				t.Error("what was compressed reads otherwise")
			}
			for _, piece := range []int{1000, plainPiece/2 - 1, gzipBlock + 1} {
				if !bytes.Equal(written(t, Gzip, data, piece), whole) {
					t.Errorf("compressed in pieces of %d bytes the trace is another", piece)
				}
				if !bytes.Equal(written(t, None, data, piece), data) {
					t.Errorf("in pieces of %d bytes the trace is another", piece)
				}
			}
			if len(whole) > size*3/4 && size > 1000 {
				t.Errorf("%d bytes are compressed to %d", size, len(whole))
			}
		})
	}
}

// A sink notes the sizes of writes and fails behind some bytes.
type sink struct {
	room   int
	writes []int
	failed bool
	after  int // number of writes after the first that failed
}

var errFull = errors.New("the disk is full")

func (s *sink) Write(p []byte) (int, error) {
	s.writes = append(s.writes, len(p))
	if s.failed {
		s.after++
	}
	if len(p) > s.room {
		s.failed = true
		return s.room, errFull
	}
	s.room -= len(p)
	return len(p), nil
}

// An uncompressed trace is written in large pieces: small ones are collected, and large ones
// are not.
func TestPlainPieces(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ give, want []int }{
		"nothing":                         {nil, nil},
		"an empty one":                    {[]int{0}, nil},
		"a small one":                     {[]int{5}, []int{5}},
		"small ones":                      {[]int{5, 6, 7}, []int{18}},
		"a large one":                     {[]int{plainPiece / 2}, []int{plainPiece / 2}},
		"a large one after small ones":    {[]int{5, 6, plainPiece / 2, 7}, []int{11, plainPiece / 2, 7}},
		"small ones, exactly a piece":     {[]int{plainPiece/2 - 1, plainPiece/2 - 1, 2}, []int{plainPiece}},
		"small ones, more than a piece":   {[]int{plainPiece/2 - 1, plainPiece/2 - 1, 3}, []int{plainPiece - 2, 3}},
		"a very large one, between small": {[]int{1, 10 * plainPiece, 1}, []int{1, 10 * plainPiece, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &sink{room: 1 << 30}
			w := None.NewWriter(s)
			for _, n := range c.give {
				must.Get(w.Write(make([]byte, n)))(t)
			}
			if err := w.Close(); err != nil || fmt.Sprint(s.writes) != fmt.Sprint(c.want) {
				t.Errorf("pieces of %d bytes are written, want %d; %v", s.writes, c.want, err)
			}
		})
	}
}

// The first failure is known at the latest when the trace ends, and nothing is written after
// it.
func TestFailingWriter(t *testing.T) {
	t.Parallel()
	for _, how := range []Compression{Gzip, None} {
		for _, room := range []int{0, 9, 10, 100_000} {
			t.Run(fmt.Sprint(how, " with room for ", room), func(t *testing.T) {
				t.Parallel()
				s := &sink{room: room}
				w := how.NewWriter(s)
				data := noise(gzipBlock)
				for range runtime.GOMAXPROCS(0) + 5 { // more than are on their way at once
					if _, err := w.Write(data); err != nil && !errors.Is(err, errFull) {
						t.Fatalf("Write fails with %v", err)
					}
				}
				if _, err := w.Write(data); !errors.Is(err, errFull) {
					t.Errorf("Write returns %v long after the failure", err)
				}
				if err := w.Close(); !errors.Is(err, errFull) {
					t.Errorf("Close returns %v", err)
				}
				if s.after > 0 {
					t.Errorf("%d writes follow the one that failed", s.after)
				}
			})
		}
	}
}

// A failure with the last bytes fails Close.
func TestFailingClose(t *testing.T) {
	t.Parallel()
	data := trace(1000)
	for _, how := range []Compression{Gzip, None} {
		whole := written(t, how, data, len(data))
		w := how.NewWriter(&sink{room: len(whole) - 1})
		if _, err := w.Write(data); err != nil {
			t.Errorf("%s: Write fails with %v", how, err)
		}
		if err := w.Close(); !errors.Is(err, errFull) {
			t.Errorf("%s: Close returns %v", how, err)
		}
	}
}

func TestPieceBytes(t *testing.T) {
	t.Parallel()
	if g, n := Gzip.PieceBytes(), None.PieceBytes(); g != 0 || n != plainPiece {
		t.Errorf("pieces of %d bytes compressed, %d uncompressed", g, n)
	}
}

package elfsym

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestInBlocks reads pieces of any place and size: they are those of the file, with the same errors.
func TestInBlocks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	file := make([]byte, 3*blockSize+100)
	for i := range file {
		file[i] = byte(random.Uint32())
	}
	whole := bytes.NewReader(file)
	cut := InBlocks(whole)
	for range 2000 {
		at := random.Int64N(int64(len(file)) + blockSize)
		want, got := make([]byte, random.IntN(2*blockSize)+1), make([]byte, 2*blockSize)
		got = got[:len(want)]
		n, err := whole.ReadAt(want, at)
		if m, gotErr := cut.ReadAt(got, at); m != n || gotErr != err || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes at %d: %d and %v, want %d and %v", len(want), at, m, gotErr, n, err)
		}
	}
}

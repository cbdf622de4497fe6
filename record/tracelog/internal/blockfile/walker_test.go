package blockfile

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// blocks is a file of n blocks, each with its number as payload.
func blocks(n int) []byte {
	file := AppendFileHeader(nil, Current)
	for seq := range uint32(n) {
		file = AppendBlock(file, Records, seq, fmt.Append(nil, "block ", seq))
	}
	return file
}

// The time to read a file made of misleading headers grows with its size only.
func TestMisleadingHeaders(t *testing.T) {
	t.Parallel()
	file := AppendFileHeader(nil, Current)
	for range 20_000 {
		file = append(file, make([]byte, HeaderSize)...)
		Header{Type: Records, Length: 1 << 20}.put(file[len(file)-HeaderSize:])
	}
	w := NewWalker(NewSource(bytes.NewReader(file), int64(len(file))))
	var b Block
	for w.Next(&b); !b.End; w.Next(&b) {
		t.Fatalf("there is a block at %d", b.Offset)
	}
	if len(b.Faults) == 0 {
		t.Error("nothing is said of it")
	}
	if w.wasted > w.mostWasted()+schema.MaxPayload {
		t.Errorf("%d bytes were read in vain of a file of %d", w.wasted, len(file))
	}
}

// A growingFile has as many bytes as have been written to it.
type growingFile struct{ bytes.Buffer }

func (g *growingFile) ReadAt(b []byte, off int64) (int, error) {
	return bytes.NewReader(g.Bytes()).ReadAt(b, off)
}

func (g *growingFile) Size() int64 { return int64(g.Len()) }

// gather goes through the blocks that are there and returns their payloads.
func gather(w *Walker) (payloads []string, end Block) {
	for {
		if w.Next(&end); end.End {
			return payloads, end
		}
		payloads = append(payloads, string(end.Payload))
	}
}

// A walker through a growing file gives each block once, as soon as its last byte is there,
// and finds no fault with what is unfinished, whatever the bytes between two looks.
func TestGrowingFile(t *testing.T) {
	t.Parallel()
	whole := blocks(5)
	footer := len(whole)
	whole = AppendBlock(whole, Footer, 5, []byte("footer"))
	whole = AppendTrailer(whole, uint64(footer))
	for step := 1; step < 50; step++ {
		var file growingFile
		file.Write(whole[:FileHeaderSize])
		src := NewSource(&file, file.Size())
		must.Do(t, src.SetGrowing())
		w := NewWalker(src)
		found := 0
		for at := FileHeaderSize; at < len(whole); at += step {
			file.Write(whole[at:min(at+step, len(whole))])
			payloads, end := gather(w)
			found += len(payloads)
			want := 0
			for rest := whole[FileHeaderSize:file.Len()]; len(rest) >= HeaderSize && want < 6; want++ {
				h, _ := ParseHeader(rest)
				if int64(len(rest)) < h.Size() {
					break
				}
				rest = rest[h.Size():]
			}
			complete := file.Len() == len(whole)
			if found != want || end.Open == complete || len(end.Faults) > 0 || end.Err != nil {
				t.Fatalf("in steps of %d, at byte %d of %d: %d blocks, want %d; %+v", step, file.Len(), len(whole), found, want, end)
			}
		}
		if src.BytesRead() > int64(len(whole))+HeaderSize*int64(2+len(whole)/step) {
			t.Errorf("in steps of %d: %d bytes were read of a file of %d", step, src.BytesRead(), len(whole))
		}
	}
}

// Damage in a growing file is reported when a block follows it, and a block that becomes
// right meanwhile is none.
func TestGrowingDamage(t *testing.T) {
	t.Parallel()
	whole := blocks(4)
	size := (len(whole) - FileHeaderSize) / 4
	third := FileHeaderSize + 2*size
	for _, at := range []int{third, third + 12, third + HeaderSize} { // marker, length, payload
		for _, mend := range []bool{false, true} {
			var file growingFile
			file.Write(whole[:third+size])
			file.Bytes()[at] ^= 1
			src := NewSource(&file, file.Size())
			must.Do(t, src.SetGrowing())
			w := NewWalker(src)
			if payloads, end := gather(w); len(payloads) != 2 || len(end.Faults) > 0 || !end.Open {
				t.Errorf("byte %d: %q, %+v", at, payloads, end)
			}
			want, faults := 1, 1
			if mend {
				file.Bytes()[at] ^= 1
				want, faults = 2, 0
			}
			file.Write(whole[third+size:])
			var b Block
			if w.Next(&b); len(b.Faults) != faults {
				t.Errorf("byte %d, mended %v: faults %+v", at, mend, b.Faults)
			}
			if rest, _ := gather(w); len(rest) != want-1 {
				t.Errorf("byte %d, mended %v: %q more", at, mend, rest)
			}
		}
	}
}

// A file that becomes shorter is an error.
func TestShrunkFile(t *testing.T) {
	t.Parallel()
	var file growingFile
	file.Write(blocks(2))
	src := NewSource(&file, file.Size())
	must.Do(t, src.SetGrowing())
	w := NewWalker(src)
	gather(w)
	file.Truncate(20)
	if _, end := gather(w); end.Err == nil || end.Open {
		t.Errorf("%+v", end)
	}
}

// A file that cannot tell how long it is cannot be followed.
func TestCannotFollow(t *testing.T) {
	file := struct{ *blindFile }{}
	if err := NewSource(file, 0).SetGrowing(); err == nil {
		t.Error("no error")
	}
}

type blindFile struct{}

func (*blindFile) ReadAt([]byte, int64) (int, error) { return 0, nil }

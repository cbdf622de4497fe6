// Package output writes files: compressed on all processors, under a temporary name until they
// are complete, or up to a size limit. Bytes go in; a file comes out.
package output

import "io"

// A Compression is how a trace is compressed.
type Compression string

// The compressions.
const (
	Gzip Compression = "gzip"
	None Compression = "none"
)

// plainPiece is the size of the pieces in which an uncompressed trace is written.
const plainPiece = 64 << 10

// PieceBytes is the number of bytes of events of one kind that should stand together in a
// trace; 0 means the size that compresses best.
func (c Compression) PieceBytes() int {
	if c == None {
		return plainPiece
	}
	return 0
}

// NewWriter returns a writer that compresses a trace and writes it to w. Its Close ends the
// trace but does not close w.
func (c Compression) NewWriter(w io.Writer) io.WriteCloser {
	if c == None {
		return &plainWriter{w: w, buffer: make([]byte, 0, plainPiece)}
	}
	return newGzipWriter(w)
}

// A plainWriter collects small writes, and passes large ones on without a copy.
type plainWriter struct {
	w      io.Writer
	buffer []byte
	err    error
}

func (p *plainWriter) Write(b []byte) (int, error) {
	if len(b) > cap(p.buffer)-len(p.buffer) {
		p.flush()
	}
	if len(b) < cap(p.buffer)/2 {
		p.buffer = append(p.buffer, b...)
	} else {
		p.flush()
		p.write(b)
	}
	if p.err != nil {
		return 0, p.err
	}
	return len(b), nil
}

func (p *plainWriter) flush() {
	if len(p.buffer) > 0 {
		p.write(p.buffer)
		p.buffer = p.buffer[:0]
	}
}

func (p *plainWriter) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
}

func (p *plainWriter) Close() error {
	p.flush()
	return p.err
}

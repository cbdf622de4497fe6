// Package output writes files. In go bytes; out comes a file, compressed on all processors.
// It has a temporary name until it is complete. A Limit breaks off what grows too large.
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

// PieceBytes is how much of the events of one sort is to stand together in a trace: 0
// for what compresses best.
func (c Compression) PieceBytes() int {
	if c == None {
		return plainPiece
	}
	return 0
}

// NewWriter returns what compresses a trace on its way to w. Its Close ends the trace and
// does not close w.
func (c Compression) NewWriter(w io.Writer) io.WriteCloser {
	if c == None {
		return &plainWriter{w: w, buffer: make([]byte, 0, plainPiece)}
	}
	return newGzipWriter(w)
}

// A plainWriter collects what is small, and passes large pieces on without a copy.
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

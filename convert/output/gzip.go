package output

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/flate"
)

// A gzipWriter writes one gzip stream whose parts are compressed in parallel. The stream is a
// single member, which every reader takes: each part ends at a byte (RFC 1951, 3.2.4) and may
// refer to the 32 KiB before it. The bytes depend on the data only.
type gzipWriter struct {
	w     io.Writer
	block []byte // the block that is being filled; it begins with the end of the block before
	from  int    // index of the block's own bytes
	parts chan *gzipPart
	work  chan *gzipPart
	idle  sync.WaitGroup // waits for the compressing goroutines
	done  chan struct{}  // closed when the last part has been written
	pool  sync.Pool

	mu   sync.Mutex
	err  error // of w
	size uint32
	sum  uint32
}

// A gzipPart is a block that is being compressed.
type gzipPart struct {
	block []byte
	from  int
	last  bool
	out   bytes.Buffer
	ready chan struct{}
}

const (
	gzipBlock  = 1 << 20
	gzipWindow = 32 << 10 // the largest distance of a match (RFC 1951, 3.2.5)

	// gzipLevel trades time for bytes: docs/performance.md has the figures of each level.
	gzipLevel = 5
)

// gzipHeader declares: deflate, no name, no time, unknown system (RFC 1952, 2.3).
var gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255}

func newGzipWriter(w io.Writer) *gzipWriter {
	workers := runtime.GOMAXPROCS(0)
	g := &gzipWriter{
		w:     w,
		parts: make(chan *gzipPart, workers+1),
		work:  make(chan *gzipPart, workers+1),
		done:  make(chan struct{}),
	}
	g.block = make([]byte, 0, gzipWindow+gzipBlock)
	for range workers {
		g.idle.Go(g.compress)
	}
	go g.write()
	return g
}

// Write takes p. An error may come from an earlier part.
func (g *gzipWriter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		n := min(len(p), g.from+gzipBlock-len(g.block))
		g.block = append(g.block, p[:n]...)
		if p = p[n:]; len(g.block) == g.from+gzipBlock {
			g.submit(false)
		}
	}
	return written, g.failure()
}

func (g *gzipWriter) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// submit passes the block to a compressing goroutine and begins the next block.
func (g *gzipWriter) submit(last bool) {
	p, _ := g.pool.Get().(*gzipPart)
	if p == nil {
		p = &gzipPart{block: make([]byte, 0, gzipWindow+gzipBlock), ready: make(chan struct{}, 1)}
	}
	next := p.block[:0]
	p.block, p.from, p.last = g.block, g.from, last
	window := g.block[max(0, len(g.block)-gzipWindow):]
	g.block = append(next, window...)
	g.from = len(g.block)
	g.parts <- p
	g.work <- p
}

// compress compresses parts until the channel is closed.
func (g *gzipWriter) compress() {
	z, err := flate.NewWriter(io.Discard, gzipLevel)
	if err != nil {
		panic(err) // the level is a constant
	}
	for p := range g.work {
		p.out.Reset()
		z.ResetDict(&p.out, p.block[:p.from])
		_, _ = z.Write(p.block[p.from:]) // a bytes.Buffer takes all
		if p.last {
			_ = z.Close()
		} else {
			_ = z.Flush()
		}
		p.ready <- struct{}{}
	}
}

// write writes the parts in order.
func (g *gzipWriter) write() {
	defer close(g.done)
	g.put(gzipHeader)
	for p := range g.parts {
		<-p.ready
		own := p.block[p.from:]
		g.sum = crc32.Update(g.sum, crc32.IEEETable, own)
		g.size += uint32(len(own))
		g.put(p.out.Bytes())
		last := p.last
		g.pool.Put(p)
		if last {
			var tail [8]byte
			binary.LittleEndian.PutUint32(tail[:], g.sum)
			binary.LittleEndian.PutUint32(tail[4:], g.size)
			g.put(tail[:])
			return
		}
	}
}

// put writes bytes unless an earlier write failed.
func (g *gzipWriter) put(b []byte) {
	if g.failure() != nil {
		return
	}
	if _, err := g.w.Write(b); err != nil {
		g.mu.Lock()
		g.err = err
		g.mu.Unlock()
	}
}

// Close writes the rest and the end of the stream. It does not close the underlying writer.
func (g *gzipWriter) Close() error {
	g.submit(true)
	close(g.work)
	g.idle.Wait()
	<-g.done
	close(g.parts)
	return g.failure()
}

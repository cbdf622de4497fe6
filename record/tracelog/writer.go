package tracelog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Options of a Writer. The zero value is right for a recorder.
type Options struct {
	RowsPerBlock   int // records at which a block is written; 0 is 8192
	MaxOpen        int // open blocks; 0 is 4096
	MaxMemory      int // bytes of records in open blocks; 0 is 64 MiB
	MaxStrings     int // 0 is the limit of the format
	MaxStringBytes int // 0 is the limit of the format
}

func (o Options) withDefaults() Options {
	def := func(v *int, standard, most int) {
		if *v <= 0 {
			*v = standard
		}
		*v = min(*v, most)
	}
	def(&o.RowsPerBlock, 8192, MaxRows)
	def(&o.MaxOpen, 4096, 1<<20)
	def(&o.MaxMemory, 64<<20, 1<<40)
	def(&o.MaxStrings, MaxStrings, MaxStrings)
	def(&o.MaxStringBytes, MaxStringBytes, MaxStringBytes)
	return o
}

// A Writer writes a log. Records are kept in open blocks, one for each kind, process
// and thread or stream, until a block is full or Flush; then they go to the file. All
// methods may be called from any goroutine.
//
// When the file cannot be written (a full disk), the writer keeps the error, drops
// what it has and gets from then on, and counts it; nothing blocks and nothing panics.
type Writer struct {
	mu      sync.Mutex
	opt     Options
	name    string
	out     io.Writer
	close   func() error
	err     error
	closed  bool
	dropped [256]uint64 // by kind

	enc     *encoder
	in      interner
	open    map[groupKey]*group
	recent  [recentGroups]*group
	order   []*group // open blocks in the order in which they were opened
	held    int      // bytes of memory of their rows
	defines int      // rows of open blocks that other records refer to

	off    int64  // bytes of the log, those in buf included
	seq    uint32 // of the next block
	buf    []byte // blocks not yet written
	queued []queued
	table  []byte // the table being made
	index  footerIndex
}

// A queued block is one in Writer.buf.
type queued struct {
	end  int // in Writer.buf
	kind Kind
	rows uint64
}

// Create makes the log file at path, which must not exist, and writes its
// beginning. The file's name while it is written, and its renaming, are the caller's.
func Create(path string, o Options) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, createError(path, err)
	}
	w, err := newWriter(f, path, o)
	if err != nil {
		f.Close()
		os.Remove(path)
		return nil, err
	}
	w.close = f.Close
	return w, nil
}

// createError says what stands in the way of a new file and what to do about it.
func createError(path string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ELOOP):
		remedy = " (remove it or choose another name)"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		remedy = " (choose a folder that you can write to)"
	case errors.Is(err, syscall.ENOENT):
		remedy = " (make its folder first)"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = " (make room or choose another folder)"
	}
	return fmt.Errorf("cannot create the log %s: %w%s", path, bareRead(err), remedy)
}

// NewWriter writes a log to out, beginning at once.
func NewWriter(out io.Writer, o Options) (*Writer, error) {
	return newWriter(out, "the log", o)
}

func newWriter(out io.Writer, name string, o Options) (*Writer, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	w := &Writer{opt: o, name: name, out: out, enc: enc,
		in: newInterner(o.MaxStrings, o.MaxStringBytes), open: make(map[groupKey]*group)}
	w.buf = appendHeader(w.buf)
	w.off = headerSize
	w.block(blockSchema, w.enc.appendSchema(nil, tables))
	w.emit()
	return w, w.err
}

// begin takes the lock and reports whether a record can be taken; else it is counted.
func (w *Writer) begin(k Kind) bool {
	w.mu.Lock()
	if w.err == nil && !w.closed {
		return true
	}
	w.dropped[k]++
	return false
}

// Err returns the error that stopped the writing, nil while all is well.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Size returns the bytes of log written so far.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off - int64(len(w.buf))
}

// Dropped returns the number of records that did not reach the file, by kind. It
// is nil when nothing is missing. Records still in open blocks do not count.
func (w *Writer) Dropped() map[Kind]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var m map[Kind]uint64
	for k, n := range w.dropped {
		if n == 0 || Kind(k) == KindString {
			continue
		}
		if m == nil {
			m = make(map[Kind]uint64)
		}
		m[Kind(k)] = n
	}
	return m
}

// Flush writes all records given so far.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.forget()
	w.sealAll()
	w.emit()
	return w.err
}

// Close writes what is left, the End record, the index and the footer, and closes
// the file. Where texts could not be kept it adds a Lost record and makes the log
// incomplete. A second Close does nothing.
func (w *Writer) Close(end End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	if w.err == nil {
		w.finish(end)
	}
	w.closed = true
	w.discard()
	if w.close != nil {
		if err := w.close(); err != nil && w.err == nil {
			w.fail(err)
		}
	}
	return w.err
}

func (w *Writer) finish(end End) {
	var r row
	w.in.useReserve()
	if w.in.lost > 0 {
		lost := Lost{Cause: LostStrings, Count: w.in.lost}
		lost.row(&r, &w.in)
		w.add(KindLost, &r)
		if end.Complete != 0 {
			end.Complete, end.Reason = 0, "texts were too many or too long to be kept"
		}
	}
	w.sealAll()
	end.row(&r, &w.in)
	w.add(KindEnd, &r)
	w.sealAll()
	w.footer()
	w.emit()
}

// block appends a block to the buffer. A failed writer makes none.
func (w *Writer) block(kind uint8, payload []byte) {
	if w.err != nil {
		return
	}
	start := len(w.buf)
	w.buf = append(w.buf, make([]byte, blockHeaderSize)...)
	w.buf = append(w.buf, payload...)
	h := blockHeader{kind: kind, seq: w.seq, length: uint32(len(payload)), crc: checksum(payload)}
	h.put(w.buf[start:])
	w.seq++
	w.off += int64(len(w.buf) - start)
}

// emit writes the buffer to the file.
func (w *Writer) emit() {
	if w.err != nil || len(w.buf) == 0 {
		return
	}
	n, err := w.out.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.fail(err)
		w.lose(n)
		w.discard()
	}
	w.buf, w.queued = w.buf[:0], w.queued[:0]
}

// fail keeps the error that ends the writing.
func (w *Writer) fail(err error) {
	remedy := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = " (make room or choose another folder)"
	}
	w.err = fmt.Errorf("cannot write %s: %w%s", w.name, bareRead(err), remedy)
}

// lose counts the queued blocks of which not all bytes are among the first n written.
func (w *Writer) lose(n int) {
	for _, q := range w.queued {
		if q.end > n {
			w.dropped[q.kind] += q.rows
		}
	}
	w.off -= int64(len(w.buf) - n)
}

// discard drops and counts what is in open blocks, and frees them.
func (w *Writer) discard() {
	for _, g := range w.order {
		w.dropped[g.layout.Kind] += uint64(g.rows())
	}
	w.open, w.order, w.held, w.defines = make(map[groupKey]*group), nil, 0, 0
	clear(w.recent[:])
	w.in.forget()
}

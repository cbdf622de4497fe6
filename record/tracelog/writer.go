package tracelog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
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
	def(&o.RowsPerBlock, 8192, schema.MaxRows)
	def(&o.MaxOpen, 4096, 1<<20)
	def(&o.MaxMemory, 64<<20, 1<<40)
	def(&o.MaxStrings, schema.MaxStrings, schema.MaxStrings)
	def(&o.MaxStringBytes, schema.MaxStringBytes, schema.MaxStringBytes)
	return o
}

// A Writer writes a log. Records are kept in open blocks, one for each kind, process
// and thread or stream, until a block is full or Flush; then they go to the file. All
// methods may be called from any goroutine.
//
// While the file cannot be written (a full disk), the writer keeps what it has up to a
// limit and tries again with every Flush. Beyond the limit it drops and counts whole
// blocks before they get a place in the log. So the log goes on where it was once
// there is room, without a gap, and says how much is missing. Nothing panics.
type Writer struct {
	mu      sync.Mutex
	opt     Options
	name    string
	out     io.Writer
	close   func() error
	err     error // of the last write, nil when it went well
	closed  bool
	dropped [256]uint64 // by kind
	missing span        // the time of what was dropped

	enc     *encoder
	in      interner
	row     row // the record being added
	open    map[groupKey]*group
	recent  [recentGroups]*group
	order   []*group // open blocks in the order in which they were opened
	held    int      // bytes of memory of their columns
	rows    uint64   // records so far
	defines int      // rows of open blocks that other records refer to

	off    int64  // bytes of the log, those in buf included
	seq    uint32 // of the next block
	buf    []byte // blocks not yet written
	due    int    // length of buf at which it is written
	queued []queued
	table  []byte // the table being made
	index  footerIndex
}

// A queued block is one in Writer.buf.
type queued struct {
	end  int // in Writer.buf
	kind Kind
	rows uint64
	time span
}

// flushSize is the number of bytes of finished blocks that are written together.
const flushSize = 128 << 10

// maxBacklog is the number of bytes that wait for a file that cannot be written.
const maxBacklog = 8 << 20

// backlog is that number for the records of a table. What other records refer to,
// and what says how complete the log is, is dropped last.
func backlog(l *schema.Layout) int {
	if l.Role == schema.Event {
		return maxBacklog
	}
	return 4 * maxBacklog
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
	case errors.Is(err, syscall.ENOTDIR):
		remedy = " (choose another folder)"
	case errors.Is(err, syscall.ENAMETOOLONG):
		remedy = " (choose a shorter name)"
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
	w, err := emptyWriter(out, name, o)
	if err != nil {
		return nil, err
	}
	w.buf = appendHeader(w.buf, VersionMinor)
	w.off = headerSize
	w.block(blockSchema, w.enc.appendSchema(nil, schema.Records()))
	w.emit()
	return w, w.err
}

// emptyWriter is a writer of nothing yet.
func emptyWriter(out io.Writer, name string, o Options) (*Writer, error) {
	enc, err := newEncoder()
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	return &Writer{opt: o, name: name, out: out, enc: enc, due: flushSize,
		in: newInterner(o.MaxStrings, o.MaxStringBytes), open: make(map[groupKey]*group)}, nil
}

// Add adds a record of any kind. r.AddTo(w) does the same where the type of r is known, and
// then r need not be allocated.
func (w *Writer) Add(r Record) { r.AddTo(w) }

// Calls gives the writer to a caller that adds many calls in a row, until Release: adding
// them takes no lock. Nothing else can be done with the writer meanwhile.
func (w *Writer) Calls() Calls {
	w.mu.Lock()
	return Calls{w}
}

// Calls is a writer that takes calls only; see [Writer.Calls].
type Calls struct{ w *Writer }

// Add adds a call.
func (h Calls) Add(c *Call) {
	if h.w.takes(KindCall) {
		c.fill(&h.w.row, &h.w.in)
		h.w.add(KindCall, &h.w.row)
	}
}

// Release gives the writer back.
func (h Calls) Release() { h.w.mu.Unlock() }

// begin takes the lock and reports whether a record can be taken; else it is counted.
func (w *Writer) begin(k Kind) bool {
	w.mu.Lock()
	return w.takes(k)
}

// takes is begin where the lock is held.
func (w *Writer) takes(k Kind) bool {
	if !w.closed {
		return true
	}
	w.dropped[k]++
	return false
}

// Err returns the error of the last write, nil while all is well and once writing
// goes on again. What was lost meanwhile is in Dropped.
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

// Dropped returns the number of records that will not reach the file, by kind. It
// is nil when nothing is missing. Records that wait to be written do not count.
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

// Flush writes all records given so far. Where it returns nil they are in the file,
// and a reader of the file as it is finds them, whatever happens to the recorder; an
// error is that of the last write, and the next Flush tries again.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.forget()
	w.sealAll()
	w.indexFlushed()
	w.emit()
	return w.err
}

// Close writes what is left, the End record, the index and the footer, and closes
// the file. Where records were dropped or texts could not be kept it adds a Lost
// record and makes the log incomplete. A second Close does nothing.
func (w *Writer) Close(end End) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.finish(end)
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
	w.sealAll()
	w.emit()
	w.in.useReserve()
	if n := w.lost(); n > 0 {
		w.addLost(&Lost{Cause: LostLogWrite, Count: n, From: w.missing.from, To: w.missing.to})
		end.spoil("the log could not be written for a while")
	}
	if w.in.lost > 0 {
		w.addLost(&Lost{Cause: LostStrings, Count: w.in.lost})
		end.spoil("texts were too many or too long to be kept")
	}
	w.sealAll()
	end.fill(&w.row, &w.in)
	w.add(KindEnd, &w.row)
	w.sealAll()
	w.footer()
	w.emit()
}

// lost is the number of records dropped.
func (w *Writer) lost() (n uint64) {
	for k, dropped := range w.dropped {
		if Kind(k) != KindString {
			n += dropped
		}
	}
	return n
}

func (w *Writer) addLost(l *Lost) {
	l.fill(&w.row, &w.in)
	w.add(KindLost, &w.row)
}

// spoil makes the end one of an incomplete log.
func (e *End) spoil(reason string) {
	if e.Reason != "" {
		reason = e.Reason + "; " + reason
	}
	e.Complete, e.Reason = 0, reason
}

// block appends a block to the buffer.
func (w *Writer) block(kind uint8, payload []byte) {
	start := len(w.buf)
	w.buf = append(w.buf, make([]byte, blockHeaderSize)...)
	w.buf = append(w.buf, payload...)
	h := blockHeader{kind: kind, seq: w.seq, length: uint32(len(payload)), crc: checksum(payload)}
	h.put(w.buf[start:])
	w.seq++
	w.off += int64(len(w.buf) - start)
}

// emitDue writes the buffer to the file when it is long enough.
func (w *Writer) emitDue() {
	if len(w.buf) >= w.due {
		w.emit()
	}
}

// emit writes the buffer to the file, and keeps what could not be written.
func (w *Writer) emit() {
	if len(w.buf) > 0 {
		n, err := w.out.Write(w.buf)
		n = min(max(n, 0), len(w.buf))
		if err == nil && n < len(w.buf) {
			err = io.ErrShortWrite
		}
		w.written(n)
		if w.err = nil; err != nil {
			w.fail(err)
		}
	}
	w.due = len(w.buf) + flushSize
}

// written takes the first n bytes off the buffer.
func (w *Writer) written(n int) {
	kept := w.queued[:0]
	for _, q := range w.queued {
		if q.end > n {
			q.end -= n
			kept = append(kept, q)
		}
	}
	w.queued = kept
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
	if len(w.buf) == 0 && cap(w.buf) > 4*flushSize {
		w.buf = nil // the backlog of a failure
	}
}

// fail keeps the error of a write.
func (w *Writer) fail(err error) {
	remedy := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = " (make room or choose another folder)"
	}
	w.err = fmt.Errorf("cannot write %s: %w%s", w.name, bareRead(err), remedy)
}

// drop counts records that get no place in the log.
func (w *Writer) drop(l *schema.Layout, rows *rowset, texts []string) {
	w.dropped[l.Kind] += uint64(rows.n)
	w.missing.join(rows.span(l))
	w.in.unwritten(texts)
}

// discard counts what never reached the file, and frees the writer's memory.
func (w *Writer) discard() {
	for _, q := range w.queued {
		w.dropped[q.kind] += q.rows
		w.missing.join(q.time)
	}
	w.off -= int64(len(w.buf))
	w.buf, w.queued = nil, nil
	w.open, w.order, w.held, w.defines = nil, nil, 0, 0
	clear(w.recent[:])
	w.in.forget()
}

package tracelog

import (
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An outbox has the finished blocks that are not yet in the file. While the file cannot be
// written (a full disk), it keeps them until they can be.
type outbox struct {
	out     io.Writer
	name    string   // of the file, for messages
	err     error    // of the last write, nil if it succeeded
	reserve *reserve // of space for the end of the log

	off    int64  // bytes of the log, those in buf included
	seq    uint32 // number of the next block
	buf    []byte // bytes that are not yet written
	due    int    // length of buf at which it is written
	queued []queued
}

// A batch says which records a block has: their kind, number and time.
type batch struct {
	kind Kind
	rows uint64
	time span
}

// A queued batch has its block in outbox.buf.
type queued struct {
	batch
	end int // of its block in outbox.buf
}

// flushSize is the number of bytes of finished blocks that are written together.
const flushSize = 128 << 10

// maxBacklog is the number of bytes that may wait for a file that cannot be written.
const maxBacklog = 8 << 20

// full reports whether the backlog is too large for records of a role. Events are refused
// first: other records refer to definitions, and statements say how complete the log is.
func (o *outbox) full(r schema.Role) bool {
	if o.err == nil {
		return false
	}
	most := o.reserve.backlog(o.written(), 4*maxBacklog)
	if r == schema.Event {
		most = min(most/2, maxBacklog)
	}
	return int64(len(o.buf)) >= most
}

// begin appends the header of the file.
func (o *outbox) begin(minor uint16) {
	o.buf = blockfile.AppendFileHeader(o.buf, minor)
	o.off = blockfile.FileHeaderSize
}

// block appends a block.
func (o *outbox) block(typ uint8, payload []byte) {
	start := len(o.buf)
	o.buf = blockfile.AppendBlock(o.buf, typ, o.seq, payload)
	o.seq++
	o.off += int64(len(o.buf) - start)
}

// records appends a block of records.
func (o *outbox) records(payload []byte, b batch) {
	o.block(blockfile.Records, payload)
	o.queued = append(o.queued, queued{b, len(o.buf)})
}

// trailer appends the end of the file.
func (o *outbox) trailer(footer int64) {
	o.buf = blockfile.AppendTrailer(o.buf, uint64(footer))
	o.off += blockfile.TrailerSize
}

// written is the number of bytes that are in the file.
func (o *outbox) written() int64 { return o.off - int64(len(o.buf)) }

// sendDue writes the buffer to the file when it is long enough.
func (o *outbox) sendDue() {
	if len(o.buf) >= o.due {
		o.send()
	}
}

// send writes the buffer to the file, and keeps the bytes that could not be written.
func (o *outbox) send() {
	if len(o.buf) > 0 {
		n, err := 0, o.reserve.take(o.written(), int64(len(o.buf)))
		if err == nil {
			n, err = o.out.Write(o.buf)
		}
		n = min(max(n, 0), len(o.buf))
		if err == nil && n < len(o.buf) {
			err = io.ErrShortWrite
		}
		o.remove(n)
		if o.err = nil; err != nil {
			o.fail(err)
		}
	}
	o.due = len(o.buf) + flushSize
}

// remove takes the first n bytes off the buffer.
func (o *outbox) remove(n int) {
	kept := o.queued[:0]
	for _, q := range o.queued {
		if q.end > n {
			q.end -= n
			kept = append(kept, q)
		}
	}
	o.queued = kept
	o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	if len(o.buf) == 0 && cap(o.buf) > 4*flushSize {
		o.buf = nil // frees the backlog of a failure
	}
}

// fail keeps the error of a write.
func (o *outbox) fail(err error) {
	remedy := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = " (make room or choose another folder)"
	}
	o.err = fmt.Errorf("cannot write %s: %w%s", o.name, blockfile.Bare(err), remedy)
}

// abandon empties the outbox and returns the records that were in it.
func (o *outbox) abandon() []queued {
	left := o.queued
	o.off = o.written()
	o.buf, o.queued = nil, nil
	return left
}

// losses counts the records that do not reach the file.
type losses struct {
	counts [256]uint64 // by kind
	time   span
}

func (l *losses) add(b batch) {
	l.counts[b.kind] += b.rows
	l.time.join(b.time)
}

// byKind is the number of lost records by kind, nil if none is lost. It leaves out strings,
// which no caller adds.
func (l *losses) byKind() (m map[Kind]uint64) {
	for k, n := range l.counts {
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

// total is the number of lost records.
func (l *losses) total() (n uint64) {
	for _, count := range l.byKind() {
		n += count
	}
	return n
}

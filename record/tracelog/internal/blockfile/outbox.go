package blockfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An Outbox writes blocks to a file. While the file cannot be written (a full disk), it keeps them
// until they can be.
type Outbox struct {
	out     io.Writer
	name    string   // of the file, for messages
	err     error    // of the last write, nil if it succeeded
	reserve *reserve // of space for the end of the file

	off int64  // bytes of the file, those in buf included
	seq uint32 // number of the next block
	buf []byte // bytes that are not yet written
	due int    // length of buf at which it is written
}

// FlushSize is the number of bytes of blocks that are written together.
const FlushSize = 128 << 10

// MaxBacklog is the number of bytes that may wait for a file that cannot be written.
const MaxBacklog = 8 << 20

// NewOutbox returns an outbox for a file, which messages call name.
func NewOutbox(out io.Writer, name string) Outbox {
	return Outbox{out: out, name: name, due: FlushSize}
}

// Reserve keeps space on the disk for the end of the file, until UseReserve. f is the outbox's file.
func (o *Outbox) Reserve(f *os.File) { o.reserve = newReserve(f) }

// UseReserve says that the file is about to end: its last blocks may go to the reserved space.
func (o *Outbox) UseReserve() {
	if o.reserve != nil {
		o.reserve.ending = true
	}
}

// Full reports whether the backlog is too large for records of a role. Events are refused
// first: other records refer to definitions, and statements say how complete the log is.
func (o *Outbox) Full(r schema.Role) bool {
	if o.err == nil {
		return false
	}
	most := o.reserve.backlog(o.Written(), 4*MaxBacklog)
	if r == schema.Event {
		most = min(most/2, MaxBacklog)
	}
	return int64(len(o.buf)) >= most
}

// Begin appends the header of the file.
func (o *Outbox) Begin(v Version) {
	o.buf = AppendFileHeader(o.buf, v)
	o.off = FileHeaderSize
}

// Block appends a block.
func (o *Outbox) Block(typ uint8, payload []byte) {
	start := len(o.buf)
	o.buf = AppendBlock(o.buf, typ, o.seq, payload)
	o.seq++
	o.off += int64(len(o.buf) - start)
}

// Trailer appends the end of the file, which gives the offset of the footer.
func (o *Outbox) Trailer(footer int64) {
	o.buf = AppendTrailer(o.buf, uint64(footer))
	o.off += TrailerSize
}

// Offset is the offset of the next block in the file.
func (o *Outbox) Offset() int64 { return o.off }

// Written is the number of bytes that are in the file.
func (o *Outbox) Written() int64 { return o.off - int64(len(o.buf)) }

// Waiting is the number of bytes that are not yet in the file.
func (o *Outbox) Waiting() int { return len(o.buf) }

// Err is the error of the last write, nil if it succeeded.
func (o *Outbox) Err() error { return o.err }

// SendDue writes the waiting bytes to the file when they are many enough.
func (o *Outbox) SendDue() {
	if len(o.buf) >= o.due {
		o.Send()
	}
}

// Send writes the waiting bytes to the file, and keeps those that could not be written.
func (o *Outbox) Send() {
	if len(o.buf) > 0 {
		n, err := 0, o.reserve.take(o.Written(), int64(len(o.buf)))
		if err == nil {
			n, err = o.out.Write(o.buf)
		}
		n = min(max(n, 0), len(o.buf))
		if err == nil && n < len(o.buf) {
			err = io.ErrShortWrite
		}
		o.remove(n)
		if o.err = nil; err != nil {
			o.Fail(err)
		}
	}
	o.due = len(o.buf) + FlushSize
}

// remove takes the first n bytes off the buffer.
func (o *Outbox) remove(n int) {
	o.buf = o.buf[:copy(o.buf, o.buf[n:])]
	if len(o.buf) == 0 && cap(o.buf) > 4*FlushSize {
		o.buf = nil // frees the backlog of a failure
	}
}

// Fail keeps the error of a write.
func (o *Outbox) Fail(err error) {
	remedy := ""
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		remedy = " (make room or choose another folder)"
	}
	o.err = fmt.Errorf("cannot write %s: %w%s", o.name, Bare(err), remedy)
}

// Abandon drops the waiting bytes.
func (o *Outbox) Abandon() {
	o.off = o.Written()
	o.buf = nil
}

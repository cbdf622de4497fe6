package blockfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// An Outbox writes blocks to a file. Before a block gets its place in the file, Room says whether there is space for
// it. While the file cannot be written, the outbox keeps the blocks that have a place.
type Outbox struct {
	out     io.Writer
	name    string   // of the file, for messages
	err     error    // of the last write, nil if it succeeded
	full    error    // why there was no room since the last Send
	ending  bool     // the file's last blocks may go to the reserve
	reserve *reserve // of space for the end of the file; nil if out is not a file

	off int64  // bytes of the file, those in buf included
	seq uint32 // number of the next block
	buf []byte // bytes that are not yet written
	due int    // length of buf at which it is written
}

// FlushSize is the number of bytes of blocks that are written together.
const FlushSize = 128 << 10

// NewOutbox returns an outbox for a file, which messages call name.
func NewOutbox(out io.Writer, name string) Outbox {
	return Outbox{out: out, name: name, due: FlushSize}
}

// Reserve keeps space on the disk for the end of the file, until UseReserve. f is the outbox's file.
func (o *Outbox) Reserve(f *os.File) { o.reserve = newReserve(f) }

// UseReserve says that the file is about to end: its last blocks may go to the reserved space.
func (o *Outbox) UseReserve() { o.ending = true }

// Room reports whether n bytes of blocks with records of a role may get a place in the file. Events leave some of the
// reserve to definitions, to which other records refer, and both leave the rest to the end of the file. While there is
// no room, each Send looks for room again.
func (o *Outbox) Room(r schema.Role, n int) bool {
	switch {
	case o.err != nil:
		return false
	case o.ending || o.reserve.has(o.off+int64(n), r):
		return true
	case o.full != nil:
		return false
	}
	if err := o.reserve.extend(o.off + int64(n)); err != nil {
		o.full = o.failure(err)
	}
	return o.full == nil
}

// LastRoom reports whether n bytes may get a place before the last blocks of the file do.
func (o *Outbox) LastRoom(n int) bool { return o.err == nil && o.reserve.leaves(o.off+int64(n)) }

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

// Err is the error of the last write, or says why there was no room; nil if it succeeded and there was.
func (o *Outbox) Err() error { return cmp.Or(o.err, o.full) }

// SendDue writes the waiting bytes to the file when they are many enough.
func (o *Outbox) SendDue() {
	if len(o.buf) >= o.due {
		o.Send()
	}
}

// Send writes the waiting bytes to the file, and keeps those that could not be written.
func (o *Outbox) Send() {
	o.full = nil
	if len(o.buf) > 0 {
		n, err := o.out.Write(o.buf)
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
func (o *Outbox) Fail(err error) { o.err = o.failure(err) }

// failure says why the file cannot be written.
func (o *Outbox) failure(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = " (make room or choose another folder)"
	case errors.Is(err, syscall.EFBIG):
		remedy = " (raise the limit of the size of files: ulimit -f unlimited)"
	}
	return fmt.Errorf("cannot write %s: %w%s", o.name, Bare(err), remedy)
}

// Abandon drops the waiting bytes.
func (o *Outbox) Abandon() {
	o.off = o.Written()
	o.buf = nil
}

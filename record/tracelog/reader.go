package tracelog

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Reader gives the records of a log block by block, in the order of the file. It
// holds one block and the log's strings, whatever the size of the log. It leaves out and
// reports damaged and missing parts, and only gives records of blocks whose checksum is
// right. It is not safe for concurrent use.
//
// No log makes it take more memory than MaxReaderMemory, plus MaxBlockMemory
// for each block that is read ahead (Parallel) or kept (Keep).
type Reader struct {
	src   *blockfile.Source
	name  string // of the file, for messages
	close func() error

	blocks   blockSource
	ahead    *decodingAhead // of Parallel, else nil
	spare    spareDecodings
	current  *decoding
	log      intake
	contents *Contents // of Remember, else nil
	begun    bool
	done     bool
	err      error // of reading the file
}

// A blockSource gives the blocks of a file that a reader needs, in the order of the file, and
// the end again and again.
type blockSource interface {
	Next(*blockfile.Block)
}

// Bounds of a reader's memory, in bytes, whatever the log: all texts with their headers,
// and for a block its payload, its decompressed columns and their numbers.
const (
	MaxReaderMemory = schema.MaxStringBytes + 16*schema.MaxStrings + MaxBlockMemory
	MaxBlockMemory  = 4*schema.MaxPayload + 9*schema.MaxColumns*schema.MaxRows
)

// Open opens the log at path. The message of an error names the file and says what
// to do. errors.Is finds ErrEmpty, ErrNotLog, ErrNewer, ErrOlder and fs.ErrNotExist in it.
func Open(path string) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // without waiting for the other end of a pipe
	if err != nil {
		return nil, &fileError{path, cannotOpen(err), ""}
	}
	r, err := openFile(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	r.close = f.Close
	return r, nil
}

func openFile(f *os.File, path string) (*Reader, error) {
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, &fileError{path, cannotOpen(err), ""}
	case info.IsDir():
		return nil, &fileError{path, ErrNotLog, ": it is a folder"}
	case !info.Mode().IsRegular():
		return nil, &fileError{path, ErrNotLog, ": it is not a regular file; save it to one first"}
	}
	return NewReader(f, info.Size(), path)
}

// cannotOpen takes the operation and the path off an error of package os.
func cannotOpen(err error) error {
	return fmt.Errorf("cannot be opened: %w", blockfile.Bare(err))
}

// NewReader returns a Reader of the first size bytes of src, which messages call name.
func NewReader(src io.ReaderAt, size int64, name string) (*Reader, error) {
	d, err := newDecoding()
	if err != nil {
		return nil, err
	}
	r := &Reader{src: blockfile.NewSource(src, size), name: name, current: d, log: newIntake()}
	r.blocks = blockfile.NewWalker(r.src)
	if err := r.readFileHeader(); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Reader) readFileHeader() error {
	const size = blockfile.FileHeaderSize
	var b [size + blockfile.HeaderSize]byte
	n := int(min(r.src.Size(), int64(len(b))))
	if err := r.src.ReadAt(b[:n], 0); err != nil {
		return r.fileError(err, "")
	}
	h := blockfile.ParseFileHeader(b[:min(n, size)])
	_, hasBlock := blockfile.ParseHeader(b[size:max(n, size)])
	switch {
	case n == 0:
		return r.fileError(ErrEmpty, "")
	case n < size && blockfile.IsBeginning(b[:n]):
		return r.fileError(&TruncatedError{0, "is cut off inside its header"}, ": nothing in it can be read")
	case !h.Magic && !hasBlock:
		return r.fileError(ErrNotLog, "")
	case h.Magic && h.Major > blockfile.Current.Major:
		return r.fileError(ErrNewer, fmt.Sprintf(" (log version %d, this one reads %d): update cudatrace",
			h.Major, blockfile.Current.Major))
	case h.Intact && h.Major < blockfile.Current.Major:
		return r.fileError(ErrOlder, fmt.Sprintf(" (log version %d, this one reads %d): record the program again",
			h.Major, blockfile.Current.Major))
	case !h.Intact:
		r.log.version = blockfile.Current
		r.log.damage.addError(&CorruptError{0, 0, "the header's checksum is wrong"})
	default:
		r.log.version = h.Version
	}
	return nil
}

func (r *Reader) fileError(err error, more string) error { return &fileError{r.name, err, more} }

// errBegun is the error of a caller that asks for something after the first Next.
func (r *Reader) errBegun(what string) error {
	return r.fileError(fmt.Errorf("cannot be %s after reading has begun", what), "")
}

// Next moves to the next block of records and reports whether there is one. Blocks of
// strings, the schema and the index are for the reader itself.
func (r *Reader) Next() bool {
	r.begun = true
	for !r.done {
		if r.takeBlock(); r.use(r.current) {
			return true
		}
		if r.current.Open && r.src.Growing() {
			return false
		}
	}
	return false
}

// takeBlock makes the next block of the file the current one, decoded.
func (r *Reader) takeBlock() {
	if r.ahead != nil {
		r.current = r.ahead.nextBlock(r.current)
		return
	}
	if r.current == nil {
		r.current = r.spare.get()
	}
	r.blocks.Next(&r.current.Block)
	r.current.decode()
}

// Block returns the block that Next moved to.
func (r *Reader) Block() *Block { return &r.log.block }

// Keep returns the current block in a form that stays valid, on any goroutine, until
// its Release. It is for callers that hand blocks to other goroutines.
func (r *Reader) Keep() *Block {
	b := r.log.block
	if b.N <= smallBlock {
		b.own, b.file = copied(b.own, b.N), nil
		b.strings = r.log.strings.share()
		return &b
	}
	b.kept, b.spare, b.strings = r.current, &r.spare, r.log.strings.share()
	r.current = nil
	return &b
}

// smallBlock is the number of records up to which a kept block is a copy: the buffers of a block are
// many times as large.
const smallBlock = 16

// copied returns columns with numbers of their own.
func copied(list []columns.Column, rows int) []columns.Column {
	list = slices.Clone(list)
	numbers := make([]uint64, 0, len(list)*rows)
	for i := range list {
		c := &list[i]
		from := len(numbers)
		numbers = append(numbers, c.Numbers...)
		c.Numbers = numbers[from:len(numbers):len(numbers)]
	}
	return list
}

// Err returns the first thing that is wrong with the log as far as it has been read: an error
// of the file system, else a *CorruptError or *TruncatedError, else nil.
func (r *Reader) Err() error {
	if r.err != nil {
		return r.fileError(r.err, "")
	}
	if r.log.damage.Count > 0 {
		return r.log.damage.Errors[0]
	}
	return nil
}

// Damage lists what is damaged or missing as far as the log has been read. After
// Next has returned false, that is the whole log.
func (r *Reader) Damage() *Damage { return &r.log.damage }

// End returns the log's End record, and whether it has been read. A log without one
// was not finished.
func (r *Reader) End() (End, bool) { return r.log.end, r.log.ended }

// HasText reports whether a function is true of a text of the log, of those that have been read.
func (r *Reader) HasText(f func(text string) bool) bool {
	return slices.ContainsFunc(r.log.strings.texts, f)
}

// Name returns the log's name in messages.
func (r *Reader) Name() string { return r.name }

// Size returns the size of the log in bytes.
func (r *Reader) Size() int64 { return r.src.Size() }

// BytesRead returns the number of bytes of the log that have been read so far.
func (r *Reader) BytesRead() int64 { return r.src.BytesRead() }

// Close ends reading and closes the file that Open opened.
func (r *Reader) Close() error {
	r.done = true
	if r.ahead != nil {
		r.ahead.stop()
	}
	if r.close == nil {
		return nil
	}
	return r.close()
}

// use takes in a block of the file and reports whether it is one for the caller.
func (r *Reader) use(d *decoding) (given bool) {
	r.log.faults(&d.Block)
	switch r.err = d.Err; {
	case d.Err != nil:
		r.done = true
		return false
	case d.End:
		r.pause(d.Open)
		return false
	}
	if given, r.err = r.log.admit(d, r.src.Size()); r.err != nil {
		r.done = true
		return false
	}
	if given && r.contents != nil {
		r.contents.addBlock(&r.log.block, d.Header)
	}
	return given
}

// pause ends the reading, for good unless the file may still grow.
func (r *Reader) pause(open bool) {
	if r.done = !open; open && r.ahead != nil {
		r.ahead.pause()
	}
}

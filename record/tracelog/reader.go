package tracelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Reader gives the records of a log block by block, in the order of the file. It
// holds one block and the log's strings, whatever the size of the log. What is
// damaged or missing it leaves out and reports; it never gives a record that the
// checksum of its block does not vouch for. It is not safe for concurrent use.
//
// No log makes it take more memory than MaxReaderMemory, or that and MaxBlockMemory
// for each block that is read ahead (Parallel) or kept (Keep).
type Reader struct {
	src   *source
	close func() error

	feed   feed   // where blocks come from
	ahead  *ahead // the goroutines of Parallel
	spare  spares
	task   *task   // of the current block
	filter *Filter // nil gives all
	only   *onlyFields
	begun  bool
	done   bool
	err    error // of reading the file

	minor   uint16 // version
	footed  bool   // the footer has been read
	schema  *logSchema
	maps    [256][]int
	strings stringTable
	block   Block
	damage  Damage
	end     End
	ended   bool
}

// What a hostile log can make a reader hold, in bytes: all texts with their headers,
// and for a block its payload, its decompressed columns and their numbers.
const (
	MaxReaderMemory = schema.MaxStringBytes + 16*schema.MaxStrings + MaxBlockMemory
	MaxBlockMemory  = 4*schema.MaxPayload + 9*schema.MaxColumns*schema.MaxRows
)

// Open opens the log at path. The message of an error names the file and says what
// to do; errors.Is tells ErrEmpty, ErrNotLog, ErrNewer and fs.ErrNotExist apart.
func Open(path string) (*Reader, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe's other end is not waited for
	if err != nil {
		return nil, &fileError{path, bare(err), ""}
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
		return nil, &fileError{path, bare(err), ""}
	case info.IsDir():
		return nil, &fileError{path, ErrNotLog, ": it is a folder"}
	case !info.Mode().IsRegular():
		return nil, &fileError{path, ErrNotLog, ": it is not a regular file; save it to one first"}
	}
	return NewReader(f, info.Size(), path)
}

// bare takes the operation and the path off an error of package os and puts words
// to what people meet most.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("cannot be opened: %w", err)
}

// NewReader returns a Reader of the size bytes of src; name is what messages call it.
func NewReader(src io.ReaderAt, size int64, name string) (*Reader, error) {
	t, err := newTask()
	if err != nil {
		return nil, err
	}
	r := &Reader{src: &source{src: src, size: size, name: name}, task: t, schema: builtin()}
	r.feed = &walker{source: r.src, off: headerSize}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// open checks the header of the file.
func (r *Reader) open() error {
	var b [headerSize + blockHeaderSize]byte
	n := int(min(r.src.size, int64(len(b))))
	if err := r.src.readAt(b[:n], 0); err != nil {
		return r.fileError(err, "")
	}
	head := b[:min(n, headerSize)]
	hasMagic := bytes.HasPrefix(head, magic)
	_, hasBlock := parseBlockHeader(b[headerSize:max(n, headerSize)])
	switch {
	case n == 0:
		return r.fileError(ErrEmpty, "")
	case n < headerSize && bytes.HasPrefix(magic, head[:min(n, len(magic))]):
		return r.fileError(&TruncatedError{0, "is cut off inside its header"}, ": nothing in it can be read")
	case !hasMagic && !hasBlock:
		return r.fileError(ErrNotLog, "")
	case hasMagic && le.Uint16(head[8:]) > VersionMajor:
		return r.fileError(ErrNewer, fmt.Sprintf(" (log version %d, this one reads up to %d): update cudatrace",
			le.Uint16(head[8:]), VersionMajor))
	case le.Uint32(head[12:]) != checksum(head[:12]):
		r.minor = VersionMinor
		r.damage.add(&CorruptError{0, 0, "the header's checksum is wrong", false})
	default:
		r.minor = le.Uint16(head[10:])
	}
	return nil
}

func (r *Reader) fileError(err error, more string) error { return &fileError{r.src.name, err, more} }

// Next moves to the next block of records and reports whether there is one. Blocks of
// strings, the schema and the index are used on the way and not given out.
func (r *Reader) Next() bool {
	r.begun = true
	for !r.done {
		if r.take(); r.use(r.task) {
			return true
		}
	}
	return false
}

// take makes the next piece of the log the current one, decoded.
func (r *Reader) take() {
	if r.ahead != nil {
		r.task = r.ahead.take(r.task)
		return
	}
	if r.task == nil {
		r.task = r.spare.get()
	}
	r.feed.next(&r.task.piece)
	r.task.decode(r.only)
}

// Block returns the block that Next moved to.
func (r *Reader) Block() *Block { return &r.block }

// Err returns what was wrong with the log as far as it has been read: an error of
// the file system, else the first *CorruptError or *TruncatedError, else nil.
func (r *Reader) Err() error {
	if r.err != nil {
		return r.fileError(r.err, "")
	}
	if r.damage.Count > 0 {
		return r.damage.Errors[0]
	}
	return nil
}

// Damage lists what was damaged or missing as far as the log has been read. After
// Next returned false that is everything.
func (r *Reader) Damage() *Damage { return &r.damage }

// End returns the log's End record, and whether it has been read. A log without one
// was not finished.
func (r *Reader) End() (End, bool) { return r.end, r.ended }

// Size returns the size of the log in bytes.
func (r *Reader) Size() int64 { return r.src.size }

// BytesRead returns the number of bytes of the log that have been read so far.
func (r *Reader) BytesRead() int64 { return r.src.read.Load() }

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

// use takes a piece of the log in and reports whether it is a block to give out.
func (r *Reader) use(t *task) (given bool) {
	for _, fault := range t.faults {
		if err := fault(r.ended); err != nil {
			r.damage.add(err)
		}
	}
	r.damage.Count += t.more
	if r.err = t.err; t.end || t.err != nil {
		r.done = true
		return false
	}
	given, err := r.accept(t)
	if t.fault = err; err != nil {
		r.damage.add(&CorruptError{t.at, blockHeaderSize + int64(len(t.payload)), err.Error(), true})
	}
	return given
}

func (r *Reader) accept(t *task) (given bool, err error) {
	switch t.head.kind {
	case blockSchema:
		s, err := t.dec.parseSchema(t.payload)
		if err == nil {
			r.schema, r.maps = s, [256][]int{}
			r.only.compare(s)
		}
		return false, err
	case blockRecords:
		if r.only.misled(t) {
			t.decode(nil)
		}
		if t.fault != nil || t.table == nil {
			return false, t.fault
		}
		return r.records(t)
	case blockFooter:
		r.footed = true
	}
	return false, nil // the index, the footer, or a type of a newer version
}

// records takes a table of records: strings into the string table, others into the block.
func (r *Reader) records(t *task) (given bool, err error) {
	if t.table.number >= uint64(schema.Kinds) {
		return false, errSchema
	}
	b := &r.block
	*b = Block{Kind: Kind(t.table.number), N: t.table.rows, Offset: t.at, table: &r.strings}
	r.fill(b, t)
	switch b.Kind {
	case KindString:
		return false, r.addStrings(b)
	case KindEnd:
		r.end.Read(b, 0)
		r.ended = true
	}
	return r.filter == nil || r.filter.block(b), nil
}

// fill sets the columns of the block: by the log's schema, and by this version's. A
// kind that only this version's has is read by that one, so that the columns of every
// kind with a number of ours are there, whatever the log says.
func (r *Reader) fill(b *Block, t *task) {
	l, file := schema.LayoutOf(b.Kind), r.schema[b.Kind]
	if file == nil && l != nil {
		file = l.Table
	}
	b.name = b.Kind.String()
	if file != nil {
		b.name, b.fields = file.Name, file.Fields
	}
	t.file = t.file[:0]
	for range schema.MaxColumns {
		t.file = append(t.file, column{vals: zeros})
	}
	for i, f := range t.table.fields {
		t.file[f] = t.table.cols[i]
	}
	b.file = t.file
	if l != nil {
		r.pick(b, t, l, file)
	}
}

// pick sets the columns by this version's schema.
func (r *Reader) pick(b *Block, t *task, l *schema.Layout, file *schema.Table) {
	if r.maps[b.Kind] == nil {
		r.maps[b.Kind] = mapping(l, file)
	}
	t.own = t.own[:0]
	for _, from := range r.maps[b.Kind] {
		c := column{vals: zeros}
		if from >= 0 {
			c = b.file[from]
		}
		t.own = append(t.own, c)
	}
	b.cols = t.own
}

var errStrings = errors.New("its strings are too many, too large or have impossible numbers")

func (r *Reader) addStrings(b *Block) error {
	for i := range b.N {
		if !r.strings.set(b.at(0, i), b.cols[1].text(i)) {
			return errStrings
		}
	}
	return nil
}

package tracelog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A Reader gives the records of a log block by block, in the order of the file. It
// holds one block and the log's strings, whatever the size of the log. What is
// damaged or missing it leaves out and reports; it never gives a record that the
// checksum of its block does not vouch for. It is not safe for concurrent use.
type Reader struct {
	name  string
	src   io.ReaderAt
	size  int64
	close func() error

	off     int64 // of the next block
	seq     uint32
	gap     bool  // something was left out since the last good block
	wasted  int64 // bytes read for blocks that turned out damaged
	done    bool
	err     error // of reading the file
	head    [blockHeaderSize]byte
	payload []byte
	search  []byte // see find
	dec     *decoder

	schema  *schema
	maps    [256][]int
	strings stringTable
	block   Block
	cols    []column // room for Block.cols
	damage  Damage
	end     End
	ended   bool
	footed  bool
}

// Open opens the log at path. The message of an error names the file and says what
// to do; errors.Is tells ErrEmpty, ErrNotLog, ErrNewer and fs.ErrNotExist apart.
func Open(path string) (*Reader, error) {
	f, err := os.Open(path)
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
	dec, err := newDecoder()
	if err != nil {
		return nil, err
	}
	r := &Reader{name: name, src: src, size: size, dec: dec, schema: builtin()}
	r.block.table = &r.strings
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}

// open checks the header of the file.
func (r *Reader) open() error {
	var b [headerSize + blockHeaderSize]byte
	n := int(min(r.size, int64(len(b))))
	if err := r.readAt(b[:n], 0); err != nil {
		return &fileError{r.name, err, ""}
	}
	head := b[:min(n, headerSize)]
	hasMagic := bytes.HasPrefix(head, magic)
	_, hasBlock := parseBlockHeader(b[headerSize:max(n, headerSize)])
	switch {
	case n == 0:
		return &fileError{r.name, ErrEmpty, ""}
	case n < headerSize && bytes.HasPrefix(magic, head[:min(n, len(magic))]):
		return &fileError{r.name, &TruncatedError{0, "is cut off inside its header"}, ": nothing in it can be read"}
	case !hasMagic && !hasBlock:
		return &fileError{r.name, ErrNotLog, ""}
	case hasMagic && le.Uint16(head[8:]) > VersionMajor:
		return &fileError{r.name, ErrNewer, fmt.Sprintf(" (log version %d, this one reads up to %d): update cudatrace",
			le.Uint16(head[8:]), VersionMajor)}
	case le.Uint32(head[12:]) != checksum(head[:12]):
		r.corrupt(0, 0, "the header's checksum is wrong")
	}
	r.off = headerSize
	return nil
}

// readAt fills b from the file; a file that has shrunk meanwhile is an error.
func (r *Reader) readAt(b []byte, off int64) error {
	n, err := r.src.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("cannot be read at byte %d: %w", off+int64(n), bareRead(err))
}

func bareRead(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Next moves to the next block of records and reports whether there is one. Blocks of
// strings, the schema and the index are used on the way and not given out.
func (r *Reader) Next() bool {
	for !r.done && r.err == nil {
		if r.step() {
			return true
		}
	}
	return false
}

// Block returns the block that Next moved to.
func (r *Reader) Block() *Block { return &r.block }

// Err returns what was wrong with the log as far as it has been read: an error of
// the file system, else the first *CorruptError or *TruncatedError, else nil.
func (r *Reader) Err() error {
	if r.err != nil {
		return &fileError{r.name, r.err, ""}
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
func (r *Reader) Size() int64 { return r.size }

// Close closes the file that Open opened.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close()
}

// step deals with what is at the current offset and reports whether it gave out a block.
func (r *Reader) step() bool {
	left := r.size - r.off
	switch {
	case r.footed && left == trailerSize && r.trailer():
		r.done = true
		return false
	case left < blockHeaderSize:
		r.finish(left)
		return false
	}
	if r.err = r.readAt(r.head[:], r.off); r.err != nil {
		return false
	}
	h, ok := parseBlockHeader(r.head[:])
	switch {
	case !ok:
		r.resync("there is no block here")
		return false
	case int64(h.length) > left-blockHeaderSize:
		r.overlong()
		return false
	}
	if cap(r.payload) < int(h.length) {
		r.payload = make([]byte, h.length)
	}
	r.payload = r.payload[:h.length]
	if r.err = r.readAt(r.payload, r.off+blockHeaderSize); r.err != nil {
		return false
	}
	if checksum(r.payload) != h.crc {
		r.damaged(h)
		return false
	}
	at := r.off
	r.off += blockHeaderSize + int64(h.length)
	return r.accept(h, at)
}

// accept uses a block whose checksums are right.
func (r *Reader) accept(h blockHeader, at int64) bool {
	next := r.off
	switch {
	case h.seq < r.seq:
		r.corrupt(at, next-at, fmt.Sprintf("block %d is here a second time or in the wrong place", h.seq))
		return false
	case h.seq > r.seq && !r.gap:
		r.corrupt(at, 0, fmt.Sprintf("the number of blocks missing before this one is %d", h.seq-r.seq))
	}
	r.seq, r.gap = h.seq+1, false
	given, err := r.use(h, at)
	if err != nil {
		r.corrupt(at, next-at, err.Error())
	}
	return given
}

func (r *Reader) use(h blockHeader, at int64) (given bool, err error) {
	switch h.kind {
	case blockSchema:
		s, err := r.dec.parseSchema(r.payload)
		if err == nil {
			r.schema, r.maps = s, [256][]int{}
		}
		return false, err
	case blockRecords:
		given, count := false, 0
		err := r.dec.eachTable(r.payload, func(t *table) (err error) {
			if count++; count > 1 {
				return errTables
			}
			given, err = r.records(t, at)
			return err
		})
		return given && err == nil, err
	case blockFooter:
		r.footed = true
	}
	return false, nil // an index, or a type of a newer version
}

// records takes a table of records: strings into the string table, others into the block.
func (r *Reader) records(t *table, at int64) (given bool, err error) {
	if t.number >= uint64(tableKinds) {
		return false, errSchema
	}
	kind := Kind(t.number)
	b := &r.block
	b.Kind, b.N, b.Offset = kind, t.rows, at
	r.fill(b, t)
	switch kind {
	case KindString:
		return false, r.addStrings(b)
	case KindEnd:
		b.End(0, &r.end)
		r.ended = true
	}
	return true, nil
}

// fill sets the columns of the block: by the log's schema, and by this version's. A
// kind that only this version's has is read by that one, so that the columns of every
// kind with a number of ours are there, whatever the log says.
func (r *Reader) fill(b *Block, t *table) {
	l, file := layouts[b.Kind], r.schema[b.Kind]
	if file == nil && l != nil {
		file = l.Table
	}
	b.name, b.fields = b.Kind.String(), nil
	if file != nil {
		b.name, b.fields = file.Name, file.Fields
	}
	b.file, b.cols = b.file[:0], nil
	for range MaxColumns {
		b.file = append(b.file, column{vals: zeros})
	}
	for i, f := range t.fields {
		b.file[f] = t.cols[i]
	}
	if l != nil {
		r.pick(b, l, file)
	}
}

// pick sets the columns by this version's schema.
func (r *Reader) pick(b *Block, l *layout, file *Table) {
	if r.maps[b.Kind] == nil {
		r.maps[b.Kind] = mapping(l, file)
	}
	b.cols = r.cols[:0]
	for _, from := range r.maps[b.Kind] {
		c := column{vals: zeros}
		if from >= 0 {
			c = b.file[from]
		}
		b.cols = append(b.cols, c)
	}
	r.cols = b.cols
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

package elfsym

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math"

	"github.com/cudatrace/cudatrace/record/host"
)

// How a pointer is encoded in the unwind tables (DW_EH_PE of the Linux Standard Base).
const (
	encodingOmitted  = 0xff
	formatMask       = 0x0f
	formatAbsolute   = 0x00
	formatU32        = 0x03
	formatU64        = 0x04
	formatS32        = 0x0b
	formatS64        = 0x0c
	baseMask         = 0x70
	baseNone         = 0x00
	baseHere         = 0x10 // the address of the pointer itself
	baseHeaders      = 0x30 // the beginning of .eh_frame_hdr
	encodingIndirect = 0x80
)

const maxUnwindEntry = 64 << 10 // bytes of an entry of .eh_frame; real ones have a few hundred

var errUnwind = errors.New("the unwind tables are malformed, or of an unknown form")

// A Frame is a function according to the unwind tables, at one of its addresses.
type Frame struct {
	Span
	// Linked says that the frame pointer leads to the caller: at this address it points to the
	// caller's frame pointer, and the return address is the word behind.
	Linked bool
}

// Frame finds the function around an address in the unwind tables; ok is false if they have none.
func (im *Image) Frame(address uint64) (Frame, bool) {
	at, err := im.entryAround(address)
	if err != nil {
		return Frame{}, false
	}
	e, err := im.unwindEntry(at)
	if err != nil || !e.span.Contains(address) {
		return Frame{}, false
	}
	return Frame{Span: e.span, Linked: e.linked(address) && im.setsFramePointer(e.span.From, address)}, true
}

// setsFramePointer reports whether the code between two addresses makes the frame pointer point to the
// place where it was saved. On x86-64 the unwind tables say that themselves.
func (im *Image) setsFramePointer(from, to uint64) bool {
	if host.Machine() != elf.EM_AARCH64 {
		return true
	}
	const prologue = 256 // bytes
	for b := im.Bytes(from, int(min(to-from, prologue))); len(b) >= 4; b = b[4:] {
		if binary.LittleEndian.Uint32(b)&0xffc003ff == 0x910003fd { // add x29, sp, #n
			return true
		}
	}
	return false
}

// entryAround looks an address up in the table of .eh_frame_hdr and returns the address of the
// entry in .eh_frame.
func (im *Image) entryAround(address uint64) (uint64, error) {
	const relative32 = baseHeaders | formatS32
	head := im.Bytes(im.headers, 32)
	if im.headers == 0 || len(head) < 12 || head[0] != 1 || head[3] != relative32 {
		return 0, errUnwind
	}
	d := unwindReader{b: head[4:], at: im.headers + 4, headers: im.headers}
	d.pointer(head[1])
	count := d.pointer(head[2])
	if d.err != nil || count > math.MaxInt32 {
		return 0, errUnwind
	}
	row := func(i uint64) (function, entry uint64, ok bool) {
		b := im.Bytes(d.at+8*i, 8)
		if len(b) < 8 {
			return 0, 0, false
		}
		return im.headers + signed32(b), im.headers + signed32(b[4:]), true
	}
	low, high := uint64(0), count // the entry is below high, and not below low
	for high-low > 1 {
		middle := low + (high-low)/2
		function, _, ok := row(middle)
		if !ok {
			return 0, errUnwind
		}
		if function <= address {
			low = middle
		} else {
			high = middle
		}
	}
	function, entry, ok := row(low)
	if !ok || count == 0 || function > address {
		return 0, errUnwind
	}
	return entry, nil
}

func signed32(b []byte) uint64 { return uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }

// An unwindEntry describes the frames of a function.
type unwindEntry struct {
	span         Span
	common       commonEntry
	instructions []byte
}

// A commonEntry is what the entries of several functions share.
type commonEntry struct {
	codeAlign     uint64
	dataAlign     int64
	returnAddress uint64 // register
	augmented     bool   // entries have a length of augmentation data
	encoding      byte   // of addresses
	signal        bool   // frames of signal handlers
	instructions  []byte
}

// entryBytes reads an entry of .eh_frame without its length.
func (im *Image) entryBytes(at uint64) (b []byte, body uint64, err error) {
	head := im.Bytes(at, 4)
	if len(head) < 4 {
		return nil, 0, errUnwind
	}
	n := binary.LittleEndian.Uint32(head)
	if n < 4 || n > maxUnwindEntry {
		return nil, 0, errUnwind
	}
	b = im.Bytes(at+4, int(n))
	if len(b) < int(n) {
		return nil, 0, errUnwind
	}
	return b, at + 4, nil
}

func (im *Image) unwindEntry(at uint64) (*unwindEntry, error) {
	b, body, err := im.entryBytes(at)
	if err != nil {
		return nil, err
	}
	back := uint64(binary.LittleEndian.Uint32(b))
	if back == 0 { // it is itself a common entry
		return nil, errUnwind
	}
	common, err := im.commonEntry(body - back)
	if err != nil {
		return nil, err
	}
	d := unwindReader{b: b[4:], at: body + 4, headers: im.headers}
	from := d.pointer(common.encoding)
	length := d.pointer(common.encoding & formatMask)
	if common.augmented {
		d.skip(d.unsigned())
	}
	if d.err != nil || length == 0 || from > math.MaxUint64-length {
		return nil, errUnwind
	}
	return &unwindEntry{span: Span{from, from + length}, common: *common, instructions: d.b}, nil
}

func (im *Image) commonEntry(at uint64) (*commonEntry, error) {
	b, body, err := im.entryBytes(at)
	if err != nil {
		return nil, err
	}
	if len(b) < 6 || binary.LittleEndian.Uint32(b) != 0 || b[4] != 1 && b[4] != 3 {
		return nil, errUnwind
	}
	version := b[4]
	augmentation, rest, whole := bytes.Cut(b[5:], []byte{0})
	if !whole {
		return nil, errUnwind
	}
	d := unwindReader{b: rest, at: body + uint64(len(b)-len(rest)), headers: im.headers}
	c := &commonEntry{codeAlign: d.unsigned(), dataAlign: d.signed()}
	if version == 1 {
		c.returnAddress = uint64(d.byte())
	} else {
		c.returnAddress = d.unsigned()
	}
	d.augmentation(c, string(augmentation))
	c.instructions = d.b
	return c, d.err
}

// augmentation reads the augmentation data, which a string describes by a letter a member.
func (d *unwindReader) augmentation(c *commonEntry, letters string) {
	if letters == "" {
		return
	}
	if letters[0] != 'z' {
		d.err = errUnwind
		return
	}
	c.augmented = true
	length := d.unsigned()
	if d.err != nil || length > uint64(len(d.b)) {
		d.err = errUnwind
		return
	}
	inner := unwindReader{b: d.b[:length], at: d.at, headers: d.headers}
	for _, letter := range letters[1:] {
		switch letter {
		case 'R':
			c.encoding = inner.byte()
		case 'P':
			inner.pointer(inner.byte() &^ encodingIndirect)
		case 'L':
			inner.byte()
		case 'S':
			c.signal = true
		case 'B': // return addresses are signed with the second key
		default:
			inner.err = errUnwind
		}
	}
	if inner.err != nil {
		d.err = inner.err
	}
	d.skip(length)
}

// An unwindReader reads the members of an entry. After an error it reads zeros.
type unwindReader struct {
	b       []byte
	at      uint64 // address of b
	headers uint64
	err     error
}

func (d *unwindReader) skip(n uint64) {
	if n > uint64(len(d.b)) {
		d.err, n = errUnwind, uint64(len(d.b))
	}
	d.b, d.at = d.b[n:], d.at+n
}

// takeBytes reads n bytes, n at most 8.
func (d *unwindReader) takeBytes(n uint64) uint64 {
	var word [8]byte
	copy(word[:n], d.b)
	d.skip(n)
	if d.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(word[:])
}

func (d *unwindReader) byte() byte { return byte(d.takeBytes(1)) }

// unsigned and signed read a number of variable length (LEB128).
func (d *unwindReader) unsigned() uint64 {
	n, _ := d.variable()
	return n
}

func (d *unwindReader) signed() int64 {
	n, bits := d.variable()
	if bits < 64 && n>>(bits-1)&1 != 0 {
		n |= math.MaxUint64 << bits
	}
	return int64(n)
}

// variable reads a number of variable length and says of how many bits it is.
func (d *unwindReader) variable() (n uint64, bits int) {
	for bits < 64 {
		b := d.byte()
		n |= uint64(b&0x7f) << bits
		bits += 7
		if b&0x80 == 0 {
			return n, bits
		}
	}
	d.err = errUnwind
	return 0, 7
}

// pointer reads a pointer.
func (d *unwindReader) pointer(encoding byte) uint64 {
	if encoding == encodingOmitted {
		return 0
	}
	at := d.at
	var n uint64
	switch encoding & formatMask {
	case formatAbsolute, formatU64, formatS64:
		n = d.takeBytes(8)
	case formatU32:
		n = d.takeBytes(4)
	case formatS32:
		n = uint64(int64(int32(d.takeBytes(4))))
	default:
		d.err = errUnwind
	}
	switch encoding & (baseMask | encodingIndirect) {
	case baseNone:
	case baseHere:
		n += at
	case baseHeaders:
		n += d.headers
	default:
		d.err = errUnwind
	}
	return n
}

// registers are the numbers of a machine's registers in unwind tables.
type registers struct {
	frame, returnAddress, stack uint64
}

func machineRegisters() registers {
	if host.Machine() == elf.EM_AARCH64 {
		return registers{frame: 29, returnAddress: 30, stack: 31}
	}
	return registers{frame: 6, returnAddress: 16, stack: 7}
}

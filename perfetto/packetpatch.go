package perfetto

import (
	"encoding/binary"
	"math/bits"
)

// Most packets differ from the previous packet of their template in the timestamp and in
// up to four varints, and most of these varints keep their length. Copying the previous
// packet and overwriting the varints takes a third of the time of encoding a packet, and
// gives the same bytes.
//
// Encoding and patching both store into memory that is known to have room, see
// [bufferedSequence.room]. That is faster than append, which checks the capacity for each
// value, and lets a short value be stored in one go with the spare bytes behind it.

const (
	// maxPatched is the number of varints, beside the timestamp, that a patch overwrites.
	maxPatched = 4

	// shortBytes is the size of a packet that is copied in one go; nearly all are smaller.
	shortBytes = 112

	oneByteLength = 2 + 1<<7  // packets below this size have a length of one byte
	twoByteLength = 3 + 1<<14 // packets below this size have a length of two bytes

	maxVarint = 10 // bytes
)

// patchValues are the varints that a patch overwrites.
type patchValues [maxPatched]struct {
	value uint64
	size  int // in bytes; 0 where the packet has no such varint
}

func (v *patchValues) set(i int, value uint64) {
	v[i].value, v[i].size = value, sizeVarint(value)
}

// arguments sets the values from i on to those of arguments.
func (v *patchValues) arguments(i int, args *UintArgs) {
	for k := range args {
		if args[k].name != nil {
			v.set(i+k, args[k].value)
		}
	}
}

// sizes packs the sizes into one number.
func (v *patchValues) sizes() uint32 {
	return uint32(v[0].size | v[1].size<<8 | v[2].size<<16 | v[3].size<<24)
}

// A lastPacket is a copy of the latest packet that was encoded with a template.
type lastPacket struct {
	sequence *bufferedSequence         // of the packet; nil without one
	args     [len(UintArgs{})]*ArgName // of the packet; nil without one
	sizes    uint32                    // patchValues.sizes
	size     uint16                    // bytes before the timestamp
	offsets  [maxPatched]uint16
	short    [shortBytes]byte // the packet, if it fits
	long     []byte           // the packet, if it does not
}

// patch appends the packet with other values and another timestamp to its sequence. It
// reports false, and appends nothing, when that takes more than overwriting varints.
func (p *lastPacket) patch(s *bufferedSequence, last *UintArgs, v *patchValues, ts uint64) bool {
	if p.sequence != s || p.args[0] != last[0].name || p.args[1] != last[1].name || p.sizes != v.sizes() {
		return false
	}
	var b []byte
	i := int(p.size)
	if i <= shortBytes {
		b = s.room(shortBytes + maxVarint)
		*(*[shortBytes]byte)(b) = p.short
	} else {
		b = s.room(i + maxVarint)
		copy(b, p.long[:i])
	}
	if v[0].size > 0 {
		overwriteVarint(b, int(p.offsets[0]), v[0].value, v[0].size)
	}
	if v[1].size > 0 {
		overwriteVarint(b, int(p.offsets[1]), v[1].value, v[1].size)
	}
	if v[2].size > 0 {
		overwriteVarint(b, int(p.offsets[2]), v[2].value, v[2].size)
	}
	if v[3].size > 0 {
		overwriteVarint(b, int(p.offsets[3]), v[3].value, v[3].size)
	}
	i = putVarint(b, i, ts-s.last)
	if i < oneByteLength {
		b[1] = byte(i - 2)
	} else {
		overwriteVarint(b, 1, uint64(i-3), 2)
	}
	s.append(i, ts)
	return true
}

// save copies a packet up to its timestamp. ends are the offsets behind the varints.
func (p *lastPacket) save(s *bufferedSequence, last *UintArgs, v *patchValues, packet []byte, ends *[maxPatched]int) {
	p.sequence = nil
	size := len(packet)
	if most := size + maxVarint; most >= oneByteLength && size < oneByteLength || most >= twoByteLength {
		return // the size of the packet's length depends on the timestamp
	}
	p.sequence, p.args, p.sizes, p.size = s, [...]*ArgName{last[0].name, last[1].name}, v.sizes(), uint16(size)
	if size <= shortBytes {
		copy(p.short[:], packet)
	} else {
		p.long = append(p.long[:0], packet...)
	}
	for i := range ends {
		p.offsets[i] = uint16(ends[i] - v[i].size)
	}
}

// overwriteVarint stores v, which takes size bytes, at b[i:], and nothing behind it.
func overwriteVarint(b []byte, i int, v uint64, size int) {
	switch size {
	case 1:
		b[i] = byte(v)
	case 2:
		le.PutUint16(b[i:], uint16(v&0x7f|v<<1&0x7f00|0x80))
	case 3:
		le.PutUint16(b[i:], uint16(v&0x7f|v<<1&0x7f00|0x8080))
		b[i+2] = byte(v >> 14)
	case 4:
		le.PutUint32(b[i:], uint32(v&0x7f|v<<1&0x7f00|v<<2&0x7f0000|v<<3&0x7f000000|0x808080))
	default:
		for ; v >= 1<<7; i++ {
			b[i] = byte(v) | 0x80
			v >>= 7
		}
		b[i] = byte(v)
	}
}

var le = binary.LittleEndian

// putVarint stores v at b[i:] and returns the offset behind it. It may overwrite the
// [spareBytes] behind that.
func putVarint(b []byte, i int, v uint64) int {
	if v < 1<<7 {
		b[i] = byte(v)
		return i + 1
	}
	if v < 1<<14 {
		le.PutUint16(b[i:], uint16(v&0x7f|v<<1&0x7f00|0x80))
		return i + 2
	}
	return putLongVarint(b, i, v)
}

// putLongVarint stores up to 28 bits of v at a time.
func putLongVarint(b []byte, i int, v uint64) int {
	for v >= 1<<28 {
		le.PutUint32(b[i:], uint32(v&0x7f|v<<1&0x7f00|v<<2&0x7f0000|v<<3&0x7f000000|0x80808080))
		v >>= 28
		i += 4
	}
	n := sizeVarint(v)
	more := uint64(0x80808080) & (1<<(8*(n-1)) - 1)
	le.PutUint32(b[i:], uint32(v&0x7f|v<<1&0x7f00|v<<2&0x7f0000|v<<3&0x7f000000|more))
	return i + n
}

// sizeVarint is the number of bytes of v as a varint, which has 7 bits a byte.
func sizeVarint(v uint64) int { return (bits.Len64(v|1)*9 + 64) / 64 }

// A fragment is a part of a packet, of at most 16 bytes, that is stored with two store
// instructions.
type fragment struct {
	low, high uint64
	size      int
}

// newFragment joins parts.
func newFragment(parts ...[]byte) (f fragment) {
	var all [16]byte
	for _, b := range parts {
		f.size += copy(all[f.size:], b)
	}
	f.low, f.high = le.Uint64(all[:]), le.Uint64(all[8:])
	return f
}

// put stores the fragment at b[i:] and returns the offset behind it. It may overwrite the
// [spareBytes] behind that.
func (f *fragment) put(b []byte, i int) int {
	to := b[i : i+16]
	le.PutUint64(to, f.low)
	le.PutUint64(to[8:], f.high)
	return i + f.size
}

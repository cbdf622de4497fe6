package perfetto

// An image is the latest packet that a template made in some lane. The next one differs
// from it in a few numbers mostly, which are as long as they were: it is copied and the
// numbers are replaced, which takes a third of the time of making it.
type image struct {
	lane  *lane
	name  *ArgName
	sizes uint32 // of the numbers, see numbers.sizes
	n     uint16 // size of the packet up to the time
	at    [maxNumbers]uint16
	short [shortImage]byte // the packet, if there is room for it
	long  []byte           // else
}

// shortImage is the size of a packet that is copied in one go, which nearly all are.
const shortImage = 112

// maxNumbers is how many numbers differ from packet to packet, beside the time.
const maxNumbers = 3

// numbers are what stands in an image's places. Sizes of 0 are those of numbers that are
// not there.
type numbers [maxNumbers]struct {
	v    uint64
	size int
}

func (n *numbers) set(i int, v uint64) { n[i].v, n[i].size = v, sizeVarint(v) }

func (n *numbers) sizes() uint32 { return uint32(n[0].size | n[1].size<<8 | n[2].size<<16) }

// again writes the packet of an image with other numbers. It reports false when the image
// is not of such a packet.
func (m *image) again(l *lane, name *ArgName, n *numbers, ts uint64) bool {
	if m.lane != l || m.name != name || m.sizes != n.sizes() {
		return false
	}
	var b []byte
	i := int(m.n)
	if i <= shortImage {
		b = l.room(shortImage + 10)
		*(*[shortImage]byte)(b) = m.short
	} else {
		b = l.room(i + 10)
		copy(b, m.long[:i])
	}
	if n[0].size > 0 {
		putSized(b, int(m.at[0]), n[0].v, n[0].size)
	}
	if n[1].size > 0 {
		putSized(b, int(m.at[1]), n[1].v, n[1].size)
	}
	if n[2].size > 0 {
		putSized(b, int(m.at[2]), n[2].v, n[2].size)
	}
	i = putVarint(b, i, ts-l.last)
	if i < shortPacket {
		b[1] = byte(i - 2)
	} else {
		putSized(b, 1, uint64(i-3), 2)
	}
	l.put(i, ts)
	return true
}

const (
	shortPacket = 2 + 1<<7 // packets below this have a length of one byte
	longPacket  = 3 + 1<<14
)

// keep makes an image of the packet that was just put into a lane. at has how far before
// its end the numbers stand, from which timed says how many bytes the time takes.
func (m *image) keep(l *lane, name *ArgName, n *numbers, size, timed int, at [maxNumbers]int) {
	m.lane = nil
	size -= timed
	if len(l.held.b) < size+timed {
		return // it is written
	}
	if most := size + 10; most >= shortPacket && size < shortPacket || most >= longPacket {
		return // the size of its length depends on the time
	}
	m.lane, m.name, m.sizes = l, name, n.sizes()
	packet := l.held.b[len(l.held.b)-size-timed:]
	m.n = uint16(size)
	if size <= shortImage {
		copy(m.short[:], packet[:size])
	} else {
		m.long = append(m.long[:0], packet[:size]...)
	}
	for i := range at {
		m.at[i] = uint16(size + timed - at[i])
	}
}

// putSized stores v, which takes size bytes, at b[i:], and nothing behind it.
func putSized(b []byte, i int, v uint64, size int) {
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

package browser

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	maxBytes  = 2 << 30 // of a trace, uncompressed, that are read: more than the UI takes
	maxPacket = 16 << 20
)

// Field numbers of Perfetto's definitions; package perfetto explains them.
const (
	tracePacket = 1

	packetChromeEvents = 5
	bundleMetadata     = 2
	metadataName       = 1
	metadataText       = 2
)

// A View is what the UI shows first. Times are those of the trace's clock, in ns.
type View struct {
	Start    uint64   `json:"start"` // of the recording; 0 where the trace does not have it
	From, To uint64   // nothing in particular, unless To is larger
	Pins     []string `json:"pins"` // regular expressions of the names of the tracks on top
	Notes    []Note   `json:"notes"`
}

// A Note is a mark on the time axis.
type Note struct {
	At   uint64 `json:"at"`
	Text string `json:"text"`
}

// maxView bounds the view of a trace, in bytes: it becomes part of an address, and the trace may be anybody's.
const maxView = 32 << 10

// viewFact is the name of the metadata that has the view: see perfetto.View.
const viewFact = "view"

// Around returns the view with as much time as it shows, but around a moment, and a note there.
func (v View) Around(at uint64, note string) View {
	half := max(v.To-v.From, uint64(time.Microsecond)) / 2
	v.From, v.To = at-min(at, half), at+min(half, ^at)
	v.Notes = append(slices.Clone(v.Notes), Note{at, note})
	return v
}

// FirstView returns where a viewer begins: at the view that the trace itself has, one of Perfetto's, with or without
// gzip. The view is zero for any other file.
func FirstView(r io.Reader) (v View, err error) {
	in, err := uncompressed(r)
	if err != nil {
		return v, err
	}
	in = bufio.NewReaderSize(io.LimitReader(in, maxBytes), 1<<20)
	var packet []byte
	for {
		if packet, err = nextPacket(in, packet); err != nil {
			break
		}
		eachField(packet, func(n protowire.Number, bundle []byte) {
			if n == packetChromeEvents {
				v.read(bundle)
			}
		})
	}
	if !errors.Is(err, errEnd) {
		return v, err
	}
	return v, nil
}

// uncompressed removes gzip, if there is any.
func uncompressed(r io.Reader) (*bufio.Reader, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	if head, _ := b.Peek(2); !bytes.Equal(head, []byte{0x1f, 0x8b}) {
		return b, nil
	}
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	return bufio.NewReader(z), nil
}

// errEnd is the end of what can be read: a trace that was cut off, or a file of another kind, has one,
// too.
var errEnd = errors.New("end of the trace")

// nextPacket reads the next packet, an empty one for a packet that is too large.
func nextPacket(r *bufio.Reader, buffer []byte) ([]byte, error) {
	tag, err := varint(r)
	if err != nil {
		return nil, err
	}
	if tag != tracePacket<<3|uint64(protowire.BytesType) {
		return nil, errEnd
	}
	size, err := varint(r)
	if err != nil {
		return nil, err
	}
	if size > maxPacket {
		_, err := io.CopyN(io.Discard, r, int64(min(size, math.MaxInt64)))
		return buffer[:0], ended(err)
	}
	buffer = slices.Grow(buffer[:0], int(size))[:size]
	_, err = io.ReadFull(r, buffer)
	return buffer, ended(err)
}

// varint reads a number. One that is malformed ends the trace.
func varint(r *bufio.Reader) (uint64, error) {
	v, err := binary.ReadUvarint(r)
	if err == nil {
		return v, nil
	}
	if _, failed := r.Peek(1); failed != nil {
		return 0, ended(failed)
	}
	return 0, errEnd
}

// ended turns the end of a file into errEnd.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errEnd
	}
	return err
}

// read looks for the view among facts. Text that is no view is that of another program.
func (v *View) read(bundle []byte) {
	eachField(bundle, func(n protowire.Number, fact []byte) {
		if n != bundleMetadata {
			return
		}
		var name, text []byte
		eachField(fact, func(n protowire.Number, bytes []byte) {
			switch n {
			case metadataName:
				name = bytes
			case metadataText:
				text = bytes
			}
		})
		var found View
		if string(name) == viewFact && len(text) <= maxView && json.Unmarshal(text, &found) == nil && found.To >= found.From {
			*v = found
		}
	})
}

// eachField calls a function with the number and the bytes of each field of a message that has some, up to a field
// that is malformed.
func eachField(b []byte, do func(n protowire.Number, bytes []byte)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		value := protowire.ConsumeFieldValue(n, kind, b[size:])
		if value < 0 {
			return
		}
		if kind == protowire.BytesType {
			bytes, _ := protowire.ConsumeBytes(b[size:])
			do(n, bytes)
		}
		b = b[size+value:]
	}
}

package browser

import (
	"bufio"
	"bytes"
	"cmp"
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
	pieces       = 50      // of work that a viewer should show at first
	maxBytes     = 2 << 30 // of a trace, uncompressed, that are read: more than the UI takes
	maxPacket    = 16 << 20
	maxSequences = 1 << 20
)

// Field numbers of Perfetto's definitions; package perfetto explains them.
const (
	tracePacket = 1

	packetChromeEvents  = 5
	packetClockSnapshot = 6
	packetTimestamp     = 8
	packetSequenceID    = 10
	packetRenderStage   = 53

	snapshotClock      = 1
	clockID            = 1
	clockTimestamp     = 2
	clockIsIncremental = 3
	clockSequence      = 64 // the first clock that a sequence may define

	renderStageDuration = 2

	bundleMetadata = 2
	metadataName   = 1
	metadataText   = 2
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

// FirstView returns where a viewer begins: at the view that the trace itself has, else at the first pieces of GPU work,
// with some room. The trace is one of Perfetto's, with or without gzip, also of another program. The view is zero for a
// trace without GPU work, and for a file that is no such trace.
func FirstView(r io.Reader) (v View, err error) {
	in, err := uncompressed(r)
	if err != nil {
		return v, err
	}
	f := finder{clocks: make(map[uint64]uint64)}
	in = bufio.NewReaderSize(io.LimitReader(in, maxBytes), 1<<20)
	var packet []byte
	for {
		if packet, err = nextPacket(in, packet); err != nil {
			break
		}
		f.packet(packet)
	}
	if !errors.Is(err, errEnd) {
		return v, err
	}
	if f.view.To > f.view.From {
		return f.view, nil
	}
	return f.work(), nil
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

// A finder goes through the packets of a trace.
type finder struct {
	clocks map[uint64]uint64 // of each sequence with a clock of its own: the time of its latest packet
	first  []span            // the first pieces of work, by their beginning
	view   View              // of the trace's metadata
}

// A span is a time from and to.
type span struct{ from, to uint64 }

// A packet is what counts of a TracePacket.
type packet struct {
	sequence  uint64
	timestamp uint64
	timed     bool
	clocks    []byte // a ClockSnapshot
	work      []byte // a GpuRenderStageEvent
	facts     []byte // a ChromeEventBundle
}

func (f *finder) packet(b []byte) {
	var p packet
	eachField(b, func(n protowire.Number, v uint64, bytes []byte) {
		switch n {
		case packetSequenceID:
			p.sequence = v
		case packetTimestamp:
			p.timestamp, p.timed = v, true
		case packetClockSnapshot:
			p.clocks = bytes
		case packetRenderStage:
			p.work = bytes
		case packetChromeEvents:
			p.facts = bytes
		}
	})
	if p.facts != nil {
		f.facts(p.facts)
	}
	if start, ok := sequenceClock(p.clocks); ok && len(f.clocks) < maxSequences {
		f.clocks[p.sequence] = start
	}
	if !p.timed {
		return
	}
	at := p.timestamp
	if last, ok := f.clocks[p.sequence]; ok {
		at += last
		f.clocks[p.sequence] = at
	}
	if p.work != nil {
		f.offer(at, p.work)
	}
}

// sequenceClock returns the time at which a ClockSnapshot starts the sequence's own clock, whose
// timestamps are distances.
func sequenceClock(snapshot []byte) (start uint64, ok bool) {
	eachField(snapshot, func(n protowire.Number, _ uint64, bytes []byte) {
		if n != snapshotClock {
			return
		}
		var id, at, incremental uint64
		eachField(bytes, func(n protowire.Number, v uint64, _ []byte) {
			switch n {
			case clockID:
				id = v
			case clockTimestamp:
				at = v
			case clockIsIncremental:
				incremental = v
			}
		})
		if id == clockSequence && incremental == 1 {
			start, ok = at, true
		}
	})
	return start, ok
}

// facts looks for the view among facts. Text that is no view is that of another program.
func (f *finder) facts(bundle []byte) {
	eachField(bundle, func(n protowire.Number, _ uint64, fact []byte) {
		if n != bundleMetadata {
			return
		}
		var name, text []byte
		eachField(fact, func(n protowire.Number, _ uint64, bytes []byte) {
			switch n {
			case metadataName:
				name = bytes
			case metadataText:
				text = bytes
			}
		})
		var v View
		if string(name) == viewFact && len(text) <= maxView && json.Unmarshal(text, &v) == nil {
			f.view = v
		}
	})
}

// offer keeps a piece of work if it is among the first.
func (f *finder) offer(at uint64, work []byte) {
	if len(f.first) == pieces && at >= f.first[pieces-1].from {
		return
	}
	s := span{at, at}
	eachField(work, func(n protowire.Number, v uint64, _ []byte) {
		if n == renderStageDuration {
			s.to = at + min(v, math.MaxUint64-at)
		}
	})
	i, _ := slices.BinarySearchFunc(f.first, at, func(s span, at uint64) int { return cmp.Compare(s.from, at) })
	f.first = slices.Insert(f.first, i, s)
	f.first = f.first[:min(len(f.first), pieces)]
}

// work is the time from the beginning of the first piece of work to the end of the fiftieth, with some room around it.
func (f *finder) work() (v View) {
	if len(f.first) == 0 {
		return v
	}
	v.From = f.first[0].from
	for _, w := range f.first {
		v.To = max(v.To, w.to)
	}
	room := max((v.To-v.From)/20, uint64(time.Microsecond))
	v.From, v.To = v.From-min(v.From, room), v.To+min(room, ^v.To)
	return v
}

// eachField calls a function with the number and the value of each field of a message, up to a field
// that is malformed.
func eachField(b []byte, do func(n protowire.Number, v uint64, bytes []byte)) {
	for len(b) > 0 {
		n, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return
		}
		b = b[size:]
		var v uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			v, size = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(b)
		default:
			size = protowire.ConsumeFieldValue(n, kind, b)
		}
		if size < 0 {
			return
		}
		do(n, v, bytes)
		b = b[size:]
	}
}

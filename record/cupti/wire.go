package cupti

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// The Go side of inject/wire.h, which is where the format is described. A test
// compiles that header and holds every number here against it.
const (
	wireVersion = 1
	messageMax  = 1 << 20
	nameMax     = 32768
	stringsMax  = 65536
	goMax       = 256 << 10 // of a GO, as the library takes it
	frameSize   = 8
)

type messageType uint16

const (
	msgHello  messageType = 1
	msgStatus messageType = 2
	msgBatch  messageType = 3
	msgClock  messageType = 4
	msgLost   messageType = 5
	msgNote   messageType = 6
	msgBye    messageType = 7
	msgGo     messageType = 32
	msgStop   messageType = 33
	msgFlush  messageType = 34
)

// Sizes of the fixed parts of messages.
const (
	helloSize  = 24
	goSize     = 32
	statusSize = 24
	clockSize  = 24
	lostSize   = 32
	noteSize   = 8
	byeSize    = 64
)

const (
	statusOn  = 1
	goNoCUPTI = 1
)

// lostCauses names the causes of a LOST message as the log has them.
var lostCauses = [...]string{
	1: "cupti_queue",      // the recorder read too slowly
	2: "cupti_dropped",    // CUPTI dropped records
	3: "cupti_buffer",     // no buffer was left for CUPTI; at least so many
	4: "cupti_time",       // CUPTI gave no times; the record is there with times 0
	5: "cupti_clock",      // times on no known clock; the record is there with times 0
	6: "cupti_name",       // the table of names was full; the record is there without its name
	7: "cupti_unreadable", // rests of buffers that CUPTI could not read itself
	8: "cupti_unfinished", // still running at the last flush; the record has no end
}

var le = binary.LittleEndian

// A protocolError says what is wrong with what a peer sent.
type protocolError string

func (e protocolError) Error() string { return string(e) }

func malformed(format string, args ...any) error {
	return protocolError(fmt.Sprintf(format, args...))
}

// A messageReader reads framed messages from a peer that may send anything.
type messageReader struct {
	r   io.Reader
	buf []byte
}

// next returns a message; its payload is valid until the next call. The error
// is io.EOF between messages, io.ErrUnexpectedEOF within one.
func (m *messageReader) next() (messageType, []byte, error) {
	var frame [frameSize]byte
	if _, err := io.ReadFull(m.r, frame[:]); err != nil {
		return 0, nil, err
	}
	length := le.Uint32(frame[0:])
	if length > messageMax {
		return 0, nil, malformed("a message of %d bytes, more than the %d allowed", length, messageMax)
	}
	if uint32(cap(m.buf)) < length {
		m.buf = make([]byte, length)
	}
	payload := m.buf[:length]
	if _, err := io.ReadFull(m.r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return messageType(le.Uint16(frame[4:])), payload, nil
}

func appendFrame(b []byte, t messageType, payload []byte) []byte {
	b = le.AppendUint32(b, uint32(len(payload)))
	b = le.AppendUint16(b, uint16(t))
	b = le.AppendUint16(b, 0)
	return append(b, payload...)
}

// tail returns the text of n bytes at the start of b and what follows it.
func tail(b []byte, n uint32) (string, []byte, error) {
	if uint64(n) > uint64(len(b)) {
		return "", nil, malformed("a text of %d bytes in %d", n, len(b))
	}
	return string(b[:n]), b[n:], nil
}

type hello struct {
	version, pid uint32
	now          uint64
	path         string
}

func parseHello(b []byte) (h hello, err error) {
	if len(b) < helloSize {
		return h, malformed("a HELLO of %d bytes", len(b))
	}
	h = hello{version: le.Uint32(b), pid: le.Uint32(b[4:]), now: le.Uint64(b[8:])}
	if h.version != wireVersion {
		return h, malformed("version %d of the protocol, this is version %d", h.version, wireVersion)
	}
	h.path, _, err = tail(b[helloSize:], le.Uint32(b[16:]))
	return h, err
}

type status struct {
	on                           bool
	version, driverVersion, apis uint32
	path, text                   string
}

func parseStatus(b []byte) (s status, err error) {
	if len(b) < statusSize {
		return s, malformed("a STATUS of %d bytes", len(b))
	}
	s = status{
		on:            le.Uint32(b) == statusOn,
		version:       le.Uint32(b[4:]),
		driverVersion: le.Uint32(b[8:]),
		apis:          le.Uint32(b[12:]),
	}
	var rest []byte
	if s.path, rest, err = tail(b[statusSize:], le.Uint32(b[16:])); err != nil {
		return s, err
	}
	s.text, _, err = tail(rest, le.Uint32(b[20:]))
	return s, err
}

// parseClock returns the largest error so far, ns.
func parseClock(b []byte) (uint64, error) {
	if len(b) < clockSize {
		return 0, malformed("a CLOCK of %d bytes", len(b))
	}
	return le.Uint64(b[16:]), nil
}

type lost struct {
	cause           string
	count, from, to uint64
}

func parseLost(b []byte) (l lost, err error) {
	if len(b) < lostSize {
		return l, malformed("a LOST of %d bytes", len(b))
	}
	cause := le.Uint32(b)
	if cause == 0 || cause >= uint32(len(lostCauses)) {
		return l, malformed("a LOST of unknown cause %d", cause)
	}
	return lost{lostCauses[cause], le.Uint64(b[8:]), le.Uint64(b[16:]), le.Uint64(b[24:])}, nil
}

func parseNote(b []byte) (severity uint32, text string, err error) {
	if len(b) < noteSize {
		return 0, "", malformed("a NOTE of %d bytes", len(b))
	}
	text, _, err = tail(b[noteSize:], le.Uint32(b[4:]))
	return le.Uint32(b), text, err
}

type bye struct {
	now                                          uint64
	kernels, copies, sets, apis, objects, others uint64
}

func parseBye(b []byte) (y bye, err error) {
	if len(b) < byeSize {
		return y, malformed("a BYE of %d bytes", len(b))
	}
	return bye{
		now:     le.Uint64(b[8:]),
		kernels: le.Uint64(b[16:]),
		copies:  le.Uint64(b[24:]),
		sets:    le.Uint64(b[32:]),
		apis:    le.Uint64(b[40:]),
		objects: le.Uint64(b[48:]),
		others:  le.Uint64(b[56:]),
	}, nil
}

// appendGo encodes the answer to a HELLO. Candidates that would make it longer
// than the library takes are left out from the end.
func appendGo(b []byte, c GoConfig) []byte {
	var paths []byte
	n := uint32(0)
	for _, x := range c.Candidates {
		if goSize+len(paths)+8+len(x.Path) > goMax {
			break
		}
		paths = le.AppendUint32(paths, x.Major)
		paths = le.AppendUint32(paths, uint32(len(x.Path)))
		paths = append(paths, x.Path...)
		n++
	}
	var flags uint32
	if c.NoCUPTI {
		flags |= goNoCUPTI
	}
	p := le.AppendUint32(nil, c.BufferSize)
	p = le.AppendUint32(p, uint32(c.FlushInterval/time.Millisecond))
	p = le.AppendUint64(p, c.MemoryLimit)
	p = le.AppendUint32(p, uint32(c.ExitWait/time.Millisecond))
	p = le.AppendUint32(p, flags)
	p = le.AppendUint32(p, n)
	p = le.AppendUint32(p, 0)
	return appendFrame(b, msgGo, append(p, paths...))
}

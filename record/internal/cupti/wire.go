package cupti

import (
	"encoding/binary"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The Go side of inject/wire.h, which describes the format. The numbers are wire_gen.go's.

type messageType uint16

// lostNames are the causes of a LOST message by the log's names.
var lostNames = [lostCauses]string{
	lostQueue:      tracelog.LostCUPTIQueue,
	lostCupti:      tracelog.LostCUPTIDropped,
	lostBuffer:     tracelog.LostCUPTIBuffer,
	lostTime:       tracelog.LostCUPTITime,
	lostClock:      tracelog.LostCUPTIClock,
	lostName:       tracelog.LostCUPTIName,
	lostUnreadable: tracelog.LostCUPTIUnreadable,
	lostUnfinished: tracelog.LostCUPTIUnfinished,
	lostCut:        tracelog.LostStrings,
	lostPython:     tracelog.LostPython,
	lostOperator:   tracelog.LostOperators,
	lostSpan:       tracelog.LostOperatorSpans,
	lostMemory:     tracelog.LostMemoryCalls,
	lostRange:      tracelog.LostRanges,
}

var le = binary.LittleEndian

// A protocolError says what is wrong with a message of a peer.
type protocolError string

func (e protocolError) Error() string { return string(e) }

func malformed(format string, args ...any) error {
	return protocolError(fmt.Sprintf(format, args...))
}

// messageUsual is the size of the largest message that the injected library sends, and a little more.
const messageUsual = 66 << 10

// A messageReader reads framed messages from a peer that may send anything.
type messageReader struct {
	r      io.Reader
	memory *peerMemory
	buf    []byte
	taken  int // bytes of buf that memory gave
}

// next returns a message; its payload is valid until the next call. The error is io.EOF between
// messages and io.ErrUnexpectedEOF within one.
func (m *messageReader) next() (messageType, []byte, error) {
	var frame [frameSize]byte
	if _, err := io.ReadFull(m.r, frame[:]); err != nil {
		return 0, nil, err
	}
	length := le.Uint32(frame[frameLengthAt:])
	if length > messageMax {
		return 0, nil, malformed("a message of %d bytes, more than the %d allowed", length, messageMax)
	}
	if err := m.grow(int(length)); err != nil {
		return 0, nil, err
	}
	payload := m.buf[:length]
	if _, err := io.ReadFull(m.r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return messageType(le.Uint16(frame[frameTypeAt:])), payload, nil
}

// grow makes room for a message.
func (m *messageReader) grow(length int) error {
	if cap(m.buf) >= length {
		return nil
	}
	if more := length - messageUsual - m.taken; more > 0 {
		if !m.memory.reserve(more) {
			return malformed("a message of %d bytes, for which there is no memory: all processes together have taken %d bytes",
				length, peerBytesMax)
		}
		m.taken += more
	}
	m.buf = make([]byte, max(length, min(2*cap(m.buf), messageUsual)))
	return nil
}

// release gives the memory of the messages back.
func (m *messageReader) release() { m.memory.give(m.taken) }

func appendFrame(b []byte, t messageType, payload []byte) []byte {
	b = le.AppendUint32(b, uint32(len(payload)))
	b = le.AppendUint16(b, uint16(t))
	b = le.AppendUint16(b, 0)
	return append(b, payload...)
}

// tail returns the text of n bytes at the start of b, and the rest of b.
func tail(b []byte, n uint32) (string, []byte, error) {
	if uint64(n) > uint64(len(b)) {
		return "", nil, malformed("a text of %d bytes in %d", n, len(b))
	}
	return string(b[:n]), b[n:], nil
}

type hello struct {
	version        uint32
	since, request uint64
}

func parseHello(b []byte) (h hello, err error) {
	if len(b) < helloSize {
		return h, malformed("a HELLO of %d bytes", len(b))
	}
	h = hello{
		version: le.Uint32(b[helloVersionAt:]),
		since:   le.Uint64(b[helloSinceAt:]),
		request: le.Uint64(b[helloRequestAt:]),
	}
	if h.version != wireVersion {
		return h, malformed("version %d of the protocol, this is version %d", h.version, wireVersion)
	}
	return h, nil
}

type status struct {
	on, taken              bool
	version, driverVersion uint32
	exitSignal             uint32
	exitHandler, exitOver  uint64
	path, text             string
}

func parseStatus(b []byte) (s status, err error) {
	if len(b) < statusSize {
		return s, malformed("a STATUS of %d bytes", len(b))
	}
	s = status{
		on:            le.Uint32(b[statusStateAt:]) == statusOn,
		taken:         le.Uint32(b[statusStateAt:]) == statusTaken,
		version:       le.Uint32(b[statusCuptiVersionAt:]),
		driverVersion: le.Uint32(b[statusDriverVersionAt:]),
		exitSignal:    le.Uint32(b[statusExitSignalAt:]),
		exitHandler:   le.Uint64(b[statusExitHandlerAt:]),
		exitOver:      le.Uint64(b[statusExitOverAt:]),
	}
	var rest []byte
	if s.path, rest, err = tail(b[statusSize:], le.Uint32(b[statusPathLenAt:])); err != nil {
		return s, err
	}
	s.text, _, err = tail(rest, le.Uint32(b[statusTextLenAt:]))
	return s, err
}

// parseClock returns the largest error of a time so far, in ns, and how CUPTI's times become ours.
func parseClock(b []byte) (uncertain uint64, mode uint32, err error) {
	if len(b) < clockSize {
		return 0, 0, malformed("a CLOCK of %d bytes", len(b))
	}
	return le.Uint64(b[clockErrorAt:]), le.Uint32(b[clockModeAt:]), nil
}

type lost struct {
	cause           string
	count, from, to uint64
}

func parseLost(b []byte) (l lost, err error) {
	if len(b) < lostSize {
		return l, malformed("a LOST of %d bytes", len(b))
	}
	cause := le.Uint32(b[lostCauseAt:])
	if cause == 0 || cause >= lostCauses {
		return l, malformed("a LOST of unknown cause %d", cause)
	}
	return lost{lostNames[cause], le.Uint64(b[lostCountAt:]), le.Uint64(b[lostFromAt:]), le.Uint64(b[lostToAt:])}, nil
}

func parseNote(b []byte) (severity uint32, text string, err error) {
	if len(b) < noteSize {
		return 0, "", malformed("a NOTE of %d bytes", len(b))
	}
	text, _, err = tail(b[noteSize:], le.Uint32(b[noteTextLenAt:]))
	return le.Uint32(b[noteSeverityAt:]), text, err
}

// counts are numbers of records. Objects are devices, contexts, streams and names; extras are all others. CUPTI's own
// counts have neither.
type counts struct {
	kernels, memcpys, memsets, apis uint64
	objects, extras                 uint64
}

// bye is a BYE or a HANDOVER.
type bye struct {
	reason, detail uint32
	now, until     uint64
	counts         // of the records that CUPTI delivered
}

func parseBye(b []byte) (y bye, err error) {
	if len(b) < byeSize {
		return y, malformed("a BYE of %d bytes", len(b))
	}
	return bye{
		reason: le.Uint32(b[byeReasonAt:]),
		detail: le.Uint32(b[byeDetailAt:]),
		now:    le.Uint64(b[byeNowAt:]),
		until:  le.Uint64(b[byeUntilAt:]),
		counts: counts{
			kernels: le.Uint64(b[byeKernelsAt:]),
			memcpys: le.Uint64(b[byeMemcpysAt:]),
			memsets: le.Uint64(b[byeMemsetsAt:]),
			apis:    le.Uint64(b[byeApisAt:]),
		},
	}, nil
}

// words is the reason in the words of the log, "" if the process does not know it.
func (y *bye) words() string {
	switch y.reason {
	case byeExit:
		return "exit"
	case byeQuickExit:
		return "quick_exit"
	case byeSignal:
		name := unix.SignalName(unix.Signal(y.detail))
		if name == "" {
			return fmt.Sprintf("signal %d", y.detail)
		}
		return fmt.Sprintf("signal %d (%s)", y.detail, name)
	}
	return ""
}

// parseFlushed returns the time up to which every record has arrived, in ns.
func parseFlushed(b []byte) (until uint64, err error) {
	if len(b) < flushedSize {
		return 0, malformed("a FLUSHED of %d bytes", len(b))
	}
	return le.Uint64(b[flushedUntilAt:]), nil
}

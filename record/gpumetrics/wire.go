package gpumetrics

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// The constants of sampler/wire.h.
const (
	wireVersion = 2
	messageMax  = 8192
	devicesMax  = 64
	nameSize    = 96
	uuidSize    = 96
	processSize = 16

	msgReady     = 1
	msgFailed    = 2
	msgDevice    = 3
	msgSet       = 4
	msgRows      = 5
	msgLost      = 6
	msgProcesses = 7
	msgDone      = 8
	msgRefused   = 9
	msgMetric    = 10

	orderStart = 1
	orderStop  = 2
	orderEnd   = 3

	deviceMIG = 1
)

// Why the sampler does not work, or PM sampling of a GPU.
const (
	noLibrary  = 1
	noNVML     = 2
	noCUDA     = 3
	busy       = 4
	noRights   = 5
	oldGPU     = 6
	noMetric   = 7
	broken     = 8
	oldLibrary = 9
)

// A failure says why the sampler does not work.
type failure struct {
	why  uint32
	text string
}

// A refused says why PM sampling of a GPU does not begin, or ends.
type refused struct {
	device, why uint32
	text        string
}

// A listed is a metric that a GPU has.
type listed struct {
	device, passes uint32
	name           string
}

// A device is a GPU, as NVML, or CUDA, numbers and names it.
type device struct {
	index uint32
	uuid  string // 16 bytes in hexadecimal
	mig   bool
}

// A set are metrics that are sampled together.
type set struct {
	number, device, source uint32
	interval               time.Duration
	names                  []string
}

// rows are values of a set. Each row has its start, its end and then its values.
type rows struct {
	set   uint32
	count int
	words []byte
}

// check returns an error if these are not rows of so many values.
func (r *rows) check(width int) error {
	if r.count < 0 || r.count > messageMax || len(r.words) != r.count*(2+width)*8 {
		return fmt.Errorf("it has %d rows of set %d", r.count, r.set)
	}
	return nil
}

// row returns the times and the values of a row.
func (r *rows) row(i int, width int, values []float64) (start, end uint64, row []float64) {
	words := r.words[i*(2+width)*8:]
	for n := range width {
		values = append(values, math.Float64frombits(binary.NativeEndian.Uint64(words[16+8*n:])))
	}
	return binary.NativeEndian.Uint64(words), binary.NativeEndian.Uint64(words[8:]), values
}

// A gap is a time in which a set could not be read.
type gap struct {
	set        uint32
	start, end uint64
}

// processes are those that have a context on a GPU.
type processes struct {
	device uint32
	list   []user
}

// A user is a process on a GPU.
type user struct {
	pid    uint32
	memory uint64
}

type (
	ready struct{ devices uint32 }
	done  struct{}
)

var errCut = errors.New("a message is cut short")

// parse takes a message apart.
func parse(b []byte) (message any, err error) {
	r := wireReader{b: b}
	kind, size := r.u32(), r.u32()
	if r.cut || int64(size) != int64(len(b)) {
		return nil, errCut
	}
	switch kind {
	case msgReady:
		version := r.u32()
		message = ready{r.u32()}
		if version != wireVersion && !r.cut {
			return nil, fmt.Errorf("it speaks version %d", version)
		}
	case msgFailed:
		message = failure{r.u32(), r.text(len(r.b))}
	case msgDevice:
		d := device{index: r.u32()}
		d.mig = r.u32()&deviceMIG != 0
		d.uuid = plainUUID(r.text(uuidSize))
		message = d
	case msgSet:
		message = r.set()
	case msgRows:
		message = rows{set: r.u32(), count: int(r.u32()), words: r.b}
	case msgLost:
		g := gap{set: r.u32()}
		r.u32()
		g.start, g.end = r.u64(), r.u64()
		message = g
	case msgProcesses:
		message = r.processes()
	case msgDone:
		message = done{}
	case msgRefused:
		message = refused{r.u32(), r.u32(), r.text(len(r.b))}
	case msgMetric:
		message = listed{r.u32(), r.u32(), r.text(nameSize)}
	default:
		return nil, fmt.Errorf("a message has type %d", kind)
	}
	if r.cut {
		return nil, errCut
	}
	return message, nil
}

// A wireReader reads a message. What lies beyond its end is 0, and sets cut.
type wireReader struct {
	b   []byte
	cut bool
}

func (r *wireReader) takeBytes(n int) []byte {
	if n > len(r.b) {
		r.cut, r.b = true, nil
		return make([]byte, n)
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *wireReader) u32() uint32 { return binary.NativeEndian.Uint32(r.takeBytes(4)) }
func (r *wireReader) u64() uint64 { return binary.NativeEndian.Uint64(r.takeBytes(8)) }

// text reads a text that ends with NUL in a field of n bytes.
func (r *wireReader) text(n int) string {
	field, _, _ := bytes.Cut(r.takeBytes(n), []byte{0})
	return string(field)
}

func (r *wireReader) set() set {
	s := set{number: r.u32(), device: r.u32(), source: r.u32()}
	count := r.u32()
	s.interval = time.Duration(r.u64())
	for range min(count, tracelog.MaxMetrics) {
		s.names = append(s.names, r.text(nameSize))
	}
	r.cut = r.cut || count > tracelog.MaxMetrics
	return s
}

func (r *wireReader) processes() processes {
	p := processes{device: r.u32()}
	count := r.u32()
	if int64(count)*processSize > int64(len(r.b)) {
		r.cut = true
		return p
	}
	for range count {
		pid, _ := r.u32(), r.u32()
		p.list = append(p.list, user{pid, r.u64()})
	}
	return p
}

// order is a message to the sampler.
func order(kind, device uint32) []byte {
	b := binary.NativeEndian.AppendUint32(nil, kind)
	return binary.NativeEndian.AppendUint32(b, device)
}

// plainUUID is a UUID as CUPTI's records have it: NVML writes GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx. It is
// "" for anything else.
func plainUUID(text string) string {
	s, found := bytes.CutPrefix([]byte(text), []byte("GPU-"))
	s = bytes.ReplaceAll(s, []byte("-"), nil)
	if !found || len(s) != 32 || len(bytes.Trim(s, "0123456789abcdef")) != 0 {
		return ""
	}
	return string(s)
}

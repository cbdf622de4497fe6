package cupti

import (
	"encoding/hex"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recordKind is the kind of a record within a BATCH.
type recordKind uint16

const (
	recString  recordKind = 1
	recKernel  recordKind = 2
	recMemcpy  recordKind = 3
	recMemset  recordKind = 4
	recAPI     recordKind = 5
	recDevice  recordKind = 6
	recContext recordKind = 7
	recStream  recordKind = 8

	recSync     recordKind = 9
	recOverhead recordKind = 10
	recMarker   recordKind = 11
	recName     recordKind = 12
	recMemory   recordKind = 13
	recPool     recordKind = 14
	recGraph    recordKind = 15
)

// Sizes of records; those of a string and a marker are without their text.
const (
	recordHeader = 8
	stringSize   = 16
	gpuSize      = 48
	kernelSize   = 104
	memcpySize   = 80
	memsetSize   = 64
	apiSize      = 48
	deviceSize   = 56
	contextSize  = 16
	streamSize   = 24
	syncSize     = 40
	overheadSize = 32
	markerSize   = 32
	nameSize     = 24
	memorySize   = 64
	poolSize     = 64
)

// namesMax bounds what one peer can make us keep, in bytes of names.
const namesMax = 64 << 20

// A decoder turns the batches of one peer into records for the sink.
type decoder struct {
	pid   uint32
	sink  Sink
	names []string // by number less one
	bytes int      // of names

	counts    bye    // of the records that arrived
	overheads uint64 // of these: CUPTI's own doings, which every flush adds to

	// Records are used again, so that decoding allocates nothing.
	kernel tracelog.Kernel
	memcpy tracelog.Memcpy
	memset tracelog.Memset
	api    tracelog.API
	sync   tracelog.Sync
	marker tracelog.Marker
	memory tracelog.Memory
	graph  tracelog.Graph
	texts  map[string]string // of markers, to make each but once
}

// decoders has the least size of each kind and how it is read.
var decoders = [...]struct {
	size   int
	decode func(*decoder, []byte) error
}{
	recString:  {stringSize, (*decoder).decodeString},
	recKernel:  {kernelSize, (*decoder).decodeKernel},
	recMemcpy:  {memcpySize, (*decoder).decodeMemcpy},
	recMemset:  {memsetSize, (*decoder).decodeMemset},
	recAPI:     {apiSize, (*decoder).decodeAPI},
	recDevice:  {deviceSize, (*decoder).decodeDevice},
	recContext: {contextSize, (*decoder).decodeContext},
	recStream:  {streamSize, (*decoder).decodeStream},

	recSync:     {syncSize, (*decoder).decodeSync},
	recOverhead: {overheadSize, (*decoder).decodeOverhead},
	recMarker:   {markerSize, (*decoder).decodeMarker},
	recName:     {nameSize, (*decoder).decodeName},
	recMemory:   {memorySize, (*decoder).decodeMemory},
	recPool:     {poolSize, (*decoder).decodePool},
	recGraph:    {gpuSize, (*decoder).decodeGraph},
}

// recorded counts the records of what the program did.
func (d *decoder) recorded() uint64 {
	c := &d.counts
	return c.kernels + c.copies + c.sets + c.apis + c.objects + c.extras - d.overheads
}

// batch reads the records of a BATCH. Records before a malformed one have
// reached the sink when it returns an error.
func (d *decoder) batch(b []byte) error {
	for len(b) > 0 {
		if len(b) < recordHeader {
			return malformed("%d bytes behind the last record", len(b))
		}
		kind, size := int(le.Uint16(b)), int(le.Uint16(b[2:]))
		if size < recordHeader || size%8 != 0 || size > len(b) {
			return malformed("a record of kind %d and %d bytes in %d", kind, size, len(b))
		}
		if err := d.record(kind, b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

func (d *decoder) record(kind int, b []byte) error {
	if kind >= len(decoders) || decoders[kind].decode == nil {
		return nil // a kind of a later version
	}
	if len(b) < decoders[kind].size {
		return malformed("a record of kind %d in %d bytes", kind, len(b))
	}
	return decoders[kind].decode(d, b)
}

func (d *decoder) decodeString(b []byte) error {
	id, length := le.Uint32(b[4:]), le.Uint32(b[8:])
	if int64(id) != int64(len(d.names))+1 || id > stringsMax {
		return malformed("name number %d after %d", id, len(d.names))
	}
	if length > nameMax || int(length) > len(b)-stringSize {
		return malformed("a name of %d bytes in %d", length, len(b))
	}
	d.bytes += int(length)
	if d.bytes > namesMax {
		return malformed("more than %d bytes of names", namesMax)
	}
	d.names = append(d.names, string(b[stringSize:stringSize+length]))
	return nil
}

// name returns a name by its number; 0 is the empty name.
func (d *decoder) name(id uint32) (string, error) {
	if id == 0 {
		return "", nil
	}
	if int64(id) > int64(len(d.names)) {
		return "", malformed("name number %d, which was never sent", id)
	}
	return d.names[id-1], nil
}

// duration is 0 for work without an end: not finished, or without times.
func duration(start, end uint64) uint64 {
	if end < start {
		return 0
	}
	return end - start
}

// gpu reads what all GPU work has.
func (d *decoder) gpu(g *tracelog.GPU, b []byte) {
	g.PID, g.Correlation = d.pid, le.Uint32(b[4:])
	g.Start = le.Uint64(b[8:])
	g.Dur = duration(g.Start, le.Uint64(b[16:]))
	g.Device, g.Context, g.Stream = le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:])
	g.Graph, g.GraphNode = le.Uint32(b[36:]), le.Uint64(b[40:])
}

func dims(d *[3]uint32, b []byte) {
	d[0], d[1], d[2] = le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:])
}

func (d *decoder) decodeKernel(b []byte) error {
	name, err := d.name(le.Uint32(b[48:]))
	if err != nil {
		return err
	}
	k := &d.kernel // each field of it: a new value would be copied
	d.gpu(&k.GPU, b)
	k.Name, k.Registers = name, le.Uint32(b[52:])
	dims(&k.Grid, b[56:])
	dims(&k.Block, b[68:])
	dims(&k.Cluster, b[80:])
	k.StaticShared, k.DynamicShared, k.LocalPerThread = le.Uint32(b[92:]), le.Uint32(b[96:]), le.Uint32(b[100:])
	d.counts.kernels++
	d.sink.Add(&d.kernel)
	return nil
}

func (d *decoder) decodeMemcpy(b []byte) error {
	m := &d.memcpy
	d.gpu(&m.GPU, b)
	m.Bytes, m.CopyKind = le.Uint64(b[48:]), le.Uint32(b[56:])
	m.SrcKind, m.DstKind = le.Uint32(b[60:]), le.Uint32(b[64:])
	m.SrcDevice, m.DstDevice = le.Uint32(b[68:]), le.Uint32(b[72:])
	d.counts.copies++
	d.sink.Add(&d.memcpy)
	return nil
}

func (d *decoder) decodeMemset(b []byte) error {
	d.gpu(&d.memset.GPU, b)
	d.memset.Bytes, d.memset.Value = le.Uint64(b[48:]), le.Uint32(b[56:])
	d.counts.sets++
	d.sink.Add(&d.memset)
	return nil
}

func (d *decoder) decodeAPI(b []byte) error {
	name, err := d.name(le.Uint32(b[40:]))
	if err != nil {
		return err
	}
	a := &d.api
	a.PID, a.Correlation, a.Name = d.pid, le.Uint32(b[4:]), name
	a.Start = le.Uint64(b[8:])
	a.Dur = duration(a.Start, le.Uint64(b[16:]))
	a.TID, a.Domain, a.CBID, a.Ret = le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:]), le.Uint32(b[36:])
	d.counts.apis++
	d.sink.Add(&d.api)
	return nil
}

func (d *decoder) decodeDevice(b []byte) error {
	name, err := d.name(le.Uint32(b[40:]))
	if err != nil {
		return err
	}
	d.counts.objects++
	d.sink.Add(&tracelog.Device{
		PID:             d.pid,
		ID:              le.Uint32(b[4:]),
		Memory:          le.Uint64(b[8:]),
		Bandwidth:       le.Uint64(b[16:]),
		UUID:            hex.EncodeToString(b[24:40]),
		Name:            name,
		Multiprocessors: le.Uint32(b[44:]),
		Major:           le.Uint32(b[48:]),
		Minor:           le.Uint32(b[52:]),
	})
	return nil
}

func (d *decoder) decodeContext(b []byte) error {
	d.counts.objects++
	d.sink.Add(&tracelog.Context{
		PID:        d.pid,
		ID:         le.Uint32(b[4:]),
		Device:     le.Uint32(b[8:]),
		NullStream: le.Uint32(b[12:]),
	})
	return nil
}

func (d *decoder) decodeStream(b []byte) error {
	d.counts.objects++
	d.sink.Add(&tracelog.Stream{
		PID:      d.pid,
		ID:       le.Uint32(b[4:]),
		Context:  le.Uint32(b[8:]),
		Priority: int32(le.Uint32(b[12:])),
		Flags:    le.Uint32(b[16:]),
	})
	return nil
}

package cupti

import (
	"encoding/hex"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A recordKind is the kind of a record in a BATCH.
type recordKind uint16

const (
	recString   recordKind = 1
	recKernel   recordKind = 2
	recMemcpy   recordKind = 3
	recMemset   recordKind = 4
	recAPI      recordKind = 5
	recDevice   recordKind = 6
	recContext  recordKind = 7
	recStream   recordKind = 8
	recSync     recordKind = 9
	recOverhead recordKind = 10
	recMarker   recordKind = 11
	recName     recordKind = 12
	recPool     recordKind = 14
	recGraph    recordKind = 15
	recChain    recordKind = 16
	recNCCL     recordKind = 17
)

// records describes each kind of record. A test compares names and sizes with inject/wire.h,
// where the record is struct ct_NAME.
var records = [...]struct {
	name   string
	size   int // bytes, without the text of a string or a marker, or the addresses of a chain
	decode func(*decoder, []byte) error
}{
	recString:   {"string", stringSize, decodeString},
	recKernel:   {"kernel", 104, decodeKernel},
	recMemcpy:   {"memcpy", 80, decodeMemcpy},
	recMemset:   {"memset", 64, decodeMemset},
	recAPI:      {"api", 48, decodeAPI},
	recDevice:   {"device", 104, decodeDevice},
	recContext:  {"context", 16, decodeContext},
	recStream:   {"stream", 24, decodeStream},
	recSync:     {"sync", 40, decodeSync},
	recOverhead: {"overhead", 32, decodeOverhead},
	recMarker:   {"marker", markerSize, decodeMarker},
	recName:     {"name", 24, decodeName},
	recPool:     {"pool", 72, decodePool},
	recGraph:    {"graph", 48, decodeGraph},
	recChain:    {"chain", chainSize, decodeChain},
	recNCCL:     {"nccl", 48, decodeNCCL},
}

// Sizes of the records that end in a text or in addresses, which are left out.
const (
	stringSize = 16
	markerSize = 32
	chainSize  = 24
)

// Offsets in the functions below are those of inject/wire.h.

// duration is the time from start to end, 0 for work that has no end.
func duration(start, end uint64) uint64 {
	if end < start {
		return 0
	}
	return end - start
}

// gpu decodes the first members, which all GPU work has in common.
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

func decodeKernel(d *decoder, b []byte) error {
	name, err := d.names.name(le.Uint32(b[48:]))
	if err != nil {
		return err
	}
	k := &d.kernel // field by field: a composite literal would be copied
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

func decodeMemcpy(d *decoder, b []byte) error {
	m := &d.memcpy
	d.gpu(&m.GPU, b)
	m.Bytes, m.CopyKind = le.Uint64(b[48:]), le.Uint32(b[56:])
	m.SrcKind, m.DstKind = le.Uint32(b[60:]), le.Uint32(b[64:])
	m.SrcDevice, m.DstDevice = le.Uint32(b[68:]), le.Uint32(b[72:])
	d.counts.memcpys++
	d.sink.Add(&d.memcpy)
	return nil
}

func decodeMemset(d *decoder, b []byte) error {
	d.gpu(&d.memset.GPU, b)
	d.memset.Bytes, d.memset.Value = le.Uint64(b[48:]), le.Uint32(b[56:])
	d.counts.memsets++
	d.sink.Add(&d.memset)
	return nil
}

func decodeAPI(d *decoder, b []byte) error {
	name, err := d.names.name(le.Uint32(b[40:]))
	if err != nil {
		return err
	}
	caller, err := d.callers.caller(le.Uint32(b[44:]))
	if err != nil {
		return err
	}
	a := &d.api
	a.PID, a.Correlation, a.Name, a.Caller = d.pid, le.Uint32(b[4:]), name, caller
	a.Start = le.Uint64(b[8:])
	a.Dur = duration(a.Start, le.Uint64(b[16:]))
	a.TID, a.Domain, a.CBID, a.Ret = le.Uint32(b[24:]), le.Uint32(b[28:]), le.Uint32(b[32:]), le.Uint32(b[36:])
	d.counts.apis++
	d.called.add(a.TID, a.Start)
	d.sink.Add(&d.api)
	return nil
}

func decodeDevice(d *decoder, b []byte) error {
	name, err := d.names.name(le.Uint32(b[40:]))
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
		L2Cache:         le.Uint32(b[56:]),
		Clock:           le.Uint32(b[60:]),
		CopyEngines:     le.Uint32(b[64:]),
		ECC:             le.Uint32(b[68:]),
		WarpSize:        le.Uint32(b[72:]),
		MaxWarps:        le.Uint32(b[76:]),
		MaxBlocks:       le.Uint32(b[80:]),
		MaxShared:       le.Uint32(b[84:]),
		MaxRegisters:    le.Uint32(b[88:]),
		BlockRegisters:  le.Uint32(b[92:]),
		BlockShared:     le.Uint32(b[96:]),
		BlockThreads:    le.Uint32(b[100:]),
	})
	return nil
}

func decodeContext(d *decoder, b []byte) error {
	d.counts.objects++
	d.sink.Add(&tracelog.Context{
		PID:        d.pid,
		ID:         le.Uint32(b[4:]),
		Device:     le.Uint32(b[8:]),
		NullStream: le.Uint32(b[12:]),
	})
	return nil
}

func decodeStream(d *decoder, b []byte) error {
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

func decodeSync(d *decoder, b []byte) error {
	start := le.Uint64(b[8:])
	d.sync = tracelog.Sync{
		PID:         d.pid,
		Correlation: le.Uint32(b[4:]),
		Start:       start,
		Dur:         duration(start, le.Uint64(b[16:])),
		Type:        le.Uint32(b[24:]),
		Context:     le.Uint32(b[28:]),
		Stream:      le.Uint32(b[32:]),
		Event:       le.Uint32(b[36:]),
	}
	d.counts.extras++
	d.sink.Add(&d.sync)
	return nil
}

func decodeOverhead(d *decoder, b []byte) error {
	start := le.Uint64(b[8:])
	d.counts.extras++
	d.overheads++
	d.sink.Add(&tracelog.Overhead{
		PID:          d.pid,
		TID:          le.Uint32(b[4:]),
		Start:        start,
		Dur:          duration(start, le.Uint64(b[16:])),
		OverheadKind: le.Uint32(b[24:]),
		ObjectKind:   le.Uint32(b[28:]),
	})
	return nil
}

func decodeMarker(d *decoder, b []byte) error {
	domain, err := d.names.name(le.Uint32(b[24:]))
	if err != nil {
		return err
	}
	length := le.Uint32(b[28:])
	if length > nameMax || int(length) > len(b)-markerSize {
		return malformed("a mark of %d bytes in %d", length, len(b))
	}
	d.marker = tracelog.Marker{
		PID:    d.pid,
		ID:     le.Uint32(b[4:]),
		Time:   le.Uint64(b[8:]),
		TID:    le.Uint32(b[16:]),
		Flags:  le.Uint32(b[20:]),
		Domain: domain,
		Name:   d.texts.text(b[markerSize : markerSize+length]),
	}
	d.counts.extras++
	d.sink.Add(&d.marker)
	return nil
}

func decodeNCCL(d *decoder, b []byte) error {
	name, err := d.names.name(le.Uint32(b[32:]))
	if err != nil {
		return err
	}
	d.nccl = tracelog.NCCLCall{
		PID:          d.pid,
		TID:          le.Uint32(b[4:]),
		Time:         le.Uint64(b[8:]),
		Communicator: le.Uint64(b[16:]),
		Bytes:        le.Uint64(b[24:]),
		Name:         name,
		Ranks:        le.Uint32(b[36:]),
		Rank:         le.Uint32(b[40:]),
		Known:        le.Uint32(b[44:]),
	}
	d.counts.extras++
	d.sink.Add(&d.nccl)
	return nil
}

func decodeName(d *decoder, b []byte) error {
	name, err := d.names.name(le.Uint32(b[20:]))
	if err != nil {
		return err
	}
	d.counts.objects++
	d.sink.Add(&tracelog.Name{
		PID:        d.pid,
		ObjectKind: le.Uint32(b[4:]),
		ID:         le.Uint32(b[8:]),
		Context:    le.Uint32(b[12:]),
		Device:     le.Uint32(b[16:]),
		Name:       name,
	})
	return nil
}

func decodePool(d *decoder, b []byte) error {
	d.counts.extras++
	d.sink.Add(&tracelog.MemoryPool{
		PID:              d.pid,
		Correlation:      le.Uint32(b[4:]),
		Time:             le.Uint64(b[8:]),
		Address:          le.Uint64(b[16:]),
		Size:             le.Uint64(b[24:]),
		ReleaseThreshold: le.Uint64(b[32:]),
		MinBytesToKeep:   le.Uint64(b[40:]),
		Operation:        le.Uint32(b[48:]),
		PoolKind:         le.Uint32(b[52:]),
		Device:           le.Uint32(b[56:]),
		Used:             le.Uint64(b[64:]),
	})
	return nil
}

func decodeGraph(d *decoder, b []byte) error {
	d.gpu(&d.graph.GPU, b)
	d.counts.extras++
	d.sink.Add(&d.graph)
	return nil
}

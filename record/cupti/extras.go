package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// The records beside those of GPU work, calls, devices, contexts and streams.

// textsMax bounds the texts of markers that a decoder remembers.
const textsMax = 4096

// text returns a marker's text, without allocating when it was seen lately.
func (d *decoder) text(b []byte) string {
	if s, ok := d.texts[string(b)]; ok {
		return s
	}
	if d.texts == nil || len(d.texts) == textsMax {
		d.texts = map[string]string{}
	}
	s := string(b)
	d.texts[s] = s
	return s
}

func (d *decoder) decodeSync(b []byte) error {
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

func (d *decoder) decodeOverhead(b []byte) error {
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

func (d *decoder) decodeMarker(b []byte) error {
	domain, err := d.name(le.Uint32(b[24:]))
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
		Name:   d.text(b[markerSize : markerSize+length]),
	}
	d.counts.extras++
	d.sink.Add(&d.marker)
	return nil
}

func (d *decoder) decodeName(b []byte) error {
	name, err := d.name(le.Uint32(b[20:]))
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

func (d *decoder) decodeMemory(b []byte) error {
	d.memory = tracelog.Memory{
		PID:         d.pid,
		Correlation: le.Uint32(b[4:]),
		Time:        le.Uint64(b[8:]),
		Address:     le.Uint64(b[16:]),
		Bytes:       le.Uint64(b[24:]),
		Pool:        le.Uint64(b[32:]),
		Operation:   le.Uint32(b[40:]),
		MemoryKind:  le.Uint32(b[44:]),
		Device:      le.Uint32(b[48:]),
		Context:     le.Uint32(b[52:]),
		Stream:      le.Uint32(b[56:]),
		Async:       le.Uint32(b[60:]),
	}
	d.counts.extras++
	d.sink.Add(&d.memory)
	return nil
}

func (d *decoder) decodePool(b []byte) error {
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
	})
	return nil
}

func (d *decoder) decodeGraph(b []byte) error {
	d.gpu(&d.graph.GPU, b)
	d.counts.extras++
	d.sink.Add(&d.graph)
	return nil
}

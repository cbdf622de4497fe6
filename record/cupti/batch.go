package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// recordHeader is the size of the header of a record: its kind and its size.
const recordHeader = 8

// A decoder turns the batches of one process into records for the sink.
type decoder struct {
	pid     uint32
	sink    Sink
	shared  *peerMemory
	names   nameTable
	callers callerTable
	called  callLog
	texts   textCache // texts of markers

	counts    counts // records that arrived
	unnamed   int    // names that found no room
	overheads uint64 // of these, records of CUPTI's own overhead, which every flush adds

	shift clockShift // of the times of all records
	decoded
}

// release gives the memory of the process's names and callers back.
func (d *decoder) release() {
	d.names.release(d.shared)
	d.callers.release(d.shared)
}

// recorded is the number of records of the program's own activity.
func (d *decoder) recorded() uint64 {
	c := &d.counts
	return c.kernels + c.memcpys + c.memsets + c.apis + c.objects + c.extras - d.overheads
}

// batch decodes the records of a BATCH. When it returns an error, the records before the
// malformed one have reached the sink.
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

// A recordKind is a kind of record that the injected library sends, in the table records.
type recordKind struct {
	size   int // bytes of its struct
	decode func(*decoder, []byte) error
}

func (d *decoder) record(kind int, b []byte) error {
	if kind >= len(records) || records[kind].decode == nil {
		return d.definition(tracelog.Kind(min(kind, 255)), b)
	}
	if len(b) < records[kind].size {
		return malformed("a record of kind %d in %d bytes", kind, len(b))
	}
	if err := records[kind].decode(d, b); err != nil {
		return err
	}
	switch tracelog.Kind(kind) {
	case tracelog.KindAPI:
		d.called.add(d.api.TID, d.api.Start)
	case tracelog.KindOverhead:
		d.overheads++
	}
	return nil
}

// definition decodes a name or a chain, to which later records refer. It skips a kind of a later version.
func (d *decoder) definition(kind tracelog.Kind, b []byte) error {
	switch kind {
	case tracelog.KindString:
		return decodeString(d, b)
	case tracelog.KindCaller:
		return decodeChain(d, b)
	}
	return nil
}

// A clockShift is how far the CLOCK_MONOTONIC of a process is ahead of the host's, in ns. It is not 0
// for a process in a time namespace.
type clockShift int64

// host returns a time of the process on the host's clock. 0 stands for no time.
func (s clockShift) host(at uint64) uint64 {
	if at == 0 {
		return 0
	}
	return at - uint64(s)
}

// duration returns the time from start to end, 0 for work that has no end.
func duration(start, end uint64) uint64 {
	if end < start {
		return 0
	}
	return end - start
}

// behind returns the text that follows a record of a size.
func (d *decoder) behind(b []byte, size int, length uint32) (string, error) {
	if length > nameMax || int(length) > len(b)-size {
		return "", malformed("a text of %d bytes in %d", length, len(b))
	}
	return d.texts.text(b[size : size+int(length)]), nil
}

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

	// These records are reused, so that decoding allocates nothing.
	kernel tracelog.Kernel
	memcpy tracelog.Memcpy
	memset tracelog.Memset
	api    tracelog.API
	sync   tracelog.Sync
	marker tracelog.Marker
	nccl   tracelog.NCCLCall
	graph  tracelog.Graph
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

func (d *decoder) record(kind int, b []byte) error {
	if kind >= len(records) || records[kind].decode == nil {
		return nil // a kind of a later version
	}
	if len(b) < records[kind].size {
		return malformed("a record of kind %d in %d bytes", kind, len(b))
	}
	return records[kind].decode(d, b)
}

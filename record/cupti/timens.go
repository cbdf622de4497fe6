package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// A clockShift is how far the CLOCK_MONOTONIC of a process is ahead of the host's, in ns. It is not 0
// for a process in a time namespace.
type clockShift int64

// host is a time of the process on the host's clock. 0 stands for no time.
func (s clockShift) host(at uint64) uint64 {
	if at == 0 {
		return 0
	}
	return at - uint64(s)
}

// A shiftingSink gives records with the times of a process to another sink, with those of the host.
type shiftingSink struct {
	Sink
	by clockShift
}

// Add changes the times of a record, which its giver makes anew each time.
func (s shiftingSink) Add(r tracelog.Record) {
	for _, at := range times(r) {
		if at != nil {
			*at = s.by.host(*at)
		}
	}
	s.Sink.Add(r)
}

// times are the times of a record that a process sends.
func times(r tracelog.Record) (all [2]*uint64) {
	switch r := r.(type) {
	case *tracelog.Kernel:
		all[0] = &r.Start
	case *tracelog.Memcpy:
		all[0] = &r.Start
	case *tracelog.Memset:
		all[0] = &r.Start
	case *tracelog.Graph:
		all[0] = &r.Start
	case *tracelog.API:
		all[0] = &r.Start
	case *tracelog.Sync:
		all[0] = &r.Start
	case *tracelog.Overhead:
		all[0] = &r.Start
	case *tracelog.Marker:
		all[0] = &r.Time
	case *tracelog.NCCLCall:
		all[0] = &r.Time
	case *tracelog.MemoryPool:
		all[0] = &r.Time
	case *tracelog.Flushed:
		all[0] = &r.Until
	case *tracelog.Lost:
		all[0], all[1] = &r.From, &r.To
	}
	return all
}

package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// A Sink takes the records of all processes. A tracelog.Writer is one.
//
// Add is called from several goroutines at a time, one per process. The caller reuses the
// record after the call. Times are nanoseconds of CLOCK_MONOTONIC.
type Sink interface {
	Add(tracelog.Record)
}

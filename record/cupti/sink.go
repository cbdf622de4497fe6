package cupti

import "github.com/cudatrace/cudatrace/record/tracelog"

// A Sink takes the records of all processes. A tracelog.Writer is one.
//
// Calls come from several goroutines at a time, one a process. The record belongs to
// the caller, who uses it again after the call. Times are CLOCK_MONOTONIC.
type Sink interface {
	Add(tracelog.Record)
}

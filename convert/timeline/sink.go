package timeline

// A Sink makes a view of a timeline: a trace, a table, a sum.
//
// Both methods run on one goroutine. Events of one thread, track, counter or stream come in the
// order of time. Events of different threads, tracks, counters and streams are interleaved in
// no particular order.
type Sink interface {
	// Take takes events. A sink ignores the kinds that it does not know. An error ends the
	// conversion, which returns that error.
	//
	// The events belong to the caller again when Take returns. A sink may keep the values
	// behind a *Process, *Thread, *Track, *Counter, *Context, *Stream, *Function,
	// *Arguments, *Kernel, *Caller, *Python, *Shape, *Range or *RangeStack, also as keys of a map: they do
	// not change.
	Take(events []Event) error

	// End is the last call and comes once. Its argument is nil for a complete timeline,
	// else the error that ended it early. End returns the sink's own failure to finish, if
	// any.
	End(err error) error
}

package timeline

// A Sink takes a timeline and makes something of it: a trace, a table, a sum.
//
// Both methods run on one goroutine. Events of one thread, track, counter or stream
// come in the order of time; events of different ones are interleaved as they are
// found.
type Sink interface {
	// Take takes events. A sink ignores the kinds that it does not know. An error
	// ends the conversion and is returned from it.
	//
	// The events belong to the caller again when Take returns. What they point to by a
	// *Process, *Thread, *Track, *Counter, *Context, *Stream, *Function, *Arguments,
	// *Kernel, *Caller or *Shape stays as it is and may be kept, also as the key of a map.
	Take(events []Event) error

	// End comes once, last. The error is nil for a whole timeline, else what broke it
	// off. End returns the sink's own failure to finish, if any.
	End(err error) error
}

package convert

// A Sink takes a timeline. It gets the events of each track in the order of time, but
// those of different tracks in any order: Thread, Track, Counter and Queue choose the
// track, for the first time or again, of what follows. Implementations write traces;
// tests write text. What it is given a pointer to stays as it is only where the type is
// the choice of a track.
type Sink interface {
	GPUs([]GPU)
	Process(*Process)
	// Thread chooses a thread's calls: the Begin and End that follow are its own,
	// properly nested.
	Thread(*Thread)
	Begin(*Slice)
	End(ts uint64)
	// Track chooses a track beside the calls: the BeginSpan, Instant and End that
	// follow are its own, properly nested.
	Track(*Track)
	BeginSpan(*Span)
	Instant(*Span)
	Counter(*Counter)
	Value(ts, v uint64)
	// Queue chooses a stream: the Work that follows is its own, mostly by start.
	Queue(*Queue)
	Work(*Work)
	Mark(*Mark)
}

package join

import "github.com/cudatrace/cudatrace/convert/timeline"

const (
	// maxRangeDepth bounds the ranges of a thread that are known to be around each other. Deeper
	// ranges have tracks, but no work.
	maxRangeDepth = 256

	// maxHeldChanges bounds the changes of a program's stacks that wait for calls.
	maxHeldChanges = 1 << 18
)

// rangeStacks know which ranges of a program were open on each thread at which time. Markers come
// ahead of the calls that are looked up.
type rangeStacks struct {
	threads map[uint32]*threadRanges // by host TID
	until   uint64                   // all markers before this time are known
	held    int                      // changes that wait for calls
}

// threadRanges are the open ranges of a thread: latest is the stack after all markers, now the stack
// at the latest call, changes the stacks after now.
type threadRanges struct {
	latest  stackChange
	depth   int // of latest
	now     stackChange
	changes []stackChange
	next    int // the first of changes that is after now
}

// A stackChange is the stack of a thread from a time on.
type stackChange struct {
	at    uint64
	stack *timeline.RangeStack
}

func (s *rangeStacks) thread(tid uint32) *threadRanges {
	t := s.threads[tid]
	if t == nil {
		if s.threads == nil {
			s.threads = make(map[uint32]*threadRanges)
		}
		t = new(threadRanges)
		s.threads[tid] = t
	}
	return t
}

// begin puts a range onto its thread's stack and returns the stack.
func (s *rangeStacks) begin(tid uint32, r *timeline.Range, at uint64) *timeline.RangeStack {
	if tid == 0 {
		return &timeline.RangeStack{Range: r}
	}
	t := s.thread(tid)
	stack := &timeline.RangeStack{Range: r, Outer: t.latest.stack}
	if t.depth < maxRangeDepth {
		t.depth++
		s.change(t, at, stack)
	}
	return stack
}

// end takes a range from its thread's stack.
func (s *rangeStacks) end(tid uint32, r *timeline.Range, at uint64) {
	t := s.threads[tid]
	if t == nil {
		return
	}
	if rest, found := without(t.latest.stack, r); found {
		t.depth--
		s.change(t, at, rest)
	}
}

// without returns a stack without one of its ranges.
func without(s *timeline.RangeStack, r *timeline.Range) (rest *timeline.RangeStack, found bool) {
	switch {
	case s == nil:
		return nil, false
	case s.Range == r:
		return s.Outer, true
	}
	outer, found := without(s.Outer, r)
	if !found {
		return s, false
	}
	return &timeline.RangeStack{Range: s.Range, Outer: outer}, true
}

func (s *rangeStacks) change(t *threadRanges, at uint64, stack *timeline.RangeStack) {
	t.latest = stackChange{max(at, t.latest.at), stack}
	t.changes = append(t.changes, t.latest)
	if s.held++; s.held <= maxHeldChanges {
		return
	}
	for _, t := range s.threads { // the ranges of calls before these changes will not be known
		if rest := t.changes[t.next:]; len(rest) > 0 {
			s.pass(t, rest[len(rest)/2].at)
		}
	}
}

// newest is the stack of a thread after the latest marker.
func (s *rangeStacks) newest(tid uint32) *timeline.RangeStack {
	if t := s.threads[tid]; t != nil {
		return t.latest.stack
	}
	return nil
}

// passBefore applies the changes of a thread before a time.
func (s *rangeStacks) passBefore(t *threadRanges, at uint64) {
	if at > 0 {
		s.pass(t, at-1)
	}
}

// pass applies the changes of a thread up to a time.
func (s *rangeStacks) pass(t *threadRanges, at uint64) {
	n := t.next
	for n < len(t.changes) && t.changes[n].at <= at {
		n++
	}
	if n == t.next {
		return
	}
	s.held -= n - t.next
	t.now, t.next = t.changes[n-1], n
	if rest := len(t.changes) - n; n > rest {
		copy(t.changes, t.changes[n:])
		clear(t.changes[rest:])
		t.changes, t.next = t.changes[:rest], 0
	}
}

// at returns the stack of a thread at a time. It is not known if markers before that time have not
// been read, or if changes after that time have been passed. The times of a thread rise.
func (s *rangeStacks) at(tid uint32, at uint64) (stack *timeline.RangeStack, known bool) {
	t := s.threads[tid]
	if t == nil {
		return nil, at < s.until
	}
	s.pass(t, at)
	if at >= s.until || at < t.now.at {
		return nil, false
	}
	return t.now.stack, true
}

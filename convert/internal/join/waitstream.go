package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A waitStream has the latest work of a stream, by start.
type waitStream struct {
	out    *timeline.Stream
	joiner *waitJoiner
	added  uint64 // number of pieces of work so far
	recent []recentWork
}

// recentWork is work for which a call may have waited. There may be a lot of it, so it has no
// pointers that the garbage collector would have to follow.
type recentWork struct {
	start, dur  uint64
	id          uint64
	launch      uint64 // entry of its call, 0 when not known
	correlation uint32
	awaited     bool // a call has waited for it
}

// A lastWork is work for which a call waited, with its stream.
type lastWork struct {
	*recentWork
	stream *waitStream
}

func (w *recentWork) end() uint64 { return timeline.End(w.start, w.dur) }

// addWork adds a piece of work. It returns the work's number, for Launched.
func (s *waitStream) addWork(w *timeline.Work) (nth uint64) {
	if len(s.recent) == cap(s.recent) || len(s.recent) > 2*maxRecent {
		s.forget(s.joiner.done)
	}
	s.recent = append(s.recent, recentWork{w.Start, w.Dur, w.ID, 0, w.Correlation, false})
	s.added++
	return s.added - 1
}

// launched notes the entry of the call that caused a piece of work.
func (s *waitStream) launched(nth, at uint64) {
	if back := s.added - nth; back <= uint64(len(s.recent)) {
		s.recent[uint64(len(s.recent))-back].launch = at
	}
}

// maxRecent is the number of pieces of work that a stream keeps; it has up to twice as many before it drops some.
const maxRecent = 1 << 18

// forget drops work that began long before a time up to which all waits have been joined.
func (s *waitStream) forget(done uint64) {
	i, _ := slices.BinarySearchFunc(s.recent, done, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
	i = max(i-waitLookBack, len(s.recent)-maxRecent)
	if i > len(s.recent)/2 {
		s.recent = s.recent[:copy(s.recent, s.recent[i:])]
	}
}

// last returns a stream's last work that was launched before a wait and ended before the wait
// did, nil for none.
func (j *waitJoiner) last(s *waitStream, w *wait) (last *recentWork) {
	limit := timeline.End(w.end, j.tolerance)
	i, _ := slices.BinarySearchFunc(s.recent, limit, func(w recentWork, limit uint64) int {
		if w.start <= limit {
			return -1
		}
		return 1
	})
	for steps := 0; i > 0 && steps < waitLookBack; steps++ {
		i--
		r := &s.recent[i]
		switch {
		case last != nil && r.correlation != last.correlation:
			return last
		case r.end() > limit || r.launch > w.start:
		case last == nil || r.end() > last.end(): // nodes of a graph overlap
			last = r
		}
	}
	return last
}

// overlapping is the number of pieces of work of a stream that may run at once: the nodes of a
// graph.
const overlapping = 16

// busy reports whether work that was launched before a wait was still running on a stream after
// the wait.
func (j *waitJoiner) busy(s *waitStream, w *wait) bool {
	limit := timeline.End(w.end, j.tolerance)
	i, _ := slices.BinarySearchFunc(s.recent, limit, func(w recentWork, at uint64) int { return cmp.Compare(w.start, at) })
	for i = max(i-overlapping, 0); i < len(s.recent); i++ {
		r := &s.recent[i]
		if r.launch != 0 && r.launch < w.start && r.end() > limit {
			return true
		}
		if r.start > limit {
			break
		}
	}
	return false
}

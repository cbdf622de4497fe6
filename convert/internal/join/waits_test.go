package join

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// A wait is joined once everything is known up to a little behind its end, and those before
// it have been; until then its call is not settled.
func TestAdvance(t *testing.T) {
	t.Parallel()
	s := newScript(t, 0)
	s.run(`
		learn 0x5 t1 7
		work a 7 100-500 by 50
		work b 7 700-800 by 650
		wait t1 stream 0x5 200-600
		wait t1 stream 0x5 710-900`)
	var got []string
	for _, ready := range []int{0, 600, 620, 621, 920, 921, 922, 2000} {
		s.run(fmt.Sprint("advance ", ready))
		got = append(got, fmt.Sprintf("%d: %s, settled %t %t", ready, s.found(), s.j.settled(s.calls[0]), s.j.settled(s.calls[1])))
	}
	want := []string{
		"0: , settled false false",
		"600: , settled false false",
		"620: , settled false false",
		"621: t1@200: a, settled false false", // 20 µs behind its end
		"920: t1@200: a, settled true false",
		"921: t1@200: a; t1@710: b, settled true false",
		"922: t1@200: a; t1@710: b, settled true false",
		"2000: t1@200: a; t1@710: b, settled true true",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found up to each time (-want +got):\n%s", diff)
	}
}

// A call for which nothing is found is settled, too.
func TestSettledWithoutWork(t *testing.T) {
	t.Parallel()
	s := newScript(t, 0)
	s.run("wait t1 stream 200-600\nadvance 629")
	if s.j.settled(s.calls[0]) {
		t.Error("the call is settled before all is known")
	}
	if s.run("advance 631"); !s.j.settled(s.calls[0]) {
		t.Error("the call is not settled")
	}
	if s.run("advance 100"); !s.j.settled(s.calls[0]) { // of a time that is known already
		t.Error("the call is not settled any more")
	}
}

// An error of CUPTI's clock widens what counts as the same time, up to a second.
func TestClockError(t *testing.T) {
	t.Parallel()
	for clockError, want := range map[uint64]string{0: "", 29_000: "", 30_000: "t1@200: a", 1e18: "t1@200: a"} {
		s := newScript(t, clockError)
		s.run(`
			work a 7 100-640 by 50
			wait t1 stream 200-600`)
		s.j.joinUntil(timeline.Never, true)
		if got := s.found(); got != want {
			t.Errorf("with an error of %d ns found is %q, want %q", clockError, got, want)
		}
		if s.j.tolerance > 1e9+waitTolerance {
			t.Errorf("the tolerance is %d", s.j.tolerance)
		}
	}
}

// Of a context's streams so many are searched for its wait that a program may have; a wait
// that names a stream finds any.
func TestStreamsBound(t *testing.T) {
	t.Parallel()
	s := newScript(t, 0)
	for i := range maxWaitStreams + 3 {
		s.run(fmt.Sprintf("work w%d %d 100-500 by 50", i, i+1))
	}
	s.run(fmt.Sprintf(`
		learn 0x5 t2 %d
		wait t1 context 200-600
		wait t2 stream 0x5 205-605`, maxWaitStreams+2))
	s.j.joinUntil(timeline.Never, true)
	if n := len(s.calls[0].Waits()); n != maxWaitStreams {
		t.Errorf("the context's wait was for %d streams, want %d", n, maxWaitStreams)
	}
	if got := s.names[s.calls[1].Waits()[0].Work]; got != fmt.Sprint("w", maxWaitStreams+1) {
		t.Errorf("the stream's wait was for %s", got)
	}
}

// The work that a wait was for is looked for behind some work that other threads launched
// meanwhile; there is a bound.
func TestLookBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		others int
		want   string
	}{{0, "t1@200: a"}, {waitLookBack - 1, "t1@200: a"}, {waitLookBack, ""}} {
		s := newScript(t, 0)
		s.run("work a 7 100-201 by 50\n" + strings.Repeat("work b 7 210-211 by 205\n", test.others) + "wait t1 stream 200-600")
		s.j.joinUntil(timeline.Never, true)
		if got := s.found(); got != test.want {
			t.Errorf("behind %d pieces of work of others found is %q, want %q", test.others, got, test.want)
		}
	}
}

// Too many waits are not held back, whatever is still to come: the first of them are joined
// with what is known.
func TestPendingBound(t *testing.T) {
	t.Parallel()
	const more = 5
	s := newScript(t, 0)
	for i := range uint64(maxPendingWaits + more) {
		s.j.closeWait(&waitingCall{Slice: &timeline.Slice{Start: 1000 * i, End: 1000*i + 1}, Type: cudaapi.StreamWait}, 0)
	}
	s.j.joinUntil(0, false)
	if left := s.j.pending.Values(); len(left) != maxPendingWaits || left[0].start != 1000*more {
		t.Errorf("%d waits are held back, the first at %d", len(left), left[0].start)
	}
}

// A stream forgets work from long before the waits to come, and still knows the launch of
// the rest.
func TestStreamForgets(t *testing.T) {
	t.Parallel()
	const n = 10 * waitLookBack
	var j waitJoiner
	s := &waitStream{joiner: &j}
	for i := range uint64(n) {
		if nth := s.addWork(&timeline.Work{ID: i, Start: 100 * i, Dur: 50}); nth != i {
			t.Fatalf("work %d is number %d", i, nth)
		}
	}
	const kept = n/4 + waitLookBack // behind the first three quarters, and some before it
	for _, at := range []uint64{n / 2, n * 3 / 4, n*3/4 + 10} {
		s.forget(100 * at)
		want := kept
		if at == n/2 { // to move what is left is not worth it
			want = n
		}
		if len(s.recent) != want {
			t.Fatalf("up to %d all is known: %d pieces of work are kept, want %d", at, len(s.recent), want)
		}
	}
	s.launched(0, 7) // is gone
	s.launched(n-kept, 8)
	s.launched(n-1, 9)
	if s.recent[0].launch != 8 || s.recent[len(s.recent)-1].launch != 9 || s.recent[0].id != n-kept {
		t.Errorf("the first piece is %+v, the last %+v", s.recent[0], s.recent[len(s.recent)-1])
	}
	for _, r := range s.recent[1 : len(s.recent)-1] {
		if r.launch != 0 {
			t.Errorf("work %d was launched at %d", r.id, r.launch)
		}
	}
	j.joinUntil(timeline.Never, true)
	if s.forget(j.done); len(s.recent) != waitLookBack {
		t.Errorf("%d pieces of work are kept in the end", len(s.recent))
	}
}

// Where no wait is ever joined, the latest work is kept.
func TestStreamBound(t *testing.T) {
	t.Parallel()
	s := &waitStream{joiner: &waitJoiner{}}
	for i := range uint64(3 * maxRecent) {
		s.addWork(&timeline.Work{ID: i, Start: i})
	}
	if n := len(s.recent); n < maxRecent || n > 2*maxRecent+1 || s.recent[n-1].id != 3*maxRecent-1 {
		t.Errorf("%d pieces of work are kept, from %d on", len(s.recent), s.recent[0].id)
	}
}

// Streams that were learned stay so, however many handles there are meanwhile; of a handle
// and of a program so many are known that make sense.
func TestHandlesBound(t *testing.T) {
	t.Parallel()
	streams := make([]*waitStream, maxStreamsOfHandle+5)
	for i := range streams {
		streams[i] = &waitStream{out: &timeline.Stream{ID: uint32(i), Context: &timeline.Context{ID: 1}}}
	}
	var h waitHandles
	for _, s := range streams {
		h.learn(handleUser{5, 1}, false, s)
	}
	of := func(handle read.StreamHandle) int { return len(h.of(&waitingCall{Stream: handle, TID: 1})) }
	if n := of(5); n != maxStreamsOfHandle {
		t.Errorf("the handle stands for %d streams", n)
	}
	for i := range 2 * maxHandles {
		h.learn(handleUser{read.StreamHandle(10 + i), 1}, false, streams[i%2])
	}
	h.learn(handleUser{10, 1}, false, streams[1]) // a second stream of a handle that is known
	got := []int{len(h.launches), of(5), of(10), of(11), of(10 + maxHandles)}
	if diff := cmp.Diff([]int{maxHandles, maxStreamsOfHandle, 2, 1, 0}, got); diff != "" {
		t.Errorf("handles, and the streams of four of them (-want +got):\n%s", diff)
	}
}

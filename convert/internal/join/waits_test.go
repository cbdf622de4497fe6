package join

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
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
	for _, ready := range []int{0, 600, 620, 621, 920, 921, 922, 2000, 100} {
		s.run(fmt.Sprint("advance ", ready))
		got = append(got, fmt.Sprintf("%d: %s, settled %t %t", ready, s.found(), s.j.settled(s.waits[0]), s.j.settled(s.waits[1])))
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
		"100: t1@200: a; t1@710: b, settled true true",
	}
	goldentest.Same(t, want, got, "found up to each time")
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
	if s.stats.Partial != 1 {
		t.Errorf("%d waits are partial, want that for the context", s.stats.Partial)
	}
}

// The work that a wait was for is looked for behind some work that other threads launched
// meanwhile; there is a bound, beyond which a wait is partial.
func TestLookBack(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		others  int
		want    string
		partial uint64
	}{{0, "t1@200: a", 0}, {waitLookBack - 1, "t1@200: a", 0}, {waitLookBack, "", 1}} {
		s := newScript(t, 0)
		s.run("work a 7 100-201 by 50\n" + strings.Repeat("work b 7 210-211 by 205\n", test.others) + "wait t1 stream 200-600")
		s.j.joinUntil(timeline.Never, true)
		if got := s.found(); got != test.want || s.stats.Partial != test.partial {
			t.Errorf("behind %d pieces of work of others found is %q, want %q; %+v", test.others, got, test.want, s.stats)
		}
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
	for at, partial := range map[uint64]bool{3 * maxRecent: false, 10: true} { // a wait until 10 is for work that is gone
		s.joiner.partial = false
		if s.joiner.last(s, &wait{end: at}); s.joiner.partial != partial {
			t.Errorf("a wait until %d is partial: %t", at, !partial)
		}
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
	of := func(handle read.StreamHandle) int { return len(h.of(&wait{stream: handle, tid: 1})) }
	if n := of(5); n != maxStreamsOfHandle {
		t.Errorf("the handle stands for %d streams", n)
	}
	for i := range 2 * maxHandles {
		h.learn(handleUser{read.StreamHandle(10 + i), 1}, false, streams[i%2])
	}
	h.learn(handleUser{10, 1}, false, streams[1]) // a second stream of a handle that is known
	got := []int{len(h.launches), of(5), of(10), of(11), of(10 + maxHandles)}
	goldentest.Same(t, []int{maxHandles, maxStreamsOfHandle, 2, 1, 0}, got, "handles, and the streams of four of them")
	met := map[read.StreamHandle]bool{5: true, 10: false, 10 + maxHandles: true, read.LegacyStream: false}
	for handle, full := range met {
		w := &wait{stream: handle, tid: 1}
		if got := h.full(w, h.of(w)); got != full {
			t.Errorf("a wait for the handle %d met a bound: %t", handle, got)
		}
	}
}

// A wait for a stream whose handle nobody saw is partial where there are many such streams.
func TestPartialWaits(t *testing.T) {
	t.Parallel()
	s := newScript(t, 0)
	for i := range maxUnseenStreams {
		s.run(fmt.Sprintf("unseen %d", i+1))
		s.run(fmt.Sprintf("work w%d %d 100-200 by 50", i, i+1))
	}
	s.run("wait t1 stream 0x5 150-250")
	s.j.joinUntil(timeline.Never, true)
	if s.stats.Partial != 1 {
		t.Errorf("unseen streams: %d waits are partial", s.stats.Partial)
	}
}

// A script is a program with GPU work and waits, times in µs. Its lines are
//
//	work a 7 100-200 by 50 c9   work a of stream 7, launched at 50 by call 9; "2/7" is of context 2
//	learn 0x5 t1 7              a launch of thread 1 that names handle 5 ran on stream 7
//	learn 0x5 t1 7 graph        the launch of a graph
//	wait t1 stream 0x5 100-200  a call of thread 1 that waits for a stream; or context, or event
//	advance 500                 everything up to 500 is known
//
// with "failed", "unfinished", "shown", "open" or "work" behind what a call is.
type script struct {
	t       testing.TB
	j       *waitJoiner
	stats   waitStats
	names   map[uint64]string // of work
	streams map[string]*waitStream
	waits   []*wait
	calls   []*timeline.Slice // of waits
}

func newScript(t testing.TB, clockError uint64) *script {
	s := &script{t: t, names: make(map[uint64]string), streams: make(map[string]*waitStream)}
	s.j = newWaitJoiner(clockError, &s.stats)
	return s
}

// run goes through the lines of a script.
func (s *script) run(text string) {
	s.t.Helper()
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch do := words[0]; do {
		case "work":
			s.work(words[1:])
		case "learn":
			s.j.learn(read.StreamHandle(s.number(words[1])), uint32(s.number(words[2])), slices.Contains(words, "graph"), s.stream(words[3]))
		case "made":
			context, id := s.place(words[3])
			s.j.made(handleUser{read.StreamHandle(s.number(words[1])), uint32(s.number(words[2]))}, waitStreamKey{context, id})
		case "unseen":
			context, id := s.place(words[1])
			s.j.handles.unseen = append(s.j.handles.unseen, waitStreamKey{context, id})
		case "wait":
			s.wait(words[1:])
		case "advance":
			s.j.joinUntil(s.number(words[1])*1000, false)
		default:
			s.t.Fatalf("what is %q?", line)
		}
	}
}

// number reads a number behind a letter.
func (s *script) number(word string) uint64 {
	s.t.Helper()
	n := must.Get(strconv.ParseUint(strings.TrimLeft(word, "tc"), 0, 64))(s.t)
	return n
}

// span reads a span of time, in ns.
func (s *script) span(word string) (from, to uint64) {
	s.t.Helper()
	a, b, _ := strings.Cut(word, "-")
	return s.number(a) * 1000, s.number(b) * 1000
}

// place reads "context/stream", or a stream of context 1.
func (s *script) place(word string) (context, stream uint32) {
	a, b, two := strings.Cut(word, "/")
	if !two {
		a, b = "1", word
	}
	return uint32(s.number(a)), uint32(s.number(b))
}

func (s *script) stream(word string) *waitStream {
	if s.streams[word] == nil {
		context, id := s.place(word)
		s.streams[word] = s.j.stream(&timeline.Stream{ID: id, Context: &timeline.Context{ID: context}})
	}
	return s.streams[word]
}

func (s *script) work(words []string) {
	id := uint64(len(s.names) + 1)
	s.names[id] = words[0]
	from, to := s.span(words[2])
	w := timeline.Work{ID: id, Start: from, Dur: to - from, Correlation: uint32(1000 + id)}
	stream := s.stream(words[1])
	if last := words[len(words)-1]; strings.HasPrefix(last, "c") {
		w.Correlation = uint32(s.number(last))
	}
	nth := stream.addWork(&w)
	if at := slices.Index(words, "by"); at > 0 {
		stream.launched(nth, s.number(words[at+1])*1000)
	}
}

var waitTypes = map[string]cudaapi.Wait{"event": cudaapi.EventWait, "stream": cudaapi.StreamWait, "context": cudaapi.ContextWait}

func (s *script) wait(words []string) {
	handle := read.StreamHandle(0)
	if strings.HasPrefix(words[2], "0x") {
		handle = read.StreamHandle(s.number(words[2]))
		words = slices.Delete(slices.Clone(words), 2, 3)
	}
	from, to := s.span(words[2])
	sl := &timeline.Slice{Start: from, End: to}
	for _, state := range words[3:] {
		switch state {
		case "failed":
			sl.Ret = 700
		case "unfinished":
			sl.Flags = timeline.Unfinished
		case "work":
			sl.AddWork(99)
		}
	}
	w := &wait{slice: sl, kind: waitTypes[words[1]], tid: uint32(s.number(words[0]))}
	s.waits, s.calls = append(s.waits, w), append(s.calls, sl)
	if !slices.Contains(words, "open") {
		s.j.closeWait(w, handle)
	}
	if slices.Contains(words, "shown") {
		w.slice = nil
	}
}

// found shows the calls with the work that they waited for, and what was counted.
func (s *script) found() string {
	var b strings.Builder
	for i, c := range s.calls {
		if len(c.Waits()) == 0 {
			continue
		}
		fmt.Fprintf(&b, "t%d@%d:", s.waits[i].tid, c.Start/1000)
		for _, w := range c.Waits() {
			fmt.Fprintf(&b, " %s", s.names[w.Work])
		}
		b.WriteString("; ")
	}
	if s.stats.Ambiguous > 0 {
		fmt.Fprintf(&b, "ambiguous %d; ", s.stats.Ambiguous)
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// A scriptTest is a script with what is found when all is known.
type scriptTest struct{ name, script, want string }

func runScripts(t *testing.T, tests []scriptTest) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t, 0)
			s.run(test.script)
			s.j.joinUntil(timeline.Never, true)
			if got := s.found(); got != test.want {
				t.Errorf("found is %q, want %q", got, test.want)
			}
			arrows := uint64(0)
			for _, c := range s.calls {
				arrows += uint64(len(c.Waits()))
			}
			if s.stats.Arrows != arrows {
				t.Errorf("%d arrows were counted of %d", s.stats.Arrows, arrows)
			}
		})
	}
}

// What a call waited for that names a stream.
func TestStreamWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the last work of the stream that launches with the handle ran on, of whatever thread", `
			learn 0x5 t2 7
			work a 7 100-200 by 50
			work b 7 210-500 by 60
			work c 8 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"work that had ended, once", `
			learn 0x5 t1 7
			work a 7 100-200 by 50
			wait t1 stream 0x5 300-310
			wait t1 stream 0x5 400-410`, "t1@300: a"},
		{"work that two threads wait for", `
			learn 0x5 t1 7
			work a 7 100-500 by 50
			wait t1 stream 0x5 200-510
			wait t2 stream 0x5 300-520`, "t1@200: a; t2@300: a"},
		{"work that was launched while the call waited", `
			learn 0x5 t1 7
			work a 7 100-300 by 50
			work b 7 310-500 by 250
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"work whose launch is not known", `
			learn 0x5 t1 7
			work a 7 100-300
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"work in front of work that goes on afterwards", `
			learn 0x5 t1 7
			work a 7 100-300 by 50
			work b 7 310-900 by 60
			wait t1 stream 0x5 200-600`, "t1@200: a"},
		{"nodes of one graph, the last to end first in the list", `
			learn 0x5 t1 7
			work a 7 100-150 by 50 c5
			work b 7 200-500 by 60 c6
			work c 7 210-300 by 60 c6
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"a handle that stood for several streams: the one whose work ended last", `
			learn 0x5 t1 7
			learn 0x5 t1 8
			learn 0x5 t1 9
			work a 7 100-200 by 50
			work b 8 210-500 by 60
			work c 9 220-480 by 70
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"a handle of which nothing is known: the only stream that no handle is known of", `
			learn 0x6 t1 8
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"work that had ended, of the only stream whose handle nobody saw", `
			unseen 7
			made 0x6 t1 8
			work a 7 100-200 by 50
			work b 8 100-150 by 50
			wait t1 stream 0x5 300-310`, "t1@300: a"},
		{"the same handle again, of a stream that was made later", `
			unseen 7
			work a 7 100-200 by 50
			wait t1 stream 0x5 300-310
			made 0x5 t1 9
			work b 9 400-500 by 390
			wait t1 stream 0x5 450-510`, "t1@300: a; t1@450: b"},
		{"a stream that was made and has no work, beside one whose handle nobody saw", `
			unseen 7
			made 0x6 t1 8
			work a 7 100-200 by 50
			wait t1 stream 0x6 300-310`, ""},
		{"two streams whose handles nobody saw", `
			unseen 7
			unseen 8
			work a 7 100-200 by 50
			work b 8 100-200 by 50
			wait t1 stream 0x5 300-310`, ""},
		{"a stream of a graph, where launches named no other", `
			learn 0x5 t1 7 graph
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"a graph that ran on several streams", `
			learn 0x5 t1 7 graph
			learn 0x5 t1 8 graph
			work a 7 100-500 by 50
			work b 8 100-200 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"a graph on a stream that launches name", `
			learn 0x5 t1 7
			learn 0x5 t1 8 graph
			work a 7 100-400 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "t1@300: a"},
		{"launches that name no stream teach nothing", `
			learn 0x0 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x5 300-600`, "ambiguous 1"},
	})
}

// The default stream is another one in each context; that of a thread is another one for
// each thread, too.
func TestDefaultStreamWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the only context's", `
			learn 0x1 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t2 stream 0x1 300-600`, "t2@300: a"},
		{"that of the thread's context", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 stream 0x1 300-600
			wait t2 stream 0x1 310-610`, "t1@300: a; t2@310: b"},
		{"a thread without launches, in two contexts", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t3 stream 0x1 300-600`, "ambiguous 1"},
		{"a thread without launches, in two contexts of which one worked", `
			learn 0x1 t1 7
			learn 0x1 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-200 by 50
			wait t3 stream 0x1 300-600`, "t3@300: a"},
		{"a thread of several contexts", `
			learn 0x1 t1 7
			learn 0x1 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 stream 0x1 300-600`, "ambiguous 1"},
		{"a thread whose launches named another stream of its context", `
			learn 0x1 t1 7
			learn 0x9 t3 2/9
			work a 7 100-500 by 50
			work b 2/9 100-500 by 50
			work c 2/8 100-500 by 50
			wait t3 stream 0x1 300-600`, "t3@300: c"},
		{"streams of other handles in several contexts", `
			learn 0x5 t1 7
			learn 0x5 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-550 by 50
			wait t1 stream 0x5 300-600`, "t1@300: b"},
		{"the threads' own", `
			learn 0x2 t1 7
			learn 0x2 t2 8
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t1 stream 0x2 300-600
			wait t2 stream 0x2 310-610`, "t1@300: a; t2@310: b"},
		{"that of a thread that launched nothing", `
			learn 0x2 t1 7
			work a 7 100-500 by 50
			work b 8 100-500 by 50
			wait t2 stream 0x2 310-610`, "t2@310: b"},
	})
}

// What a call waited for that waits for a context, which it does not name.
func TestContextWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"the only context: the last work of each stream", `
			work a 7 100-500 by 50
			work b 8 100-400 by 50
			work c 8 410-450 by 60
			wait t1 context 300-600`, "t1@300: a c"},
		{"work that had ended, once", `
			work a 7 100-200 by 50
			wait t1 context 300-310
			wait t1 context 400-410`, "t1@300: a"},
		{"that of the thread's launches", `
			learn 0x0 t1 7
			learn 0x0 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 context 300-600
			wait t2 context 310-610`, "t1@300: a; t2@310: b"},
		{"the only one that worked", `
			learn 0x0 t2 2/7
			work a 7 100-500 by 50
			work b 2/7 700-900 by 650
			wait t1 context 300-600`, "t1@300: a"},
		{"two that worked, of which one goes on", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900 by 60
			wait t1 context 300-600`, "t1@300: a"},
		{"two that worked, of which one has work that was launched meanwhile", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900 by 350
			wait t1 context 300-600`, "ambiguous 1"},
		{"two that worked, of which one has work of an unknown launch", `
			work a 7 100-500 by 50
			work b 2/7 100-400 by 50
			work c 2/7 410-900
			wait t1 context 300-600`, "ambiguous 1"},
		{"a thread of several contexts", `
			learn 0x0 t1 7
			learn 0x0 t1 2/7
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 context 300-600`, "ambiguous 1"},
	})
}

// What a call waited for that waits for an event: the only work that ended meanwhile.
func TestEventWaits(t *testing.T) {
	t.Parallel()
	runScripts(t, []scriptTest{
		{"one stream", `
			work a 7 100-500 by 50
			work b 8 100-200 by 50
			wait t1 event 300-600`, "t1@300: a"},
		{"streams of two contexts", `
			work a 7 100-500 by 50
			work b 2/7 100-500 by 50
			wait t1 event 300-600`, "ambiguous 1"},
		{"work that had ended: the event may have been of any", `
			work a 7 100-200 by 50
			wait t1 event 300-600`, ""},
	})
}

// Calls that did not wait for what is asked for.
func TestCallsThatDoNotCount(t *testing.T) {
	t.Parallel()
	const work = "learn 0x5 t1 7\nwork a 7 100-500 by 50\n"
	runScripts(t, []scriptTest{
		{"one that failed", work + "wait t1 stream 0x5 300-600 failed", ""},
		{"one that had not returned", work + "wait t1 stream 0x5 300-600 unfinished", ""},
		{"one with work of its own", work + "wait t1 stream 0x5 300-600 work", ""},
		{"one that was shown", work + "wait t1 stream 0x5 300-600 shown", ""},
		{"one that is still open", work + "wait t1 stream 0x5 300-600 open", ""},
	})
}

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
)

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
	calls   []*waitingCall
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
	n, err := strconv.ParseUint(strings.TrimLeft(word, "tc"), 0, 64)
	if err != nil {
		s.t.Fatal(err)
	}
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
	c := &waitingCall{Slice: sl, Type: waitTypes[words[1]], TID: uint32(s.number(words[0])), shown: slices.Contains(words, "shown")}
	s.calls = append(s.calls, c)
	if !slices.Contains(words, "open") {
		s.j.closeWait(c, handle)
	}
}

// found shows the calls with the work that they waited for, and what was counted.
func (s *script) found() string {
	var b strings.Builder
	for _, c := range s.calls {
		if len(c.Waits()) == 0 {
			continue
		}
		fmt.Fprintf(&b, "t%d@%d:", c.TID, c.Start/1000)
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

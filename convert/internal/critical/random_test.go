package critical_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A made program has random threads that launch on random streams, with events between them, and knows why each thing came when it did.
type made struct {
	*rand.Rand
	script
	threads []*madeThread
	last    []*madeWork // by stream
	after   [][]*madeWork
	events  []*madeWork // the work before the latest record of each
	works   int
}

type madeThread struct {
	tid  int
	next int // when it makes its next call, ns
	done []madeCall
}

// A madeCall is what a thread did from one time to another.
type madeCall struct {
	from, to int
	what     string
	waited   *madeWork // nil if it did not wait
}

// A madeWork started behind the last one of what it waited for.
type madeWork struct {
	start, end int
	name       string
	ready      int       // when that was there
	behind     *madeWork // nil: its launch
	thread     *madeThread
	callStart  int
}

func (m *made) event(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// act has a thread do something.
func (m *made) act(t *madeThread) {
	from, dur := t.next, 1000+m.IntN(8000)
	to := from + dur
	call := func(what string, waited *madeWork) {
		t.done = append(t.done, madeCall{from, to, what, waited})
		t.next = to + 500 + m.IntN(30_000)
	}
	switch what := m.IntN(10); {
	case what < 6:
		s := m.stream(t)
		m.works++
		w := &madeWork{name: fmt.Sprintf("k%d", m.works), ready: to, thread: t, callStart: from}
		for _, o := range append(m.after[s], m.last[s]) {
			if o != nil && o.end > w.ready {
				w.ready, w.behind = o.end, o
			}
		}
		m.after[s] = nil
		w.start = w.ready + 700 + m.IntN(3000)
		w.end = w.start + 1000 + m.IntN(60_000)
		m.last[s] = w
		m.correlation++
		m.event("call pid=10 tid=%d func=cuLaunchKernel enter=%d dur=%d args: function=1 stream=%d", t.tid, from, dur, 16*(s+20))
		m.event("api pid=10 tid=%d domain=1 cbid=307 name=cuLaunchKernel start=%d dur=%d correlation=%d", t.tid, from, dur, m.correlation)
		m.event("kernel pid=10 context=1 stream=%d correlation=%d start=%d dur=%d name=%s grid_x=1 grid_y=1 grid_z=1 block_x=32 block_y=1 block_z=1", s+20, m.correlation, w.start, w.end-w.start, w.name)
		call("cuLaunchKernel", nil)
	case what < 7:
		s, e := m.stream(t), m.IntN(len(m.events))
		m.events[e] = m.last[s]
		m.event("call pid=10 tid=%d func=cudaEventRecord enter=%d dur=%d args: event=%d stream=%d", t.tid, from, dur, e+1, 16*(s+20))
		call("cudaEventRecord", nil)
	case what < 8:
		s, e := m.stream(t), m.IntN(len(m.events))
		if m.events[e] != nil {
			m.after[s] = append(m.after[s], m.events[e])
		}
		m.event("call pid=10 tid=%d func=cudaStreamWaitEvent enter=%d dur=%d args: stream=%d event=%d flags=0", t.tid, from, dur, 16*(s+20), e+1)
		call("cudaStreamWaitEvent", nil)
	default:
		s := m.IntN(len(m.last)) // any
		w := m.last[s]
		if w != nil && w.end > from {
			to = w.end + 500 + m.IntN(5000)
		} else {
			w = nil
		}
		m.event("call pid=10 tid=%d func=cudaStreamSynchronize enter=%d dur=%d args: stream=%d", t.tid, from, to-from, 16*(s+20))
		call("cudaStreamSynchronize", w)
	}
}

// stream is one on which only the thread launches.
func (m *made) stream(t *madeThread) int {
	n := len(m.last) / len(m.threads)
	return (t.tid-10)*n + m.IntN(n)
}

// path is the path to the end of what a thread did, the latest part first.
func (m *made) path(from, at int, t *madeThread) (lines []string) {
	part := func(down int, what string) {
		if down = max(down, from); down < at {
			lines = append(lines, fmt.Sprintf("%d %d %s", down, at, what))
			at = down
		}
	}
	var work *madeWork
	for at > from {
		if w := work; w != nil {
			part(w.start, w.name)
			part(w.ready, "(start of work)")
			if work = w.behind; work == nil {
				t = w.thread
			}
			continue
		}
		i := len(t.done) - 1
		for i >= 0 && t.done[i].from >= at {
			i--
		}
		switch {
		case i < 0:
			part(from, "(outside of CUDA calls)")
		case t.done[i].to < at:
			part(t.done[i].to, "(outside of CUDA calls)")
		case t.done[i].waited != nil && t.done[i].waited.end <= at:
			work = t.done[i].waited
			part(work.end, t.done[i].what)
		default:
			part(t.done[i].from, t.done[i].what)
		}
	}
	return lines
}

// Of random programs the path is the one that their order makes; its segments lie end to end from the end of the step to its beginning.
func TestRandom(t *testing.T) {
	t.Parallel()
	for seed := range uint64(150) {
		m := &made{Rand: rand.New(rand.NewPCG(seed, 1))}
		m.WriteString(head)
		m.event(`function id=11 name=cudaEventRecord library=runtime args="event:handle stream:handle"`)
		m.event(`function id=12 name=cudaStreamWaitEvent library=runtime args="stream:handle event:handle flags:u32"`)
		for i := range 1 + m.IntN(2) {
			m.threads = append(m.threads, &madeThread{tid: 10 + i, next: 1_000_000 + m.IntN(10_000)})
		}
		streams := len(m.threads) * (1 + m.IntN(3))
		m.last, m.after, m.events = make([]*madeWork, streams), make([][]*madeWork, streams), make([]*madeWork, 3)
		for range 20 + m.IntN(100) {
			m.act(slices.MinFunc(m.threads, func(a, b *madeThread) int { return a.next - b.next }))
		}
		main := m.threads[0]
		from, to := 1_000_000+m.IntN(max(main.next-1_000_000, 1)), main.next+m.IntN(5000)
		m.event("marker pid=10 tid=10 flags=0x2 id=1 time=%d name=step\nmarker pid=10 tid=10 flags=0x4 id=1 time=%d", from, to)
		m.event("process_end pid=10 time=99000000 status=0 complete=1\nend time=99000000 complete=1")
		s := newSink()
		must.Get(convert.Timeline([]convert.Log{{Name: "log", Open: logtest.Assemble(t, m.String())}}, convert.Options{}, s))(t)
		if len(s.steps) != 1 {
			t.Fatalf("seed %d: %d steps", seed, len(s.steps))
		}
		var got []string
		at := uint64(to)
		s.Path(uint64(from), uint64(to), critical.End{Thread: s.steps[0].on}, func(x *critical.Segment) {
			if x.To != at || x.From >= x.To || (x.Edge == critical.NoEdge) {
				t.Errorf("seed %d: a segment from %d to %d with edge %d behind one that begins at %d", seed, x.From, x.To, x.Edge, at)
			}
			at = x.From
			got = append(got, fmt.Sprintf("%d %d %s", x.From, x.To, s.Text(x.Name)))
		})
		if at != uint64(from) {
			t.Errorf("seed %d: the path begins at %d, the step at %d", seed, at, from)
		}
		if diff := cmp.Diff(m.path(from, to, main), got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s\n%s", seed, diff, strings.TrimPrefix(m.String(), head))
		}
		m.replay(t, seed, s, main)
	}
}

// replay replays the program: as it was it takes as long as it did; without a part of what a thread did outside of calls it takes less by that part at most.
func (m *made) replay(t *testing.T, seed uint64, s *sink, main *madeThread) {
	t.Helper()
	of := s.steps[0].on.Process
	first, last, _ := s.Last(of)
	for _, w := range m.last {
		if w != nil {
			last = max(last, uint64(w.end))
		}
	}
	r := s.Replay(of)
	saved, lack := r.Saved(of, first, last+1, func(*critical.Without) {})
	if lack == critical.Waitless && !strings.Contains(m.String(), "func=cudaStreamSynchronize") {
		return
	}
	if saved != 0 || lack != "" {
		t.Errorf("seed %d: the replay of what happened saves %d ns; %q", seed, saved, lack)
	}
	for range 5 {
		from := first + m.Uint64N(last-first)
		part := m.Uint64N(50_000)
		lost := []critical.Lost{{From: from, To: from + part, Ready: from + part, By: s.steps[0].on}}
		if saved, _ := r.Saved(of, first, last+1, func(x *critical.Without) { x.Outside(lost, 1) }); saved > part {
			t.Errorf("seed %d: without %d ns of the thread %d are saved", seed, part, saved)
		}
	}
}

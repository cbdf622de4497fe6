package pfsink

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/figures"
)

// A Sink maps a timeline onto Perfetto's tracks and its GPU model.
type Sink struct {
	out        io.Writer
	pieceBytes int

	w        *perfetto.Writer
	several  bool // there is more than one process: the names of queues include the process
	threads  map[*timeline.Thread]*thread
	tracks   map[*timeline.Track]*perfetto.Track
	counters map[*timeline.Counter]*perfetto.Counter
	queues   map[*timeline.Stream]*queue
	names    map[uint32]bool // PIDs that have been described
	own      *perfetto.Track // the "cudatrace" track

	calls calls
	works works
	args  []perfetto.Arg
	shown uint64                      // see Slices
	once  perfetto.TrackEventTemplate // the template of the event that is being written
}

// New returns a sink that writes a trace to w. pieceBytes is the number of bytes of events of
// one kind that stand together in the trace; 0 means perfetto's default.
func New(w io.Writer, pieceBytes int) *Sink {
	return &Sink{
		out: w, pieceBytes: pieceBytes,
		threads:  make(map[*timeline.Thread]*thread),
		tracks:   make(map[*timeline.Track]*perfetto.Track),
		counters: make(map[*timeline.Counter]*perfetto.Counter),
		queues:   make(map[*timeline.Stream]*queue),
		names:    make(map[uint32]bool),
	}
}

// Take writes events. It returns the trace's first error.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		s.event(e)
	}
	return s.w.Err()
}

// End writes the rest of a complete timeline.
func (s *Sink) End(err error) error {
	if err != nil || s.w == nil {
		return nil
	}
	return s.w.Close()
}

// Slices is the number of slices in the trace so far, as the trace processor counts them: calls,
// GPU work, spans and instants. The load of a trace viewer grows with this number.
func (s *Sink) Slices() uint64 { return s.shown }

func (s *Sink) event(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Slices:
		s.slices(e)
	case *timeline.WorkList:
		s.workList(e)
	case *timeline.SpanBegin:
		s.shown++
		s.spanArgs(e.Args)
		s.once.Encode(s.w, e.Name, string(e.Track.Category), s.args)
		s.track(e.Track).Begin(e.Start, &s.once, 0, perfetto.UintArg{})
	case *timeline.SpanEnd:
		s.spanEnd(e)
	case *timeline.Instant:
		s.shown++
		s.spanArgs(e.Args)
		s.once.Encode(s.w, e.Name, string(e.Track.Category), s.args)
		s.track(e.Track).Instant(e.Start, &s.once)
	case *timeline.CounterValue:
		s.counter(e.Counter).Value(e.Time, int64(min(e.Value, math.MaxInt64)))
	case *timeline.Thread:
		s.thread(e)
	case *timeline.ThreadEnd:
		s.thread(e.Thread).closeTo(timeline.Never, 0)
	default:
		s.description(e)
	}
}

// description takes the kinds of event that are rare.
func (s *Sink) description(e timeline.Event) {
	switch e := e.(type) {
	case *timeline.Recording:
		s.begin(e)
	case *timeline.Metadata:
		s.metadata(e)
	case *timeline.GPUs:
		s.gpus(e.List)
	case *timeline.Process:
		s.names[e.PID] = true
		s.w.Process(perfetto.Process{PID: e.PID, Name: e.Name, Args: e.Args, Start: e.Start, Rank: len(s.names)})
	case *timeline.Loss:
		s.loss(e)
	case *timeline.Note:
		s.args = s.args[:0]
		s.remark(e.Time, e.PID, e.Text)
	}
}

func (s *Sink) begin(r *timeline.Recording) {
	s.w = perfetto.NewWriter(s.out, perfetto.Options{
		Monotonic: r.Monotonic, Realtime: r.Realtime, Boottime: r.Boottime, Start: r.Start, PieceBytes: s.pieceBytes,
	})
	s.several = r.Processes > 1
	names := make(timeline.KernelNames)
	correlation := s.w.ArgName("correlation")
	s.calls = newCalls(s.w, correlation, names)
	s.works = newWorks(s.w, correlation, names)
}

func (s *Sink) gpus(gpus []timeline.GPU) {
	list := make([]perfetto.GPU, 0, len(gpus))
	for _, g := range gpus {
		uuid, err := hex.DecodeString(g.UUID)
		if err != nil {
			uuid = nil // UUID not known: leave the field out
		}
		list = append(list, perfetto.GPU{
			ID: g.Index, Name: g.Name, Vendor: "NVIDIA", Model: g.Name, UUID: uuid,
			Architecture: fmt.Sprintf("sm_%d%d", g.Major, g.Minor),
			Extra:        gpuFacts(&g),
		})
	}
	s.w.GPUs(list)
}

// A thread is the track of a thread's calls, with the calls that are open on it.
type thread struct {
	*perfetto.Track
	begun []begun // outermost first
}

type begun struct {
	end   uint64
	depth int32
}

// closeTo ends the open calls that do not contain a call of a depth that begins at a time. A
// selection may have left out calls between them.
func (t *thread) closeTo(start uint64, depth int32) {
	for n := len(t.begun); n > 0; n-- {
		if last := t.begun[n-1]; last.depth >= depth || last.end <= start {
			t.End(last.end)
			t.begun = t.begun[:n-1]
			continue
		}
		return
	}
}

func (s *Sink) thread(t *timeline.Thread) *thread {
	track := s.threads[t]
	if track == nil {
		info := perfetto.Thread{PID: t.Process.PID, TID: t.TID, Name: t.Title(), Rank: 1}
		if t.Main {
			info.Rank = 0
		}
		track = &thread{Track: s.w.Thread(info)}
		s.threads[t] = track
	}
	return track
}

func (s *Sink) slices(l *timeline.Slices) {
	t := s.thread(l.Thread)
	s.shown += uint64(len(l.List))
	for i := range l.List {
		sl := &l.List[i]
		t.closeTo(sl.Start, sl.Depth)
		s.calls.begin(t.Track, sl)
		t.begun = append(t.begun, begun{sl.End, sl.Depth})
	}
}

// ranks order the tracks of a process beside its threads.
var ranks = map[timeline.Category]int{timeline.NVTX: 1, timeline.Memory: 3, timeline.CUPTI: 4}

const counterRank = 2

func (s *Sink) track(t *timeline.Track) *perfetto.Track {
	track := s.tracks[t]
	if track == nil {
		info := perfetto.TrackInfo{Name: t.Name, PID: t.Process.PID, Rank: ranks[t.Category]}
		switch {
		case t.Stream != nil:
			info = s.rangesInfo(t)
		case t.Thread != nil:
			info.Thread = s.thread(t.Thread).Track
		}
		track = s.w.Track(info)
		s.tracks[t] = track
	}
	return track
}

func (s *Sink) counter(c *timeline.Counter) *perfetto.Counter {
	counter := s.counters[c]
	if counter == nil {
		counter = s.w.Counter(perfetto.TrackInfo{Name: c.Name, PID: c.Process.PID, Rank: counterRank})
		s.counters[c] = counter
	}
	return counter
}

// spanArgs makes the arguments of a span.
func (s *Sink) spanArgs(details []timeline.Detail) {
	s.args = s.args[:0]
	for _, d := range details {
		switch {
		case d.Text != "":
			s.args = append(s.args, perfetto.String(d.Name, d.Text))
		case d.Hex:
			s.args = append(s.args, perfetto.Pointer(d.Name, d.Value))
		default:
			s.args = append(s.args, perfetto.Uint(d.Name, d.Value))
		}
	}
}

// loss shows a loss at the end of the time in which it happened.
func (s *Sink) loss(l *timeline.Loss) {
	s.args = append(s.args[:0],
		perfetto.String("cause", l.Cause),
		perfetto.Uint("count", l.Count),
		perfetto.Uint("from_ns", l.From),
		perfetto.Uint("to_ns", l.To))
	s.remark(l.Time, l.PID, figures.Count(l.Count, "record", "records")+" lost: "+l.Cause)
}

// remark writes a line for people to the "cudatrace" track.
func (s *Sink) remark(at uint64, pid uint32, text string) {
	if s.own == nil {
		s.own = s.w.Track(perfetto.TrackInfo{Name: "cudatrace"})
	}
	if pid != 0 {
		s.args = append(s.args, perfetto.Uint("pid", uint64(pid)))
	}
	s.once.Encode(s.w, text, "cudatrace", s.args)
	s.own.Instant(at, &s.once)
	s.shown++
}

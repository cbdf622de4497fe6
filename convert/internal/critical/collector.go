package critical

import (
	"cmp"
	"slices"
	"sort"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// Limits of what is kept.
const (
	mostRecords  = 1 << 21 // calls and pieces of work, of all processes, where paths are what a person wants
	fewRecords   = 1 << 19 // and beside other things
	leastRecords = 1 << 14 // of a process, however many there are
	mostTexts    = 1 << 16
	mostPlaces   = 1 << 16 // of each kind, in a cache
)

// SmallCopy is the size of the largest copy that is small, in bytes.
const SmallCopy = 64 << 10

// A Collector keeps the calls and the work of a timeline.
type Collector struct {
	names     timeline.KernelNames
	records   int // of all processes
	most      int // of a process
	texts     []string
	byText    map[string]uint32
	lines     map[*timeline.Python]uint32 // their texts, a cache
	callers   map[*timeline.Caller]uint32 // likewise
	shapes    map[*timeline.Shape]shape   // likewise
	processes map[*timeline.Process]*keptProcess
	threads   []*Thread
	streams   []*Stream
	byThread  map[*timeline.Thread]*Thread
	byStream  map[*timeline.Stream]*Stream
	functions map[*timeline.Function]*function
	roles     map[uint32]activity.Role // of functions, by the text of their names
	replays   map[*timeline.Process]*Replay
	parts     []part
	lasts     map[collective]place // of the rank that entered last
	settled   bool
}

// A keptProcess has the bounds of what is kept of a process.
type keptProcess struct {
	of      *timeline.Process
	room    int
	until   uint64 // everything before it is kept
	threads []*Thread
	streams []*Stream

	handles  map[handle][]use // streams that handles stood for, as launches tell
	unnamed  *Stream          // see onlyUnnamed
	records  []event          // records of events
	orders   []event          // streams that wait for events
	autograd bool             // threads of PyTorch's backward pass are among the threads
}

// New returns a collector without events.
func New(names timeline.KernelNames) *Collector {
	return &Collector{names: names, records: fewRecords, most: fewRecords,
		texts: []string{"", "other"}, byText: make(map[string]uint32), lines: make(map[*timeline.Python]uint32),
		callers: make(map[*timeline.Caller]uint32), shapes: make(map[*timeline.Shape]shape),
		functions: make(map[*timeline.Function]*function), roles: make(map[uint32]activity.Role),
		processes: make(map[*timeline.Process]*keptProcess), byThread: make(map[*timeline.Thread]*Thread),
		byStream: make(map[*timeline.Stream]*Stream), lasts: make(map[collective]place)}
}

// KeepMore has the collector keep the calls and the work of a million launches, in place of a quarter of that. It comes
// before all events.
func (c *Collector) KeepMore() { c.records, c.most = mostRecords, mostRecords }

// Recording takes the first event.
func (c *Collector) Recording(e *timeline.Recording) {
	c.most = max(c.records/max(e.Processes, 1), leastRecords)
}

func (c *Collector) process(of *timeline.Process) *keptProcess {
	p := c.processes[of]
	if p == nil {
		p = &keptProcess{of: of, room: c.most, until: timeline.Never}
		c.processes[of] = p
	}
	return p
}

// keep reports whether there is room for a record that begins at a time.
func (p *keptProcess) keep(at uint64) bool {
	if p.room <= 0 {
		p.until = min(p.until, at)
		return false
	}
	p.room--
	return true
}

// Until returns the time before which everything of a process is kept; timeline.Never where all is.
func (c *Collector) Until(of *timeline.Process) uint64 { return c.process(of).until }

// leave notes that nothing of a process is kept from a time on.
func (p *keptProcess) leave(at uint64) { p.room, p.until = 0, min(p.until, at) }

// Numbers of texts.
const (
	none = iota
	other
)

// Other is the number of the text for what has no number of its own.
func (c *Collector) Other() uint32 { return other }

// text returns the number of a text.
func (c *Collector) text(s string) uint32 {
	if s == "" {
		return none
	}
	n, known := c.byText[s]
	if !known {
		if len(c.texts) >= mostTexts {
			return other
		}
		n = uint32(len(c.texts))
		c.texts = append(c.texts, s)
		c.byText[s] = n
	}
	return n
}

// place returns the number of the place of a call: the line of the program, else the code that called.
func (c *Collector) place(python *timeline.Python, caller *timeline.Caller) uint32 {
	switch {
	case python != nil:
		n, known := c.lines[python]
		if !known {
			n = c.text(python.Own().Short())
			remember(c.lines, python, n)
		}
		return n
	case caller != nil:
		n, known := c.callers[caller]
		if !known {
			n = c.text(caller.Text())
			remember(c.callers, caller, n)
		}
		return n
	}
	return none
}

// remember adds to a cache.
func remember[K comparable, V any](cache map[K]V, k K, v V) {
	if len(cache) >= mostPlaces {
		clear(cache)
	}
	cache[k] = v
}

// A shape is what pieces of work of one shape have in common.
type shape struct {
	name uint32
	kind Kind
}

// shape returns the name and the kind of a piece of work.
func (c *Collector) shape(w *timeline.Work) shape {
	x, known := c.shapes[w.Shape]
	if !known {
		x = shape{c.text(c.names.Title(w)), kinds[activity.ClassOf(w)]}
		remember(c.shapes, w.Shape, x)
	}
	return x
}

// A Thread has the calls of a thread.
type Thread struct {
	*timeline.Thread
	History *activity.History // its states and samples
	process *keptProcess
	index   uint32
	calls   list[call] // that lie in no other call
	waits   []awaited  // of the calls, by number
	copies  []ownCopy
	synced  []event // calls that waited for events
	capture bool    // the thread captures a graph
	unsort  bool

	base         int32 // moment of the first call in a replay
	kept, cursor int   // calls there
}

// A call lies in no other one. It has no pointers that the garbage collector would have to follow.
type call struct {
	start, end uint64
	name       uint32
	place      uint32
	wait       uint32 // number in Thread.waits and 1; 0 for none
	line       bool   // the place is a line of the program
	unknown    bool   // it waited for an event, and it is not known for which work
}

// An awaited is work that a call waited for. The piece that was the last to end comes first.
type awaited struct {
	start, end uint64
	stream     uint32
	next       uint32 // number in Thread.waits and 1 of other work that the call waited for; 0 for none
}

// An ownCopy is a copy that the call which made it waited for.
type ownCopy struct {
	call uint64 // its start
	awaited
}

// Thread returns a thread, without calls where it is new.
func (c *Collector) Thread(of *timeline.Thread, h *activity.History) *Thread {
	t := c.byThread[of]
	if t == nil {
		t = &Thread{Thread: of, History: h, process: c.process(of.Process), index: uint32(len(c.threads))}
		c.byThread[of] = t
		c.threads = append(c.threads, t)
		t.process.threads = append(t.process.threads, t)
		t.process.autograd = t.process.autograd || of.Autograd()
	}
	return t
}

// Leave stands for calls of the thread, from a time on, that are not added: no more of its process is kept.
func (t *Thread) Leave(at uint64) { t.process.leave(at) }

// AddCall adds a call of a thread. inner says that it lies in another one.
func (c *Collector) AddCall(t *Thread, sl *timeline.Slice, inner bool) {
	c.settled = false
	f := c.function(sl.Function)
	if f.role != nothing {
		t.order(sl, f, c)
	}
	if !inner {
		if !t.process.keep(sl.Start) {
			return
		}
		if n := t.calls.n; n > 0 && t.calls.at(n-1).start > sl.Start {
			t.unsort = true
		}
		*t.calls.more() = call{
			start: sl.Start, end: max(sl.Start, sl.End), name: f.name, place: c.place(sl.Python, sl.Caller),
			line: sl.Python != nil,
		}
	}
	if len(sl.Waits()) == 0 || t.calls.n == 0 {
		return
	}
	of := t.calls.at(t.calls.n - 1)
	if of.start > sl.Start || of.end < sl.End {
		return
	}
	for i := range sl.Waits() {
		a := &sl.Waits()[i]
		if x := (awaited{start: a.Start, end: a.End, stream: c.Stream(a.Stream).index}); i < mostOverlap {
			t.wait(of, x)
		} else if first := &t.waits[of.wait-1]; first.end < x.end {
			x.next = first.next
			*first = x
		}
	}
}

// wait notes that a call waited for work.
func (t *Thread) wait(x *call, a awaited) {
	if x.wait == 0 || t.waits[x.wait-1].end <= a.end {
		a.next = x.wait
		t.waits = append(t.waits, a)
		x.wait = uint32(len(t.waits))
		return
	}
	a.next = t.waits[x.wait-1].next
	t.waits = append(t.waits, a)
	t.waits[x.wait-1].next = uint32(len(t.waits))
}

// A Stream has the work of a stream.
type Stream struct {
	*timeline.Stream
	process *keptProcess
	index   uint32
	work    list[piece]
	after   []order // events that it waited for
	unsort  bool
	mixed   bool   // its work is not in the order of its calls
	parts   bool   // some of it is of collectives with other ranks
	handle  handle // it stands for this stream now; none if its number is 0

	base int32 // moment of the first piece in a replay
	kept int   // pieces there
}

// Leave stands for work of the stream, from a time on, that is not added: no more of its process is kept.
func (s *Stream) Leave(at uint64) { s.process.leave(at) }

// Full reports whether there is no room for more of the stream's process.
func (s *Stream) Full() bool { return s.process.room <= 0 }

// A piece is a piece of work. It has no pointers either.
type piece struct {
	start, end         uint64
	callStart, callEnd uint64
	id                 uint64 // of the work
	name, place        uint32
	thread             uint32 // number of the thread that launched it and 1; 0 if unknown
	graph              uint32
	part               uint32 // number in Collector.parts and 1; 0 for a piece that is none
	kind               Kind
	habit              habit
	work               timeline.WorkKind
	copyKind           uint8
	bytes              uint64 // of a copy
}

// A habit is what is odd about a piece of work.
type habit uint8

const (
	noHabit       habit = iota
	pageable            // a larger copy from or to pageable memory
	pageableToGPU       // likewise, to a GPU
	small               // a small copy
	syncSet             // a memory set by a function that is not asynchronous
)

// habitOf returns what is odd about a piece of work.
func (c *Collector) habitOf(w *timeline.Work) habit {
	m := &w.Shape.Memcpy
	switch {
	case w.Call.Function == nil || w.Graph != 0:
	case w.Kind == timeline.MemsetWork && !w.Call.Async:
		return syncSet
	case w.Kind != timeline.MemcpyWork:
	case m.Bytes <= SmallCopy:
		return small
	case m.Pageable() && m.CopyKind == cudaapi.MemcpyHtoD:
		return pageableToGPU
	case m.Pageable():
		return pageable
	}
	return noHabit
}

// A collective is one of a communicator.
type collective struct {
	communicator uint32
	number       uint64
}

// A part is that of a rank in a collective whose last rank is known.
type part struct {
	collective
	entered uint64 // when the last one entered
	last    uint32 // text: its name
	sure    bool   // whatever the clocks are wrong
	waits   bool   // the rank waited for the last one
}

// A place is a piece of work.
type place struct {
	stream uint32
	start  uint64
}

// Stream returns a stream, without work where it is new.
func (c *Collector) Stream(of *timeline.Stream) *Stream {
	s := c.byStream[of]
	if s == nil {
		s = &Stream{Stream: of, process: c.process(of.Context.Process), index: uint32(len(c.streams))}
		c.byStream[of] = s
		c.streams = append(c.streams, s)
		s.process.streams = append(s.process.streams, s)
	}
	return s
}

// kinds are those of the classes of work.
var kinds = [...]Kind{
	activity.Compute: Kernel, activity.Communication: Communication, activity.Copy: Copy, activity.Set: Set,
}

// AddWork adds a piece of work, with the thread that launched it; nil if that is not known.
func (c *Collector) AddWork(s *Stream, w *timeline.Work, by *Thread) {
	c.settled = false
	if w.Untimed || !s.process.keep(w.Start) {
		return
	}
	x, made := c.shape(w), cmp.Or(w.Captured, &w.Call)
	p := piece{start: w.Start, end: timeline.End(w.Start, w.Dur), id: w.ID, graph: w.Graph}
	p.name, p.kind, p.work, p.place = x.name, x.kind, w.Kind, c.place(made.Python, made.Caller)
	if w.Kind == timeline.MemcpyWork {
		p.bytes, p.copyKind = w.Shape.Memcpy.Bytes, uint8(w.Shape.Memcpy.CopyKind)
	}
	if w.Kind == timeline.MemcpyWork || w.Kind == timeline.MemsetWork {
		p.habit = c.habitOf(w)
	}
	if x := w.Part; x != nil && x.Last != "" && !x.Alone && s.process.keep(w.Start) {
		of := collective{x.Communicator, x.Number}
		if x.IsLast {
			c.lasts[of] = place{s.index, p.start}
		}
		c.parts = append(c.parts, part{
			of, x.Entered, c.text(x.Last), x.Awaits, !x.IsLast && x.Entered > p.start+together && x.Entered < p.end,
		})
		p.part, s.parts = uint32(len(c.parts)), true
	}
	if by != nil {
		p.thread, p.callStart, p.callEnd = by.index+1, w.Call.Start, max(w.Call.Start, w.Call.End)
		if w.Kind == timeline.MemcpyWork && w.Graph == 0 && p.end <= p.callEnd && p.end > p.callStart && !async(w) {
			by.copies = append(by.copies, ownCopy{p.callStart, awaited{start: p.start, end: p.end, stream: s.index}})
		}
	}
	if n := s.work.n; n > 0 {
		last := s.work.at(n - 1)
		s.unsort = s.unsort || last.start > p.start
		s.mixed = s.mixed || last.callStart > p.callStart
	}
	*s.work.more() = p
}

// Runs gives the work of a stream that was launched or ran between two times.
func (c *Collector) Runs(of *timeline.Stream, from, to uint64, give func(*activity.Run)) {
	s := c.byStream[of]
	if s == nil {
		return
	}
	for i := range s.work.n {
		p := s.work.at(i)
		if p.end > from && (p.start < to || p.thread != 0 && p.callEnd < to) {
			give(&activity.Run{Launched: p.callEnd, Start: p.start, End: p.end, Kind: p.work,
				CopyKind: uint32(p.copyKind), Bytes: p.bytes})
		}
	}
}

// settle puts what has been added in order.
func (c *Collector) settle() {
	if c.settled {
		return
	}
	c.settled, c.replays = true, nil
	for _, s := range c.streams {
		if s.unsort {
			sort.Stable(&sorted[piece]{&s.work, func(a, b *piece) bool { return a.start < b.start }})
			s.mixed = false
			for i := 1; i < s.work.n; i++ {
				s.mixed = s.mixed || s.work.at(i-1).callStart > s.work.at(i).callStart
			}
		}
	}
	for _, t := range c.threads {
		if t.unsort {
			sort.Stable(&sorted[call]{&t.calls, func(a, b *call) bool { return a.start < b.start }})
		}
		slices.SortFunc(t.copies, func(a, b ownCopy) int {
			return cmp.Or(cmp.Compare(a.call, b.call), cmp.Compare(a.end, b.end))
		})
	}
	for _, p := range c.processes {
		p.settle()
	}
}

// A list grows without moving what it has.
type list[T any] struct {
	chunks [][]T
	n      int
	found  int // by the last search
}

const chunk = 1 << 12

func (l *list[T]) at(i int) *T { return &l.chunks[i/chunk][i%chunk] }

// more adds a value.
func (l *list[T]) more() *T {
	if i := l.n / chunk; i == len(l.chunks) {
		size := chunk
		if i == 0 {
			size = 16
		}
		l.chunks = append(l.chunks, make([]T, size))
	} else if l.n%chunk == len(l.chunks[i]) {
		l.chunks[i] = append(l.chunks[i], make([]T, min(len(l.chunks[i]), chunk-len(l.chunks[i])))...)
	}
	l.n++
	return l.at(l.n - 1)
}

// search returns the number of values before the first of which a function says yes. It begins where the last search
// ended: a walk looks for one time after another.
func (l *list[T]) search(yes func(*T) bool) int {
	low, high := 0, l.n
	for i, step := min(l.found, l.n-1), 1; i >= low && i < high; step *= 2 {
		if yes(l.at(i)) {
			high, i = i, i-step
		} else {
			low, i = i+1, i+step
		}
	}
	l.found = low + sort.Search(high-low, func(i int) bool { return yes(l.at(low + i)) })
	return l.found
}

// sorted sorts a list.
type sorted[T any] struct {
	*list[T]
	less func(a, b *T) bool
}

func (s *sorted[T]) Len() int           { return s.n }
func (s *sorted[T]) Less(i, j int) bool { return s.less(s.at(i), s.at(j)) }
func (s *sorted[T]) Swap(i, j int)      { *s.at(i), *s.at(j) = *s.at(j), *s.at(i) }

package timeline

// An Event is a pointer to one of the types of this package that have a move method. To add a
// kind of event, add a type with that method and the code that emits it.
type Event interface {
	move(c *Clock) // converts its times
}

// Move converts the times of an event.
func Move(e Event, c *Clock) { e.move(c) }

// A Recording is the first event. It describes the whole timeline.
type Recording struct {
	// One reading of the clocks of the host whose CLOCK_MONOTONIC the timeline uses; all
	// are 0 without a reading.
	Monotonic, Realtime, Boottime uint64
	Start                         uint64 // a time that no event precedes
	LastStart                     uint64 // the start of the log that begins last, 0 if the logs have several clocks
	Processes                     int    // number of Process events that follow
}

// GPUs are the GPUs of all logs, by Index.
type GPUs struct{ List []GPU }

// Metadata are the facts of a log, by the keys of tracelog's Meta records. Facts that are a list have
// members of their own.
type Metadata struct {
	Log       string
	Values    map[string]string
	Args      []string          // of the program, which comes first
	Variables map[string]string // of the recorder's environment, those that are recorded
	Driver    CUDAVersion       // that the driver supports, 0 when not known
	CUPTI     CUPTIVersion      // version of libcupti, 0 when not known
}

// Slices are calls of a thread in pre-order: a call precedes those that it made.
// Calls of later events may lie within them.
type Slices struct {
	Thread *Thread
	List   []Slice
}

// A ThreadEnd says that no more calls of a thread follow.
type ThreadEnd struct{ Thread *Thread }

// A WorkList is GPU work of a stream, mostly by start.
type WorkList struct {
	Stream *Stream
	List   []Work
}

// A SpanBegin is the beginning of a span. A span comes as its SpanEnd; its beginning is for those who cannot wait
// for its end, and nobody else reads it. Files whose events stand in the order of their beginnings (pfsink, chromesink)
// would have to hold everything within a range that lasts as long as the program. The times of a GPU are kept for the
// steps at a range's beginning, before the work in it passes.
type SpanBegin struct {
	Track *Track
	Span
}

// A SpanEnd is a span that has ended, with all that is known of it. Spans of a track are nested: a span comes after
// those within it.
type SpanEnd struct {
	Track *Track
	Span
	Late []Detail // facts that were not known when the span began; Args are the others
}

// An Instant is a span without length.
type Instant struct {
	Track *Track
	Span
}

// A CounterValue is the value of a counter from a time on.
type CounterValue struct {
	Counter     *Counter
	Time, Value uint64
}

// An Allocation is an allocation or a release of memory.
type Allocation struct {
	Process *Process
	Time    uint64
	// of what was live when the time of a filter began, which is Time: when it was allocated; 0 for others
	Allocated   uint64
	Address     uint64
	Bytes       uint64
	GPU         uint32 // GPU.Index
	Kind        uint32 // CUpti_ActivityMemoryKind
	Correlation uint32
	TID         uint32 // of the thread whose call it was; 0 when not known
	Call        Call   // that allocated; the zero Call for a release, and where it is not known
	Release     bool
}

// An OutOfMemory is a call that failed because there was no device memory. It comes in the order of allocations.
type OutOfMemory struct {
	Process  *Process
	Time     uint64
	Bytes    uint64 // that it asked for; 0 when not known
	GPU      uint32 // GPU.Index
	KnownGPU bool
	Call     Call
}

// A TorchBlock is a block of GPU memory that PyTorch's allocator handed out or took back, or a request for which it
// found no memory.
type TorchBlock struct {
	Process *Process
	Thread  *Thread
	Time    uint64
	// of what was handed out when the time of a filter began, which is Time: when it was; 0 for others
	Since       uint64
	Address     uint64 // 0 of a request
	Bytes       int64  // below 0 for a block that was taken back
	Held        uint64 // bytes of all blocks that are handed out then
	Reserved    uint64 // bytes that the allocator has of the GPU then
	GPU         uint32 // GPU.Index
	Python      *Python
	Operator    *Operator // the innermost one; nil if not known
	OutOfMemory bool
}

// A Loss counts records that are missing from the log.
type Loss struct {
	Time     uint64 // time at which to show it
	PID      uint32 // the process on its host, 0 when not known
	Cause    string // tracelog.LostCauses
	Count    uint64
	From, To uint64 // when the records were lost, ns from the start of the recording; 0 when not known
}

// A Known says that the timeline of a log that still grows has been given up to a time: all calls that
// returned before, and all work that ended before. What was late comes after all. A timeline of a whole
// log has no Known.
type Known struct{ Until uint64 }

// A Hang is a kernel that had not ended when recording ended, and of which there is no work with a
// length. It comes before its launch, and before its work if it has one: that of its stream with the
// correlation ID and the graph node.
type Hang struct {
	PID, Context, Stream uint32 // where it ran; PID is the timeline's own
	Kernel               string // mangled name, "" if unknown
	Correlation          uint32 // of the work, 0 without work
	GraphNode            uint64 // of the work, 0 outside of graphs
	LaunchTID            uint32 // thread of the launch, 0 with work
	LaunchStart          uint64 // start of the launch, 0 with work
	Start, End           uint64 // when it had begun at the earliest, when recording ended
	Text                 string // what waits for it, for people
}

// A Note is a line about the recording that a person should see.
type Note struct {
	Time uint64
	PID  uint32 // the process on its host, 0 for the recording
	Text string
}

func (*Recording) move(*Clock) {}
func (*GPUs) move(*Clock)      {}
func (*Metadata) move(*Clock)  {}
func (*Context) move(*Clock)   {}
func (*Stream) move(*Clock)    {}
func (*Thread) move(*Clock)    {}
func (*ThreadEnd) move(*Clock) {}

func (p *Process) move(c *Clock) {
	if p.Start != 0 {
		p.Start = c.At(p.Start)
	}
	if p.End != 0 {
		p.End = c.At(p.End)
	}
	if p.Midway != 0 {
		p.Midway = c.At(p.Midway)
	}
}

func (s *Slices) move(c *Clock) {
	for i := range s.List {
		sl := &s.List[i]
		sl.Start, sl.End = c.At(sl.Start), c.At(sl.End)
		for k := range sl.Waits() {
			w := &sl.links.waits[k]
			w.Start, w.End = c.At(w.Start), c.At(w.End)
		}
	}
}

func (l *WorkList) move(c *Clock) {
	for i := range l.List {
		w := &l.List[i]
		w.Dur = c.Dur(w.Start, w.Dur)
		w.Start = c.At(w.Start)
		c.call(&w.Call)
	}
}

func (s *SpanBegin) move(c *Clock)    { c.span(&s.Span) }
func (s *SpanEnd) move(c *Clock)      { c.span(&s.Span) }
func (i *Instant) move(c *Clock)      { c.span(&i.Span) }
func (v *CounterValue) move(c *Clock) { v.Time = c.At(v.Time) }
func (l *Loss) move(c *Clock)         { l.Time = c.At(l.Time) }
func (n *Note) move(c *Clock)         { n.Time = c.At(n.Time) }
func (k *Known) move(c *Clock)        { k.Until = c.At(k.Until) }

func (a *Allocation) move(c *Clock) {
	a.Time = c.At(a.Time)
	if a.Allocated != 0 {
		a.Allocated = c.At(a.Allocated)
	}
	c.call(&a.Call)
}

func (o *OutOfMemory) move(c *Clock) {
	o.Time = c.At(o.Time)
	c.call(&o.Call)
}

func (b *TorchBlock) move(c *Clock) {
	b.Time = c.At(b.Time)
	if b.Since != 0 {
		b.Since = c.At(b.Since)
	}
}

func (c *Clock) call(l *Call) {
	if l.Function != nil {
		l.Start, l.End = c.At(l.Start), c.At(l.End)
	}
}

func (h *Hang) move(c *Clock) {
	h.Start, h.End = c.At(h.Start), c.At(h.End)
	if h.LaunchStart != 0 {
		h.LaunchStart = c.At(h.LaunchStart)
	}
}

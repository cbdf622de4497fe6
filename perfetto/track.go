package perfetto

// A Process describes a process. Describing it again replaces its name.
type Process struct {
	PID   uint32
	Name  string
	Args  []string // its command line, shown with Name in the place of Args[0]
	Start uint64   // 0 when not known
	Rank  int      // written as legacy_sort_index: a hint for the UI, which may sort otherwise
}

type threadKey struct{ pid, tid uint32 }

// Process writes the description of a process.
func (w *Writer) Process(p Process) {
	uuid, ok := w.processes[p.PID]
	if !ok {
		uuid = w.uuid()
		w.processes[p.PID] = uuid
	}
	b, end := w.descriptor(uuid)
	process := b.open(descriptorProcess)
	b.uint(processPID, uint64(p.PID))
	b.uint(processSortIndex, uint64(p.Rank))
	b.optional(processName, p.Name)
	if p.Start != 0 {
		b.uint(processStart, p.Start)
	}
	b.close(process)
	b.uint(descriptorChildOrdering, orderingExplicit)
	end()
	w.commandLine(p)
}

// commandLine writes a ProcessTree, the one place where the trace processor looks
// for a command line. It takes the first argument for the process' name too, in
// preference to the descriptor's.
func (w *Writer) commandLine(p Process) {
	if len(p.Args) == 0 {
		return
	}
	name := p.Name
	if name == "" {
		name = p.Args[0]
	}
	b := w.common.begin()
	tree := b.open(packetProcessTree)
	process := b.open(treeProcess)
	b.uint(treePID, uint64(p.PID))
	b.text(treeArgument, name)
	for _, a := range p.Args[1:] {
		b.text(treeArgument, a)
	}
	b.close(process)
	b.close(tree)
	w.common.end()
}

// parent returns the UUID of a process' track. The trace processor drops the
// events of a track whose parent is not described, without counting them, so an
// unknown process is described by its PID.
func (w *Writer) parent(pid uint32) uint64 {
	if w.processes[pid] == 0 {
		w.Process(Process{PID: pid})
	}
	return w.processes[pid]
}

// descriptor opens the packet of a TrackDescriptor; end closes it.
func (w *Writer) descriptor(uuid uint64) (b *buffer, end func()) {
	b = w.common.begin()
	start := b.open(packetTrackDescriptor)
	b.uint(descriptorUUID, uuid)
	return b, func() {
		b.close(start)
		w.common.end()
	}
}

// A Thread describes a thread.
type Thread struct {
	PID, TID uint32
	Name     string
	Rank     int // as a Process' Rank, among the threads of the process
}

// Thread returns the track of a thread's calls. For a thread that has a track
// already it returns that one and replaces the name.
func (w *Writer) Thread(t Thread) *Track {
	key := threadKey{t.PID, t.TID}
	track, ok := w.threads[key]
	if !ok {
		track = w.newTrack()
		w.threads[key] = track
	}
	b, end := w.descriptor(track.uuid)
	thread := b.open(descriptorThread)
	b.uint(threadPID, uint64(t.PID))
	b.uint(threadTID, uint64(t.TID))
	b.uint(threadSortIndex, uint64(t.Rank))
	b.optional(threadName, t.Name)
	b.close(thread)
	end()
	return track
}

// A TrackInfo describes a track that is no thread's. Tracks that have the same
// name and the same place are shown as one, their slices side by side where they
// overlap.
type TrackInfo struct {
	Name   string
	PID    uint32 // the process that it is shown in; 0 for none
	Thread *Track // the thread that it is shown under, of that process; nil for none
	Rank   int    // tracks of a process are shown in the order of Rank
}

// Track returns a new named track.
func (w *Writer) Track(t TrackInfo) *Track {
	track := w.newTrack()
	_, end := w.named(track.uuid, &t)
	end()
	return track
}

// named opens the packet of a named track's descriptor.
func (w *Writer) named(uuid uint64, t *TrackInfo) (b *buffer, end func()) {
	var parent uint64
	switch {
	case t.Thread != nil:
		parent = t.Thread.uuid
	case t.PID != 0:
		parent = w.parent(t.PID)
	}
	b, end = w.descriptor(uuid)
	b.text(descriptorName, t.Name)
	if parent != 0 {
		b.uint(descriptorParent, parent)
	}
	b.uint(descriptorRank, uint64(t.Rank))
	return b, end
}

// Begin opens a slice. From it arrows go to the pieces of GPU work with the ids
// in work, which it submitted; arrows come to it from those in waits, for which
// it waited.
func (t *Track) Begin(ts uint64, name, category string, work, waits []uint64, args []Arg) {
	m := &t.w.template
	t.w.Template(m, name, category, args)
	t.BeginAs(ts, m, work, waits)
}

// End closes the slice that was opened last.
func (t *Track) End(ts uint64) {
	t.depth = max(t.depth-1, 0)
	l := t.at(ts, placeEnds)
	b := l.room(l.ending.n + 10)
	i := putVarint(b, l.ending.put(b, 0), ts-l.last)
	b[1] = byte(i - 2)
	l.put(i, ts)
}

// sliceEnd is the TrackEvent of an end.
var sliceEnd = []byte{byte(packetTrackEvent)<<3 | 2, 2, byte(eventType) << 3, typeSliceEnd}

// Instant writes an event without a duration.
func (t *Track) Instant(ts uint64, name, category string, args []Arg) {
	m := &t.w.template
	t.w.Template(m, name, category, args)
	t.InstantAs(ts, m)
}

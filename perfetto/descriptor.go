package perfetto

import "cmp"

// A Process describes a process. Describing it again replaces its name.
type Process struct {
	PID, PPID uint32 // PPID is 0 when not known
	Name      string
	Args      []string // its command line, shown with Name in the place of Args[0]
	Start     uint64   // 0 when not known
	Rank      int      // place among the processes: a hint that the UI may ignore
}

// Process writes the description of a process.
func (w *Writer) Process(p Process) {
	uuid, ok := w.processes[p.PID]
	if !ok {
		uuid = w.newUUID()
		w.processes[p.PID] = uuid
	}
	w.trackDescriptor(uuid, func(b *buffer) {
		process := b.open(descriptorProcess)
		b.uint(processPID, uint64(p.PID))
		b.uint(processSortIndex, uint64(p.Rank))
		b.optional(processName, p.Name)
		if p.Start != 0 {
			b.uint(processStart, p.Start)
		}
		b.close(process)
		b.uint(descriptorChildOrdering, orderingExplicit)
	})
	w.processTree(p)
}

// processTree writes a ProcessTree with the parent and the command line of a process. The trace
// processor looks nowhere else for them. It takes the first argument for the name of the
// process, in preference to the name in the descriptor.
func (w *Writer) processTree(p Process) {
	if len(p.Args) == 0 {
		return
	}
	b := w.common.begin()
	tree := b.open(packetProcessTree)
	process := b.open(treeProcess)
	b.uint(treePID, uint64(p.PID))
	if p.PPID != 0 {
		b.uint(treeParent, uint64(p.PPID))
	}
	b.text(treeCommandLine, cmp.Or(p.Name, p.Args[0]))
	for _, a := range p.Args[1:] {
		b.text(treeCommandLine, a)
	}
	b.close(process)
	b.close(tree)
	w.common.end()
}

// processUUID returns the UUID of a process's track. The trace processor drops the events
// of a track whose parent has no description, and does not count them. So a process that
// is not described yet gets a description with its PID alone.
func (w *Writer) processUUID(pid uint32) uint64 {
	if w.processes[pid] == 0 {
		w.Process(Process{PID: pid})
	}
	return w.processes[pid]
}

// A Thread describes a thread.
type Thread struct {
	PID, TID uint32
	Name     string
	Row      string // name of the row of its calls, to which the UI adds the TID; "" for Name
	Rank     int    // place among the threads of the process: a hint that the UI may ignore
}

type threadKey struct{ pid, tid uint32 }

// Thread returns the track of a thread's calls. For a thread that has a track already it
// returns that track and replaces the name.
func (w *Writer) Thread(t Thread) *Track {
	key := threadKey{t.PID, t.TID}
	track, ok := w.threads[key]
	if !ok {
		track = w.newTrack()
		w.threads[key] = track
	}
	w.trackDescriptor(track.uuid, func(b *buffer) {
		thread := b.open(descriptorThread)
		b.uint(threadPID, uint64(t.PID))
		b.uint(threadTID, uint64(t.TID))
		b.uint(threadSortIndex, uint64(t.Rank))
		b.optional(threadName, t.Name)
		b.close(thread)
		if t.Row != "" {
			b.text(descriptorName, t.Row)
			b.uint(descriptorApart, 1)
		}
	})
	return track
}

// A TrackInfo describes a track that shows something other than a thread's calls. Tracks with
// one name and one parent are shown as one track, with overlapping slices side by side.
type TrackInfo struct {
	Name   string
	PID    uint32 // its parent is this process; 0 for none
	Thread *Track // its parent is this thread of the process instead; nil for none
	Group  *Group // its parent is this group instead; nil for none
	Rank   int    // place among the tracks of its parent
}

// A Group is a track without events that holds other tracks in the order of their ranks. Outside
// of groups the UI ignores ranks, and orders the tracks of a process or a thread by name.
type Group struct{ uuid uint64 }

// Group returns a new group.
func (w *Writer) Group(t TrackInfo) *Group {
	g := &Group{w.newUUID()}
	w.namedTrack(g.uuid, &t, func(b *buffer) { b.uint(descriptorChildOrdering, orderingExplicit) })
	return g
}

// Track returns a new track.
func (w *Writer) Track(t TrackInfo) *Track {
	track := w.newTrack()
	w.namedTrack(track.uuid, &t, func(*buffer) {})
	return track
}

// Counter returns a new counter on a track of its own.
func (w *Writer) Counter(t TrackInfo, u Unit) *Counter {
	uuid := w.newUUID()
	w.namedTrack(uuid, &t, func(b *buffer) {
		counter := b.open(descriptorCounter)
		switch u {
		case Bytes:
			b.uint(counterUnit, unitBytes)
		case Count:
			b.uint(counterUnit, unitCount)
		default:
			b.text(counterUnitName, string(u))
		}
		b.close(counter)
	})
	return &Counter{w.newSequence(uuid)}
}

// namedTrack writes the TrackDescriptor of a track with a TrackInfo. more appends further
// fields.
func (w *Writer) namedTrack(uuid uint64, t *TrackInfo, more func(b *buffer)) {
	var parent uint64
	switch {
	case t.Group != nil:
		parent = t.Group.uuid
	case t.Thread != nil:
		parent = t.Thread.uuid
	case t.PID != 0:
		parent = w.processUUID(t.PID)
	}
	w.trackDescriptor(uuid, func(b *buffer) {
		b.text(descriptorName, t.Name)
		if parent != 0 {
			b.uint(descriptorParentUUID, parent)
		}
		b.uint(descriptorOrderRank, uint64(t.Rank))
		more(b)
	})
}

// trackDescriptor writes a TrackDescriptor. more appends its fields beside the UUID.
func (w *Writer) trackDescriptor(uuid uint64, more func(b *buffer)) {
	b := w.common.begin()
	start := b.open(packetTrackDescriptor)
	b.uint(descriptorUUID, uuid)
	more(b)
	b.close(start)
	w.common.end()
}

package perfetto

// A StackFrame is a function in a stack, or something else that stands in its place.
type StackFrame struct {
	Name string
	Of   string // what the UI shows as its mapping: the kind of the frame, or the library
	File string // with its source, "" if unknown
	Line uint32
}

// StackSamples are samples of the stacks of threads, as those of Linux perf. The UI adds them up in a flame graph.
type StackSamples struct {
	sequence sequence
	texts    [3]map[string]uint64 // numbers by text, in the order of stackTexts
	mappings map[string]uint64
	frames   map[StackFrame]uint64
	stacks   map[string]uint64 // by the numbers of the frames
	ids      []byte
}

// stackTexts are the fields of InternedData for the texts of stacks.
var stackTexts = [3]field{internedFunctions, internedMappingPaths, internedSourcePaths}

const (
	stackFunctions = iota
	stackMappings
	stackFiles
)

// StackSamples adds samples of what a counter counts: one for each period of it.
func (w *Writer) StackSamples(counter string, period uint64) *StackSamples {
	s := &StackSamples{
		mappings: make(map[string]uint64), frames: make(map[StackFrame]uint64), stacks: make(map[string]uint64),
	}
	s.sequence = w.newSequenceWith(func(defaults *buffer) {
		samples := defaults.open(defaultsPerfSample)
		timebase := defaults.open(samplesTimebase)
		defaults.uint(timebasePeriod, period)
		defaults.text(timebaseName, counter)
		defaults.close(timebase)
		defaults.close(samples)
	})
	return s
}

// Sample writes a sample: a thread's stack, the outermost frame first, at time ts, for a value of the counter.
func (s *StackSamples) Sample(ts uint64, pid, tid uint32, value uint64, stack []StackFrame) {
	id := s.stack(stack)
	b := s.sequence.begin()
	sample := b.open(packetPerfSample)
	b.uint(samplePID, uint64(pid))
	b.uint(sampleTID, uint64(tid))
	b.uint(sampleStack, id)
	b.uint(sampleMode, modeUser)
	b.uint(sampleCount, value)
	b.close(sample)
	s.sequence.endAt(ts)
}

// stack returns the number of a stack. What is new in it goes out with the next packet.
func (s *StackSamples) stack(stack []StackFrame) uint64 {
	s.ids = s.ids[:0]
	for _, f := range stack {
		s.ids = appendVarint(s.ids, s.frame(f))
	}
	id, known := s.stacks[string(s.ids)]
	if !known {
		id = uint64(len(s.stacks) + 1)
		s.stacks[string(s.ids)] = id
		b := &s.sequence.w.interner.data
		start := b.open(internedCallstacks)
		b.uint(internedID, id)
		for _, f := range stack {
			b.uint(stackFrameID, s.frames[f])
		}
		b.close(start)
	}
	return id
}

func (s *StackSamples) frame(f StackFrame) uint64 {
	id, known := s.frames[f]
	if !known {
		name, mapping, file := s.text(stackFunctions, f.Name), s.mapping(f.Of), uint64(0)
		if f.File != "" {
			file = s.text(stackFiles, f.File)
		}
		id = uint64(len(s.frames) + 1)
		s.frames[f] = id
		b := &s.sequence.w.interner.data
		start := b.open(internedFrames)
		b.uint(internedID, id)
		b.uint(frameFunction, name)
		b.uint(frameMapping, mapping)
		b.uint(framePC, id) // the trace processor tells the frames of a mapping apart by it
		if file != 0 {
			b.uint(frameFile, file)
			b.uint(frameLine, uint64(f.Line))
		}
		b.close(start)
	}
	return id
}

func (s *StackSamples) mapping(name string) uint64 {
	id, known := s.mappings[name]
	if !known {
		path := s.text(stackMappings, name)
		id = uint64(len(s.mappings) + 1)
		s.mappings[name] = id
		b := &s.sequence.w.interner.data
		start := b.open(internedMappings)
		b.uint(internedID, id)
		b.uint(mappingPath, path)
		b.close(start)
	}
	return id
}

func (s *StackSamples) text(table int, text string) uint64 {
	id, known := s.texts[table][text]
	if !known {
		if s.texts[table] == nil {
			s.texts[table] = make(map[string]uint64)
		}
		id = uint64(len(s.texts[table]) + 1)
		s.texts[table][text] = id
		b := &s.sequence.w.interner.data
		start := b.open(stackTexts[table])
		b.uint(internedID, id)
		b.text(internedText, text)
		b.close(start)
	}
	return id
}

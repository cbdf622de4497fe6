package join

import (
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/pipeline"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// A stream is a stream of one program.
type stream struct {
	out     *timeline.Stream
	program *program
	waits   *waitStream // nil where no call waits
	pending workQueue   // work whose call is not known, and the work after it
}

// streamWork is the work of a stream that is not shown yet, of all programs of a process.
type streamWork struct {
	key     read.StreamKey
	process *read.Process
	merger  *read.Merger[read.Work]
	lows    read.Lows
	streams byProgram[*stream]
	active  bool
}

// streams are the streams of a log.
type streams struct {
	catalog   *read.Catalog
	programs  map[uint32][]*program
	works     *read.Works
	out       *pipeline.Pipeline
	contexts  map[contextKey]*timeline.Context
	byKey     map[read.StreamKey]*streamWork
	active    []*streamWork // those with work to come, or to show
	latest    *streamWork
	announced map[streamKey]*timeline.Stream
	chunks    pool[workChunk]
}

// A contextKey identifies a context. In a sound log a context has one device.
type contextKey struct {
	program         *program
	context, device uint32
}

func newStreams(c *read.Catalog, programs map[uint32][]*program, works *read.Works, out *pipeline.Pipeline) *streams {
	return &streams{catalog: c, programs: programs, works: works, out: out,
		contexts: make(map[contextKey]*timeline.Context), byKey: make(map[read.StreamKey]*streamWork),
		announced: make(map[streamKey]*timeline.Stream)}
}

// get returns the work of a stream.
func (l *streams) get(key read.StreamKey) *streamWork {
	if w := l.latest; w != nil && w.key == key {
		return w
	}
	w := l.byKey[key]
	if w == nil {
		p := l.catalog.Processes.Get(key.PID)
		w = &streamWork{key: key, process: p, merger: l.works.Stream(p),
			lows: l.catalog.Watermarks.Stream(key.PID, key.Context, key.Stream)}
		l.byKey[key] = w
	}
	if !w.active {
		w.active = true
		l.active = append(l.active, w)
	}
	l.latest = w
	return w
}

// merger returns the merger of a stream.
func (l *streams) merger(pid, context, id uint32) *read.Merger[read.Work] {
	return l.get(read.StreamKey{PID: pid, Context: context, Stream: id}).merger
}

// stream returns the stream that a piece of work ran on.
func (l *streams) stream(w *streamWork, device uint32, of uint16) *stream {
	return w.streams.get(of, func() *stream { return l.newStream(l.programs[w.key.PID][of], w.key, device) })
}

func (l *streams) newStream(p *program, key read.StreamKey, device uint32) *stream {
	out := l.announce(p, key, device)
	p.streams++
	s := &stream{out: out, program: p, pending: workQueue{pool: &l.chunks}}
	if p.waits != nil {
		s.waits = p.waits.stream(out)
	}
	return s
}

// A streamKey identifies a stream of a program.
type streamKey struct {
	program *program
	key     read.StreamKey
}

// announce returns the timeline's description of the stream, which the sinks have then.
func (l *streams) announce(p *program, key read.StreamKey, device uint32) *timeline.Stream {
	k := streamKey{p, key}
	out := l.announced[k]
	if out == nil {
		out = l.describe(p, key, device)
		l.announced[k] = out
		l.out.Emit(out)
	}
	return out
}

// made returns the description of a stream that a call of a program made; nil where its device is not known.
func (l *streams) made(p *program, key read.StreamKey) *timeline.Stream {
	c, known := l.catalog.GPUs.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]
	if !known {
		return nil
	}
	return l.announce(p, key, c.Device)
}

// describe returns the timeline's description of the stream.
func (l *streams) describe(p *program, key read.StreamKey, device uint32) *timeline.Stream {
	out := &timeline.Stream{Context: l.context(p, key, device), ID: key.Stream,
		Name: l.catalog.Names.Stream(key.PID, key.Context, key.Stream), Only: l.catalog.GPUs.Only(key), Priority: l.catalog.GPUs.Streams[key].Priority}
	if known, ok := l.catalog.GPUs.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]; ok {
		out.Default = known.NullStream == key.Stream
	}
	return out
}

func (l *streams) context(p *program, key read.StreamKey, device uint32) *timeline.Context {
	k := contextKey{p, key.Context, device}
	c := l.contexts[k]
	if c == nil {
		gpu, _ := l.catalog.GPUs.Index(key.PID, device)
		c = &timeline.Context{Process: p.out, ID: key.Context, Device: device, GPU: gpu,
			Name: l.catalog.Names.Context(key.PID, key.Context)}
		l.contexts[k] = c
		l.out.Emit(c)
	}
	return c
}

// announceIdle announces the streams without work on GPUs that were used. The log has no times
// for these streams, so they belong to the last program.
func (l *streams) announceIdle() {
	gpus := &l.catalog.GPUs
	for _, key := range gpus.StreamKeys() {
		context, known := gpus.Contexts[read.ContextKey{PID: key.PID, Context: key.Context}]
		if _, used := gpus.Index(key.PID, context.Device); !known || !used || l.byKey[key] != nil {
			continue
		}
		programs := l.programs[key.PID]
		l.announce(programs[len(programs)-1], key, context.Device)
	}
}

// rest takes the streams out of those that are active that have nothing left to show: a program may make a stream for
// each request.
func (l *streams) rest() {
	l.active = slices.DeleteFunc(l.active, func(w *streamWork) bool {
		waits := func(s *stream) bool { return s.pending.len() > 0 }
		w.active = w.lows.Low() != timeline.Never || w.merger.Held() > 0 || slices.ContainsFunc(w.streams.values, waits)
		if !w.active && l.latest == w {
			l.latest = nil
		}
		return !w.active
	})
}

// each calls f with every active stream.
func (l *streams) each(f func(*stream)) {
	for _, w := range l.active {
		for _, s := range w.streams.values {
			f(s)
		}
	}
}

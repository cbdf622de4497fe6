package convert

import (
	"errors"
	"math"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

type threadKey struct{ pid, tid uint32 }

// objectKey names a device, a context or a stream of a process.
type objectKey struct{ pid, context, id uint32 }

// loader gathers a log's records by process.
type loader struct {
	meta      map[string]string
	clock     tracelog.Clock
	functions map[uint32]*Function
	callbacks map[callback]*Function
	sessions  map[uint32]*session // by PID
	order     []*session
	latest    *session // of the record before
	names     map[threadKey]string
	local     map[uint32]map[uint32]uint32 // per PID, from the process's own thread numbers
	inner     map[threadKey]uint32         // the same by the recorder's numbers
	given     map[tracelog.Name]string     // by all but the name: what the program calls it
	devices   map[threadKey]tracelog.Device
	gpus      map[threadKey]uint32 // numbers in the trace, by PID and device
	byUUID    map[string]uint32    // the same
	contexts  map[threadKey]tracelog.Context
	streams   map[objectKey]tracelog.Stream
	cupti     []tracelog.CUPTI
	ends      map[uint32]tracelog.ProcessEnd
	lost      map[string]uint64
	marks     []Mark
	notes     []tracelog.Note
	end       *tracelog.End
	shapes    *shapes
	first     uint64
	last      uint64
}

func newLoader() *loader {
	return &loader{
		meta:      make(map[string]string),
		functions: make(map[uint32]*Function),
		callbacks: make(map[callback]*Function),
		sessions:  make(map[uint32]*session),
		names:     make(map[threadKey]string),
		local:     make(map[uint32]map[uint32]uint32),
		inner:     make(map[threadKey]uint32),
		given:     make(map[tracelog.Name]string),
		devices:   make(map[threadKey]tracelog.Device),
		gpus:      make(map[threadKey]uint32),
		byUUID:    make(map[string]uint32),
		contexts:  make(map[threadKey]tracelog.Context),
		streams:   make(map[objectKey]tracelog.Stream),
		ends:      make(map[uint32]tracelog.ProcessEnd),
		lost:      make(map[string]uint64),
		shapes:    newShapes(),
		first:     math.MaxUint64,
	}
}

// load reads the whole log. Damage is the reader's to report: what is intact is
// taken.
func load(r *tracelog.Reader) (*loader, error) {
	l := newLoader()
	for r.Next() {
		l.block(r.Block())
	}
	if err := r.Err(); err != nil && !isDamage(err) {
		return nil, err
	}
	l.placeUntimed()
	for pid, local := range l.local {
		if s := l.sessions[pid]; s != nil {
			s.globalTIDs(local)
		}
	}
	l.split()
	return l, nil
}

// placeUntimed moves what should have a time and has none to the beginning.
func (l *loader) placeUntimed() {
	if l.last == 0 { // nothing in the log has a time
		l.first = 0
	}
	for _, s := range l.order {
		for i := range s.markers {
			l.place(&s.markers[i].Time)
		}
		for i := range s.overheads {
			l.place(&s.overheads[i].Start)
		}
		for i := range s.memory {
			l.place(&s.memory[i].Time)
		}
		for i := range s.pools {
			l.place(&s.pools[i].Time)
		}
	}
}

func (l *loader) place(at *uint64) {
	if *at == 0 {
		*at = l.first
	}
}

// isDamage tells a log that is damaged, which the summary reports, from one that
// can't be read.
func isDamage(err error) bool {
	var corrupt *tracelog.CorruptError
	var cut *tracelog.TruncatedError
	return errors.As(err, &corrupt) || errors.As(err, &cut)
}

func (l *loader) block(b *tracelog.Block) {
	switch b.Kind {
	case tracelog.KindCall:
		l.calls(b)
	case tracelog.KindAPI:
		l.apis(b)
	case tracelog.KindKernel:
		l.kernels(b)
	case tracelog.KindMemcpy:
		l.memcpys(b)
	case tracelog.KindMemset:
		l.memsets(b)
	case tracelog.KindGraph:
		l.graphs(b)
	default:
		for i := range b.N {
			l.rare(b, i)
		}
	}
}

// rare takes the kinds of which a log holds few.
func (l *loader) rare(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindMeta:
		var m tracelog.Meta
		b.Meta(i, &m)
		l.meta[m.Key] = m.Value
	case tracelog.KindFunction:
		var f tracelog.Function
		b.Function(i, &f)
		l.functions[f.ID] = newFunction(f.Name, f.Library, f.Args)
	case tracelog.KindProcess:
		var p tracelog.Process
		b.Process(i, &p)
		s := l.session(p.PID)
		s.programs = append(s.programs, p)
		l.see(p.Start, p.Start)
	case tracelog.KindThread:
		var t tracelog.Thread
		b.Thread(i, &t)
		l.nameThread(&t)
	case tracelog.KindClock:
		var c tracelog.Clock
		b.Clock(i, &c)
		l.see(c.Monotonic, c.Monotonic)
		if l.clock == (tracelog.Clock{}) {
			l.clock = c
		}
	default:
		l.gpuInfo(b, i)
	}
}

// nameThread takes a thread's name, and its number inside a PID namespace.
func (l *loader) nameThread(t *tracelog.Thread) {
	if t.Name != "" {
		l.names[threadKey{t.PID, t.TID}] = t.Name
	}
	if t.LocalTID == 0 {
		return
	}
	if l.local[t.PID] == nil {
		l.local[t.PID] = make(map[uint32]uint32)
	}
	l.local[t.PID][t.LocalTID] = t.TID
	l.inner[threadKey{t.PID, t.TID}] = t.LocalTID
}

// gpuInfo takes the kinds that describe what the GPU work ran on.
func (l *loader) gpuInfo(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindDevice:
		var d tracelog.Device
		b.Device(i, &d)
		l.devices[threadKey{d.PID, d.ID}] = d
	case tracelog.KindContext:
		var c tracelog.Context
		b.Context(i, &c)
		l.contexts[threadKey{c.PID, c.ID}] = c
	case tracelog.KindStream:
		var s tracelog.Stream
		b.Stream(i, &s)
		l.streams[objectKey{s.PID, s.Context, s.ID}] = s
	case tracelog.KindName:
		var n tracelog.Name
		b.Name(i, &n)
		l.giveName(n)
	case tracelog.KindCUPTI:
		var c tracelog.CUPTI
		b.CUPTI(i, &c)
		l.cupti = append(l.cupti, c)
	default:
		l.event(b, i)
	}
}

// event takes what CUPTI says beside calls and GPU work.
func (l *loader) event(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindSync:
		var x tracelog.Sync
		b.Sync(i, &x)
		s := l.seen(x.PID, x.Start, x.Dur)
		s.syncs = append(s.syncs, x)
	case tracelog.KindOverhead:
		var x tracelog.Overhead
		b.Overhead(i, &x)
		s := l.seen(x.PID, x.Start, x.Dur)
		s.overheads = append(s.overheads, x)
	case tracelog.KindMarker:
		var x tracelog.Marker
		b.Marker(i, &x)
		s := l.seen(x.PID, x.Time, 0)
		s.markers = append(s.markers, x)
	case tracelog.KindMemory:
		var x tracelog.Memory
		b.Memory(i, &x)
		s := l.seen(x.PID, x.Time, 0)
		s.memory = append(s.memory, x)
	case tracelog.KindMemoryPool:
		var x tracelog.MemoryPool
		b.MemoryPool(i, &x)
		s := l.seen(x.PID, x.Time, 0)
		s.pools = append(s.pools, x)
	case tracelog.KindSymbol:
		var x tracelog.Symbol
		b.Symbol(i, &x)
		s := l.session(x.PID)
		s.symbols = append(s.symbols, x)
	default:
		l.outcome(b, i)
	}
}

// seen returns the session of a record and takes note of its time.
func (l *loader) seen(pid uint32, start, dur uint64) *session {
	l.see(start, end(start, dur))
	return l.session(pid)
}

// outcome takes the kinds that say how the recording went.
func (l *loader) outcome(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindLost:
		var x tracelog.Lost
		b.Lost(i, &x)
		l.lost[x.Cause] += x.Count
		l.marks = append(l.marks, Mark{Time: x.To, PID: x.PID, Text: lostText(&x)})
	case tracelog.KindNote:
		var n tracelog.Note
		b.Note(i, &n)
		l.see(n.Time, n.Time)
		l.notes = append(l.notes, n)
		l.marks = append(l.marks, Mark{Time: n.Time, PID: n.PID, Text: n.Text})
	case tracelog.KindProcessEnd:
		var e tracelog.ProcessEnd
		b.ProcessEnd(i, &e)
		l.see(e.Time, e.Time)
		l.ends[e.PID] = e
	case tracelog.KindEnd:
		var e tracelog.End
		b.End(i, &e)
		l.see(e.Time, e.Time)
		l.end = &e
	}
}

// see widens the recording's time; zero means not known.
func (l *loader) see(start, end uint64) {
	if start == 0 {
		return
	}
	l.first = min(l.first, start)
	l.last = max(l.last, start, end)
}

// session returns a process's session; records of one process stand together.
func (l *loader) session(pid uint32) *session {
	if l.latest != nil && l.latest.PID == pid {
		return l.latest
	}
	s := l.sessions[pid]
	if s == nil {
		s = newSession(pid)
		l.sessions[pid] = s
		l.order = append(l.order, s)
	}
	l.latest = s
	return s
}

func (l *loader) calls(b *tracelog.Block) {
	var c tracelog.Call
	for i := range b.N {
		b.Call(i, &c)
		t := l.seen(c.PID, c.Enter, c.Dur).thread(c.TID)
		n := min(c.NArgs, tracelog.MaxArgs)
		t.calls = append(t.calls, rawCall{
			enter: c.Enter, exit: end(c.Enter, c.Dur), fn: l.function(c.Func),
			ret: c.Ret, flags: uint16(c.Flags), args: uint32(len(t.args)), nargs: uint16(n),
		})
		t.args = append(t.args, c.Args[:n]...)
	}
}

func (l *loader) apis(b *tracelog.Block) {
	var a tracelog.API
	for i := range b.N {
		b.API(i, &a)
		t := l.seen(a.PID, a.Start, a.Dur).thread(a.TID)
		t.apis = append(t.apis, rawAPI{
			start: a.Start, end: end(a.Start, a.Dur), fn: l.callback(a.Domain, a.Name),
			correlation: a.Correlation, ret: a.Ret,
		})
	}
}

func (l *loader) kernels(b *tracelog.Block) {
	var k tracelog.Kernel
	for i := range b.N {
		b.Kernel(i, &k)
		l.work(&k.GPU, WorkKernel, l.shapes.kernel(&k))
	}
}

func (l *loader) memcpys(b *tracelog.Block) {
	var m tracelog.Memcpy
	for i := range b.N {
		b.Memcpy(i, &m)
		l.work(&m.GPU, WorkMemcpy, l.shapes.memcpy(&m))
	}
}

func (l *loader) memsets(b *tracelog.Block) {
	var m tracelog.Memset
	for i := range b.N {
		b.Memset(i, &m)
		l.work(&m.GPU, WorkMemset, l.shapes.memset(&m))
	}
}

func (l *loader) graphs(b *tracelog.Block) {
	var g tracelog.Graph
	for i := range b.N {
		b.Graph(i, &g)
		l.work(&g.GPU, WorkGraph, 0)
	}
}

func (l *loader) work(g *tracelog.GPU, kind WorkKind, desc uint32) {
	q := l.seen(g.PID, g.Start, g.Dur).queue(g.Device, g.Context, g.Stream)
	q.Work = append(q.Work, Work{
		Kind: kind, Start: g.Start, Dur: g.Dur, Correlation: g.Correlation,
		Graph: g.Graph, GraphNode: g.GraphNode, Desc: desc, shapes: l.shapes,
	})
}

// end adds without wrapping: a hostile log may hold any value.
func end(start, dur uint64) uint64 {
	if dur > math.MaxUint64-start {
		return math.MaxUint64
	}
	return start + dur
}

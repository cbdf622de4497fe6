package convert

import (
	"errors"
	"math"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

type threadKey struct{ pid, tid uint32 }

type queueKey struct{ pid, context, stream uint32 }

// loader gathers a log's records by thread and by queue.
type loader struct {
	meta      map[string]string
	clock     tracelog.Clock
	functions map[uint32]*function
	processes map[uint32]*Process
	order     []*Process
	names     map[threadKey]string
	threads   map[threadKey]*rawThread
	queues    map[queueKey]*Queue
	devices   map[threadKey]tracelog.Device // by pid and device id
	contexts  map[threadKey]tracelog.Context
	streams   map[queueKey]tracelog.Stream
	cupti     []tracelog.CUPTI
	ends      map[uint32]tracelog.ProcessEnd
	lost      map[string]uint64
	marks     []Mark
	notes     []tracelog.Note
	end       *tracelog.End
	shapes    *shapes
	first     uint64
	last      uint64
	zeroTimes uint64 // GPU work recorded without times
}

// rawThread is what the two observers saw on one thread, unjoined.
type rawThread struct {
	pid, tid uint32
	calls    []rawCall
	apis     []rawAPI
	args     []uint64
}

// rawCall is a uprobe pair.
type rawCall struct {
	enter, exit uint64
	fn          *function
	args        uint32 // index of the first into rawThread.args
	ret         int32
	nargs       uint16
	flags       uint16
}

// rawAPI is a CUPTI API record.
type rawAPI struct {
	start, end  uint64
	name        string
	domain      uint32
	correlation uint32
	ret         uint32
}

func newLoader() *loader {
	return &loader{
		meta:      make(map[string]string),
		functions: make(map[uint32]*function),
		processes: make(map[uint32]*Process),
		names:     make(map[threadKey]string),
		threads:   make(map[threadKey]*rawThread),
		queues:    make(map[queueKey]*Queue),
		devices:   make(map[threadKey]tracelog.Device),
		contexts:  make(map[threadKey]tracelog.Context),
		streams:   make(map[queueKey]tracelog.Stream),
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
	return l, nil
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
	default:
		l.rare(b)
	}
}

// rare takes the kinds of which a log holds few.
func (l *loader) rare(b *tracelog.Block) {
	for i := range b.N {
		switch b.Kind {
		case tracelog.KindMeta:
			var m tracelog.Meta
			b.Meta(i, &m)
			l.meta[m.Key] = m.Value
		case tracelog.KindFunction:
			var f tracelog.Function
			b.Function(i, &f)
			l.functions[f.ID] = newFunction(f)
		case tracelog.KindProcess:
			var p tracelog.Process
			b.Process(i, &p)
			l.describe(&p)
		case tracelog.KindThread:
			var t tracelog.Thread
			b.Thread(i, &t)
			l.names[threadKey{t.PID, t.TID}] = t.Name
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
		l.streams[queueKey{s.PID, s.Context, s.ID}] = s
	case tracelog.KindCUPTI:
		var c tracelog.CUPTI
		b.CUPTI(i, &c)
		l.cupti = append(l.cupti, c)
	default:
		l.outcome(b, i)
	}
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

func (l *loader) process(pid uint32) *Process {
	p := l.processes[pid]
	if p == nil {
		p = &Process{PID: pid}
		l.processes[pid] = p
		l.order = append(l.order, p)
	}
	return p
}

func (l *loader) describe(r *tracelog.Process) {
	p := l.process(r.PID)
	p.PPID, p.Start = r.PPID, r.Start
	p.Args = strings.Split(r.Args, "\x00")
	p.Name = r.Exe[strings.LastIndexByte(r.Exe, '/')+1:]
	l.see(r.Start, r.Start)
}

func (l *loader) thread(pid, tid uint32) *rawThread {
	k := threadKey{pid, tid}
	t := l.threads[k]
	if t == nil {
		l.process(pid)
		t = &rawThread{pid: pid, tid: tid}
		l.threads[k] = t
	}
	return t
}

func (l *loader) calls(b *tracelog.Block) {
	var c tracelog.Call
	for i := range b.N {
		b.Call(i, &c)
		t := l.thread(c.PID, c.TID)
		l.see(c.Enter, end(c.Enter, c.Dur))
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
		t := l.thread(a.PID, a.TID)
		l.see(a.Start, end(a.Start, a.Dur))
		t.apis = append(t.apis, rawAPI{
			start: a.Start, end: end(a.Start, a.Dur), name: a.Name,
			domain: a.Domain, correlation: a.Correlation, ret: a.Ret,
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

func (l *loader) work(g *tracelog.GPU, kind WorkKind, desc uint32) {
	k := queueKey{g.PID, g.Context, g.Stream}
	q := l.queues[k]
	if q == nil {
		q = &Queue{PID: g.PID, Device: g.Device, Context: g.Context, Stream: g.Stream}
		l.queues[k] = q
		p := l.process(g.PID)
		p.Queues = append(p.Queues, q)
	}
	l.see(g.Start, end(g.Start, g.Dur))
	if g.Start == 0 {
		l.zeroTimes++
	}
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

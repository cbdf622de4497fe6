package convert

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

type threadKey struct{ pid, tid uint32 }

// objectKey names a device, a context or a stream of a process.
type objectKey struct{ pid, context, id uint32 }

// A catalog is what the first reading of a log finds: everything that is small, and
// when the blocks of each thread and stream begin.
type catalog struct {
	meta      map[string]string
	clock     tracelog.Clock
	clocks    clockRange
	functions map[uint32]*Function
	callbacks map[callback]*Function
	fns       uint32              // functions so far
	processes map[uint32]*history // by PID
	pids      []uint32            // by first sight
	names     map[threadKey]string
	local     map[threadKey]uint32     // the recorder's number of a thread, by its own namespace's
	inner     map[threadKey]uint32     // the same the other way round
	given     map[tracelog.Name]string // by all but the name: what the program calls it
	devices   map[threadKey]tracelog.Device
	used      map[threadKey]bool // devices that something happened on
	usedOrder []threadKey
	contexts  map[threadKey]tracelog.Context
	streams   map[objectKey]tracelog.Stream
	cupti     []tracelog.CUPTI
	ends      map[uint32]tracelog.ProcessEnd
	flushed   map[uint32]uint64 // Flushed.Until, by PID
	lost      map[string]uint64
	marks     []Mark
	left      uint64 // Lost records and notes beyond maxMarks
	notes     []tracelog.Note
	end       *tracelog.End
	groups    map[groupKey]*group
	totals    [256]uint64 // records by kind
	first     uint64
	last      uint64
	filter    *tracelog.Filter // nil takes every record
}

// maxMarks bounds the losses and notes that are shown one by one.
const maxMarks = 1 << 16

func newCatalog() *catalog {
	return &catalog{
		meta:      make(map[string]string),
		functions: make(map[uint32]*Function),
		callbacks: make(map[callback]*Function),
		processes: make(map[uint32]*history),
		names:     make(map[threadKey]string),
		local:     make(map[threadKey]uint32),
		inner:     make(map[threadKey]uint32),
		given:     make(map[tracelog.Name]string),
		devices:   make(map[threadKey]tracelog.Device),
		used:      make(map[threadKey]bool),
		contexts:  make(map[threadKey]tracelog.Context),
		streams:   make(map[objectKey]tracelog.Stream),
		ends:      make(map[uint32]tracelog.ProcessEnd),
		flushed:   make(map[uint32]uint64),
		lost:      make(map[string]uint64),
		groups:    make(map[groupKey]*group),
		first:     math.MaxUint64,
	}
}

// read reads the whole log, or what the filter wants of it. Damage is the reader's to
// report: what is intact is taken.
func (l *catalog) read(r *tracelog.Reader, progress func(share float64)) error {
	for n := 0; r.Next(); n++ {
		l.block(r.Block())
		if n%64 == 0 {
			progress(float64(r.BytesRead()) / float64(max(r.Size(), 1)))
		}
	}
	if err := r.Err(); err != nil && !isDamage(err) {
		return err
	}
	if l.last == 0 { // nothing in the log has a time
		l.first = 0
	}
	for _, g := range l.groups {
		g.finish()
	}
	for i := range l.marks {
		l.timeMark(&l.marks[i])
	}
	slices.SortStableFunc(l.marks, func(a, b Mark) int { return cmp.Compare(a.Time, b.Time) })
	return nil
}

// timeMark puts a mark of unknown time at the end of the recording, and says the times in
// its arguments from the beginning.
func (l *catalog) timeMark(m *Mark) {
	if m.Time == 0 {
		m.Time = l.last
	}
	for i := range m.Args {
		if d := &m.Args[i]; (d.Name == detailFrom || d.Name == detailTo) && d.Value > 0 {
			d.Value -= min(d.Value, l.first)
		}
	}
}

func (l *catalog) block(b *tracelog.Block) {
	l.totals[b.Kind] += uint64(b.N)
	if e, ok := eventKinds[b.Kind]; ok {
		l.events(b, e)
		return
	}
	for i := range b.N {
		if l.filter == nil || l.filter.Match(b, i) || b.Kind == tracelog.KindEnd {
			l.small(b, i)
		}
	}
}

// small takes the kinds of which a log holds few.
func (l *catalog) small(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindMeta:
		var m tracelog.Meta
		m.Read(b, i)
		l.meta[m.Key] = m.Value
	case tracelog.KindFunction:
		var f tracelog.Function
		f.Read(b, i)
		l.functions[f.ID] = l.numbered(newFunction(f.Name, f.Library, f.Args))
	case tracelog.KindProcess:
		var p tracelog.Process
		p.Read(b, i)
		h := l.process(p.PID)
		h.programs = append(h.programs, p)
		l.see(p.Start, p.Start)
	case tracelog.KindThread:
		var t tracelog.Thread
		t.Read(b, i)
		l.nameThread(&t)
	case tracelog.KindClock:
		var c tracelog.Clock
		c.Read(b, i)
		l.see(c.Monotonic, c.Monotonic)
		l.clocks.add(&c)
		if l.clock == (tracelog.Clock{}) {
			l.clock = c
		}
	default:
		l.gpuInfo(b, i)
	}
}

// nameThread takes a thread's name, and its number inside a PID namespace.
func (l *catalog) nameThread(t *tracelog.Thread) {
	if t.Name != "" {
		l.names[threadKey{t.PID, t.TID}] = t.Name
	}
	if t.LocalTID != 0 {
		l.local[threadKey{t.PID, t.LocalTID}] = t.TID
		l.inner[threadKey{t.PID, t.TID}] = t.LocalTID
	}
}

// globalTID is the recorder's number of a thread that CUPTI, which knows only its own
// PID namespace, calls tid.
func (l *catalog) globalTID(pid, tid uint32) uint32 {
	if len(l.local) > 0 {
		if outer, ok := l.local[threadKey{pid, tid}]; ok {
			return outer
		}
	}
	return tid
}

// gpuInfo takes the kinds that describe what the GPU work ran on.
func (l *catalog) gpuInfo(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindDevice:
		var d tracelog.Device
		d.Read(b, i)
		l.devices[threadKey{d.PID, d.ID}] = d
	case tracelog.KindContext:
		var c tracelog.Context
		c.Read(b, i)
		l.contexts[threadKey{c.PID, c.ID}] = c
	case tracelog.KindStream:
		var s tracelog.Stream
		s.Read(b, i)
		l.streams[objectKey{s.PID, s.Context, s.ID}] = s
	case tracelog.KindName:
		var n tracelog.Name
		n.Read(b, i)
		l.giveName(n)
	case tracelog.KindCUPTI:
		var c tracelog.CUPTI
		c.Read(b, i)
		l.cupti = append(l.cupti, c)
	case tracelog.KindSymbol:
		var x tracelog.Symbol
		x.Read(b, i)
		h := l.process(x.PID)
		h.symbols = append(h.symbols, x)
	default:
		l.outcome(b, i)
	}
}

// outcome takes the kinds that say how the recording went.
func (l *catalog) outcome(b *tracelog.Block, i int) {
	switch b.Kind {
	case tracelog.KindLost:
		var x tracelog.Lost
		x.Read(b, i)
		l.lost[x.Cause] += x.Count
		l.mark(lostMark(&x))
	case tracelog.KindNote:
		var n tracelog.Note
		n.Read(b, i)
		l.see(n.Time, n.Time)
		if len(l.notes) < maxMarks {
			l.notes = append(l.notes, n)
		}
		l.mark(Mark{Time: n.Time, PID: n.PID, Text: n.Text})
	case tracelog.KindProcessEnd:
		var e tracelog.ProcessEnd
		e.Read(b, i)
		l.see(e.Time, e.Time)
		l.ends[e.PID] = e
	case tracelog.KindFlushed:
		var f tracelog.Flushed
		f.Read(b, i)
		l.flushed[f.PID] = max(l.flushed[f.PID], f.Until)
	case tracelog.KindEnd:
		var e tracelog.End
		e.Read(b, i)
		l.see(e.Time, e.Time)
		l.end = &e
	}
}

func (l *catalog) mark(m Mark) {
	if len(l.marks) >= maxMarks {
		l.left++
		return
	}
	l.marks = append(l.marks, m)
}

// see widens the recording's time; zero means not known.
func (l *catalog) see(start, end uint64) {
	if start == 0 {
		return
	}
	l.first = min(l.first, start)
	l.last = max(l.last, start, end)
}

// process returns what is known of a PID.
func (l *catalog) process(pid uint32) *history {
	h := l.processes[pid]
	if h == nil {
		h = &history{pid: pid}
		l.processes[pid] = h
		l.pids = append(l.pids, pid)
	}
	return h
}

// useDevice notes that something happened on a device.
func (l *catalog) useDevice(pid, device uint32) {
	key := threadKey{pid, device}
	if !l.used[key] {
		l.used[key] = true
		l.usedOrder = append(l.usedOrder, key)
	}
}

// horizon is the time at which what a program left unfinished is cut off.
func (l *catalog) horizon(s *session) uint64 {
	if s.cut != 0 {
		return s.cut
	}
	if e, ok := l.ends[s.pid]; ok && e.Time != 0 {
		return e.Time
	}
	return l.last
}

// correlated says whether every call of a program that creates GPU work should
// have an API record: CUPTI was on all the time and said its last word.
func (l *catalog) correlated(pid uint32) bool {
	return l.recorded(pid) && l.ends[pid].Complete != 0 && l.meta[tracelog.MetaSchedule] == "" && l.filter == nil
}

// handedOver is the time up to which a process's CUPTI records are in the log: what it
// called while it handed over the last of them has none.
func (l *catalog) handedOver(pid uint32) uint64 {
	if until := l.ends[pid].Until; until != 0 {
		return until
	}
	return math.MaxUint64
}

// gpus numbers the devices that were used, by process and by their own number. Devices
// of one UUID are one GPU.
func (l *catalog) gpus(known *gpuTable) {
	order := make(map[uint32]int, len(l.pids))
	for i, pid := range l.pids {
		order[pid] = i
	}
	slices.SortStableFunc(l.usedOrder, func(a, b threadKey) int {
		return cmp.Or(cmp.Compare(order[a.pid], order[b.pid]), cmp.Compare(a.tid, b.tid))
	})
	for _, key := range l.usedOrder {
		d := l.devices[key]
		d.PID, d.ID = key.pid, key.tid
		l.nameGPU(&d)
		known.add(l, key, d)
	}
}

// A gpuTable has the GPUs of a trace, which several logs may share.
type gpuTable struct {
	list   []GPU
	byUUID map[string]uint32
	number map[*catalog]map[threadKey]uint32
}

func newGPUTable() *gpuTable {
	return &gpuTable{byUUID: make(map[string]uint32), number: make(map[*catalog]map[threadKey]uint32)}
}

func (g *gpuTable) add(l *catalog, key threadKey, d tracelog.Device) {
	if g.number[l] == nil {
		g.number[l] = make(map[threadKey]uint32)
	}
	if strings.Trim(d.UUID, "0") == "" { // not known: a GPU of its own
		d.UUID = ""
	} else if gpu, ok := g.byUUID[d.UUID]; ok {
		g.number[l][key] = gpu
		return
	}
	gpu := uint32(len(g.list))
	g.list = append(g.list, GPU{Device: d, Index: gpu})
	g.number[l][key] = gpu
	if d.UUID != "" {
		g.byUUID[d.UUID] = gpu
	}
}

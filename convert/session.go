package convert

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

type streamKey struct{ context, stream uint32 }

// A session is what the log has of one program in one process, by thread and by
// stream, unjoined.
type session struct {
	*Process
	until     uint64 // when the recorder met the program that took its place by exec; 0 if none did
	cut       uint64 // until, or when the call was entered in which it met that program
	programs  []tracelog.Process
	threads   map[uint32]*rawThread
	queues    map[streamKey]*Queue
	syncs     []tracelog.Sync
	overheads []tracelog.Overhead
	markers   []tracelog.Marker
	memory    []tracelog.Memory
	pools     []tracelog.MemoryPool
	symbols   []tracelog.Symbol
}

// rawThread is what the two observers saw on one thread, unjoined.
type rawThread struct {
	tid   uint32
	calls []rawCall
	apis  []rawAPI
	args  []uint64
}

// rawCall is a uprobe pair.
type rawCall struct {
	enter, exit uint64
	fn          *Function
	args        uint32 // index of the first into rawThread.args
	ret         int32
	nargs       uint16
	flags       uint16
}

// rawAPI is a CUPTI API record.
type rawAPI struct {
	start, end  uint64
	fn          *Function
	correlation uint32
	ret         uint32
}

func newSession(pid uint32) *session {
	return &session{
		Process: &Process{PID: pid},
		threads: make(map[uint32]*rawThread),
		queues:  make(map[streamKey]*Queue),
	}
}

func (s *session) describe(r *tracelog.Process) {
	s.PPID, s.Start = r.PPID, r.Start
	s.Args = strings.Split(r.Args, "\x00")
	s.Name = r.Exe[strings.LastIndexByte(r.Exe, '/')+1:]
}

func (s *session) thread(tid uint32) *rawThread {
	t := s.threads[tid]
	if t == nil {
		t = &rawThread{tid: tid}
		s.threads[tid] = t
	}
	return t
}

func (s *session) queue(device, context, stream uint32) *Queue {
	key := streamKey{context, stream}
	q := s.queues[key]
	if q == nil {
		q = &Queue{PID: s.PID, Device: device, Context: context, Stream: stream}
		s.queues[key] = q
	}
	return q
}

// split parts the sessions of processes that ran exec: each further program of
// the same PID begins a session, in which CUPTI counts its ids from the start.
func (l *loader) split() {
	var all []*session
	for _, s := range l.order {
		all = append(all, s.split()...)
	}
	l.order = all
}

// split returns the sessions of a process, one for each program that it ran.
func (s *session) split() []*session {
	slices.SortStableFunc(s.programs, func(a, b tracelog.Process) int { return cmp.Compare(a.Start, b.Start) })
	s.programs = slices.CompactFunc(s.programs, func(a, b tracelog.Process) bool { return a.Start == b.Start })
	if len(s.programs) > 0 {
		s.describe(&s.programs[0])
	}
	if len(s.programs) < 2 {
		return []*session{s}
	}
	parts := make(generations, len(s.programs))
	for i := range parts {
		parts[i] = newSession(s.PID)
		parts[i].describe(&s.programs[i])
		if i > 0 {
			parts[i-1].until, parts[i-1].cut = s.programs[i].Start, s.programs[i].Start
		}
	}
	parts.threads(s)
	parts.queues(s)
	parts.events(s)
	return parts
}

// generations are the sessions of one PID, by time.
type generations []*session

// place finds the place of the session of a time.
func (g generations) place(t uint64) int {
	i, _ := slices.BinarySearchFunc(g[:len(g)-1], t, func(s *session, t uint64) int {
		if s.until <= t {
			return -1
		}
		return 1
	})
	return i
}

func (g generations) at(t uint64) *session { return g[g.place(t)] }

// threads parts the calls. The one in which the recorder met a program was
// entered before, so it is the return that counts.
func (g generations) threads(s *session) {
	for tid, t := range s.threads {
		for _, c := range t.calls {
			i := g.place(c.exit)
			if i > 0 {
				g[i-1].cut = min(g[i-1].cut, c.enter)
			}
			part := g[i].thread(tid)
			part.args = t.args
			part.calls = append(part.calls, c)
		}
		for _, a := range t.apis {
			part := g.at(a.end).thread(tid)
			part.apis = append(part.apis, a)
		}
	}
}

// queues parts the GPU work. Work without a time goes with its neighbour in the
// log.
func (g generations) queues(s *session) {
	for _, q := range s.queues {
		part := g[0]
		for i := range q.Work {
			if q.Work[i].Start != 0 {
				part = g.at(q.Work[i].Start)
			}
			to := part.queue(q.Device, q.Context, q.Stream)
			to.Work = append(to.Work, q.Work[i])
		}
	}
}

func (g generations) events(s *session) {
	for _, x := range s.syncs {
		part := g.at(end(x.Start, x.Dur))
		part.syncs = append(part.syncs, x)
	}
	for _, x := range s.overheads {
		part := g.at(x.Start)
		part.overheads = append(part.overheads, x)
	}
	for _, x := range s.markers {
		part := g.at(x.Time)
		part.markers = append(part.markers, x)
	}
	for _, x := range s.memory {
		part := g.at(x.Time)
		part.memory = append(part.memory, x)
	}
	for _, x := range s.pools {
		part := g.at(x.Time)
		part.pools = append(part.pools, x)
	}
	for _, x := range s.symbols {
		part := g.at(x.Time)
		part.symbols = append(part.symbols, x)
	}
}

// globalTIDs turns the thread numbers that CUPTI wrote, which are those of the
// process's own PID namespace, into those of the recorder's. local is by the
// number inside.
func (s *session) globalTIDs(local map[uint32]uint32) {
	moved := make(map[uint32][]rawAPI)
	for tid, t := range s.threads {
		if outer, ok := local[tid]; ok {
			moved[outer] = append(moved[outer], t.apis...)
			t.apis = nil
		}
	}
	for tid, apis := range moved {
		t := s.thread(tid)
		t.apis = append(t.apis, apis...)
	}
	for tid, t := range s.threads {
		if len(t.calls)+len(t.apis) == 0 {
			delete(s.threads, tid)
		}
	}
	translate := func(tid *uint32) {
		if outer, ok := local[*tid]; ok {
			*tid = outer
		}
	}
	for i := range s.markers {
		translate(&s.markers[i].TID)
	}
	for i := range s.memory {
		translate(&s.memory[i].TID)
	}
	for i := range s.overheads {
		translate(&s.overheads[i].TID)
	}
}

package convert

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

type streamKey struct{ context, stream uint32 }

// A history is what a log has of one PID: the programs that ran under it, one after the
// other.
type history struct {
	pid      uint32
	has      uint64 // kinds of event that there are, see kindBit
	programs []tracelog.Process
	symbols  []tracelog.Symbol
	parts    generations
}

// A session is one program in one process.
type session struct {
	*Process
	pid        uint32 // the recorder's, as in the log
	until      uint64 // when the recorder met the program that took its place by exec; 0 if none did
	cut        uint64 // until, or when the call was entered in which it met that program
	horizon    uint64 // when what was left unfinished is cut off
	correlated bool   // see catalog.correlated
	handedOver uint64 // see catalog.handedOver
	symbols    *symbols
	threads    map[uint32]*Thread
	callers    int // threads that made calls
	streams    int // that work ran on
	join       joinTable
	progress   workProgress
	unclosed   uint64 // when the first of the open calls that may create work began
	hasWork    bool
	waits      *waitJoiner // nil without GPU work
	ranger     *ranger     // these are nil until there is something for them
	overheads  *spread
	pools      *spread
	memory     *allocator
}

func newSession(pid uint32) *session {
	return &session{
		Process: &Process{PID: pid}, pid: pid,
		threads: make(map[uint32]*Thread),
	}
}

func (s *session) describe(r *tracelog.Process) {
	s.PPID, s.Start = r.PPID, r.Start
	s.Args = strings.Split(r.Args, "\x00")
	s.Name = r.Exe[strings.LastIndexByte(r.Exe, '/')+1:]
}

// split makes the sessions of a process, one for each program that it ran: with each,
// CUPTI counts its ids from the start.
func (h *history) split() {
	slices.SortStableFunc(h.programs, func(a, b tracelog.Process) int { return cmp.Compare(a.Start, b.Start) })
	h.programs = slices.CompactFunc(h.programs, func(a, b tracelog.Process) bool { return a.Start == b.Start })
	h.parts = generations{newSession(h.pid)}
	for i := range h.programs {
		if i > 0 {
			h.parts[i-1].until, h.parts[i-1].cut = h.programs[i].Start, h.programs[i].Start
			h.parts = append(h.parts, newSession(h.pid))
		}
		h.parts[i].describe(&h.programs[i])
	}
	symbols := make([][]tracelog.Symbol, len(h.parts))
	for _, x := range h.symbols {
		i := h.parts.place(x.Time)
		symbols[i] = append(symbols[i], x)
	}
	for i, s := range h.parts {
		s.symbols = newSymbols(symbols[i])
		s.hasWork = h.has&workBits != 0
	}
	h.symbols = nil
}

var workBits = kindBit(tracelog.KindKernel) | kindBit(tracelog.KindMemcpy) | kindBit(tracelog.KindMemset) | kindBit(tracelog.KindGraph)

// generations are the sessions of one PID, by time.
type generations []*session

// place finds the place of the session of a time.
func (g generations) place(t uint64) int {
	if len(g) == 1 {
		return 0
	}
	i, _ := slices.BinarySearchFunc(g[:len(g)-1], t, func(s *session, t uint64) int {
		if s.until <= t {
			return -1
		}
		return 1
	})
	return i
}

func (g generations) at(t uint64) *session { return g[g.place(t)] }

// cuts finds for each program that was replaced by exec the call in which the recorder
// met its successor: that call was entered before, so it is its return that counts.
func (h *history) cuts(open opener) error {
	for i, s := range h.parts[:len(h.parts)-1] {
		r, err := open()
		if err != nil {
			return err
		}
		err = r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCall}, PIDs: []uint32{h.pid}, From: s.until, To: s.until})
		for err == nil && r.Next() {
			b := r.Block()
			if b.Kind != tracelog.KindCall {
				continue
			}
			pids, enters, durs := b.Column("pid"), b.Column("enter"), b.Column("dur")
			for row := range b.N {
				enter := enters.At(row)
				if pids.At(row) == uint64(h.pid) && h.parts.place(end(enter, durs.At(row))) == i+1 {
					s.cut = min(s.cut, enter)
				}
			}
		}
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// sessions makes the sessions of all processes.
func (c *converter) makeSessions() error {
	for _, pid := range c.pids {
		h := c.processes[pid]
		h.split()
		if len(h.parts) > 1 {
			if err := h.cuts(c.open); err != nil {
				return err
			}
		}
		for _, s := range h.parts {
			s.horizon, s.correlated, s.handedOver = c.horizon(s), c.correlated(pid), c.handedOver(pid)
			s.PID += c.pidOffset
			if c.pidOffset != 0 {
				s.Name = fmt.Sprintf("%s (%s, PID %d)", s.Name, c.meta[tracelog.MetaHost], pid)
			}
			if s.hasWork {
				s.waits = newWaitJoiner(s, c.clockError())
				s.waits.records = h.has&kindBit(tracelog.KindSync) != 0
			}
			c.sessions = append(c.sessions, s)
		}
	}
	return nil
}

func (l *catalog) clockError() (largest uint64) {
	for _, c := range l.cupti {
		largest = max(largest, c.ClockError)
	}
	return largest
}

// thread returns a thread of a session by the recorder's number.
func (c *converter) thread(s *session, tid uint32) *Thread {
	t := s.threads[tid]
	if t == nil {
		t = &Thread{Process: s.Process, TID: tid + c.pidOffset, Name: c.threadName(s.pid, tid), Main: tid == s.pid}
		s.threads[tid] = t
	}
	return t
}

// never is a time that does not come.
const never = math.MaxUint64

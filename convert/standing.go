package convert

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Standing is how far the GPU work of a process has come. Times are CLOCK_MONOTONIC.
type Standing struct {
	GPU         bool // GPU work is recorded
	Streams     []StreamStanding
	Unrun       string // the kernel that was looked up last, if it has not run, for people; "" for none
	Collectives []EnteredCollective
	Calls       []StandingCall // the outermost of each thread
}

// A StandingCall is a call that has not returned for a second or more.
type StandingCall struct {
	TID   uint32
	Name  string
	Waits bool // the function waits for GPU work
	Time  uint64
}

// A StreamStanding is the first work of a stream that has not ended, or else the last that has.
type StreamStanding struct {
	Name   string // for people
	Work   string // likewise
	Ended  bool
	Time   uint64 // of its end, or of its launch
	Queued int    // launches behind it
}

// An EnteredCollective is the last collective of a communicator of NCCL that a process called.
type EnteredCollective struct {
	Communicator uint64 // its hash
	Name         string // function of NCCL
	Count        uint64 // collectives of the communicator that the process has called
	Time         uint64
	TID          uint32
}

// errLate says that a log was not read in time.
var errLate = errors.New("it is too long to be read in time")

// ReadStanding looks for calls and GPU work in the last standingNewest bytes of a log at least, about 70,000 launches, and then in a
// part standingMore times as long, if there is time.
const (
	standingNewest = 512 << 10
	standingMore   = 4
)

// ReadStanding reads how far the GPU work of processes has come from the newest part of a log that a recording is writing. A launch
// counts as without work a second after it. The log must be read by a time.
func ReadStanding(open read.Opener, by time.Time) (all map[uint32]*Standing, err error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	size := r.Size()
	if err := r.Close(); err != nil {
		return nil, err
	}
	for newest := int64(standingNewest); ; newest *= standingMore {
		began := time.Now()
		more, err := readStanding(open, max(size-newest, 0), by)
		switch {
		case err == errLate && all != nil:
			return all, nil
		case err != nil || newest >= size || time.Until(by) < 2*standingMore*time.Since(began):
			return more, err
		}
		all = more
	}
}

// readStanding reads the part of a log from an offset on.
func readStanding(open read.Opener, from int64, by time.Time) (map[uint32]*Standing, error) {
	inTime := func() error {
		if time.Now().After(by) {
			return errLate
		}
		return nil
	}
	s := &standingSink{names: timeline.KernelNames{}, processes: map[uint32]*standing{}, latest: map[read.ThreadKey]uint64{}}
	part := open
	if from > 0 {
		part = func() (r *tracelog.Reader, err error) {
			if r, err = open(); err != nil {
				return nil, err
			}
			if s.from, err = r.SelectNewest(from); err != nil {
				return nil, errors.Join(err, r.Close())
			}
			return r, nil
		}
	}
	f, err := Follow(part, s)
	if err != nil {
		return nil, err
	}
	if err := f.Read(func(int64) error { return inTime() }); err != nil {
		return nil, cmp.Or(err, f.Abandon(err))
	}
	if err := f.Abandon(nil); err != nil {
		return nil, err
	}
	all := map[uint32]*Standing{}
	for _, pid := range f.catalog.Processes.PIDs {
		all[pid] = &Standing{}
		if f.catalog.Outcome.Recorded(pid) && f.catalog.Meta[tracelog.MetaWork] != tracelog.WorkUnwanted { // else its launches have no work
			all[pid].GPU = true
			if p := s.processes[pid]; p != nil {
				p.settle(f.catalog.GPUs.ContextsOf(pid) <= 1)
				all[pid].Streams = p.list(s.names)
				all[pid].Unrun = p.unrun(f.catalog.Processes.Get(pid), s)
			}
		}
	}
	if from > 0 {
		latest := func(o tracelog.OpenCall) uint64 {
			tid, _ := f.catalog.OpenCall(&o)
			return s.latest[read.ThreadKey{PID: o.PID, TID: tid}]
		}
		if err := f.catalog.OpenCalls.Settle(open, latest, inTime); err != nil {
			return nil, err
		}
	}
	if !f.Ended() {
		standingCalls(f.catalog, all)
	}
	return all, readCollectives(open, all, inTime)
}

// standingCalls finds the calls that have not returned.
func standingCalls(c *read.Catalog, all map[uint32]*Standing) {
	in := map[read.ThreadKey]bool{}
	for _, o := range c.OpenCalls.All() { // outer ones come first
		tid, fn := c.OpenCall(&o)
		thread := read.ThreadKey{PID: o.PID, TID: tid}
		if in[thread] {
			continue
		}
		in[thread] = true
		if caller := c.Callers.ByID(o.Caller); caller != nil {
			fn = c.Functions.Called(fn, caller, 0)
		}
		if all[o.PID] == nil {
			all[o.PID] = &Standing{}
		}
		all[o.PID].Calls = append(all[o.PID].Calls, StandingCall{tid, fn.Name, fn.Waits != 0, o.Enter})
	}
}

// ReadRunning lists the processes of a log that a recording is writing, but for those that have ended. The log must be read by a time.
func ReadRunning(open read.Opener, by time.Time) (pids []uint32, err error) {
	r, err := follow(open)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindProcess, tracelog.KindProcessEnd}}); err != nil {
		return nil, err
	}
	started, ended := map[uint32]uint64{}, map[uint32]uint64{}
	for r.Next() {
		if time.Now().After(by) {
			return nil, errLate
		}
		b := r.Block()
		for i := range b.N {
			switch b.Kind {
			case tracelog.KindProcess:
				var p tracelog.Process
				p.Read(b, i)
				started[p.PID] = max(started[p.PID], p.Start)
			case tracelog.KindProcessEnd:
				var e tracelog.ProcessEnd
				e.Read(b, i)
				ended[e.PID] = max(ended[e.PID], e.Time)
			}
		}
	}
	for pid, at := range started {
		if end, known := ended[pid]; !known || end < at {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, failed(r)
}

// collectives are the functions of NCCL that all ranks of a communicator call in one order.
var collectives = []string{"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclAlltoAll", "ncclGather", "ncclScatter"}

// readCollectives reads what calls of NCCL say.
func readCollectives(open read.Opener, all map[uint32]*Standing, inTime func() error) error {
	r, err := follow(open)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindNCCLCall}}); err != nil {
		return err
	}
	type key struct {
		pid          uint32
		communicator uint64
	}
	last := map[key]*EnteredCollective{}
	var c tracelog.NCCLCall
	for r.Next() {
		b := r.Block()
		if err := inTime(); err != nil {
			return err
		}
		if b.Kind != tracelog.KindNCCLCall {
			continue
		}
		for i := range b.N {
			c.Read(b, i)
			if c.Known&tracelog.NCCLCommunicator == 0 || !slices.Contains(collectives, c.Name) {
				continue
			}
			k := key{c.PID, c.Communicator}
			e := last[k]
			if e == nil {
				e = &EnteredCollective{Communicator: c.Communicator}
				last[k] = e
			}
			if e.Count++; c.Time >= e.Time {
				e.Name, e.Time, e.TID = c.Name, c.Time, c.TID
			}
		}
	}
	for k, e := range last {
		if all[k.pid] == nil {
			all[k.pid] = &Standing{}
		}
		all[k.pid].Collectives = append(all[k.pid].Collectives, *e)
	}
	for _, s := range all {
		slices.SortFunc(s.Collectives, func(a, b EnteredCollective) int { return cmp.Compare(a.Communicator, b.Communicator) })
	}
	return failed(r)
}

// A standingSink finds, for each stream, the first launch without work and the last work.
type standingSink struct {
	names     timeline.KernelNames
	processes map[uint32]*standing
	latest    map[read.ThreadKey]uint64 // latest start of a call
	from      uint64                    // the work of earlier calls may be missing
}

type standing struct {
	pending map[streamHandle][]pendingLaunch // launches without work
	worked  map[streamHandle]uint64          // latest start of a call with work
	waited  returnedWaits
	streams map[streamHandle]*timeline.Stream // as far as known
	last    map[*timeline.Stream]standingWork // that ended last
	ran     map[string]bool                   // kernels that have run, mangled
}

// unrun returns the kernel that the process's program looked up last, if it has not run.
func (of *standing) unrun(p *read.Process, s *standingSink) string {
	name, at := p.Programs[len(p.Programs)-1].Handles.LookedUp(math.MaxUint64)
	if name == "" || at <= s.from || of.ran[name] {
		return ""
	}
	return s.names.Of(name).Short
}

type pendingLaunch struct {
	name, kernel string
	start, end   uint64 // of the call
	correlation  uint32
}

type standingWork struct {
	name        string
	start, end  uint64
	correlation uint32
}

// isOf reports whether the work is that of a launch, or of a later one on its stream. It may begin long after its launch.
func (w *standingWork) isOf(p *pendingLaunch) bool {
	if p.correlation == 0 || w.correlation == 0 {
		return w.start > p.start
	}
	return int32(w.correlation-p.correlation) >= 0 // IDs grow, and begin again
}

func (s *standingSink) of(p *timeline.Process) *standing {
	of := s.processes[p.PID]
	if of == nil {
		of = &standing{map[streamHandle][]pendingLaunch{}, map[streamHandle]uint64{}, returnedWaits{}, map[streamHandle]*timeline.Stream{}, map[*timeline.Stream]standingWork{}, map[string]bool{}}
		s.processes[p.PID] = of
	}
	return of
}

func (s *standingSink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Slices:
			of := s.of(e.Thread.Process)
			thread := read.ThreadKey{PID: e.Thread.Process.PID, TID: e.Thread.TID}
			latest := s.latest[thread]
			for i := range e.List {
				of.slice(e.Thread, &e.List[i], s.from)
				latest = max(latest, e.List[i].Start)
			}
			s.latest[thread] = latest
		case *timeline.WorkList:
			of := s.of(e.Stream.Context.Process)
			for i := range e.List {
				if w := &e.List[i]; w.Dur > 0 && w.Kind == timeline.KernelWork {
					of.ran[w.Shape.Kernel.Name] = true
				}
				if w, last := &e.List[i], of.last[e.Stream]; w.Dur > 0 && w.Start+w.Dur >= last.end {
					of.last[e.Stream] = standingWork{s.names.Title(w), w.Start, w.Start + w.Dur, w.Correlation}
				}
			}
		}
	}
	return nil
}

func (s *standingSink) End(error) error { return nil }

func (of *standing) slice(t *timeline.Thread, sl *timeline.Slice, from uint64) {
	on := handleOf(t, sl)
	switch {
	case len(sl.Work()) > 0:
		of.streams[on], of.worked[on] = sl.Stream, max(of.worked[on], sl.Start)
	case sl.Stream != nil: // it made the stream
		of.streams[on] = sl.Stream
	case sl.Start > from && sl.Ret == 0 && sl.Flags&timeline.Unfinished == 0 && sl.Launch:
		p := pendingLaunch{name: sl.Name, start: sl.Start, end: sl.End, correlation: sl.Correlation}
		if sl.Kernel != nil {
			p.kernel = sl.Kernel.Name
		}
		of.pending[on] = append(of.pending[on], p)
	default:
		of.waited.take(on, sl)
	}
}

// settle takes away the launches whose work has ended, since a later one on their stream has work, or since a wait for it has returned: CUPTI
// hands over no work while a kernel behind it in the same buffer runs.
func (of *standing) settle(waits bool) {
	for on, launches := range of.pending {
		ended := func(p pendingLaunch) bool { return p.start < of.worked[on] || waits && of.waited.cover(on, p.end) }
		if of.pending[on] = slices.DeleteFunc(launches, ended); len(of.pending[on]) == 0 {
			delete(of.pending, on)
		}
	}
}

// list are the streams of a process, those with work that has not ended first.
func (of *standing) list(names timeline.KernelNames) (list []StreamStanding) {
	waiting := map[*timeline.Stream]bool{}
	for handle, launches := range of.pending {
		p := slices.MinFunc(launches, func(a, b pendingLaunch) int { return cmp.Compare(a.start, b.start) })
		on, work := of.streams[handle], "the work of "+p.name
		if p.kernel != "" {
			work = "kernel " + names.Of(p.kernel).Short
		}
		name := "a stream" // the call has no arguments
		if handle.known {
			name = fmt.Sprintf("the stream with handle %#x", handle.handle)
		}
		if on != nil {
			if last := of.last[on]; last.isOf(&p) {
				continue // it had no work, or its work came alone
			}
			name, waiting[on] = streamText(on), true
		}
		list = append(list, StreamStanding{Name: name, Work: work, Time: p.start, Queued: len(launches) - 1})
	}
	for on, w := range of.last {
		if !waiting[on] {
			list = append(list, StreamStanding{Name: streamText(on), Work: w.name, Ended: true, Time: w.end})
		}
	}
	slices.SortFunc(list, func(a, b StreamStanding) int {
		return cmp.Or(cmp.Compare(b2i(a.Ended), b2i(b.Ended)), cmp.Compare(a.Time, b.Time), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func streamText(s *timeline.Stream) string {
	if s.Name != "" {
		return fmt.Sprintf("stream %d (%s)", s.ID, s.Name)
	}
	return fmt.Sprintf("stream %d", s.ID)
}

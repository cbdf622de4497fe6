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

// A Progress is how far the GPU work of a process has come. Times are CLOCK_MONOTONIC.
type Progress struct {
	GPU         bool // GPU work is recorded
	Streams     []StreamProgress
	Unrun       string // the kernel that was looked up last, if it has not run, for people; "" for none
	Collectives []EnteredCollective
	Calls       []OpenCall // the outermost of each thread
}

// An OpenCall is a call that has not returned for a second or more.
type OpenCall struct {
	TID   uint32
	Name  string
	Waits bool // the function waits for GPU work
	Time  uint64
}

// A StreamProgress is the first work of a stream that has not ended, or else the last that has.
type StreamProgress struct {
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

// ReadProgress looks for calls and GPU work in the last progressNewest bytes of a log at least, about 70,000 launches,
// and then in a part progressMore times as long, if there is time.
const (
	progressNewest = 512 << 10
	progressMore   = 4
)

// ReadProgress reads how far the GPU work of processes has come from the newest part of a log that a recording is
// writing. A launch counts as without work a second after it. The log must be read by a time.
func ReadProgress(open read.Opener, by time.Time) (all map[uint32]*Progress, err error) {
	r, err := open()
	if err != nil {
		return nil, err
	}
	size := r.Size()
	if err := r.Close(); err != nil {
		return nil, err
	}
	for newest := int64(progressNewest); ; newest *= progressMore {
		began := time.Now()
		more, err := readProgress(open, max(size-newest, 0), by)
		switch {
		case err == errLate && all != nil:
			return all, nil
		case err != nil || newest >= size || time.Until(by) < 2*progressMore*time.Since(began):
			return more, err
		}
		all = more
	}
}

// readProgress reads the part of a log from an offset on.
func readProgress(open read.Opener, from int64, by time.Time) (map[uint32]*Progress, error) {
	inTime := func() error {
		if time.Now().After(by) {
			return errLate
		}
		return nil
	}
	var f *GrowingLog
	s := newUnended(func(pid uint32) int { return f.catalog.GPUs.ContextsOf(pid) })
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
	all := map[uint32]*Progress{}
	for _, pid := range f.catalog.Processes.PIDs {
		all[pid] = &Progress{}
		// else its launches have no work
		if f.catalog.Outcome.Recorded(pid) && f.catalog.Meta[tracelog.MetaWork] != tracelog.WorkUnwanted {
			all[pid].GPU = true
			all[pid].Streams = s.streams(pid)
			if kernel, at := s.unrun(f.catalog, pid, math.MaxUint64); at > s.from {
				all[pid].Unrun = s.names.Of(kernel).Short
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
		openCalls(f.catalog, all)
	}
	return all, readCollectives(open, all, inTime)
}

// openCalls finds the calls that have not returned.
func openCalls(c *read.Catalog, all map[uint32]*Progress) {
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
			all[o.PID] = &Progress{}
		}
		all[o.PID].Calls = append(all[o.PID].Calls, OpenCall{tid, fn.Name, fn.Waits != 0, o.Enter})
	}
}

// ReadRunning lists the processes of a log that a recording is writing, but for those that have ended. The log must be
// read by a time.
func ReadRunning(open read.Opener, by time.Time) (pids []uint32, err error) {
	r, err := follow(open)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindProcess,
		tracelog.KindProcessEnd}}); err != nil {
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
var collectives = []string{
	"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast", "ncclReduce", "ncclAlltoAll", "ncclGather",
	"ncclScatter",
}

// readCollectives reads what calls of NCCL say.
func readCollectives(open read.Opener, all map[uint32]*Progress, inTime func() error) error {
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
			all[k.pid] = &Progress{}
		}
		all[k.pid].Collectives = append(all[k.pid].Collectives, *e)
	}
	for _, s := range all {
		slices.SortFunc(s.Collectives, func(a, b EnteredCollective) int {
			return cmp.Compare(a.Communicator, b.Communicator)
		})
	}
	return failed(r)
}

// streams are the streams of a process, those with work that has not ended first.
func (s *unended) streams(pid uint32) (list []StreamProgress) {
	waits := map[*timeline.Stream]bool{}
	for handle := range s.launched {
		if handle.process.PID != pid {
			continue
		}
		launches := s.waiting(handle)
		if len(launches) == 0 {
			continue
		}
		p := first(launches)
		// the call has no arguments
		on := StreamProgress{Name: "a stream", Work: "the work of " + p.call, Time: p.start, Queued: len(launches) - 1}
		if p.kernel != "" {
			on.Work = "kernel " + s.names.Of(p.kernel).Short
		}
		if stream := s.streamOf(handle); stream != nil {
			on.Name, waits[stream] = streamText(stream), true
		} else if handle.known {
			on.Name = fmt.Sprintf("the stream with handle %#x", handle.handle)
		}
		list = append(list, on)
	}
	for on, of := range s.worked {
		if w := of.last; on.Context.Process.PID == pid && w.end > 0 && !waits[on] {
			list = append(list, StreamProgress{Name: streamText(on), Work: w.title, Ended: true, Time: w.end})
		}
	}
	slices.SortFunc(list, func(a, b StreamProgress) int {
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

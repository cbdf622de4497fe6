package convert

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Filter selects the part of a log that is shown. The zero Filter selects everything. For
// limits of time, process, thread, device and stream the log's index is used: blocks that it
// rules out are not read.
type Filter struct {
	// From and To are times from the start of the recording, Last a time before its end; 0
	// is no limit. Events under way at a limit are selected.
	From, To, Last time.Duration
	Times          [][2]time.Duration // of these at least one, within From and To, which are given then; none is no limit
	PIDs           []uint32
	Ranks          ranks.List // selects the processes of a distributed program that have these ranks
	TIDs           []uint32   // selects their calls and ranges, and the work that these calls caused
	Devices        []uint32   // as the process numbers them; limits GPU work
	Streams        []uint32   // limits GPU work
	Name           string     // a glob for the names of calls, kernels and ranges
	// a glob for the callers of calls (selection.matchCaller); limits calls, and the work that they caused
	Caller string
	// a glob for the Python frames above calls (selection.MatchPython); limits calls, and the work that they caused
	Python      string
	NVTX        pattern.Ranges // only calls and work in these NVTX ranges, and the ranges
	MinDuration time.Duration
	Steps       Steps // limits time, if some are chosen
}

// limits reports whether the filter may leave anything out.
func (f *Filter) limits() bool {
	return f.limitsRecords() || f.Name != "" || f.Caller != "" || f.Python != "" || !f.NVTX.None() || f.MinDuration > 0
}

// OnlyFrom reports whether the filter limits nothing but the beginning of the time.
func (f Filter) OnlyFrom() bool {
	f.From, f.Last = 0, 0
	return !f.limits()
}

// Gappy reports whether the filter leaves out work between other work, or calls between other calls, so that gaps and
// repetitions are not those of the program.
func (f *Filter) Gappy() bool {
	return len(f.TIDs)+len(f.Devices)+len(f.Streams)+len(f.Times) > 0 ||
		f.Name != "" || f.Caller != "" || f.Python != "" ||
		!f.NVTX.None() || f.MinDuration > 0
}

// limitsRecords reports whether the filter limits the records that are read.
func (f *Filter) limitsRecords() bool {
	return f.From > 0 || f.To > 0 || f.Last > 0 || len(f.PIDs)+len(f.TIDs)+len(f.Devices)+len(f.Streams) > 0 ||
		!f.Ranks.Empty() || f.Steps.Chosen
}

// resolve converts the filter to the log's own times and numbers; nil for a filter that selects
// every record. none gathers the steps of the log, if some are chosen.
func (f *Filter) resolve(l *log, none *NoStepError) (*tracelog.Filter, error) {
	if !f.limitsRecords() {
		return nil, nil
	}
	// NVTX ranges and functions that are under way at From began before it, and hold calls of later times. What PyTorch
	// holds then was handed out before.
	t := &tracelog.Filter{
		PIDs: f.PIDs, Devices: f.Devices, Streams: f.Streams, Anytime: []tracelog.Kind{
			tracelog.KindMarker, tracelog.KindNCCLCall, tracelog.KindFunctionEvent,
			tracelog.KindTorchMemory, tracelog.KindOperatorSpan,
		},
	}
	begin, last, err := l.extent(f.Last > 0)
	if err != nil {
		return nil, err
	}
	if !f.Ranks.Empty() {
		if t.PIDs, err = f.ranked(l); err != nil {
			return nil, err
		}
	}
	if f.From > 0 {
		t.From = begin + uint64(f.From)
	}
	if f.To > 0 {
		t.To = begin + uint64(f.To)
	}
	for _, of := range slices.SortedFunc(slices.Values(f.Times), func(a, b [2]time.Duration) int {
		return cmp.Compare(a[0], b[0])
	}) {
		x := tracelog.Time{From: begin + uint64(of[0]), To: begin + uint64(of[1])}
		if n := len(t.Times); n > 0 && x.From <= t.Times[n-1].To {
			t.Times[n-1].To = max(t.Times[n-1].To, x.To)
		} else {
			t.Times = append(t.Times, x)
		}
	}
	if f.Last > 0 {
		t.From = max(t.From, last-min(last, uint64(f.Last)))
	}
	if t.TIDs, l.threads, err = l.namespaceTIDs(f.TIDs); err != nil {
		return nil, err
	}
	if f.Steps.Chosen {
		err = f.Steps.limit(l, t, none)
	}
	return t, err
}

// noProcess is a PID that no process has.
const noProcess = math.MaxUint32

// ranked returns the PIDs whose rank matches, among the filter's PIDs.
func (f *Filter) ranked(l *log) ([]uint32, error) {
	all, err := l.everybody()
	if err != nil {
		return nil, err
	}
	pids := []uint32{noProcess} // else none would stand for all
	for _, pid := range all.PIDs {
		rank := all.Place(pid)
		if rank.Known && f.Ranks.Contains(rank.Number, rank.Of) && (len(f.PIDs) == 0 || slices.Contains(f.PIDs, pid)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// everybody returns all processes of the log, also those that a filter leaves out.
func (l *log) everybody() (*read.Processes, error) {
	if l.filter == nil && l.catalog != nil {
		return &l.catalog.Processes, nil
	}
	if l.processes != nil {
		return l.processes, nil
	}
	r, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	processes := tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindProcess}}
	if err := r.Select(processes); err != nil {
		return nil, err
	}
	small := read.NewCatalog(&processes)
	if err := small.Read(r, func(float64) {}); err != nil {
		return nil, err
	}
	l.processes = &small.Processes
	return l.processes, nil
}

// extent returns the beginning and, on request, the end of a recording. It counts the log's
// events, if the log's index has their number.
func (l *log) extent(wantLast bool) (begin, last uint64, err error) {
	r, err := l.Open()
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	x, indexErr := r.Index()
	if indexErr == nil {
		l.all += events(x.Totals)
		for i := range x.Blocks {
			if e := &x.Blocks[i]; e.From > 0 {
				last = max(last, e.To)
				switch {
				case e.Kind == tracelog.KindClock && begin == 0:
					begin = e.From
				case e.Kind.IsWork():
					l.began = min(cmp.Or(l.began, e.From), e.From)
				}
			}
		}
		if begin != 0 {
			return begin, last, nil
		}
	}
	var clocks *tracelog.Filter
	if !wantLast && indexErr != nil {
		clocks = &tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindClock}}
		if err := r.Select(*clocks); err != nil {
			return 0, 0, err
		}
	}
	small := read.NewCatalog(clocks)
	if err := small.Read(r, func(float64) {}); err != nil {
		return 0, 0, err
	}
	return cmp.Or(small.Clocks.First.Monotonic, small.First()), small.Last(), nil
}

// namespaceTIDs adds to TIDs the namespace TIDs of these threads, which CUPTI uses. The threads are
// zero where all numbers are the host's.
func (l *log) namespaceTIDs(tids []uint32) (all []uint32, threads read.Threads, err error) {
	if len(tids) == 0 {
		return nil, threads, nil
	}
	r, err := l.Open()
	if err != nil {
		return nil, threads, err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindThread}}); err != nil {
		return nil, threads, err
	}
	all = slices.Clone(tids)
	others := make(map[read.ThreadKey]bool)
	for r.Next() {
		b := r.Block()
		if b.Kind != tracelog.KindThread {
			continue
		}
		for i := range b.N {
			var t tracelog.Thread
			switch t.Read(b, i); {
			case t.NamespaceTID == 0:
			case slices.Contains(tids, t.TID):
				all = append(all, t.NamespaceTID)
			default:
				others[read.ThreadKey{PID: t.PID, TID: t.NamespaceTID}] = true
			}
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return nil, threads, err
	}
	maps.DeleteFunc(others, func(key read.ThreadKey, _ bool) bool { return !slices.Contains(all, key.TID) })
	if len(all) > len(tids) || len(others) > 0 {
		threads = read.Threads{Host: tids, Namesakes: others}
	}
	return all, threads, nil
}

// events is the number of events among the records of a log.
func events(totals map[tracelog.Kind]uint64) (n uint64) {
	for k, records := range totals {
		if read.PlacementOf(k) != nil {
			n += records
		}
	}
	return n
}

package convert

import (
	"cmp"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/convert/catalog"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Filter says what of a log is to be in the timeline. The zero Filter takes everything.
// Limits of time, process, thread, device and stream go by the log's index: what it rules
// out is not read.
type Filter struct {
	// From and To are times into the recording, Last one before its end; 0 is no limit.
	// What is under way at that time is taken.
	From, To, Last time.Duration
	PIDs           []uint32
	TIDs           []uint32 // their calls and ranges, and the work that these calls caused
	Devices        []uint32 // as the process numbers them; limits GPU work
	Streams        []uint32 // limits GPU work
	Name           string   // a glob for the names of calls, kernels and ranges
	Caller         string   // a glob for the callers of calls, as selection.MatchCaller has it; limits calls, and the work that they caused
	MinDuration    time.Duration
}

// limits says whether the filter may leave something out.
func (f *Filter) limits() bool {
	return f.limitsRecords() || f.Name != "" || f.Caller != "" || f.MinDuration > 0
}

// limitsRecords says whether it limits what is read.
func (f *Filter) limitsRecords() bool {
	return f.From > 0 || f.To > 0 || f.Last > 0 || len(f.PIDs)+len(f.TIDs)+len(f.Devices)+len(f.Streams) > 0
}

// resolve makes the filter one of a log's own times and numbers, nil where it takes
// every record.
func (f *Filter) resolve(l *log) (*tracelog.Filter, error) {
	if !f.limitsRecords() {
		return nil, nil
	}
	t := &tracelog.Filter{PIDs: f.PIDs, Devices: f.Devices, Streams: f.Streams}
	begin, last, err := l.extent(f.Last > 0)
	if err != nil {
		return nil, err
	}
	if f.From > 0 {
		t.From = begin + uint64(f.From)
	}
	if f.To > 0 {
		t.To = begin + uint64(f.To)
	}
	if f.Last > 0 {
		t.From = max(t.From, last-min(last, uint64(f.Last)))
	}
	t.TIDs, err = l.namespaceTIDs(f.TIDs)
	return t, err
}

// extent is the beginning and, where it is asked for, the end of a recording; and it
// counts the events of the log, if its index does.
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
				if e.Kind == tracelog.KindClock && begin == 0 {
					begin = e.From
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
	small := catalog.New(clocks)
	if err := small.Read(r, func(float64) {}); err != nil {
		return 0, 0, err
	}
	return cmp.Or(small.Clocks.First.Monotonic, small.First()), small.Last(), nil
}

// namespaceTIDs adds to TIDs those by which CUPTI knows the threads.
func (l *log) namespaceTIDs(tids []uint32) ([]uint32, error) {
	if len(tids) == 0 {
		return nil, nil
	}
	r, err := l.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if err := r.Select(tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindThread}}); err != nil {
		return nil, err
	}
	all := slices.Clone(tids)
	for r.Next() {
		b := r.Block()
		if b.Kind != tracelog.KindThread {
			continue
		}
		for i := range b.N {
			var t tracelog.Thread
			if t.Read(b, i); t.NamespaceTID != 0 && slices.Contains(tids, t.TID) {
				all = append(all, t.NamespaceTID)
			}
		}
	}
	if err := r.Err(); err != nil && !tracelog.IsDamage(err) {
		return nil, err
	}
	return all, nil
}

// events is the number of events among the records of a log.
func events(totals map[tracelog.Kind]uint64) (n uint64) {
	for k, records := range totals {
		if catalog.PlacementOf(k) != nil {
			n += records
		}
	}
	return n
}

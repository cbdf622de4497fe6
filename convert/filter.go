package convert

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Filter says what of a log is to be in the trace. The zero Filter takes everything.
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
	MinDuration    time.Duration

	// MaxBytes bounds the size of the trace: the newest that fits is kept, or with
	// Longest the longest slices.
	MaxBytes int64
	Longest  bool
}

// limits says whether the filter may leave something out.
func (f *Filter) limits() bool { return f.limitsRecords() || f.Name != "" || f.MinDuration > 0 }

// limitsRecords says whether it limits what is read.
func (f *Filter) limitsRecords() bool {
	return f.From > 0 || f.To > 0 || f.Last > 0 || len(f.PIDs)+len(f.TIDs)+len(f.Devices)+len(f.Streams) > 0
}

// selection is what of the filter is looked at slice by slice.
func (f *Filter) selection() (s *selection, ofCalls bool) {
	if f.Name != "" || f.MinDuration > 0 {
		s = &selection{name: f.Name, min: uint64(f.MinDuration)}
	}
	return s, len(f.TIDs) > 0
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
	t.TIDs, err = l.innerTIDs(f.TIDs)
	return t, err
}

// extent is the beginning and, where it is asked for, the end of a recording; and it
// counts the events of the log, if its index does.
func (l *log) extent(wantLast bool) (begin, last uint64, err error) {
	r, err := l.open()
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	x, indexErr := r.Index()
	if indexErr == nil {
		for k := range eventKinds {
			l.all += x.Totals[k]
		}
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
	small := newCatalog()
	small.filter = &tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindClock}}
	if wantLast || indexErr == nil {
		small.filter = nil
	} else if err := r.Select(*small.filter); err != nil {
		return 0, 0, err
	}
	if err := small.read(r, func(float64) {}); err != nil {
		return 0, 0, err
	}
	begin = small.clock.Monotonic
	if begin == 0 {
		begin = small.first
	}
	return begin, small.last, nil
}

// innerTIDs adds to thread numbers those by which CUPTI knows the threads.
func (l *log) innerTIDs(tids []uint32) ([]uint32, error) {
	if len(tids) == 0 {
		return nil, nil
	}
	r, err := l.open()
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
			if t.Read(b, i); t.LocalTID != 0 && slices.Contains(tids, t.TID) {
				all = append(all, t.LocalTID)
			}
		}
	}
	if err := r.Err(); err != nil && !isDamage(err) {
		return nil, err
	}
	return all, nil
}

// A selection is what of a timeline is shown.
type selection struct {
	name string // a glob that the name has to match; "" for every name
	min  uint64 // the shortest slice, ns
}

// wanted says whether a filter takes a record.
func (c *converter) wanted(b *tracelog.Block, i int) bool {
	if c.filter == nil {
		return true
	}
	if !c.filter.Match(b, i) {
		return false
	}
	c.taken++
	return true
}

// noSlash makes a glob's * go over the slashes of a name, which is no path.
var noSlash = strings.NewReplacer("/", "\x00")

func (s *selection) takes(name string, dur uint64) bool {
	if dur < s.min {
		return false
	}
	if s.name == "" {
		return true
	}
	ok, err := path.Match(noSlash.Replace(s.name), noSlash.Replace(name))
	return ok && err == nil
}

// shows says whether a call is shown.
func (c *converter) shows(sl *Slice) bool {
	if c.selection == nil || c.selection.takes(sl.Name, sl.End-sl.Start) {
		return true
	}
	c.found.left++
	return false
}

// showsSpan says whether a span is shown. It is asked at the beginning and at the end.
func (c *converter) showsSpan(sp *Span) bool {
	return c.selection == nil || sp.open || c.selection.takes(sp.Name, sp.End-sp.Start)
}

// showsWork says whether GPU work is shown.
func (c *converter) showsWork(w *Work) bool {
	if c.selection == nil || c.selection.takes(workName(w), w.Dur) {
		return true
	}
	c.found.left++
	return false
}

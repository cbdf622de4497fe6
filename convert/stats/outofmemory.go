package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
)

// An outOfMemory is the latest call of a process that found no memory on a GPU, and who held memory of the GPU then.
type outOfMemory struct {
	timeline.OutOfMemory
	count uint64 // such calls
	held  uint64 // bytes
	by    []heldBy

	physical uint64 // bytes of these that are mapped to addresses by handles
	unread   bool   // the last three are to be read before memory changes
}

// A heldBy is what a place held.
type heldBy struct {
	*holder
	bytes, since uint64
}

// mostFailed bounds the processes and GPUs whose calls are kept.
const mostFailed = 100

// outOfMemory takes a call that found no memory. A program may go on, give memory back and try again, as PyTorch does:
// the latest call counts.
func (m *memory) outOfMemory(e *timeline.OutOfMemory) {
	i := slices.IndexFunc(m.failed, func(o *outOfMemory) bool {
		return o.Process == e.Process && o.GPU == e.GPU && o.KnownGPU == e.KnownGPU
	})
	if i < 0 {
		if i = len(m.failed); i == mostFailed {
			return
		}
		m.failed = append(m.failed, new(outOfMemory))
	}
	o := m.failed[i]
	o.OutOfMemory, o.held, o.by, o.physical = *e, 0, o.by[:0], 0
	o.count++
	o.unread, m.unread = e.KnownGPU, true
}

// lacked reports whether a call of a process found no memory on a GPU.
func (m *memory) lacked(of *timeline.Process) bool {
	return slices.ContainsFunc(m.failed, func(o *outOfMemory) bool { return o.Process == of })
}

// readHeld notes who held memory when calls failed. A program may try again and again: it is read once for each change.
func (m *memory) readHeld() {
	if !m.unread {
		return
	}
	m.unread = false
	for _, o := range m.failed {
		if !o.unread {
			continue
		}
		o.unread = false
		for _, h := range m.holders.List {
			if h.use != nil && h.use.process != nil && h.use.use == cudaapi.DeviceMemory && h.use.gpu == o.GPU && h.current > 0 {
				o.by, o.held = append(o.by, heldBy{h, h.current, h.since}), o.held+h.current
			}
		}
		if l := m.gpus[o.GPU]; l != nil {
			o.physical = l.physical
		}
	}
}

var outOfMemoryReport = Report{
	Name: "out_of_memory", Title: "who held the memory of a GPU when a call found none",
	needs: allocations, whyEmpty: "no call failed because there was no device memory",
	unasked: func(s *Sink) bool { return len(s.memory.failed) > 0 },
	table:   func(s *Sink, f Facts) *table.Table { return f.lacking(s.outOfMemory()) },
}

// outOfMemoryCells is a row of out_of_memory.
type outOfMemoryCells struct {
	Name    string   `key:"name" title:"call"`                             // function that failed
	GPU     *uint32  `key:"gpu" title:"GPU" rank:"4" unit:"id"`            // GPU that had no memory
	Holder  *uint32  `key:"pid" title:"process" rank:"4" unit:"id"`        // process that held memory
	Library string   `key:"library" title:"library" rank:"2"`              // as in `memory_holders`
	Python  string   `key:"python" title:"Python line" rank:"1"`           // as in `memory_holders`
	Bytes   *uint64  `key:"bytes" title:"held" rank:"1"`                   // bytes that it held, and their part of all
	Share   *float64 `key:"share" title:"share" rank:"3"`                  // =
	Since   *uint64  `key:"since_ns" title:"since" rank:"2" unit:"moment"` // since when it held some all the time
	// whether these bytes are as many as were asked for; `null` where that is not known
	Room *bool `key:"makes_room" title:"makes room" rank:"3"`
	// the failed call, the latest of `failures` of its process on this GPU: process, start, end, bytes that it asked for,
	// bytes that all held
	Failed    uint32  `key:"failed_pid" unit:"id"`
	At        uint64  `key:"failed_at_ns" unit:"moment"` // =
	Requested *uint64 `key:"requested_bytes"`            // =
	Held      uint64  `key:"held_bytes"`                 // =
	Failures  uint64  `key:"failures"`                   // =
}

func (s *Sink) outOfMemory() *table.Table {
	s.memory.readHeld()
	python := s.showsLines()
	var rows []outOfMemoryCells
	var notes []string
	for _, o := range s.memory.failed {
		slices.SortStableFunc(o.by, func(a, b heldBy) int { return cmp.Compare(b.bytes, a.bytes) })
		notes = append(notes, s.said(o, python))
		x := outOfMemoryCells{
			Name: o.Call.Name, Failed: o.Process.PID, At: s.clock.since(o.Time), Held: o.held, Failures: o.count,
		}
		if o.Bytes > 0 {
			x.Requested = &o.Bytes
		}
		if o.KnownGPU {
			x.GPU = &o.GPU
		}
		if len(o.by) == 0 {
			rows = append(rows, x)
		}
		for i := range o.by {
			h := &o.by[i]
			x.Holder, x.Library, x.Bytes, x.Share = &h.use.process.PID, h.library, &h.bytes, table.ShareOf(h.bytes, o.held)
			x.Since = new(s.clock.since(h.since))
			if python {
				x.Python = h.line
			}
			if o.Bytes > 0 {
				x.Room = new(h.bytes >= o.Bytes)
			}
			rows = append(rows, x)
		}
	}
	t := table.Of(rows)
	tellApart(t)
	t.Notes = notes
	return t
}

// usedBeside says how much more memory of the GPU was in use then, as NVML has it, and by whom.
func (s *Sink) usedBeside(o *outOfMemory) string {
	used, ok := s.metrics.usedAt(o.GPU, o.Time)
	if !ok || used <= o.held {
		return ""
	}
	text := fmt.Sprintf("; by NVML %s more were in use, of CUDA itself", table.Words(used-o.held, table.Bytes))
	others := 0
	for _, u := range s.metrics.users {
		if u.GPU != o.GPU || u.Start > o.Time || u.End < o.Time {
			continue
		}
		if others++; others > 2 {
			continue
		}
		text += " and " + OtherProcess(u.PID, u.Name)
		if u.Bytes > 0 {
			text += ", which had at most " + table.Words(u.Bytes, table.Bytes)
		}
	}
	if others > 2 {
		text += fmt.Sprintf(" and %d others", others-2)
	}
	return text
}

// said says which call failed, and what would have made room for what it asked for.
func (s *Sink) said(o *outOfMemory, python bool) string {
	bytes := func(n uint64) string { return table.Words(n, table.Bytes) }
	text := o.Call.Name
	if o.Bytes > 0 {
		text += " of " + bytes(o.Bytes)
	}
	text += fmt.Sprintf(" failed at %s in process %d", table.Words(s.clock.since(o.Time), table.Moment), o.Process.PID)
	if o.count > 1 {
		text += ", the last of " + figures.Count(o.count, "such call", "such calls")
	}
	if !o.KnownGPU {
		return text + "; on which GPU is not known"
	}
	text += fmt.Sprintf("; %s were held on GPU %d", bytes(o.held), o.GPU)
	if all := s.busy.gpus[o.GPU].Memory; all > 0 {
		text += ", which has " + bytes(all)
	}
	if o.physical > 0 {
		text += fmt.Sprintf("; %s of these are mapped by handles (cuMemCreate, PyTorch's expandable segments)",
			bytes(o.physical))
	}
	text += s.usedBeside(o)
	if o.Bytes == 0 || o.held < o.Bytes {
		return text
	}
	sum, n := uint64(0), 0
	for sum < o.Bytes {
		sum, n = sum+o.by[n].bytes, n+1
	}
	if n > 1 {
		return text + fmt.Sprintf("; the %d largest rows together would have made room", n)
	}
	h := o.by[0]
	place := cmp.Or(h.library, "an unknown place")
	if python {
		place = cmp.Or(h.line, place)
	}
	return text + fmt.Sprintf("; %s held by %s since %s would have made room", bytes(h.bytes), place,
		table.Words(s.clock.since(h.since), table.Moment))
}

package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// SummaryVersion is the version of Summary's JSON form. It grows when a field
// changes its meaning or goes; new fields leave it as it is.
const SummaryVersion = 1

// Summary is what a log holds, in numbers. Its JSON form is an interface:
// docs/info.md documents it.
type Summary struct {
	Version    int      `json:"version"`
	Program    string   `json:"program"`
	Args       []string `json:"args"` // the program's name first
	Host       string   `json:"host"`
	Kernel     string   `json:"kernel"` // the Linux release
	Recorder   string   `json:"cudatrace"`
	Start      string   `json:"start"` // RFC 3339, UTC
	DurationNS uint64   `json:"duration_ns"`
	GPUs       []string `json:"gpus"`
	Driver     string   `json:"driver_version"` // the CUDA version that the driver supports, "13.0"
	CUPTI      string   `json:"cupti_version"`
	ExitStatus int      `json:"exit_status"` // of the program; -1 when not known

	ProcessCount int           `json:"processes"`
	ThreadCount  int           `json:"threads"`
	StreamCount  int           `json:"streams"`
	ProcessList  []ProcessInfo `json:"process_list"`

	Kernels   uint64 `json:"kernels"`
	Copies    uint64 `json:"copies"`
	Sets      uint64 `json:"sets"`
	Graphs    uint64 `json:"graphs"`   // whole graphs, where their nodes were not recorded one by one
	Launches  uint64 `json:"launches"` // calls that launched kernels
	Calls     uint64 `json:"calls"`
	Failed    uint64 `json:"failed_calls"`
	Open      uint64 `json:"unfinished_calls"`
	Matched   uint64 `json:"matched"`
	Unmatched uint64 `json:"unmatched"`
	Early     uint64 `json:"early"` // GPU work that starts before its call

	Waits          uint64 `json:"waits"` // arrows from GPU work to the calls that waited for it
	WaitsAmbiguous uint64 `json:"waits_ambiguous"`
	WaitsUnmatched uint64 `json:"waits_unmatched"`

	Errors map[string]uint64 `json:"errors"` // failed calls by function and error

	Ranges          uint64 `json:"nvtx_ranges"`
	RangeMarks      uint64 `json:"nvtx_marks"`
	RangesUnmatched uint64 `json:"nvtx_unmatched"`

	OverheadNS uint64 `json:"cupti_overhead_ns"`
	PeakDevice uint64 `json:"peak_device_bytes"`

	CallCostNS uint64 `json:"call_cost_ns"`    // what a probed call cost the program, as measured when recording began; 0 when not known
	ProbesNS   uint64 `json:"probes_cost_ns"`  // that for all uprobe pairs
	RecorderNS uint64 `json:"recorder_cpu_ns"` // processor time of the recorder; 0 when not known

	Pairs      uint64 `json:"uprobe_pairs"`
	APIRecords uint64 `json:"api_records"`
	APIJoined  uint64 `json:"api_records_joined"`
	Unprobed   uint64 `json:"unprobed"`     // API records of calls that succeeded and no uprobe saw
	Alone      uint64 `json:"uncorrelated"` // calls that create GPU work, succeeded, and have no API record

	Lost     map[string]uint64 `json:"lost"`
	Complete bool              `json:"complete"`
	Reasons  []string          `json:"reasons"` // why it is not complete
	Notes    []string          `json:"notes"`

	// CompleteUntil is the time up to which nothing is missing, ns into the recording,
	// where the recording or a process ended before its last word; 0 when that is not
	// known.
	CompleteUntil uint64 `json:"complete_until_ns"`

	LeftOut *LeftOut `json:"left_out,omitempty"` // of the trace, by a filter
	Aligned string   `json:"-"`                  // how the log's clock was brought together with that of others

	// Damaged says that the log itself is cut off or damaged, or was never
	// finished; what is intact was read.
	Damaged bool `json:"damaged"`
}

// A LeftOut counts what a filter kept out of a trace.
type LeftOut struct {
	Records uint64 `json:"records"`    // events that were not taken from the log
	Of      uint64 `json:"of_records"` // events in the log; 0 when it has no index that says so
	Slices  uint64 `json:"slices"`     // slices and pieces of work that were taken, and not shown
	What    string `json:"what"`       // what was kept to fit a size; "" without one
	Unknown bool   `json:"-"`          // records were left out, and not counted
}

// ProcessInfo is one process of a Summary.
type ProcessInfo struct {
	PID     uint32   `json:"pid"`
	Name    string   `json:"name"`
	Args    []string `json:"args"`
	Threads int      `json:"threads"`
	Streams int      `json:"streams"`
	CUPTI   string   `json:"cupti"` // "on", or why there are no activity records
}

// LostTotal is the number of records known to be missing.
func (s *Summary) LostTotal() uint64 {
	var n uint64
	for _, v := range s.Lost {
		n += v
	}
	return n
}

// summarize says what a converter found; damage is that of the log.
func (c *converter) summarize(damage *tracelog.Damage) Summary {
	st, w := &c.found.stack, &c.found.work
	s := Summary{
		Version: SummaryVersion, Program: c.meta[tracelog.MetaProgram],
		Args: strings.Split(c.meta[tracelog.MetaArgs], "\x00"),
		Host: c.meta[tracelog.MetaHost], Kernel: c.meta[tracelog.MetaKernel],
		Recorder: c.meta[tracelog.MetaVersion], ExitStatus: -1,
		GPUs: []string{}, ProcessList: []ProcessInfo{}, Notes: []string{}, Reasons: []string{},
		Kernels: w.kernels, Copies: w.copies, Sets: w.sets, Graphs: w.graphs, Launches: st.launches,
		Matched: w.matched, Unmatched: w.total() - w.matched, Early: w.early,
		Calls: st.calls, Failed: st.failed, Open: st.open,
		Pairs: st.pairs, APIRecords: st.apis, APIJoined: st.joined, Unprobed: st.unseen, Alone: st.alone,
		Waits: c.found.waits.arrows, WaitsAmbiguous: c.found.waits.ambiguous, WaitsUnmatched: c.found.waits.unmatched,
		Ranges: c.found.nvtx.ranges, RangeMarks: c.found.nvtx.marks, RangesUnmatched: c.found.nvtx.unmatched,
		OverheadNS: c.found.overhead, PeakDevice: c.memoryUse.peak,
		Errors: errorCounts(st.errors), Lost: make(map[string]uint64),
	}
	c.describeRun(&s)
	c.describeCost(&s)
	c.describeProcesses(&s)
	for _, cause := range tracelog.LostCauses {
		s.Lost[cause] = 0
	}
	maps.Copy(s.Lost, c.lost)
	for _, n := range c.notes {
		if n.Severity >= tracelog.NoteWarning {
			s.Notes = append(s.Notes, n.Text)
		}
	}
	s.Notes = append(s.Notes, c.found.notes(c.memoryUse.dropped)...)
	c.judge(&s, damage)
	return s
}

// notes says what could not be shown as it was, as it would have taken too much memory to
// wait for what belongs to it.
func (f *findings) notes(allocations uint64) (notes []string) {
	if f.forced > 0 {
		notes = append(notes, fmt.Sprintf("%d calls were shown before all that may belong to them was read: arrows may be missing", f.forced))
	}
	if f.stack.late > 0 {
		notes = append(notes, fmt.Sprintf("%d calls came too late in the log to be shown where they began: they are shown later", f.stack.late))
	}
	if allocations > 0 {
		notes = append(notes, fmt.Sprintf("%d allocations are not counted: more than %d were live", allocations, maxLive))
	}
	return notes
}

// maxErrors bounds the kinds of failed call that a Summary tells apart; what comes
// after is counted together.
const maxErrors = 100

const otherErrors = "other"

// errorCounts names failures as "function: error", the frequent ones first.
func errorCounts(failures map[failure]uint64) map[string]uint64 {
	counts := make(map[string]uint64)
	order := slices.SortedFunc(maps.Keys(failures), func(a, b failure) int {
		return cmp.Or(cmp.Compare(failures[b], failures[a]), cmp.Compare(a.name, b.name), cmp.Compare(a.ret, b.ret))
	})
	for _, f := range order {
		name := f.name + ": " + resultName(f.category, f.ret)
		if _, ok := counts[name]; !ok && len(counts) >= maxErrors {
			name = otherErrors
		}
		counts[name] += failures[f]
	}
	return counts
}

func (c *converter) describeCost(s *Summary) {
	s.CallCostNS = c.metaNumber(tracelog.MetaCallCost)
	s.RecorderNS = c.metaNumber(tracelog.MetaRecorderCPU)
	if s.Pairs > 0 && s.CallCostNS < math.MaxUint64/s.Pairs { // a hostile log may hold any value
		s.ProbesNS = s.CallCostNS * s.Pairs
	}
}

// metaNumber is a number among the facts of the recording, 0 when there is none.
func (c *converter) metaNumber(key string) uint64 {
	n, err := strconv.ParseUint(c.meta[key], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *converter) describeRun(s *Summary) {
	s.DurationNS = c.last - c.first
	if at := c.clock; at.Monotonic != 0 {
		wall := int64(at.Realtime) - int64(at.Monotonic-c.first)
		s.Start = time.Unix(0, wall).UTC().Format(time.RFC3339Nano)
	}
	for _, g := range c.known.list {
		if g.Name != "" && c.uses(g.Index) {
			s.GPUs = append(s.GPUs, g.Name)
		}
	}
	for _, x := range c.cupti {
		if x.Version != 0 {
			s.CUPTI = fmt.Sprint(x.Version)
		}
		if v := x.DriverVersion; v != 0 {
			s.Driver = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
}

// uses says whether something of this log happened on a GPU.
func (c *converter) uses(gpu uint32) bool {
	for _, n := range c.known.number[c.catalog] {
		if n == gpu {
			return true
		}
	}
	return false
}

func (c *converter) describeProcesses(s *Summary) {
	status := make(map[uint32]string)
	for _, x := range c.cupti {
		status[x.PID] = x.Status
	}
	s.ProcessCount = len(c.sessions)
	for _, p := range c.sessions {
		s.ThreadCount += p.callers
		s.StreamCount += p.streams
		s.ProcessList = append(s.ProcessList, ProcessInfo{
			PID: p.pid, Name: p.Name, Args: p.Args,
			Threads: p.callers, Streams: p.streams, CUPTI: status[p.pid],
		})
		if e, ok := c.ends[p.pid]; ok && (s.ExitStatus < 0 || c.meta[tracelog.MetaPID] == fmt.Sprint(p.pid)) {
			s.ExitStatus = int(e.Status)
		}
	}
}

// judge says whether the log is complete, and if not, why.
func (l *catalog) judge(s *Summary, damage *tracelog.Damage) {
	for _, d := range damage.Errors {
		s.Reasons = append(s.Reasons, d.Error())
	}
	if more := damage.Count - len(damage.Errors); more > 0 {
		s.Reasons = append(s.Reasons, fmt.Sprintf("and %d more faults", more))
	}
	s.Damaged = damage.Count > 0
	s.Reasons = append(s.Reasons, l.untilReasons(s)...)
	if l.end != nil && l.end.Complete == 0 {
		s.Reasons = append(s.Reasons, l.end.Reason)
	}
	if s.Alone > 0 {
		s.Reasons = append(s.Reasons, fmt.Sprintf("%d calls that create GPU work have no record from CUPTI: another CUPTI client may have taken its records", s.Alone))
	}
	s.Reasons = append(s.Reasons, l.shortfall(s)...)
	if n := s.LostTotal(); n > 0 {
		s.Reasons = append(s.Reasons, "records were lost: "+LostWords(s.Lost))
	}
	if l.left > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("%d more losses and notes are not shown one by one", l.left))
	}
	s.Complete = len(s.Reasons) == 0
}

// shortfall holds the log against what the injected libraries say they handed over.
func (l *catalog) shortfall(s *Summary) (reasons []string) {
	if l.filter != nil {
		return nil // what the filter left out is not missing
	}
	var said tracelog.ProcessEnd
	for _, e := range l.ends {
		if e.Complete == 0 {
			return nil // without their last word there is nothing to compare
		}
		said.Kernels += e.Kernels
		said.Copies += e.Copies
		said.Sets += e.Sets
	}
	for _, c := range []struct {
		what      string
		said, got uint64
	}{{"kernels", said.Kernels, s.Kernels}, {"copies", said.Copies, s.Copies}, {"sets", said.Sets, s.Sets}} {
		if c.said > c.got {
			reasons = append(reasons, fmt.Sprintf("CUPTI delivered %d %s, the log holds %d", c.said, c.what, c.got))
		}
	}
	return reasons
}

// LostWords lists causes of loss with their counts, largest first.
func LostWords(lost map[string]uint64) string {
	causes := slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
		if lost[a] != lost[b] {
			return compareBool(lost[a] > lost[b], lost[b] > lost[a])
		}
		return strings.Compare(a, b)
	})
	var words []string
	for _, c := range causes {
		if lost[c] > 0 {
			words = append(words, fmt.Sprintf("%d %s", lost[c], c))
		}
	}
	return strings.Join(words, ", ")
}

// lostMark shows a loss where the time ends in which it happened.
func lostMark(x *tracelog.Lost) Mark {
	return Mark{Time: x.To, PID: x.PID, Text: fmt.Sprintf("%d records lost: %s", x.Count, x.Cause), Args: []Detail{
		{Name: "cause", Text: x.Cause},
		{Name: "count", Value: x.Count},
		{Name: detailFrom, Value: x.From},
		{Name: detailTo, Value: x.To},
	}}
}

// The time in which a loss happened, ns from the beginning of the recording.
const (
	detailFrom = "from_ns"
	detailTo   = "to_ns"
)

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

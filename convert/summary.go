package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
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

	Pairs      uint64 `json:"uprobe_pairs"`
	APIRecords uint64 `json:"api_records"`
	APIJoined  uint64 `json:"api_records_joined"`
	Unprobed   uint64 `json:"unprobed"`     // API records of calls that succeeded and no uprobe saw
	Alone      uint64 `json:"uncorrelated"` // calls that create GPU work, succeeded, and have no API record

	Lost     map[string]uint64 `json:"lost"`
	Complete bool              `json:"complete"`
	Reasons  []string          `json:"reasons"` // why it is not complete
	Notes    []string          `json:"notes"`

	// Damaged says that the log itself is cut off or damaged, or was never
	// finished; what is intact was read.
	Damaged bool `json:"damaged"`
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

func (l *loader) summarize(t *Timeline, r *tracelog.Reader, found *findings) Summary {
	st, w := &found.stack, &found.work
	s := Summary{
		Version: SummaryVersion, Program: l.meta[tracelog.MetaProgram],
		Args: strings.Split(l.meta[tracelog.MetaArgs], "\x00"),
		Host: l.meta[tracelog.MetaHost], Kernel: l.meta[tracelog.MetaKernel],
		Recorder: l.meta[tracelog.MetaVersion], ExitStatus: -1,
		GPUs: []string{}, ProcessList: []ProcessInfo{}, Notes: []string{}, Reasons: []string{},
		Kernels: w.kernels, Copies: w.copies, Sets: w.sets, Graphs: w.graphs, Launches: st.launches,
		Matched: w.matched, Unmatched: w.unmatched, Early: w.early,
		Calls: st.calls, Failed: st.failed, Open: st.open,
		Pairs: st.pairs, APIRecords: st.apis, APIJoined: st.joined, Unprobed: st.unseen, Alone: found.alone,
		Waits: found.waits.arrows, WaitsAmbiguous: found.waits.ambiguous, WaitsUnmatched: found.waits.unmatched,
		Ranges: found.nvtx.ranges, RangeMarks: found.nvtx.marks, RangesUnmatched: found.nvtx.unmatched,
		OverheadNS: found.overhead, PeakDevice: found.peak,
		Errors: errorCounts(st.errors), Lost: make(map[string]uint64),
	}
	l.describeRun(&s, t)
	l.describeProcesses(&s, t)
	for _, cause := range tracelog.LostCauses {
		s.Lost[cause] = 0
	}
	maps.Copy(s.Lost, l.lost)
	for _, n := range l.notes {
		if n.Severity >= tracelog.NoteWarning {
			s.Notes = append(s.Notes, n.Text)
		}
	}
	l.judge(&s, r)
	return s
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

func (l *loader) describeRun(s *Summary, t *Timeline) {
	s.DurationNS = t.End - t.Start
	if c := l.clock; c.Monotonic != 0 {
		wall := int64(c.Realtime) - int64(c.Monotonic-t.Start)
		s.Start = time.Unix(0, wall).UTC().Format(time.RFC3339Nano)
	}
	for _, g := range t.GPUs {
		if g.Name != "" {
			s.GPUs = append(s.GPUs, g.Name)
		}
	}
	for _, c := range l.cupti {
		if c.Version != 0 {
			s.CUPTI = fmt.Sprint(c.Version)
		}
		if v := c.DriverVersion; v != 0 {
			s.Driver = fmt.Sprintf("%d.%d", v/1000, v%1000/10)
		}
	}
}

func (l *loader) describeProcesses(s *Summary, t *Timeline) {
	status := make(map[uint32]string)
	for _, c := range l.cupti {
		status[c.PID] = c.Status
	}
	s.ProcessCount = len(t.Processes)
	for _, p := range t.Processes {
		threads := callers(p)
		s.ThreadCount += threads
		s.StreamCount += len(p.Queues)
		s.ProcessList = append(s.ProcessList, ProcessInfo{
			PID: p.PID, Name: p.Name, Args: p.Args,
			Threads: threads, Streams: len(p.Queues), CUPTI: status[p.PID],
		})
		if e, ok := l.ends[p.PID]; ok && (s.ExitStatus < 0 || l.meta[tracelog.MetaPID] == fmt.Sprint(p.PID)) {
			s.ExitStatus = int(e.Status)
		}
	}
}

// callers counts the threads that made CUDA calls.
func callers(p *Process) (n int) {
	for _, th := range p.Threads {
		if len(th.Slices) > 0 {
			n++
		}
	}
	return n
}

// judge says whether the log is complete, and if not, why.
func (l *loader) judge(s *Summary, r *tracelog.Reader) {
	damage := r.Damage()
	for _, d := range damage.Errors {
		s.Reasons = append(s.Reasons, d.Error())
	}
	if more := damage.Count - len(damage.Errors); more > 0 {
		s.Reasons = append(s.Reasons, fmt.Sprintf("and %d more faults", more))
	}
	s.Damaged = damage.Count > 0
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
	s.Complete = len(s.Reasons) == 0
}

// shortfall holds the log against what the injected libraries say they handed over.
func (l *loader) shortfall(s *Summary) (reasons []string) {
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

func lostText(x *tracelog.Lost) string {
	return fmt.Sprintf("%d records lost: %s", x.Count, x.Cause)
}

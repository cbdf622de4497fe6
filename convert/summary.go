package convert

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/join"
	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/sampled"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// SummaryVersion is the version of Summary's JSON form. It grows when a field changes its
// meaning or disappears; new fields do not change it.
const SummaryVersion = 1

// Summary describes a log in numbers. Its JSON form is an interface: docs/info.md documents it.
type Summary struct {
	Version       int               `json:"version"`
	Program       string            `json:"program"`
	Args          []string          `json:"args"` // the program's name first
	Host          string            `json:"host"`
	Kernel        string            `json:"kernel"` // the Linux release
	Folder        string            `json:"cwd"`    // working folder
	Options       string            `json:"options"`
	Git           Git               `json:"git"`
	Run           string            `json:"run"`         // identity of the run; "" without one
	Ranks         []uint32          `json:"ranks"`       // of the processes, in order
	WorldSize     uint32            `json:"world_size"`  // processes of the distributed program; 0 when not known
	Variables     map[string]string `json:"environment"` // chosen variables
	Recorder      string            `json:"cudatrace"`
	Start         string            `json:"start"` // RFC 3339, UTC
	DurationNS    uint64            `json:"duration_ns"`
	CUDANS        uint64            `json:"cuda_ns"`       // from the first call to the last end of a call or of GPU work
	AfterNS       uint64            `json:"after_cuda_ns"` // from that end to that of the recording
	GPUs          []string          `json:"gpus"`
	GPUList       []GPUInfo         `json:"gpu_list"`       // those of GPUs, with what identifies them
	Driver        string            `json:"driver_version"` // the CUDA version that the driver supports, "13.0"
	DriverRelease string            `json:"nvidia_driver"`  // of NVIDIA's kernel driver
	CUPTI         string            `json:"cupti_version"`
	ExitStatus    int               `json:"exit_status"` // of the program; -1 when not known
	// how the program ended, "exit code 3" or "signal 11 (SIGSEGV), core dumped"; "" when not known
	Ended string `json:"ended"`

	ProcessCount int           `json:"processes"`
	ThreadCount  int           `json:"threads"`
	StreamCount  int           `json:"streams"`
	ProcessList  []ProcessInfo `json:"process_list"`

	Kernels  uint64 `json:"kernels"`
	Copies   uint64 `json:"copies"`
	Memsets  uint64 `json:"sets"`
	Launches uint64 `json:"launches"` // calls that launched kernels
	// those of Launches whose kernel is unknown, in processes without GPU records
	Unnamed    uint64   `json:"launches_unnamed"`
	Calls      uint64   `json:"calls"`
	Failed     uint64   `json:"failed_calls"`
	Unfinished uint64   `json:"unfinished_calls"`
	Hangs      []string `json:"hangs"` // what the unfinished calls waited for
	Matched    uint64   `json:"matched"`
	Unmatched  uint64   `json:"unmatched"`
	Early      uint64   `json:"early"` // GPU work that starts before its call

	UnmatchedBodies uint64 `json:"unmatched_bodies"` // those of Unmatched in the bodies of conditional graph nodes

	Waits          uint64 `json:"waits"` // arrows from GPU work to the calls that waited for it
	WaitsAmbiguous uint64 `json:"waits_ambiguous"`

	Functions map[string]uint64 `json:"functions"` // calls by the function that the program called
	Errors    map[string]uint64 `json:"errors"`    // failed calls by function and error

	Callers *Callers `json:"callers"` // nil if callers were not recorded

	GraphNodes *GraphNodes `json:"graph_nodes"` // nil without work of graphs' nodes

	Ranges          uint64 `json:"nvtx_ranges"`
	RangeMarks      uint64 `json:"nvtx_marks"`
	RangesUnmatched uint64 `json:"nvtx_unmatched"`

	Communicators []CommunicatorInfo `json:"nccl_communicators"`

	OverheadNS uint64 `json:"cupti_overhead_ns"`
	PeakDevice uint64 `json:"peak_device_bytes"`
	NoMemory   string `json:"memory_not_recorded"` // why nothing is known of allocated memory; "" if it is
	// when the program may have allocated and freed unrecorded; "" where it cannot have
	MemoryUnknown string `json:"memory_unknown"`

	Metrics []sampled.GPU `json:"gpu_metrics"` // main figures of the sampled GPUs

	// cost of a probed call to the program, measured when recording began; 0 when not known
	CallCostNS uint64 `json:"call_cost_ns"`
	ProbesNS   uint64 `json:"probes_cost_ns"`  // CallCostNS times Pairs
	RecorderNS uint64 `json:"recorder_cpu_ns"` // processor time of the recorder; 0 when not known

	Pairs        uint64 `json:"uprobe_pairs"`
	APIRecords   uint64 `json:"api_records"`
	APIJoined    uint64 `json:"api_records_joined"`
	Unprobed     uint64 `json:"unprobed"`     // API records of successful calls that no uprobe saw
	Uncorrelated uint64 `json:"uncorrelated"` // successful calls that create GPU work but have no API record
	// such calls that were made after their program had handed over its last records, before it ended, and those whose
	// work had not run then
	AtEnd  uint64 `json:"at_end"`
	AtExec uint64 `json:"at_exec"` // the same, before it ran another program by exec

	Lost     map[string]uint64 `json:"lost"`
	Complete bool              `json:"complete"`
	Reasons  []string          `json:"reasons"` // why it is not complete
	// why processes may have used CUDA unrecorded and unnoticed; "" if none can have
	Unknown string   `json:"others_unknown"`
	Notes   []string `json:"notes"`

	// CompleteUntil is the time up to which nothing is missing, ns from the start of the
	// recording, where the recording or a process ended without its last message; 0 when it
	// is not known.
	CompleteUntil uint64 `json:"complete_until_ns"`

	Last *Last `json:"last"` // nil unless only the last part of a recording was kept

	Slices  uint64   `json:"slices,omitempty"`   // in the trace that was made, of all its logs together; 0 without one
	LeftOut *LeftOut `json:"left_out,omitempty"` // by a filter, from the trace

	Clock     Clock      `json:"clock"`
	Alignment *Alignment `json:"aligned"` // nil of a single log
	Aligned   string     `json:"-"`       // the same in words

	Recorded Recorded `json:"-"` // how the log was recorded

	Begin, End uint64 `json:"-"` // of the log, on the clock of the timeline

	Collectives *collective.Shown `json:"-"` // in the trace that was made, of all its logs together; nil without any

	// Damaged says that the log itself is cut off or damaged, or was never finished. The
	// intact part was read.
	Damaged bool `json:"damaged"`
}

// Clock describes the host's clocks, as far as the log tells.
type Clock struct {
	BootID string `json:"boot_id"`      // "" when not known
	Known  bool   `json:"synchronized"` // the kernel knew the error of the wall clock throughout the recording
	Error  uint64 `json:"error_ns"`     // most that the wall clock was wrong; 0 when not known
	Set    uint64 `json:"set_ns"`       // by which the wall clock was set while recording
}

// Git is the commit of the working folder; "" for what is not known.
type Git struct {
	Revision string `json:"revision"`
	Branch   string `json:"branch"`
	Remote   string `json:"remote"` // URL of "origin", without credentials
}

// Last says which part of a recording a log holds that is the last part of it.
type Last struct {
	AskedNS uint64 `json:"asked_ns"`
	HeldNS  uint64 `json:"held_ns"`
	Short   string `json:"short"`        // why less is held, although the recording has been longer; "" otherwise
	Why     string `json:"why"`          // what asked for the log
	Earlier uint64 `json:"earlier_work"` // GPU work whose call returned before this part
}

// A LeftOut counts the records and slices that a filter kept out of a trace.
type LeftOut struct {
	Records uint64 `json:"records"`        // events that were not taken from the log
	Of      uint64 `json:"of_records"`     // events in the log; 0 when it has no index with their number
	Slices  uint64 `json:"slices"`         // slices and pieces of work that were read but not shown
	NVTX    string `json:"nvtx,omitempty"` // the NVTX ranges to which the trace is limited, in words
	Unknown bool   `json:"-"`              // records were left out but not counted
}

// Callers count the calls of a log with a known and with an unknown caller.
type Callers struct {
	Known   uint64 `json:"known"`
	Unknown uint64 `json:"unknown"`
}

// Share is the percentage of calls whose caller is known.
func (c *Callers) Share() float64 {
	return 100 * float64(c.Known) / float64(max(c.Known+c.Unknown, 1))
}

// GraphNodes count the work of graphs' nodes by what is known of the call that was captured.
type GraphNodes struct {
	Named  uint64 `json:"named"`           // the call is known
	Before uint64 `json:"captured_before"` // the graph was captured before recording
	Unseen uint64 `json:"unseen"`          // the calls that made the graph were not recorded
	Unsure uint64 `json:"unsure"`          // it is not certain which call it was
}

func graphNodes(w *join.Found) *GraphNodes {
	u := &w.Work.Uncaptured
	g := GraphNodes{w.Work.Captured, u[timeline.CapturedBefore], u[timeline.CaptureUnseen], u[timeline.CaptureUnsure]}
	if g == (GraphNodes{}) {
		return nil
	}
	return &g
}

// ProcessInfo is one process of a Summary.
type ProcessInfo struct {
	PID     uint32   `json:"pid"`
	Name    string   `json:"name"`
	Args    []string `json:"args"`
	Threads int      `json:"threads"`
	Streams int      `json:"streams"`
	CUPTI   string   `json:"cupti"` // "on", or why there are no activity records
	Ended   string   `json:"ended"` // how it ended: as that of Summary, or "exec"
	Main    bool     `json:"main"`  // it is the program, or the only process that was attached to

	Rank      *RankInfo         `json:"rank"` // nil without one
	Folder    string            `json:"cwd"`
	Runtime   string            `json:"cuda_runtime"` // as far as the name of the library tells it
	NCCL      string            `json:"nccl"`
	Variables map[string]string `json:"environment"` // chosen variables
}

// A RankInfo is the rank of a process of a distributed program.
type RankInfo struct {
	Rank      uint32 `json:"rank"`
	LocalRank uint32 `json:"local_rank"`
	WorldSize uint32 `json:"world_size"` // 0 when not known
}

// CommunicatorInfo is a communicator of NCCL in a process.
type CommunicatorInfo struct {
	PID   uint32 `json:"pid"`
	Hash  string `json:"communicator"` // in hexadecimal, the same on all ranks; "" where NCCL does not tell
	Ranks uint32 `json:"ranks"`        // 0 when not known
	Rank  uint32 `json:"rank"`         // the process's in the communicator; 0 when not known
	Calls uint64 `json:"calls"`        // collectives, sends and receives
	Bytes uint64 `json:"bytes"`        // that these name
}

// GPUInfo is a GPU of a Summary. What is not known is "".
type GPUInfo struct {
	Index uint32 `json:"gpu"` // number in the trace
	Name  string `json:"name"`
	UUID  string `json:"uuid"` // as nvidia-smi shows it: GPU-...
	PCI   string `json:"pci"`  // address
}

// LostTotal is the number of records known to be missing.
func (s *Summary) LostTotal() uint64 {
	var n uint64
	for _, v := range s.Lost {
		n += min(v, math.MaxUint64-n)
	}
	return n
}

// summary makes the summary of a converted log.
func (c *conversion) summary(l *log) Summary {
	found := &l.found
	st, w := &found.Calls, &found.Work
	meta, pairs := l.catalog.Meta, st.Pairs
	if l.catalog.CallsFromCallbacks() {
		pairs = 0 // they are CUPTI's
	}
	s := Summary{
		Version: SummaryVersion, Program: meta[tracelog.MetaProgram],
		Args: read.SplitArgs(meta[tracelog.MetaArgs]),
		Host: meta[tracelog.MetaHost], Kernel: meta[tracelog.MetaKernel],
		Recorder: meta[tracelog.MetaVersion], ExitStatus: -1,
		GPUs: []string{}, GPUList: []GPUInfo{}, Ranks: []uint32{}, ProcessList: []ProcessInfo{}, Notes: []string{},
		Reasons: []string{}, Communicators: communicatorInfos(&l.catalog.Communicators),
		Kernels: w.Kernels, Copies: w.Copies, Memsets: w.Memsets, Launches: st.Launches, Unnamed: st.Unnamed,
		Matched: w.Matched, Unmatched: w.Total() - w.Matched, UnmatchedBodies: w.Bodies, Early: w.Early,
		Calls: st.Calls, Failed: st.Failed, Unfinished: st.Unfinished,
		Pairs: pairs, APIRecords: st.APIs, APIJoined: st.Joined, Unprobed: st.Unprobed, Uncorrelated: st.Uncorrelated,
		AtEnd: st.AtEnd, AtExec: st.AtExec,
		Waits: found.Waits.Arrows, WaitsAmbiguous: found.Waits.Ambiguous,
		Ranges: found.NVTX.Ranges, RangeMarks: found.NVTX.Marks, RangesUnmatched: found.NVTX.Unmatched,
		CUDANS: found.Span.Duration(), OverheadNS: found.OverheadNS, PeakDevice: found.PeakDevice,
		NoMemory:      l.catalog.WithoutMemory(),
		MemoryUnknown: l.memoryUnknown(),
		Functions:     functionCounts(st.Functions), Errors: errorCounts(st.Errors), Lost: l.catalog.Outcome.Lost(),
		Aligned: l.aligned,
		Metrics: found.Metrics, GraphNodes: graphNodes(found),
	}
	if st.CallerIDs > 0 || l.catalog.Callers.Any() {
		s.Callers = &Callers{Known: st.Located, Unknown: st.Calls - st.Located}
	}
	s.Hangs = append([]string{}, l.hangs...)
	l.describeLast(&s)
	c.describeRun(l, &s)
	l.describeCost(&s)
	l.describeProcesses(&s)
	for _, n := range l.catalog.Outcome.Notes {
		if n.Severity >= tracelog.NoteWarning {
			s.Notes = append(s.Notes, n.Text)
		}
	}
	s.Notes = append(s.Notes, found.Notes()...)
	if n := l.catalog.Communicators.Further; n > 0 {
		s.Notes = append(s.Notes, figures.Count(n, "call", "calls")+
			" of NCCL do not count in a communicator: there were too many communicators")
	}
	s.Recorded = l.recorded(&s)
	l.judge(&s)
	c.leftOut(l, &s)
	return s
}

func communicatorInfos(c *read.Communicators) []CommunicatorInfo {
	list := []CommunicatorInfo{}
	for _, x := range c.List {
		hash := ""
		if x.Hash != 0 {
			hash = fmt.Sprintf("%#x", x.Hash)
		}
		list = append(list, CommunicatorInfo{
			PID: x.PID, Hash: hash, Ranks: x.Ranks, Rank: x.Rank, Calls: x.Calls, Bytes: x.Bytes,
		})
	}
	return list
}

// leftOut counts what a filter kept out of the trace.
func (c *conversion) leftOut(l *log, s *Summary) {
	if !c.Filter.limits() {
		return
	}
	s.LeftOut = &LeftOut{Of: l.all, Slices: l.found.LeftOut, Unknown: l.filter != nil && l.all == 0}
	if !c.Filter.NVTX.None() {
		s.LeftOut.NVTX = l.rangeWords()
	}
	if l.filter != nil && l.all > 0 {
		s.LeftOut.Records = l.all - min(l.all, l.found.Taken)
	}
}

// maxErrors and maxFunctions bound the kinds of failed call and the functions in a Summary; the
// rest is counted together.
const (
	maxErrors    = 100
	maxFunctions = 1000

	others = "other"
)

// errorCounts counts failures by "function: error", the most frequent ones only.
func errorCounts(failures map[join.Failure]uint64) map[string]uint64 {
	counts := make(map[string]uint64)
	for f, n := range failures {
		counts[f.Function+": "+cudaapi.FailureName(f.Library, f.Ret)] += n
	}
	return most(counts, maxErrors)
}

// functionCounts counts calls by the name of their function.
func functionCounts(calls []join.FunctionCalls) map[string]uint64 {
	counts := make(map[string]uint64)
	for _, f := range calls {
		if f.Calls > 0 {
			counts[f.Function.Name] += f.Calls
		}
	}
	return most(counts, maxFunctions)
}

// ByCount lists the names of counts, the most frequent ones first.
func ByCount(counts map[string]uint64) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

// most returns the counts of the most frequent names, and the sum of the other counts.
func most(counts map[string]uint64, limit int) map[string]uint64 {
	if len(counts) <= limit {
		return counts
	}
	few := make(map[string]uint64)
	for i, name := range ByCount(counts) {
		n := counts[name]
		if i >= limit {
			name = others
		}
		few[name] += n
	}
	return few
}

func (l *log) describeCost(s *Summary) {
	s.CallCostNS = l.catalog.Number(tracelog.MetaCallCost)
	s.RecorderNS = l.catalog.Number(tracelog.MetaRecorderCPU)
	if s.Pairs > 0 && s.CallCostNS < math.MaxUint64/s.Pairs { // a hostile log may hold any value
		s.ProbesNS = s.CallCostNS * s.Pairs
	}
}

func (c *conversion) describeRun(l *log, s *Summary) {
	first := l.catalog.First()
	s.DurationNS = l.catalog.Last() - first
	s.AfterNS = l.catalog.Last() - min(l.catalog.Last(), l.found.Span.Last)
	if at := l.catalog.Clocks.First; at.Monotonic != 0 {
		wall := int64(at.Realtime) - int64(at.Monotonic-first)
		s.Start = time.Unix(0, wall).UTC().Format(time.RFC3339Nano)
	}
	for _, g := range c.gpus.List {
		if g.Name != "" && l.catalog.GPUs.Uses(g.Index) {
			s.GPUs = append(s.GPUs, g.Name)
			s.GPUList = append(s.GPUList, GPUInfo{Index: g.Index, Name: g.Name, UUID: figures.UUID(g.UUID), PCI: g.Link.Address})
		}
	}
	l.describeMetadata(s)
	k := &l.catalog.Clocks
	s.Clock = Clock{BootID: l.catalog.Meta[tracelog.MetaBoot], Set: k.Moved()}
	s.Clock.Error, s.Clock.Known = k.Error()
	s.Begin, s.End = l.clock.At(first), l.clock.At(l.catalog.Last())
	if len(c.logs) > 1 {
		s.Alignment = l.alignment
	}
}

// describeLast says which part of the recording the log holds. GPU work whose call is not in it is not
// without a call.
func (l *log) describeLast(s *Summary) {
	meta := l.catalog.Meta
	if meta[tracelog.MetaLast] == "" {
		return
	}
	number := l.catalog.Number
	s.Last = &Last{AskedNS: number(tracelog.MetaLast), HeldNS: number(tracelog.MetaLastHeld),
		Short: meta[tracelog.MetaLastShort], Why: meta[tracelog.MetaLastWhy],
		Earlier: min(number(tracelog.MetaLastEarlier), s.Unmatched)}
	s.Unmatched -= s.Last.Earlier
}

func (l *log) describeProcesses(s *Summary) {
	meta := l.catalog.Meta
	status := make(map[uint32]string)
	for _, x := range l.catalog.Outcome.CUPTI {
		status[x.PID] = x.Status
	}
	for _, p := range l.joined {
		s.ProcessCount++
		s.ThreadCount += p.Threads
		s.StreamCount += p.Streams
		s.ProcessList = append(s.ProcessList, ProcessInfo{
			PID: p.PID, Name: p.Name, Args: p.Args,
			Threads: p.Threads, Streams: p.Streams, CUPTI: status[p.PID], Ended: p.Exit, Main: l.isMain(p.PID),
			Rank: rankInfo(p.Rank), Folder: p.Folder, Runtime: p.Runtime, NCCL: p.NCCL, Variables: known(p.Variables),
		})
		s.addRank(p.Rank)
		if e, ok := l.catalog.Outcome.LastEnd(p.PID); ok &&
			(s.ExitStatus < 0 || meta[tracelog.MetaPID] == fmt.Sprint(p.PID)) {
			s.ExitStatus = int(e.Status)
		}
		if meta[tracelog.MetaPID] == fmt.Sprint(p.PID) { // a log that was cut off has no MetaEnded
			s.Ended = p.Exit
		}
	}
	if ended, status := l.catalog.Ended(); ended != "" {
		s.Ended, s.ExitStatus = ended, status
	}
}

// isMain reports whether a process is the program, or the only one that was attached to: of that one the log has no
// PID.
func (l *log) isMain(pid uint32) bool {
	meta := l.catalog.Meta
	return meta[tracelog.MetaPID] == fmt.Sprint(pid) || meta[tracelog.MetaPID] == "" && meta[tracelog.MetaEnded] != ""
}

// LostWords lists causes of loss with their counts, largest first.
func LostWords(lost map[string]uint64) string {
	var words []string
	for _, c := range ByCount(lost) {
		if lost[c] > 0 {
			words = append(words, figures.Group(lost[c])+" "+c)
		}
	}
	return strings.Join(words, ", ")
}

package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// besideCUDA are the losses without which calls and GPU work are whole.
var besideCUDA = []struct{ cause, one, many, why string }{
	{tracelog.LostOperators, "call has no PyTorch operators", "calls have no PyTorch operators",
		": the program has more stacks of operators than are kept"},
	{tracelog.LostOperatorSpans, "begin and end of a PyTorch operator were lost",
		"begins and ends of PyTorch operators were lost", ": operators came faster than is recorded (--memory-limit)"},
	{tracelog.LostPython, "call has no Python lines", "calls have no Python lines",
		": the program ran more code than is kept, or two threads ran new code at once"},
	{tracelog.LostMemoryCalls, "time of unknown memory calls", "times of unknown memory calls",
		": a profiler in the program had CUPTI's callbacks, and figures of memory may be wrong"},
	{tracelog.LostRanges, "NVTX range or mark is missing", "NVTX ranges and marks are missing",
		": more were open or nested, or more threads had some, than an armed program keeps"},
	{tracelog.LostTorchMemory, "block of PyTorch's memory was lost", "blocks of PyTorch's memory were lost",
		": they came faster than is recorded, and what is held may be wrong"},
	{tracelog.LostThreadStates, "state or sample of threads was lost", "states and samples of threads were lost",
		": what the threads did then is not known"},
	{tracelog.LostFunctionRate, "call of a function of a library was not recorded",
		"calls of functions of libraries were not recorded", ": they came faster than is recorded"},
	{tracelog.LostFunctionNesting, "call of a function of a library was not recorded",
		"calls of functions of libraries were not recorded", ": they were nested too deeply"},
	{tracelog.LostFunctionBuffer, "entry or return of a function of a library was lost",
		"entries and returns of functions of libraries were lost", ": the call buffers were full"},
}

// judge reports whether the log is complete, and the reasons if it is not.
func (l *log) judge(s *Summary) {
	damage, o := l.damage, &l.catalog.Outcome
	for _, d := range damage.Errors {
		s.Reasons = append(s.Reasons, d.Error())
	}
	if more := damage.Count - len(damage.Errors); more > 0 {
		s.Reasons = append(s.Reasons, "and "+figures.Count(more, "more fault", "more faults"))
	}
	s.Damaged = damage.Count > 0
	s.Reasons = append(s.Reasons, unfinishedReasons(l.catalog, s)...)
	if o.End != nil && o.End.Complete == 0 {
		s.Reasons = append(s.Reasons, o.End.Reason)
	}
	if s.Uncorrelated > 0 {
		s.Reasons = append(s.Reasons, withoutRecord(s))
	}
	if s.AtExec > 0 {
		s.Reasons = append(s.Reasons, lateCalls(s.AtExec)+"ran another program by exec")
	}
	if s.AtEnd > 0 { // the program's end ends its GPU work as well
		s.Notes = append(s.Notes, lateCalls(s.AtEnd)+"ended")
	}
	if !l.chosen.OfCalls() { // work of other calls was read, and is not counted
		s.Reasons = append(s.Reasons, shortfall(l.catalog, s)...)
	}
	lost := maps.Clone(s.Lost)
	for _, x := range besideCUDA {
		if n := lost[x.cause]; n > 0 {
			s.Notes = append(s.Notes, figures.Count(n, x.one, x.many)+x.why)
			lost[x.cause] = 0
		}
	}
	if words := LostWords(lost); words != "" {
		s.Reasons = append(s.Reasons, "records were lost: "+words)
	}
	if o.LeftOut > 0 {
		s.Notes = append(s.Notes, figures.Count(o.LeftOut, "more loss or note is", "more losses and notes are")+
			" not shown one by one")
	}
	if unknown := l.catalog.Unknown; len(unknown) > 0 {
		n := uint64(0)
		for _, records := range unknown {
			n += records
		}
		s.Notes = append(s.Notes,
			fmt.Sprintf("%s of kinds that this version of cudatrace does not know: %s; convert the log with a newer version",
				figures.Count(n, "record is left out,", "records are left out,"), strings.Join(slices.Sorted(maps.Keys(unknown)),
					", ")))
	}
	s.Complete = len(s.Reasons) == 0
	if s.Unknown = l.catalog.Meta[tracelog.MetaUnknown]; s.Unknown != "" {
		s.Notes = append(s.Notes, s.Known()+": "+s.Unknown)
	}
}

// Known says which processes a recording knows of that cannot know of all; "" of others.
func (s *Summary) Known() string {
	if s.Unknown == "" {
		return ""
	}
	text := figures.Count(s.ProcessCount, "process", "processes") + " that loaded the library; others are not known"
	if s.Complete {
		return "complete for the " + text
	}
	return "recorded are the " + text
}

// withoutRecord says why calls that create GPU work may have no record from CUPTI.
func withoutRecord(s *Summary) string {
	why := "another CUPTI client may have taken its records"
	if s.Damaged {
		why = "it may be in the part that the log lacks"
	}
	for _, cause := range []string{tracelog.LostCUPTIQueue, tracelog.LostCUPTIDropped, tracelog.LostCUPTIBuffer,
		tracelog.LostCUPTIUnreadable, tracelog.LostLogWrite, tracelog.LostTime} {
		if s.Lost[cause] > 0 {
			why = "it is among the records that were lost"
		}
	}
	return figures.Count(s.Uncorrelated, "call that creates GPU work has", "calls that create GPU work have") +
		" no record from CUPTI: " + why
}

// lateCalls begins to say what happened to a program while it still made calls.
func lateCalls(n uint64) string {
	return "the GPU work of " + figures.Count(n, "call", "calls") +
		" is missing: their program had handed over its last records before, and "
}

// shortfall compares the log with the counts that the injected libraries reported. Records that were
// lost on the way from there are among the losses.
func shortfall(c *read.Catalog, s *Summary) (reasons []string) {
	if c.Filtered() {
		return nil // records that the filter left out are not missing
	}
	var said tracelog.ProcessEnd
	for _, e := range c.Outcome.AllEnds() {
		if e.Complete == 0 {
			return nil // without the last message of a library there is nothing to compare
		}
		said.Kernels += e.Kernels
		said.Copies += e.Copies
		said.Sets += e.Sets
	}
	lost := s.Lost[tracelog.LostCUPTIQueue] + s.Lost[tracelog.LostLogWrite] + s.Lost[tracelog.LostTime]
	for _, x := range []struct {
		one, many string
		said, got uint64
	}{{"kernel", "kernels", said.Kernels, s.Kernels}, {"copy", "copies", said.Copies, s.Copies},
		{"memset", "memsets", said.Sets, s.Memsets}} {
		if x.said > x.got && x.said-x.got > lost {
			reasons = append(reasons, fmt.Sprintf("CUPTI delivered %s, the log holds %s", figures.Count(x.said, x.one, x.many),
				figures.Group(x.got)))
		}
	}
	return reasons
}

// completeUntil returns the time up to which nothing is missing, where the recording or a
// process ended without its last message; 0 when that time is not known. ok reports whether the
// recording or a process ended in this way.
func completeUntil(c *read.Catalog) (at uint64, ok bool) {
	o := &c.Outcome
	at = timeline.Never
	if o.End == nil && c.Processes.Have(tracelog.KindCall) && !c.CallsFromCallbacks() {
		at, ok = o.CallsUntil(), true
	}
	for _, pid := range c.Processes.PIDs {
		programs := c.Processes.Get(pid).Programs
		e, ended := o.EndOf(programs[len(programs)-1])
		if !o.Recorded(pid) || ended && e.Complete != 0 || !ended && o.End != nil {
			continue
		}
		ok = true
		at = min(at, o.RecordsUntil(pid))
	}
	if !ok || at == timeline.Never {
		return 0, ok || o.End == nil
	}
	return at, true
}

// unfinishedReasons says up to when an unfinished log is complete, and which processes ended
// abruptly. In a finished log the End record gives the reasons.
func unfinishedReasons(c *read.Catalog, s *Summary) (reasons []string) {
	at, cut := completeUntil(c)
	if cut && at > c.First() {
		s.CompleteUntil = min(at, c.Last()) - c.First() // a Flushed record's time may be later than the last event's
	}
	o := &c.Outcome
	if o.End != nil {
		return nil
	}
	if s.CompleteUntil > 0 {
		reasons = append(reasons, fmt.Sprintf("its recording did not finish: it is complete up to %s",
			duration(s.CompleteUntil).Round(time.Millisecond)))
	} else {
		reasons = append(reasons, "its recording did not finish: what came last may be missing")
	}
	for _, pid := range slices.Sorted(slices.Values(c.Processes.PIDs)) {
		if e, ok := o.LastEnd(pid); ok && e.Complete == 0 && e.Reason != "" && o.Recorded(pid) {
			reasons = append(reasons, fmt.Sprintf("process %d ended by %s before its last records were handed over", pid,
				e.Reason))
		}
	}
	return reasons
}

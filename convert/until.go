package convert

import (
	"fmt"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// completeUntil is the time up to which nothing is missing although the recording, or a
// process, ended before its last word. It is 0 when that is not known, and ok says whether
// there is such an end at all.
func (l *catalog) completeUntil() (at uint64, ok bool) {
	at = never
	if l.end == nil && l.hasCalls() {
		at, ok = l.flushed[0], true
	}
	for _, pid := range l.pids {
		e, ended := l.ends[pid]
		if !l.recorded(pid) || ended && e.Complete != 0 || !ended && l.end != nil {
			continue
		}
		ok = true
		at = min(at, max(e.Until, l.flushed[pid]))
	}
	if !ok || at == never {
		return 0, ok || l.end == nil
	}
	return at, true
}

func (l *catalog) hasCalls() bool {
	for _, h := range l.processes {
		if h.has&kindBit(tracelog.KindCall) != 0 {
			return true
		}
	}
	return false
}

// recorded says whether CUPTI recorded a process.
func (l *catalog) recorded(pid uint32) bool {
	on := false
	for _, x := range l.cupti {
		if x.PID == pid {
			on = x.Status == "on"
		}
	}
	return on
}

// untilReasons says of an unfinished log up to when it is complete, and whose end was
// abrupt. Of a finished one the End record says it.
func (l *catalog) untilReasons(s *Summary) (reasons []string) {
	at, cut := l.completeUntil()
	if cut && at > l.first {
		s.CompleteUntil = min(at, l.last) - l.first // flushed may be later than the last record
	}
	if l.end != nil {
		return nil
	}
	if s.CompleteUntil > 0 {
		reasons = append(reasons, fmt.Sprintf("its recording did not finish: it is complete up to %s", into(s.CompleteUntil)))
	} else {
		reasons = append(reasons, "its recording did not finish: what came last may be missing")
	}
	for _, pid := range slices.Sorted(slices.Values(l.pids)) {
		if e, ok := l.ends[pid]; ok && e.Complete == 0 && e.Reason != "" && l.recorded(pid) {
			reasons = append(reasons, fmt.Sprintf("process %d ended by %s before its last records were handed over", pid, e.Reason))
		}
	}
	return reasons
}

// into is a time into the recording in words.
func into(ns uint64) string {
	return time.Duration(min(ns, 1<<62)).Round(time.Millisecond).String()
}

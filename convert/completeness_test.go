package convert

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// TestCompleteness judges logs.
func TestCompleteness(t *testing.T) {
	t.Parallel()
	const recorded = `
process pid=1 start=1000
clock monotonic=1000 realtime=1700000000000000000 boottime=1000
cupti pid=1 version=130001 driver_version=13000 path=/x status=on
kernel pid=1 context=1 stream=7 start=2000000 dur=5 name=k
memcpy pid=1 context=1 stream=7 start=2000010 dur=5
memset pid=1 context=1 stream=7 start=2000020 dur=5
`
	const call = "function id=1 name=cuMemAlloc_v2 library=driver\ncall pid=1 tid=1 func=cuMemAlloc_v2 enter=9000000 dur=5\n"
	const finished = "process_end pid=1 time=9000000 status=0 complete=1 kernels=1 copies=1 sets=1\nend time=9000100 complete=1\n"
	for name, c := range map[string]struct {
		log     string
		reasons []string
		until   uint64 // ns into the recording
	}{
		"finished": {recorded + finished, nil, 0},
		"the End record gives a reason": {recorded + `end time=9000100 complete=0 reason="the disk was full"`,
			[]string{"the disk was full"}, 0},
		"cut off, and nothing is known": {recorded,
			[]string{"its recording did not finish: what came last may be missing"}, 0},
		"cut off, records known": {recorded + "flushed pid=1 until=2001000\n",
			[]string{"its recording did not finish: it is complete up to 2ms"}, 1_999_025},
		"cut off, calls and records known": {recorded + call + "flushed pid=1 until=6001000\nflushed pid=0 until=4001000\n",
			[]string{"its recording did not finish: it is complete up to 4ms"}, 4_000_000},
		"cut off, calls unknown": {recorded + call + "flushed pid=1 until=6001000\n",
			[]string{"its recording did not finish: what came last may be missing"}, 0},
		"cut off, without CUPTI": {strings.ReplaceAll(recorded, "cupti ", "# ") + call + "flushed pid=0 until=4001000\n",
			[]string{"its recording did not finish: it is complete up to 4ms"}, 4_000_000},
		"cut off, known beyond the last event": {recorded + call + "flushed pid=1 until=90000000\nflushed pid=0 until=90000000\n",
			[]string{"its recording did not finish: it is complete up to 9ms"}, 8_999_005},
		"a process was killed": {recorded + "process_end pid=1 time=9000000 status=137 complete=0 until=3001000 reason=\"signal 9 (SIGKILL)\"\nend time=9000100 complete=0 reason=killed\n",
			[]string{"killed"}, 3_000_000},
		"a process was killed, and the recorder too": {recorded + "process_end pid=1 time=9000000 status=137 complete=0 until=3001000 reason=\"signal 9 (SIGKILL)\"\n",
			[]string{"its recording did not finish: it is complete up to 3ms", "process 1 ended by signal 9 (SIGKILL) before its last records were handed over"}, 3_000_000},
		"a process without a last word, in a finished log": {recorded + "flushed pid=1 until=2001000\nend time=9000100 complete=1\n", nil, 0},
		"a process that CUPTI did not record was killed": {strings.ReplaceAll(recorded, "cupti ", "# ") + "process_end pid=1 time=9000000 complete=0 reason=\"signal 9 (SIGKILL)\"\n",
			[]string{"its recording did not finish: what came last may be missing"}, 0},
		"fewer records than were delivered, but one of two was killed": {recorded + "process pid=2\nprocess_end pid=2 time=9000000 complete=0 reason=killed\n" + strings.Replace(finished, "kernels=1", "kernels=3", 1), nil, 0},
		"fewer records than were delivered": {recorded + strings.Replace(finished, "kernels=1 copies=1 sets=1", "kernels=3 copies=1 sets=2", 1),
			[]string{"CUPTI delivered 3 kernels, the log holds 1", "CUPTI delivered 2 memsets, the log holds 1"}, 0},
		"more records than were delivered": {recorded + strings.Replace(finished, "kernels=1", "kernels=0", 1), nil, 0},
		"losses": {recorded + "lost cause=ring_buffer count=5\nlost cause=ring_buffer count=2\nlost cause=cupti_dropped count=9\n" + finished,
			[]string{"records were lost: 9 cupti_dropped, 7 ring_buffer"}, 0},
		"losses beside calls and GPU work": {recorded + "lost cause=python_stacks count=5\nlost cause=thread_states count=2\nlost cause=function_rate count=3\n" + finished, nil, 0},
		"calls without records": {recorded + "function id=1 name=cuLaunchKernel library=driver\ncall pid=1 tid=1 func=cuLaunchKernel enter=3000000 dur=5\n" + finished,
			[]string{"1 call that creates GPU work has no record from CUPTI: another CUPTI client may have taken its records"}, 0},
		"calls whose records were lost": {recorded + "function id=1 name=cuLaunchKernel library=driver\ncall pid=1 tid=1 func=cuLaunchKernel enter=3000000 dur=5\nlost cause=cupti_queue count=3\n" + strings.Replace(finished, "copies=1", "copies=4", 1),
			[]string{"1 call that creates GPU work has no record from CUPTI: it is among the records that were lost", "records were lost: 3 cupti_queue"}, 0},
		"more records are missing than were lost": {recorded + "lost cause=log_write count=2\n" + strings.Replace(finished, "copies=1", "copies=4", 1),
			[]string{"CUPTI delivered 4 copies, the log holds 1", "records were lost: 2 log_write"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, s := timelineOf(t, textLog(t, c.log))
			if s.Damaged != !finishedLog(c.log) || s.Complete != (len(s.Reasons) == 0) || s.CompleteUntil != c.until {
				t.Errorf("damaged %t, complete %t, until %d; want %d", s.Damaged, s.Complete, s.CompleteUntil, c.until)
			}
			if s.Damaged {
				if !strings.HasPrefix(s.Reasons[0], "the log ends at byte ") {
					t.Errorf("the first reason is %q", s.Reasons[0])
				}
				s.Reasons = s.Reasons[1:]
			}
			if !slices.Equal(s.Reasons, c.reasons) {
				t.Errorf("reasons are %q, want %q", s.Reasons, c.reasons)
			}
		})
	}
}

func finishedLog(text string) bool { return strings.Contains(text, "\nend ") }

// textLog returns a log that is finished only if its text has an End record.
func textLog(t *testing.T, text string) logtest.Opener {
	t.Helper()
	if finishedLog(text) {
		return logtest.Assemble(t, text)
	}
	g := logtest.NewGrowing(t)
	g.Append(text)
	return logtest.InMemory(g.Bytes())
}

// What a filter leaves out is not missing.
func TestShortfallOfFilter(t *testing.T) {
	t.Parallel()
	open := logtest.Assemble(t, `
process pid=1
cupti pid=1 version=130001 status=on
kernel pid=1 context=1 stream=7 start=2000 dur=5 name=k
kernel pid=1 context=1 stream=8 start=2000 dur=5 name=k
process_end pid=1 time=9000 complete=1 kernels=2
end time=9000 complete=1`)
	for _, f := range []Filter{{}, {Streams: []uint32{7}}, {Name: "x"}} {
		all, err := Timeline([]Log{{"test", open}}, Options{Filter: f}, nil)
		if err != nil || !all[0].Complete {
			t.Errorf("%+v: %q, %v", f, all[0].Reasons, err)
		}
	}
}

// Many faults are counted.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	g := logtest.NewGrowing(t)
	g.Append("process pid=1")
	log := bytes.Clone(g.Bytes())
	const faults = 100
	for i := range faults {
		from := g.Len()
		g.Append(fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=5", 100+10*i))
		block := bytes.Clone(g.Bytes()[from:])
		block[len(block)-1] ^= 1
		log = append(log, block...)
	}
	end := g.Len()
	g.Finish(tracelog.End{Time: 5000, Complete: 1})
	log = append(log, g.Bytes()[end:]...)
	_, s := timelineOf(t, logtest.InMemory(log))
	n := len(s.Reasons)
	if n < 3 || !s.Damaged || s.Complete {
		t.Fatalf("damaged %t, complete %t, %q", s.Damaged, s.Complete, s.Reasons)
	}
	var more int
	if _, err := fmt.Sscanf(strings.ReplaceAll(s.Reasons[n-1], ",", ""), "and %d more faults", &more); err != nil || n-1+more < faults {
		t.Errorf("%d reasons, of which the last is %q", n, s.Reasons[n-1])
	}
}

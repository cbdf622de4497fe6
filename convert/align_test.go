package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/internal/timelinetest"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
)

// joinedTimelines makes one timeline of logs, which are called a, b and so on.
func joinedTimelines(t testing.TB, o Options, texts ...string) (*timelinetest.Timeline, []Summary) {
	t.Helper()
	var logs []Log
	for i, text := range texts {
		logs = append(logs, Log{string(rune('a' + i)), logtest.Assemble(t, text)})
	}
	return timelineWith(t, o, logs...)
}

// oneCall is a log of a call at a time. Without a monotonic time it has no reading of clocks.
func oneCall(host string, enter, monotonic, realtime, boottime uint64) string {
	log := fmt.Sprintf("meta key=host value=%s\nprocess pid=1\ncall pid=1 tid=1 func=#1 enter=%d dur=5\n", host, enter)
	if monotonic != 0 {
		log += fmt.Sprintf("clock monotonic=%d realtime=%d boottime=%d\n", monotonic, realtime, boottime)
	}
	return log
}

// Clocks of logs come together: those of one host are one, others meet through wall clocks,
// and the timeline has the clock of the host that started first.
func TestAlign(t *testing.T) {
	t.Parallel()
	const noon = 1_700_000_000_000_000_000
	for name, c := range map[string]struct {
		logs    []string
		calls   []uint64 // their times
		clock   timeline.Recording
		aligned []string // how each log was moved
	}{
		"one log": {
			[]string{oneCall("n1", 2000, 1000, noon, 1100)}, []uint64{2000},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1100, Start: 1000, LastStart: 1000, Processes: 1}, []string{""}},
		"one log without clocks": {
			[]string{oneCall("n1", 2000, 0, 0, 0)}, []uint64{2000}, timeline.Recording{Start: 2000, LastStart: 2000, Processes: 1}, []string{""}},
		"one host": {
			[]string{oneCall("n1", 2000, 1000, noon, 1000), oneCall("n1", 90_000, 80_000, noon+79_000, 80_000)}, []uint64{2000, 90_000},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1000, Start: 1000, LastStart: 80_000, Processes: 2},
			[]string{"", "same host as a: the clock is the same"}},
		"one host, whose wall clock was set": {
			[]string{oneCall("n1", 2000, 1000, noon, 1000), oneCall("n1", 90_000, 80_000, noon+79_000+sameBoot, 80_000)}, []uint64{2000, 90_000},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1000, Start: 1000, LastStart: 80_000, Processes: 2},
			[]string{"", "same host as a: the clock is the same"}},
		"one host, restarted": {
			[]string{oneCall("n1", 2000, 1000, noon, 1000), oneCall("n1", 2000, 1000, noon+sameBoot+1, 1000)}, []uint64{2000, 2001 + sameBoot},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1000, Start: 1000, Processes: 2},
			[]string{"", "moved by 1m0.000000001s against a through the wall clocks of n1 and n1"}},
		"one host, by its time since boot another run of it": {
			[]string{oneCall("n1", 2000, 1000, noon, 1000), oneCall("n1", 2000, 1000, noon+1, 1002+sameBoot)}, []uint64{2000, 2001},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1000, Start: 1000, Processes: 2},
			[]string{"", "moved by 1ns against a through the wall clocks of n1 and n1"}},
		"two hosts, the second started first": {
			[]string{oneCall("n1", 2000, 1000, noon, 1000), oneCall("n2", 52_000, 51_000, noon+300, 51_000)}, []uint64{51_700, 52_000},
			timeline.Recording{Monotonic: 51_000, Realtime: noon + 300, Boottime: 51_000, Start: 50_700, Processes: 2},
			[]string{"moved by 49.7µs against b through the wall clocks of n1 and n2", ""}},
		"one of two without clocks": {
			[]string{oneCall("n1", 2000, 0, 0, 0), oneCall("n2", 5000, 1000, noon, 1000)}, []uint64{2000, 5000},
			timeline.Recording{Monotonic: 1000, Realtime: noon, Boottime: 1000, Start: 1000, Processes: 2},
			[]string{"it has no reading of the clocks: its times are shown as they are", ""}},
		"both without clocks": {
			[]string{oneCall("n1", 2000, 0, 0, 0), oneCall("n1", 1500, 0, 0, 0)}, []uint64{2000, 1500}, timeline.Recording{Start: 1500, Processes: 2},
			[]string{"", "it has no reading of the clocks: its times are shown as they are"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl, all := joinedTimelines(t, Options{}, c.logs...)
			goldentest.Same(t, &c.clock, tl.Recording, "the clock")
			for i, p := range tl.Processes {
				if at := p.Threads[0].Slices[0].Start; at != c.calls[i] {
					t.Errorf("the call of log %d is at %d, want %d", i, at, c.calls[i])
				}
			}
			for i := range all {
				if got := all[i].Aligned; !strings.HasPrefix(got, c.aligned[i]) || c.aligned[i] == "" && got != "" {
					t.Errorf("log %d was aligned so: %q, want %q", i, got, c.aligned[i])
				}
			}
		})
	}
}

// Logs of one boot have one clock, whatever their containers are called and however the wall clock was set. Those of
// several boots have not.
func TestAlignByBoot(t *testing.T) {
	t.Parallel()
	const boot = "meta key=boot_id value=%s\n"
	_, all := joinedTimelines(t, Options{},
		fmt.Sprintf(boot, "b1")+oneCall("pod-1", 2000, 1000, 1_000_000, 1000),
		fmt.Sprintf(boot, "b1")+oneCall("pod-2", 2000, 1500, 900_000_000_000, 1500),
		fmt.Sprintf(boot, "b2")+oneCall("pod-1", 2000, 1000, 1_000_700, 1000),
		oneCall("pod-1", 2000, 1000, 1_000_000, 1000)) // without a boot ID
	for i, want := range []Alignment{
		{To: "a", By: BySameClock, Known: true}, {To: "a", By: BySameClock, Known: true},
		{To: "a", By: ByWallClocks, ShiftNS: 700}, {To: "a", By: BySameClock, Known: true},
	} {
		goldentest.Same(t, &want, all[i].Alignment, "log %d", i)
	}
	if _, one := joinedTimelines(t, Options{}, oneCall("n", 2000, 1000, 1_000_000, 1000)); one[0].Alignment != nil {
		t.Errorf("a single log is aligned: %+v", one[0].Alignment)
	}
}

// The errors of the wall clocks that the kernels know bound the error of the alignment.
func TestAlignByKnownErrors(t *testing.T) {
	t.Parallel()
	log := func(host string, realtime, maxError uint64) string {
		return fmt.Sprintf("meta key=boot_id value=%s\n", host) + fmt.Sprintf("meta key=host value=%s\nprocess pid=1\ncall pid=1 tid=1 func=#1 enter=2000 dur=5\n"+
			"clock monotonic=1000 realtime=%d boottime=1000 spread=200 max_error=%d\n", host, realtime, maxError)
	}
	for _, c := range []struct {
		errors [2]uint64
		want   Alignment
		says   string
	}{
		{[2]uint64{1_200_000, 400_000}, Alignment{To: "a", By: ByWallClocks, ShiftNS: 5000, Known: true, ErrorNS: 1_600_200},
			"moved by 5µs against a through the wall clocks of n2 and n1, right to 1.6 ms as the kernels of both say"},
		{[2]uint64{1_200_000, 0}, Alignment{To: "a", By: ByWallClocks, ShiftNS: 5000},
			"moved by 5µs against a through the wall clocks of n2 and n1: right to what these differ by (about a millisecond with NTP; that of n2 was not synchronized), and they moved by up to 0s while recording"},
		{[2]uint64{0, 1000}, Alignment{To: "a", By: ByWallClocks, ShiftNS: 5000},
			"moved by 5µs against a through the wall clocks of n2 and n1: right to what these differ by (about a millisecond with NTP; that of n1 was not synchronized), and they moved by up to 0s while recording"},
		{[2]uint64{0, 0}, Alignment{To: "a", By: ByWallClocks, ShiftNS: 5000},
			"moved by 5µs against a through the wall clocks of n2 and n1: right to what these differ by (about a millisecond with NTP; neither was synchronized), and they moved by up to 0s while recording"},
	} {
		tl, all := joinedTimelines(t, Options{}, log("n1", 1_000_000, c.errors[0]), log("n2", 1_005_000, c.errors[1]))
		if diff := cmp.Diff(&c.want, all[1].Alignment); diff != "" || all[1].Aligned != c.says {
			t.Errorf("errors %d: says %q, want %q (-want +got):\n%s", c.errors, all[1].Aligned, c.says, diff)
		}
		if got := tl.Metadata[1].Values["clock"]; got != c.says {
			t.Errorf("the trace says %q", got)
		}
	}
}

// A host whose clock is ahead is moved back.
func TestAlignBackByCollectives(t *testing.T) {
	t.Parallel()
	f := &collective.ClockFit{Clock: timeline.Shifted(uint64(1<<64 - 4_000_000_050_000)), Shift: -4_000_000_050_000, Drift: -1.5, Error: 900, Among: 900, Collectives: 20, Lines: 1}
	a, text, _ := new(host).byFit(f, Alignment{To: "a", By: ByNothing}, "")
	if want := "moved by -1h6m40.00005s and -1.500 ppm against a through 20 collectives: right to 0.9 µs"; text != want || a.ShiftNS != f.Shift {
		t.Errorf("%q of %+v, want %q", text, a, want)
	}
}

// What is told of clocks that met says how far they may be wrong.
func TestAlignedSays(t *testing.T) {
	t.Parallel()
	const moving = "clock monotonic=9000 realtime=%d boottime=9000\n"
	_, all := joinedTimelines(t, Options{},
		oneCall("n1", 2000, 1000, 1_000_000, 1000)+fmt.Sprintf(moving, 1_008_000+40),
		oneCall("n2", 2000, 1000, 3_000_000, 1000)+fmt.Sprintf(moving, 3_008_000-2))
	const want = "moved by 2ms against a through the wall clocks of n2 and n1: right to what these differ by (about a millisecond with NTP), and they moved by up to 42ns while recording"
	if all[1].Aligned != want {
		t.Errorf("said is %q, want %q", all[1].Aligned, want)
	}
}

// Numbers of processes and threads that several logs have are moved apart.
func TestPIDsOfSeveralLogs(t *testing.T) {
	t.Parallel()
	log := func(pid, tid uint32) string {
		return fmt.Sprintf("meta key=host value=n\nprocess pid=%d exe=/bin/app args=app\ncall pid=%[1]d tid=%d func=#1 enter=100 dur=5\n", pid, tid)
	}
	for name, c := range map[string]struct {
		logs []string
		want string
	}{
		"no number is another's": {[]string{log(1, 1), log(2, 2)}, "1/1 app, 2/2 app"},
		"the same process":       {[]string{log(1, 1), log(1, 1), log(1, 1)}, "1/1 app, 4194305/4194305 app (n, PID 1), 8388609/8388609 app (n, PID 1)"},
		"the same thread":        {[]string{log(1, 5), log(2, 5)}, "1/5 app, 4194306/4194309 app (n, PID 2)"},
		"a process is a thread":  {[]string{log(1, 2), log(2, 3)}, "1/2 app, 4194306/4194307 app (n, PID 2)"},
		"only one of three":      {[]string{log(1, 1), log(2, 2), log(1, 3)}, "1/1 app, 2/2 app, 4194305/4194307 app (n, PID 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tl, all := joinedTimelines(t, Options{}, c.logs...)
			var got []string
			for i, p := range tl.Processes {
				got = append(got, fmt.Sprintf("%d/%d %s", p.PID, p.Threads[0].TID, p.Name))
				if pid := all[i].ProcessList[0].PID; pid > 2 {
					t.Errorf("the summary of log %d has PID %d", i, pid)
				}
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("processes are %s, want %s", strings.Join(got, ", "), c.want)
			}
		})
	}
}

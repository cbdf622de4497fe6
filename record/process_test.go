package record

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ranks"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// says is the hello of a process at a time.
func (ps *processes) says(pid uint32, start procfs.StartTime, at, request uint64) *recordedProcess {
	return ps.hello(&listener{peer: cupti.Peer{PID: pid, BufferRequest: request}, at: at}, start)
}

// ends is the end of a process as its library tells of it.
func endOfProcess(e tracelog.ProcessEnd) cupti.End { return cupti.End{ProcessEnd: e} }

var stateNames = []string{"met", "attaching", "recorded", "unrecorded", "ending", "ended"}

// TestTransitions holds the table of a process's life against the one of docs/architecture.md, cell by cell, and against the
// rules that it has to follow.
func TestTransitions(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../docs/architecture.md"))(t)
	_, table, _ := strings.Cut(string(page), "<!-- life -->\n")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	if len(lines) != 2+len(transitions) {
		t.Fatalf("the page has a table of %d lines", len(lines))
	}
	for from, to := range transitions {
		row := fmt.Sprintf("| %s |", stateNames[from])
		for _, s := range to {
			cell := " |"
			if int(s) != from {
				cell = " " + stateNames[s] + " |"
			}
			row += cell
		}
		if got := lines[2+from]; got != row {
			t.Errorf("the page says\n%s\nthe code\n%s", got, row)
		}
	}
	for from := range transitions {
		for s, to := range transitions[from] {
			switch {
			case step(s) == stepEnd && to != isEnded, state(from) == isEnded && to != isEnded:
				t.Errorf("%s, step %d: an end is not the last state", stateNames[from], s)
			case state(from) == isEnding && to != isEnding && to != isEnded:
				t.Errorf("ending, step %d: it comes to life again as %s", s, stateNames[to])
			}
		}
	}
}

// A model says of a process what a reader of the log would expect.
type modelled struct {
	pid         uint32
	from, until uint64
	ended, left bool
	complete    bool
}

// TestRandomLives has processes meet, run other programs, vanish and end in random order, with PIDs that are used again. Each
// moment of a PID has the owner that it has in a model, no process is stuck, and each program whose last records are missing has
// one reason.
func TestRandomLives(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		if !randomLives(t, seed) {
			t.Errorf("seed %d", seed)
		}
	}
}

func randomLives(t *testing.T, seed uint64) bool {
	random := rand.New(rand.NewPCG(seed, 0))
	var ps processes
	var all []*recordedProcess
	model := map[*recordedProcess]*modelled{}
	current := map[uint32]*modelled{}
	starts := map[uint32]procfs.StartTime{}
	last := map[uint32]*recordedProcess{}
	now := uint64(0)
	follow := func(p *recordedProcess, left bool) {
		if p == last[p.pid] {
			return // it was attached to by PID, and armed; or its rank is known
		}
		if before := current[p.pid]; before != nil {
			before.until = now
		}
		current[p.pid] = &modelled{pid: p.pid, from: now, left: left}
		model[p], last[p.pid] = current[p.pid], p
		all = append(all, p)
	}
	for range 200 {
		now += 1 + random.Uint64N(3)
		pid := 1 + random.Uint32N(5)
		p := last[pid]
		switch random.IntN(9) {
		case 0: // another process has the PID
			starts[pid]++
			follow(ps.says(pid, starts[pid], now, now), false)
		case 1: // exec
			follow(ps.says(pid, starts[pid], now, now), false)
		case 2: // by PID
			starts[pid]++
			follow(ps.begin(pid, starts[pid], now), false)
		case 3:
			ps.leave(pid, starts[pid], now, ranks.Rank{Number: pid, Known: true})
			follow(ps.latest[pid], true)
		case 4:
			if p != nil {
				p.step(stepAttach)
			}
		case 5:
			if p != nil {
				p.step(stepAnswer)
			}
		case 6:
			if p != nil {
				p.depart(stepVanish, now)
			}
		default:
			if len(all) > 0 {
				q := all[random.IntN(len(all))] // not the last one always: an end may come late
				if m := model[q]; q.listener != nil && !m.ended {
					m.ended, m.complete = true, random.IntN(2) == 0
					e := tracelog.ProcessEnd{PID: q.pid, Time: now}
					if m.complete {
						e.Complete = 1
					}
					q.finish(endOfProcess(e), probe.Exit{})
				} else if q.listener != nil {
					q.finish(endOfProcess(tracelog.ProcessEnd{PID: q.pid, Time: now, Complete: 1}), probe.Exit{}) // told twice
				}
			}
		}
	}
	good := true
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		good = false
	}
	for at := range now + 2 {
		for pid := range starts {
			var owner *recordedProcess
			for p, m := range model {
				if m.pid == pid && m.from <= at && (m.until == 0 || at < m.until) {
					owner = p
				}
			}
			if got := ps.owner(pid, at); got != owner {
				fail("at %d the owner of %d is %+v, not %+v", at, pid, got, owner)
			}
		}
	}
	reasons := 0
	for p, m := range model {
		if m.until != 0 && p.state != isEnding && p.state != isEnded {
			fail("%+v is stuck in the state %s", p.identity, stateNames[p.state])
		}
		if m.ended != (p.state == isEnded) && p.listener != nil {
			fail("%+v: state %s, ended %t", p.identity, stateNames[p.state], m.ended)
		}
		if !m.left && !m.complete && p.listener != nil {
			reasons++
		}
	}
	ends, missing := ps.lastWords(func(uint32) (probe.Exit, bool) { return probe.Exit{}, false }, now)
	want := reasons
	if reasons > maxCut {
		want = maxCut + 1
	}
	if len(ends) != len(ps.chosen()) || len(missing) != want {
		fail("%d ends of %d programs, %d reasons of %d", len(ends), len(ps.chosen()), len(missing), reasons)
	}
	return good
}

// Who registers with CUPTI by another key than ours is another client, in its process alone.
func TestRegistered(t *testing.T) {
	said := 0
	s := &session{calls: &calls{source: CallsCUPTI}, server: &cupti.Server{}, report: &report{log: newLog(t), say: func(string) { said++ }}}
	one, other := s.says(10, 1, 5, 0x1000), s.says(20, 1, 5, 0x2000)
	registered{10, 0x1000, 6}.take(s)
	if one.otherClient || other.otherClient {
		t.Error("our own registration is not told from another client's")
	}
	s.taken(other)
	s.taken(other)
	s.later.Wait()
	if one.otherClient || !other.otherClient || said != 1 {
		t.Errorf("another client is not seen once, and in its process alone; %d lines", said)
	}
	status{one, tracelog.CUPTI{PID: 10, Status: "on"}}.take(s)
	if !one.recorded || other.recorded {
		t.Error("it is not known which process CUPTI records")
	}
}

// A program that is attached to by PID may become a CUPTI client: its records were never
// ours, so nothing is said, and nothing that does not exist is asked.
func TestOtherClientInAttachedProcess(t *testing.T) {
	said := 0
	s := &session{report: &report{log: newLog(t), say: func(string) { said++ }}}
	s.begin(1, 1, 1)
	registered{1, 0x1000, 2}.take(s)
	registered{2, 0x1000, 2}.take(s)
	if said != 0 || len(s.report.missing.list()) != 0 {
		t.Errorf("%d lines were said, missing %q", said, s.report.missing.list())
	}
}

// Which processes' last records are missing, by how each one ended.
func TestLastRecords(t *testing.T) {
	exits := map[uint32]probe.Exit{
		3: {Reason: "signal 9 (SIGKILL)", Status: 137, Final: true},
		4: {Reason: "exec", Status: -1},
	}
	seen := func(pid uint32) (probe.Exit, bool) {
		x, ok := exits[pid]
		return x, ok
	}
	var ps processes
	var all []*recordedProcess
	for pid := range uint32(8) {
		if pid == 5 {
			p := ps.begin(pid, 1, 1)
			p.step(stepAttach)
			p.step(stepAnswer)
			all = append(all, p)
			continue
		}
		all = append(all, ps.says(pid, 1, 1, 1))
	}
	all[6].otherClient = true
	all[1].finish(endOfProcess(tracelog.ProcessEnd{PID: 1, Complete: 1, Kernels: 3}), probe.Exit{})
	all[2].finish(endOfProcess(tracelog.ProcessEnd{PID: 2, Time: 5e9, Until: 3e9, Reason: "_exit"}), probe.Exit{})
	all[4].finish(endOfProcess(tracelog.ProcessEnd{PID: 4, Reason: "exec"}), probe.Exit{})
	if live := ps.which((*recordedProcess).runs); len(live) != 5 || slices.Contains(live, 1) || !ps.worked() {
		t.Errorf("live %v, worked %v", live, ps.worked())
	}
	want := []string{
		"process 0 has not handed over its last records",
		"process 2 ended before its last records were handed over, by _exit: GPU work of its last 2s may be missing " +
			"(the default --calls, with the rights for probes, has _exit and exec wait for them)",
		"process 3 ended before its last records were handed over, by signal 9 (SIGKILL)",
		"process 4 ended before its last records were handed over, by exec",
		"process 7 has not handed over its last records",
	}
	if _, got := ps.lastWords(seen, 0); !slices.Equal(got, want) {
		t.Errorf("missing:\n%s", strings.Join(got, "\n"))
	}
	for pid := range uint32(7) {
		ps.says(50+pid, 1, 1, 1).finish(cupti.End{ProcessEnd: tracelog.ProcessEnd{PID: 50 + pid}, Absent: "they waited"}, probe.Exit{})
	}
	if _, got := ps.lastWords(seen, 0); got[len(got)-1] != "7 processes are not recorded (50, 51, 52, 53, 54, ...): they waited" {
		t.Errorf("with some that are not recorded:\n%s", strings.Join(got, "\n"))
	}
	for pid := range uint32(3) {
		ps.says(100+pid, 1, 1, 1)
	}
	if _, got := ps.lastWords(seen, 0); len(got) != maxCut+2 || got[maxCut] != "likewise 3 more processes" {
		t.Errorf("of many, missing:\n%s", strings.Join(got, "\n"))
	}
}

// Why a program was not asked for its last records is said: nothing notices its end in time, or it is traced.
func TestUnasked(t *testing.T) {
	t.Parallel()
	var ps processes
	for i, seen := range []probe.Exit{{Reason: "status 3", Time: 2}, {Reason: "_exit", Time: 2, Traced: true}, {Reason: "status 3", Time: 3, Exec: 2}, {Reason: "status 3", Time: 2}} {
		p := ps.says(uint32(i), 1, 1, 1)
		p.asked = i < 2
		p.finish(endOfProcess(tracelog.ProcessEnd{PID: p.pid}), seen)
	}
	want := []string{
		"process 0 ended before its last records were handed over, by _exit",
		"process 1 ended before its last records were handed over, by _exit (a tracer, such as strace or gdb, keeps it from being asked for them)",
		"process 2 ended before its last records were handed over, by exec (the default --calls, with the rights for probes, has _exit and exec wait for them)",
		"process 3 ended before its last records were handed over, by _exit",
	}
	none := func(uint32) (probe.Exit, bool) { return probe.Exit{}, false }
	if _, got := ps.lastWords(none, 0); !slices.Equal(got, want) {
		t.Errorf("missing:\n%s", strings.Join(got, "\n"))
	}
	// The kernel may tell of the end only when the library has been gone for a while; wait(2) alone does not tell _exit and exec apart.
	ps.all[3].seen = probe.Exit{}
	for at, by := range map[uint64]string{2: ", by _exit", 0: ""} {
		last := func(pid uint32) (probe.Exit, bool) {
			return probe.Exit{Reason: "status 3", Time: at, Final: true}, pid == 3
		}
		_, got := ps.lastWords(last, 0)
		if want := "process 3 ended before its last records were handed over" + by; got[3] != want {
			t.Errorf("seen at %d: %s", at, got[3])
		}
	}
}

// TestOneReason finishes processes whose last records are missing: each has one reason, the most exact one.
func TestOneReason(t *testing.T) {
	t.Parallel()
	var ps processes
	for id := range uint32(4) {
		p := ps.says(100+id, 1, 1, 1)
		e := cupti.End{ProcessEnd: tracelog.ProcessEnd{PID: p.pid, Status: -1}, Cut: id == 1}
		if id == 2 {
			e.Absent = "why"
		}
		p.otherClient = id == 3
		p.finish(e, probe.Exit{})
	}
	_, got := ps.lastWords(func(uint32) (probe.Exit, bool) { return probe.Exit{}, false }, 0)
	if len(got) != 2 || !strings.HasPrefix(got[0], "process 100 ended before") || !slices.Contains(got, "1 process is not recorded (102): why") {
		t.Errorf("reasons %q", got)
	}
}

// The program that a process runs after an exec has the exit code of the process, and the one before has not. A sign of an end
// that was seen before a program began is not its own.
func TestEndsOfGenerations(t *testing.T) {
	t.Parallel()
	var ps processes
	first := ps.says(7, 1, 10, 1)
	second := ps.says(7, 1, 20, 1)
	if first.state != isEnding || first.generation != 1 || second.generation != 2 || ps.latest[7] != second {
		t.Errorf("%+v, %+v", first, second)
	}
	s := &session{processes: ps}
	ended{first, cupti.End{ProcessEnd: tracelog.ProcessEnd{PID: 7, Time: 21, Complete: 1}}, probe.Exit{Reason: "exec", Time: 15}}.take(s)
	ended{second, cupti.End{ProcessEnd: tracelog.ProcessEnd{PID: 7, Time: 30, Complete: 1}}, probe.Exit{Reason: "exec", Time: 15}}.take(s)
	ends, _ := ps.lastWords(func(uint32) (probe.Exit, bool) {
		return probe.Exit{Reason: "status 3", Status: 3, Time: 31, Final: true}, true
	}, 40)
	second.state = isEnding
	second.finish(cupti.End{}, probe.Exit{Reason: "signal 9 (SIGKILL)", Time: 35, Final: true}) // that of the third, whose hello comes late
	third := ps.says(7, 1, 40, 1)
	if third.next != nil || second.reason() != "exec" {
		t.Errorf("%+v", second)
	}
	if ends[0].Reason != "exec" || ends[0].Status == 3 || ends[1].Reason != "" || ends[1].Status != 3 {
		t.Errorf("ends %+v", ends)
	}
}

// Delay and duration count from the moment at which the first process goes on, however long it has waited for its probes.
func TestDurationBegins(t *testing.T) {
	t.Parallel()
	s := &session{opts: Options{Duration: time.Hour}, calls: newCalls(Options{}, nil, nil), over: make(chan struct{})}
	close(s.over) // no loop takes what is posted
	reply := make(chan cupti.GoConfig, 1)
	f := &listener{session: s, peer: cupti.Peer{PID: 1}, at: 1}
	hello{f, 1, reply}.take(s)
	p := f.process
	p.overdue = time.NewTimer(time.Hour)
	if p.state != isMet || s.ends != nil {
		t.Errorf("state %d, and the duration has begun: %t", p.state, s.ends != nil)
	}
	p.step(stepAttach)
	located{p, []cupti.Candidate{{Path: "x"}}, nil, ""}.take(s)
	attached{p, 0, 0}.take(s)
	s.workers.Wait()
	if c := <-reply; p.state != isRecorded || s.ends == nil || len(c.Candidates) != 1 {
		t.Errorf("state %d, %+v", p.state, c)
	}
}

// Each process has epochs of its own, and so has each program that a process runs. What is left of an epoch that is over
// has no caller.
func TestEpochsOfPeers(t *testing.T) {
	s := &session{}
	at := uint64(0)
	begin := func(pid uint32) *listener {
		at++
		f := &listener{session: s, peer: cupti.Peer{PID: pid}, at: at}
		f.sites.epoch = func(begins bool) uint64 {
			if begins {
				return s.epochs.Add(1)
			}
			return 0
		}
		s.hello(f, 1)
		f.sites.renew()
		return f
	}
	now := func(pid uint32) uint64 { return s.epochOf(pid) }
	number := func(f *listener, own uint64) uint64 {
		n, ok := f.sites.epochOf(own)
		if ok != (n != 0) {
			t.Errorf("epoch %d, %t", n, ok)
		}
		return n
	}
	if now(1) != 0 || number(&listener{sites: sites{epoch: func(bool) uint64 { return 0 }}}, firstEpoch) != 0 {
		t.Error("a process has an epoch before its hello")
	}
	one := begin(1)
	first := now(1)
	other := begin(2)
	if got := number(one, firstEpoch); first == 0 || got != first {
		t.Errorf("epoch %d, then %d when another process begins", first, got)
	}
	quiet := number(other, firstEpoch)
	second := number(one, firstEpoch+1)
	if second <= first || now(1) != second || number(one, firstEpoch) != 0 || number(other, firstEpoch) != quiet || quiet == first {
		t.Errorf("epochs %d and %d of one process, %d of the other", first, second, quiet)
	}
	next := begin(1)
	if now := now(1); now <= second || number(one, firstEpoch+1) != second || number(next, firstEpoch) != now {
		t.Errorf("epoch %d of a program, %d of the next one", second, now)
	}
	one.process.finish(cupti.End{}, probe.Exit{})
	if now(1) == 0 {
		t.Error("the end of a program is that of the next one")
	}
	next.process.finish(cupti.End{}, probe.Exit{})
	other.process.finish(cupti.End{}, probe.Exit{})
	if now(1) != 0 || now(2) != 0 {
		t.Error("a process has an epoch after its end")
	}
}

// The epoch of a probed process is known once the prober has numbered it, even if no chain of a call has come.
func TestEpochOfProbes(t *testing.T) {
	number := uint64(0)
	s := sites{epoch: func(begins bool) uint64 {
		if begins {
			t.Error("an epoch begins by asking for its number")
		}
		return number
	}}
	before := s.now()
	number = 7
	if after := s.now(); before != 0 || after != 7 {
		t.Errorf("epoch %d, then %d", before, after)
	}
}

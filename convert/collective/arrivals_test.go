package collective

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A toldParts is a sink that writes down what it is told of.
type toldParts struct{ lines []string }

func (s *toldParts) Take(events []timeline.Event) error {
	for _, e := range events {
		for _, w := range e.(*timeline.WorkList).List {
			s.lines = append(s.lines, arrivalLine(w.Part))
		}
	}
	return nil
}

func (s *toldParts) End(error) error { return nil }

func arrivalLine(p *timeline.Part) string {
	if p == nil {
		return "none"
	}
	text := fmt.Sprintf("%d/%d of %d", p.Communicator, p.Number, p.Ranks)
	if p.Last != "" {
		text += fmt.Sprintf(", %s at %d, waited %d", p.Last, p.Entered, p.Waited)
	}
	if p.Doubt > 0 {
		text += fmt.Sprintf(" +-%d", min(p.Doubt, 1e9))
	}
	if p.Awaits {
		text += " certainly"
	}
	return text
}

// allReduce is the kernel of an all-reduce.
var allReduce = &timeline.Shape{Kernel: timeline.KernelShape{Name: "_Z27ncclDevKernel_AllReduce_Sumv"}}

// A part is when a rank entered a collective and left it.
type part struct{ start, end uint64 }

func key(pid, stream uint32) Key {
	return Key{PID: pid, Place: Place{Context: 1, Stream: stream}}
}

// meet returns what is told of the parts of ranks, which are one communicator.
func meet(parts [][]part, clocks []Member, waits bool, room uint64) ([]string, *Arrivals) {
	var members []*Member
	for r := range parts {
		m := clocks[r]
		m.Key, m.Name, m.Count = key(uint32(r), 7), fmt.Sprintf("rank %d", r), uint64(len(parts[r]))
		members = append(members, &m)
	}
	t := newArrivals([][]*Member{members}, room)
	for r, list := range parts {
		for n, p := range list {
			t.AddPart(members[r], uint64(n), p.start, waits)
		}
	}
	t.Settle()
	s := new(toldParts)
	for r, list := range parts {
		stream := &timeline.Stream{ID: 7, Context: &timeline.Context{ID: 1, Process: &timeline.Process{PID: uint32(r)}}}
		work := &timeline.WorkList{Stream: stream}
		for _, p := range list {
			work.List = append(work.List, timeline.Work{Start: p.start, Dur: p.end - p.start, Shape: allReduce})
		}
		_ = t.Sink(s).Take([]timeline.Event{work})
	}
	return s.lines, t
}

func TestParts(t *testing.T) {
	t.Parallel()
	exact := new(timeline.Clock)
	exact.Bound(timeline.ClockBound{})
	same := []Member{{Clock: exact}, {Clock: exact}, {Clock: exact}}
	other := func(known bool, ns uint64) []Member {
		clock := new(timeline.Clock)
		if known {
			clock.Bound(timeline.ClockBound{Error: ns})
		}
		return []Member{{Clock: exact}, {Clock: clock}, {Clock: exact}}
	}
	two := [][]part{{{10_000, 90_000}}, {{50_000, 91_000}}}
	for name, c := range map[string]struct {
		parts  [][]part
		clocks []Member
		waits  bool
		room   uint64
		want   string
		found  Shown
	}{
		"one host": {two, same, true, maxParts, "0/0 of 2, rank 1 at 50000, waited 40000 certainly; 0/0 of 2, rank 1 at 50000, waited 0",
			Shown{Communicators: 1, Collectives: 1, Waits: 1}},
		"nobody has to wait": {two, same, false, maxParts, "0/0 of 2; 0/0 of 2", Shown{Communicators: 1, Collectives: 1}},
		"at one time": {[][]part{{{10_000, 90_000}}, {{11_000, 90_000}}}, same, true, maxParts,
			"0/0 of 2, rank 1 at 11000, waited 1000; 0/0 of 2, rank 1 at 11000, waited 0", Shown{Communicators: 1, Collectives: 1}},
		"hosts whose clocks are right": {two, other(true, 30_000), true, maxParts,
			"0/0 of 2, rank 1 at 50000, waited 40000 certainly; 0/0 of 2, rank 1 at 50000, waited 0", Shown{Communicators: 1, Collectives: 1, Waits: 1}},
		"hosts whose clocks are not": {two, other(true, 40_000), true, maxParts,
			"0/0 of 2, rank 1 at 50000, waited 40000 +-40000; 0/0 of 2, rank 1 at 50000, waited 0 +-40000", Shown{Communicators: 1, Collectives: 1, Waits: 1, Doubtful: 1}},
		"hosts whose clocks nobody knows": {two, other(false, 0), true, maxParts,
			"0/0 of 2, rank 1 at 50000, waited 40000 +-1000000000; 0/0 of 2, rank 1 at 50000, waited 0 +-1000000000", Shown{Communicators: 1, Collectives: 1, Waits: 1, Doubtful: 1}},
		"a clock that is wrong": {[][]part{{{10_000, 20_000}}, {{50_000, 91_000}}}, other(true, 10), true, maxParts,
			"0/0 of 2, rank 1 at 50000, waited 40000; 0/0 of 2, rank 1 at 50000, waited 0", Shown{Communicators: 1, Collectives: 1, Waits: 1, Doubtful: 1}},
		"the last one is certain for its own host": {[][]part{{{10_000, 90_000}}, {{40_000, 91_000}}, {{50_000, 91_000}}}, other(true, 20_000), true, maxParts,
			"0/0 of 3, rank 2 at 50000, waited 40000 +-20000 certainly; 0/0 of 3, rank 2 at 50000, waited 10000 +-20000; 0/0 of 3, rank 2 at 50000, waited 0 +-20000",
			Shown{Communicators: 1, Collectives: 1, Waits: 2, Doubtful: 1}},
		"a rank that ends early": {[][]part{{{10_000, 90_000}, {100_000, 150_000}}, {{50_000, 91_000}}}, same, true, maxParts,
			"0/0 of 2, rank 1 at 50000, waited 40000 certainly; 0/1 of 1; 0/0 of 2, rank 1 at 50000, waited 0", Shown{Communicators: 1, Collectives: 2, Waits: 1}},
		"too many": {[][]part{{{1, 9}, {10_000, 90_000}}, {{2, 9}, {50_000, 91_000}}}, same, true, 2,
			"none; 0/1 of 2, rank 1 at 50000, waited 40000 certainly; none; 0/1 of 2, rank 1 at 50000, waited 0", Shown{Communicators: 1, Collectives: 2, Untold: 1, Waits: 1}},
	} {
		lines, table := meet(c.parts, c.clocks, c.waits, c.room)
		goldentest.Same(t, c.want, strings.Join(lines, "; "), "%s", name)
		if table.Shown != c.found {
			t.Errorf("%s: found %+v, want %+v", name, table.Shown, c.found)
		}
	}
}

// What is no kernel of a communicator is told of nothing, and a kernel without times neither.
func TestOthers(t *testing.T) {
	t.Parallel()
	m := []*Member{{Key: key(1, 7), Count: 1}, {Key: key(2, 7), Count: 1}}
	table := NewArrivals([][]*Member{m})
	for _, x := range m {
		table.AddPart(x, 0, 100, true)
	}
	table.Settle()
	s := new(toldParts)
	context := &timeline.Context{ID: 1, Process: &timeline.Process{PID: 1}}
	sink := table.Sink(s)
	_ = sink.Take([]timeline.Event{
		&timeline.WorkList{Stream: &timeline.Stream{ID: 8, Context: context}, List: []timeline.Work{{Start: 100, Shape: allReduce}}},
		&timeline.WorkList{Stream: &timeline.Stream{ID: 7, Context: context}, List: []timeline.Work{{Start: 100, Kind: timeline.MemcpyWork, Shape: allReduce},
			{Start: 99, Shape: allReduce}, {Start: 100, Untimed: true, Shape: allReduce}, {Start: 100, Unfinished: true, Shape: allReduce}, {Start: 100, Shape: allReduce}}},
	})
	if got := strings.Join(s.lines, " "); got != "none none none none none 0/0 of 2" {
		t.Errorf("told: %s", got)
	}
}

// A noted is a sink that keeps the notes.
type noted struct{ notes []timeline.Note }

func (s *noted) Take(events []timeline.Event) error {
	for _, e := range events {
		if n, ok := e.(*timeline.Note); ok {
			s.notes = append(s.notes, *n)
		}
	}
	return nil
}

func (*noted) End(err error) error { return err }

// Kernels that send and receive beyond the bound have no part, and are counted in a note.
func TestSendsBound(t *testing.T) {
	t.Parallel()
	table := NewArrivals(nil)
	table.Sends = mostSends - 1
	shape := &timeline.Shape{Kernel: timeline.KernelShape{Name: "ncclDevKernel_SendRecv"}}
	var to noted
	s := table.Sink(&to)
	of := &timeline.Stream{Context: &timeline.Context{Process: new(timeline.Process)}}
	w := timeline.Work{Kind: timeline.KernelWork, Shape: shape, Start: 10}
	list := []timeline.Work{w, w}
	list[1].Start = 20
	must.Do(t, errors.Join(s.Take([]timeline.Event{&timeline.WorkList{Stream: of, List: list}}), s.End(nil)))
	if list[0].Part == nil || list[1].Part != nil {
		t.Errorf("parts %v and %v, want one", list[0].Part, list[1].Part)
	}
	text := "1 kernel that sends and receives is not shown as such: there were more than 1,048,576"
	goldentest.Same(t, []timeline.Note{{Time: 20, Text: text}}, to.notes, "notes")
}

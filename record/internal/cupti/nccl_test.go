package cupti

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// ncclCalls is a sink that keeps what NCCL says, and the beginnings of its ranges.
type ncclCalls struct {
	*tally
	calls  []tracelog.NCCLCall
	ranges []tracelog.Marker
}

func (s *ncclCalls) Add(r tracelog.Record) {
	s.tally.Add(r)
	switch r := r.(type) {
	case *tracelog.NCCLCall:
		s.calls = append(s.calls, *r)
	case *tracelog.Marker:
		if r.Flags&tracelog.MarkerStart != 0 && r.Domain == "NCCL" {
			s.ranges = append(s.ranges, *r)
		}
	}
}

const (
	hash   = tracelog.NCCLCommunicator
	number = tracelog.NCCLBytes
	mib    = 1 << 20
	world  = 0xfe0b4ef3716d7af0
	part   = 0xccd1b5f98467a3b9
)

// ncclRound is what the test program does in a round, and at its end.
var ncclRound, ncclEnd = []tracelog.NCCLCall{
	{Name: "ncclAllReduce", Known: hash | number, Communicator: world, Bytes: 1 * mib},
	{Name: "ncclAllGather", Known: hash | number, Communicator: world, Bytes: 2 * mib},
	{Name: "ncclAllGather", Known: hash | number, Communicator: world, Bytes: 2 * mib},
	{Name: "ncclAllReduce", Known: hash | number, Communicator: world, Bytes: 4 * mib},
	{Name: "ncclBroadcast", Known: hash | number, Communicator: part, Bytes: 8 * mib},
	{Name: "ncclSend", Known: hash | number, Communicator: world, Bytes: 16 * mib},
	{Name: "ncclRecv", Known: hash | number, Communicator: world, Bytes: 16 * mib},
}, []tracelog.NCCLCall{
	{Name: "ncclCommDestroy", Known: hash | tracelog.NCCLRanks, Communicator: part, Ranks: 2, Rank: 1},
	{Name: "ncclCommDestroy", Known: hash | tracelog.NCCLRanks, Communicator: world, Ranks: 2, Rank: 1},
}

// asKnown are calls of which only some facts are known.
func asKnown(calls []tracelog.NCCLCall, known uint32) []tracelog.NCCLCall {
	calls = slices.Clone(calls)
	for i := range calls {
		c := &calls[i]
		if c.Known &= known; c.Known&hash == 0 {
			c.Communicator = 0
		}
		if c.Known&number == 0 {
			c.Bytes = 0
		}
		if c.Known&tracelog.NCCLRanks == 0 {
			c.Ranks, c.Rank = 0, 0
		}
	}
	return calls
}

// TestSimulatedNCCL holds what arrives of NCCL's payloads against the calls: since NCCL 2.26 all is known, before that
// the bytes are, and of what NCCL never writes nothing is.
func TestSimulatedNCCL(t *testing.T) {
	t.Parallel()
	const rounds = 3
	for form, test := range []struct {
		name  string
		known uint32
		times int // a call is made
	}{{"hash", ^uint32(0), 1}, {"old", number, 1}, {"count", number, 1}, {"broken", 0, 6 - 1}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := &ncclCalls{tally: newTally()}
			s := newStage(t, Options{Sink: c}, GoConfig{})
			s.tally = c.tally
			s.runSim(t, "nccl", "nccl", []string{"RANK=1", "WORLD_SIZE=2"}, "-n", fmt.Sprint(rounds), "-f", fmt.Sprint(form))
			var want []tracelog.NCCLCall
			for range rounds {
				for _, call := range asKnown(ncclRound, test.known) {
					want = append(want, slices.Repeat([]tracelog.NCCLCall{call}, test.times)...)
				}
			}
			want = append(want, asKnown(ncclEnd, test.known)...)
			checkNCCLTimes(t, c)
			for i := range c.calls {
				c.calls[i].PID, c.calls[i].TID, c.calls[i].Time = 0, 0, 0
			}
			if diff := cmp.Diff(want, c.calls); diff != "" {
				t.Error(diff)
			}
			if len(s.lost) != 0 || len(s.notes) != 0 {
				t.Errorf("%v was lost, notes %q", s.lost, s.notes)
			}
		})
	}
}

// TestSimulatedNCCLNames has more names than the library remembers: it says so, once, and the ranges are there.
func TestSimulatedNCCLNames(t *testing.T) {
	t.Parallel()
	c := &ncclCalls{tally: newTally()}
	s := newStage(t, Options{Sink: c}, GoConfig{})
	s.tally = c.tally
	s.runSim(t, "nccl", "nccl", nil, "-x", "512")
	if len(c.calls) != 0 || len(c.ranges) == 0 {
		t.Errorf("%d calls, %d ranges", len(c.calls), len(c.ranges))
	}
	const want = "of some calls of NCCL communicator and bytes are not known: more than 8 copies of NCCL, or more than 512 names of calls"
	if len(s.notes) != 1 || !strings.Contains(fmt.Sprint(s.notes[0]), want) {
		t.Errorf("notes are %q, want %q", s.notes, want)
	}
}

// checkNCCLTimes checks that each call is followed by its range, on the same thread and with the same name.
func checkNCCLTimes(t *testing.T, c *ncclCalls) {
	t.Helper()
	byTime := func(a, b tracelog.Marker) int { return int(int64(a.Time - b.Time)) }
	slices.SortFunc(c.ranges, byTime)
	for _, call := range c.calls {
		i, _ := slices.BinarySearchFunc(c.ranges, call.Time, func(m tracelog.Marker, at uint64) int { return int(int64(m.Time - at)) })
		if i == len(c.ranges) || c.ranges[i].TID != call.TID || c.ranges[i].Name != call.Name {
			t.Fatalf("no range follows %+v", call)
		}
	}
}

// TestSimulatedNCCLRange has recording limited to a range of another domain: both kinds of function of ours are in the
// table.
func TestSimulatedNCCLRange(t *testing.T) {
	t.Parallel()
	c := &ncclCalls{tally: newTally()}
	s := newStage(t, Options{Sink: c, Within: pattern.Ranges{Name: "ncclBroadcast", Domain: "NCCL"}}, GoConfig{})
	s.tally = c.tally
	s.runSim(t, "nccl", "nccl", nil)
	if len(c.calls) != 10 || c.calls[0].Name != "ncclBroadcast" {
		t.Errorf("%d calls arrived: %+v", len(c.calls), c.calls)
	}
}

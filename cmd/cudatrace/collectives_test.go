package main

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
)

// What a conversion says of the collectives in its trace.
func TestCollectivesWords(t *testing.T) {
	t.Parallel()
	if got, want := collectives(&collective.Shown{Communicators: 1, Collectives: 2}, true), "2 collectives of NCCL in 1 communicator: in the part that is shown ranks waited for the last one 0 times"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for want, f := range map[string]*collective.Shown{
		"": nil,
		"1 collective of NCCL in 1 communicator: ranks waited for the last one 1 time": {Communicators: 1, Collectives: 1, Waits: 1},
		"1,200 collectives of NCCL in 3 communicators: ranks waited for the last one 3,000 times, of which 1 has no arrow: the clocks of their hosts may be wrong by more than the wait": {
			Communicators: 3, Collectives: 1200, Waits: 3000, Doubtful: 1},
		"9,000 collectives of NCCL in 1 communicator: ranks waited for the last one 0 times; the oldest 5,000 collectives are without arrows: they are too many": {
			Communicators: 1, Collectives: 9000, Untold: 5000},
		"4 kernels send and receive, and have no arrows: nothing tells which belong together":                                                                               {Sends: 4},
		"1 collective of NCCL in 1 communicator: ranks waited for the last one 1 time; 1 kernel sends and receives, and has no arrows: nothing tells which belong together": {Communicators: 1, Collectives: 1, Waits: 1, Sends: 1},
	} {
		if got := collectives(f, false); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

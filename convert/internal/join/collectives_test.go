package join

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert/collective"
	"github.com/cudatrace/cudatrace/convert/logtest"
)

// CollectiveParts gives every part of the ranks, also of collectives that their streams do not keep. Those of one number are of one collective: none
// ends before the other has begun.
func TestCollectiveParts(t *testing.T) {
	t.Parallel()
	const steps = 3000
	logs := logtest.WriteRanks(t, logtest.Ranks{Hosts: 1, PerHost: 2, Steps: steps, Straggler: -1})
	sources := make(map[*collective.Sequence]*CollectiveSource)
	var streams []*collective.Sequence
	for _, l := range logs {
		s := &CollectiveSource{Open: logtest.InMemory(l.Data), Of: 2}
		list, err := ReadCollectives(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list {
			sources[x] = s
		}
		streams = append(streams, list...)
	}
	found := collective.Match(streams)
	if len(found) != 2 || found[0].Step() == 1 {
		t.Fatalf("%d communicators, want that of the host and that of all, with more collectives than are kept", len(found))
	}
	for _, c := range found {
		all := make(map[*collective.Sequence][]collective.Part)
		for _, m := range c.Members {
			err := CollectiveParts(sources[m], []*collective.Sequence{m}, func(of *collective.Sequence, number uint64, p collective.Part) {
				if of != m || number != uint64(len(all[m])) {
					t.Fatalf("part %d comes as part %d of %v", len(all[m]), number, of.Key)
				}
				all[m] = append(all[m], p)
			})
			if err != nil || len(all[m]) != steps {
				t.Errorf("%v: %d parts: %v", m.Key, len(all[m]), err)
			}
		}
		one, other := all[c.Members[0]], all[c.Members[1]]
		for i, p := range one {
			if !p.Waits || p.End < other[i].Start || other[i].End < p.Start {
				t.Fatalf("part %d: %v and %v", i, p, other[i])
			}
		}
	}
	if err := CollectiveParts(&CollectiveSource{}, nil, nil); err != nil {
		t.Errorf("no stream is looked for, and the log is read: %v", err)
	}
}

package convert

import (
	"fmt"
	"slices"
	"testing"
)

// identitiesOf are the logs of ranks, with a second of time each.
func identitiesOf(world uint32, numbers ...uint32) (logs []Identity) {
	for _, r := range numbers {
		logs = append(logs, Identity{Name: fmt.Sprintf("rank%d", r), Run: "r1", Ranks: []uint32{r}, World: world, Begin: 5e9, End: 6e9, Aligned: true})
	}
	return logs
}

func TestRosterLines(t *testing.T) {
	t.Parallel()
	change := func(logs []Identity, i int, f func(l *Identity)) []Identity {
		f(&logs[i])
		return logs
	}
	for name, c := range map[string]struct {
		logs []Identity
		want []string
	}{
		"all":                  {identitiesOf(3, 0, 1, 2), nil},
		"one log":              {identitiesOf(8, 0), nil},
		"number not known":     {identitiesOf(0, 0, 5), nil},
		"one is missing":       {identitiesOf(8, 0, 1, 2, 3, 4, 6, 7), []string{"rank 5 of 8 is not among the logs"}},
		"several are missing":  {identitiesOf(8, 0, 3), []string{"ranks 1-2, 4-7 of 8 are not among the logs"}},
		"left out on purpose":  {change(identitiesOf(8, 0, 3), 1, func(l *Identity) { l.Chosen = true }), nil},
		"of another run":       {change(identitiesOf(3, 0, 1, 2, 2), 3, func(l *Identity) { l.Run, l.Name = "r2", "odd" }), []string{"odd is of another run, r2: the others are of r1"}},
		"of a run not known":   {change(identitiesOf(3, 0, 1, 2), 0, func(l *Identity) { l.Run = "" }), nil},
		"twice":                {change(identitiesOf(3, 0, 1, 2, 2), 3, func(l *Identity) { l.Name = "copy" }), []string{"rank 2 is in several logs, rank2 and copy: are they of one run?"}},
		"ends early":           {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6 }), []string{"rank1 ends 400.0 ms before the others: rank 1"}},
		"ends a little early":  {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 40e6 }), nil},
		"within the error":     {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6; l.Error = 380e6 }), nil},
		"clock not known":      {change(identitiesOf(3, 0, 1, 2), 1, func(l *Identity) { l.End -= 400e6; l.Aligned = false }), nil},
		"without ranks":        {[]Identity{{Name: "a"}, {Name: "b"}}, nil},
		"many in several logs": {append(identitiesOf(5, 0, 1, 2, 3, 4), identitiesOf(5, 0, 1, 2, 3, 4)...), []string{"rank 0 is in several logs, rank0 and rank0: are they of one run?", "rank 1 is in several logs, rank1 and rank1: are they of one run?", "rank 2 is in several logs, rank2 and rank2: are they of one run?", "2 more ranks are in several logs"}},
	} {
		if got := RosterLines(c.logs); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

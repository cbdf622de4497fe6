package convert

import (
	"fmt"
	"testing"
)

func TestRuns(t *testing.T) {
	t.Parallel()
	at := func(begin uint64, run string, world uint32, ranks ...uint32) Identity {
		return Identity{Run: run, Ranks: ranks, World: world, Begin: begin, End: begin + 10, Aligned: true}
	}
	unknown := at(0, "", 2, 1)
	unknown.Aligned = false
	for name, c := range map[string]struct {
		logs []Identity
		want string
	}{
		"none":                               {nil, "[]"},
		"one run":                            {[]Identity{at(0, "a", 3, 2), at(1, "a", 3, 0), at(2, "a", 3, 1)}, "[[0 1 2]]"},
		"clocks of hosts that differ":        {[]Identity{at(0, "a", 2, 0), at(1000, "a", 2, 1)}, "[[0 1]]"},
		"two runs":                           {[]Identity{at(0, "a", 2, 0), at(0, "b", 2, 0), at(0, "a", 2, 1), at(0, "b", 2, 1)}, "[[0 2] [1 3]]"},
		"several runs of one job":            {[]Identity{at(0, "a", 2, 0), at(1, "a", 2, 1), at(50, "a", 2, 1), at(51, "a", 2, 0)}, "[[0 1] [2 3]]"},
		"a job that runs one process":        {[]Identity{at(0, "a", 1, 0), at(1, "a", 1, 0)}, "[[0] [1]]"},
		"a job that runs no ranks":           {[]Identity{at(0, "a", 0), at(1, "a", 0)}, "[[0] [1]]"},
		"no name, at one time":               {[]Identity{at(0, "", 2, 0), at(5, "", 2, 1), at(30, "", 2, 0), at(31, "", 2, 1)}, "[[0 1] [2 3]]"},
		"no name, a rank of each run":        {[]Identity{at(0, "", 2, 0), at(30, "", 2, 1)}, "[[0] [1]]"},
		"no name, and a clock is not known":  {[]Identity{at(0, "", 2, 0), unknown}, "[[0] [1]]"},
		"numbers of ranks that differ":       {[]Identity{at(0, "a", 2, 0), at(0, "a", 3, 1)}, "[[0] [1]]"},
		"a log of several ranks":             {[]Identity{at(0, "a", 4, 0, 1), at(0, "a", 4, 2, 3)}, "[[0 1]]"},
		"the same rank at one time":          {[]Identity{at(0, "a", 2, 0), at(1, "a", 2, 0)}, "[[0] [1]]"},
		"a number of ranks that is not told": {[]Identity{at(0, "a", 0, 0), at(0, "a", 0, 1)}, "[[0 1]]"},
	} {
		if got := fmt.Sprint(RunsOf(c.logs)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

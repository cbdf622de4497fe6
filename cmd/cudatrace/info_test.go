package main

import (
	"testing"

	"github.com/cudatrace/cudatrace/convert"
)

// Nobody reads that nothing was lost beside a log that is not complete.
func TestLostRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		convert.Summary
		want string
	}{
		{convert.Summary{Complete: true}, "nothing"},
		{convert.Summary{Complete: false}, "nothing was counted, but records may be missing"},
		{convert.Summary{Lost: map[string]uint64{"a": 1<<64 - 1, "b": 5}}, "18,446,744,073,709,551,615 records: " + lostByCause(map[string]uint64{"a": 1<<64 - 1, "b": 5})},
	} {
		if got := lostRow(c.Summary); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

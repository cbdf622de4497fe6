package read

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// callLine is a call of the text form.
func callLine(function int, args ...uint64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "call pid=1 tid=1 func=#%d enter=1 args:", function)
	for _, v := range args {
		fmt.Fprintf(&b, " a=%d", v)
	}
	return b.String() + "\n"
}

// argumentsOf returns the arguments of all calls of a log, in its order, from one table.
func argumentsOf(t testing.TB, table *argumentTable, open logtest.Opener) (list []*timeline.Arguments) {
	t.Helper()
	var c argumentColumns
	for r := openLog(t, open); r.Next(); {
		if b := r.Block(); b.Kind == tracelog.KindCall {
			c.open(b)
			for i := range b.N {
				list = append(list, table.row(&c, i))
			}
		}
	}
	return list
}

// Equal argument lists are one value; lists that differ in anything are several.
func TestEqualArguments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		calls []string // each is a part of the log
		want  string   // the number of each list
	}{
		{"no arguments", []string{callLine(1), callLine(1)}, "0 0"},
		{"lists of a block", []string{callLine(1, 5, 6) + callLine(1, 5, 7) + callLine(1, 5, 6)}, "1 2 1"},
		{"lists of several blocks", []string{callLine(1, 5, 6) + callLine(1, 5, 7), callLine(1, 5, 7) + callLine(1, 5, 6)}, "1 2 2 1"},
		{"lists of several functions", []string{callLine(1, 5, 6), callLine(2, 5, 6)}, "1 1"},
		{"blocks that differ in what their calls have in common", []string{callLine(1, 5, 6), callLine(1, 5, 7), callLine(1, 5, 6)}, "1 2 1"},
		{"zeros that one list has and another does not", []string{callLine(1, 5) + callLine(1, 5, 0), callLine(1, 5, 0, 0)}, "1 2 3"},
		{"an argument is not counted that is not recorded", []string{"call pid=1 tid=1 func=#1 enter=1 nargs=1 args: a=5\n" + callLine(1, 5)}, "1 1"},
		{"more arguments than a call can have", []string{"call pid=1 tid=1 func=#1 nargs=40 enter=1\n", callLine(1, make([]uint64, tracelog.MaxArgs)...)}, "1 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			list := argumentsOf(t, new(argumentTable), logtest.Parts(t, test.calls...))
			var ids []string
			values := make(map[uint64]*timeline.Arguments)
			for _, a := range list {
				ids = append(ids, fmt.Sprint(a.ID))
				if v := values[a.ID]; v != nil && v != a {
					t.Errorf("two lists have number %d", a.ID)
				}
				values[a.ID] = a
			}
			if got := strings.Join(ids, " "); got != test.want {
				t.Errorf("the lists have the numbers %s, want %s", got, test.want)
			}
		})
	}
}

// Whatever arguments calls have, and however many lists were forgotten meanwhile, a call has
// its own; lists that are remembered stay one value.
func TestArgumentsAreTheCalls(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]struct{ values, nargs int }{
		"few values":                        {3, 2},
		"many values, in the log as bytes":  {200, 1},
		"more values than bytes can tell":   {5000, 1},
		"many columns":                      {2, tracelog.MaxArgs},
		"more lists than are remembered":    {1 << 40, 3},
		"columns with dictionaries of each": {60, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, 2))
			var parts []string
			var want [][]uint64
			for range 6 {
				var text strings.Builder
				for range 4000 {
					args := make([]uint64, shape.nargs)
					for i := range args {
						args[i] = uint64(rnd.IntN(shape.values)) * 0x1000
					}
					if rnd.IntN(20) == 0 {
						args = args[:rnd.IntN(len(args))]
					}
					want = append(want, args)
					text.WriteString(callLine(1, args...))
				}
				parts = append(parts, text.String())
			}
			list := argumentsOf(t, new(argumentTable), logtest.Parts(t, parts...))
			ids := make(map[uint64]*timeline.Arguments)
			for i, a := range list {
				if !slices.Equal(a.Args, want[i]) {
					t.Fatalf("call %d has the arguments %d, want %d", i, a.Args, want[i])
				}
				if v := ids[a.ID]; v != nil && v != a {
					t.Fatalf("two lists have number %d", a.ID)
				}
				ids[a.ID] = a
			}
			for id := range uint64(len(ids)) {
				if ids[id] == nil {
					t.Fatalf("no list has number %d of %d", id, len(ids))
				}
			}
			if few := shape.values < 10 && shape.nargs < 3; few && len(ids) > 13 {
				t.Errorf("%d lists were made of 13", len(ids))
			}
		})
	}
}

// A list that comes again and again stays one value while thousands of others come once.
func TestArgumentsStay(t *testing.T) {
	t.Parallel()
	const n = 3 * recentArguments
	var text strings.Builder
	for i := range uint64(n) {
		text.WriteString(callLine(1, 7, 7) + callLine(1, i<<20, i))
	}
	made := make(map[*timeline.Arguments]bool)
	for i, a := range argumentsOf(t, new(argumentTable), logtest.Parts(t, text.String())) {
		if i%2 == 0 {
			made[a] = true
		}
	}
	if len(made) > 20 {
		t.Errorf("a list was made %d times in %d calls", len(made), n)
	}
}

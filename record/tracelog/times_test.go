package tracelog

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
)

// A reader leaves out records whose times cannot be, counts them, and gives all others of their blocks as they were.
func TestRefused(t *testing.T) {
	t.Parallel()
	const most = math.MaxInt64
	for _, c := range []struct {
		enter, dur []uint64
		kept       []int
	}{
		{[]uint64{5, 6, 7}, []uint64{1, 2, 3}, []int{0, 1, 2}},
		{[]uint64{5, most + 1, 7, math.MaxUint64}, []uint64{1, 2, 3, 0}, []int{0, 2}},
		{[]uint64{5, 6, 7}, []uint64{most + 1, 2, math.MaxUint64}, []int{1}},
		{[]uint64{most, most, most - 7, most - 8}, []uint64{0, 1, 8, 8}, []int{0, 3}},
		{[]uint64{0, 0}, []uint64{most, most + 1}, []int{0}},
		{[]uint64{math.MaxUint64, math.MaxUint64}, []uint64{1, 1}, nil},
		{[]uint64{5}, []uint64{math.MaxUint64 - 4}, nil},
	} {
		w, out := newTestWriter(t, Options{})
		for i := range c.enter {
			w.Add(&Call{PID: 1, Func: 1, Enter: c.enter[i], Dur: c.dur[i], NArgs: 1, Args: [MaxArgs]uint64{uint64(i)}})
			w.Add(&Note{Time: c.enter[i], Text: fmt.Sprint(i)})
		}
		must.Do(t, w.Close(End{}))
		r := openBytes(t, out.Bytes())
		var kept []int
		notes := 0
		for r.Next() {
			for i, b := 0, r.Block(); i < b.N; i++ {
				switch b.Kind {
				case KindCall:
					var got Call
					got.Read(b, i)
					n := int(got.Args[0])
					kept = append(kept, n)
					if got.Enter != c.enter[n] || got.Dur != c.dur[n] {
						t.Errorf("call %d is %+v", n, got)
					}
				case KindNote:
					var got Note
					if got.Read(b, i); got.Time > most {
						t.Errorf("a note at %d", got.Time)
					}
					notes++
				}
			}
		}
		if refused := 2*len(c.enter) - len(kept) - notes; !slices.Equal(kept, c.kept) || r.Refused() != uint64(refused) || r.Err() != nil {
			t.Errorf("%d for %d: kept %d, %d refused of %d, %v", c.enter, c.dur, kept, r.Refused(), refused, r.Err())
		}
	}
}

// What a repair copies is as it was: whoever reads the repaired log refuses the same records.
func TestRefusedInRepair(t *testing.T) {
	t.Parallel()
	w, out := newTestWriter(t, Options{})
	for _, enter := range []uint64{5, math.MaxUint64, 7} {
		w.Add(&Call{PID: 1, Func: 1, Enter: enter})
	}
	must.Do(t, w.Close(End{}))
	log := out.Bytes()
	repaired, _ := repairOf(t, log[:len(log)-1])
	r := openBytes(t, repaired)
	for r.Next() {
		continue
	}
	if r.Refused() != 1 || r.Err() != nil {
		t.Errorf("%d refused, %v", r.Refused(), r.Err())
	}
}

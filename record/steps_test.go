package record

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A keptSteps is the memory of a process that counts steps.
type keptSteps []uint64

func newSteps() keptSteps {
	return append(make(keptSteps, 2), append([]uint64{1, stepsKept}, make([]uint64, 2*stepsKept)...)...)
}

func (k keptSteps) step(at uint64, number int64) {
	i := stepsAt + 2*(k[1]%stepsKept)
	k[i], k[i+1] = at, uint64(number)
	k[0], k[1] = at, k[1]+1
}

func (k keptSteps) read(word, words uint64) ([]uint64, error) {
	return slices.Clone(k[word : word+words]), nil
}

func at(now uint64) func() uint64 { return func() uint64 { return now } }

// Each step that begins in the recording is a range, up to the next one; none of those before, of which a part is not
// recorded. The memory is a ring.
func TestArmedSteps(t *testing.T) {
	t.Parallel()
	var got []string
	a := &armedSteps{pid: uint32(os.Getpid()), since: 1000, log: func(r tracelog.Record) {
		m := r.(*tracelog.Marker)
		got = append(got, fmt.Sprintf("%d %d %d %s", m.Flags, m.ID&^firstStepID, m.Time, m.Name))
	}}
	look := func(k keptSteps, now uint64, want ...string) {
		t.Helper()
		if got = nil; k != nil {
			a.take(k.read, at(now))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	k := newSteps()
	look(k, 900)
	k.step(900, 7)
	look(k, 950)
	k.step(1100, 8)
	look(k, 1200, "2 2 1100 step 8")
	look(k, 1200)
	k.step(1300, 9)
	k.step(1400, -1)
	look(k, 1500, "4 2 1300 ", "2 3 1300 step 9", "4 3 1400 ", "2 4 1400 step -1")
	for range stepsKept + 10 { // faster than it is read
		k.step(1600, 1)
	}
	k.step(1e6, 1) // not yet
	got = nil
	a.take(k.read, at(2000))
	if got[0] != "4 4 1600 " || len(got) != 2*(stepsKept-1) || a.missing != 11 {
		t.Errorf("%d missing, %d markers from %s on", a.missing, len(got), got[0])
	}
	look(nil, 0)
	k[1] = 3 // the process writes what it likes
	look(k, 3000)
	a.take(func(uint64, uint64) ([]uint64, error) { return nil, errors.New("it has ended") }, at(3000))
	k[3] = 1 // another version's
	k.step(2500, 1)
	look(k, 3000)
}

// While the memory is read, later steps are written over earlier ones: those are not taken.
func TestArmedStepsOverwritten(t *testing.T) {
	t.Parallel()
	n := 0
	a := &armedSteps{pid: uint32(os.Getpid()), log: func(tracelog.Record) { n++ }}
	k, reads := newSteps(), 0
	for i := range stepsKept {
		k.step(uint64(i+1), 1)
	}
	a.take(func(word, words uint64) ([]uint64, error) {
		if reads++; reads == 3 {
			for range 100 {
				k.step(5000, 1)
			}
		}
		return k.read(word, words)
	}, at(6000))
	if want := 2*(stepsKept-101) - 1; n != want {
		t.Errorf("%d markers, want %d", n, want)
	}
}

package activity

import (
	"reflect"
	"testing"
)

// What was seen by chance four times is given what was not seen, by its weight. No more is given than the evidence bears: not to what was seen less often, not
// in longer times than were seen, and no more than twice that for which all that was seen stands.
func TestDivide(t *testing.T) {
	t.Parallel()
	const us, ms = 1_000, 1_000_000
	seen := func(count, each uint64) Seen {
		return Seen{Count: count, ByChance: count, Time: count * each, Longest: each, Weight: float64(count * (10*ms - each))}
	}
	for name, c := range map[string]struct {
		unknown Seen
		seen    []Seen
		want    []Seen // parts; the rest stays
	}{
		"nothing was seen":                       {seen(10, ms), nil, []Seen{}},
		"a block, in 4 of 10 cases":              {seen(6, 4*ms), []Seen{seen(4, 4*ms)}, []Seen{{Count: 6, Time: 24 * ms}}},
		"in 3 of 10 cases":                       {seen(7, 4*ms), []Seen{seen(3, 4*ms)}, []Seen{{}}},
		"one sample of many gaps":                {seen(100, 100*us), []Seen{seen(1, 70*us)}, []Seen{{}}},
		"one often, others once each":            {seen(400, 100*us), []Seen{seen(6, 100*us), seen(1, 100*us), seen(1, 100*us)}, []Seen{{Count: 300, Time: 30 * ms}, {}, {}}},
		"two alike":                              {seen(300, 100*us), []Seen{seen(5, 100*us), seen(5, 100*us)}, []Seen{{Count: 150, Time: 15 * ms}, {Count: 150, Time: 15 * ms}}},
		"gaps that are longer than all seen":     {seen(100, 100*us), []Seen{seen(5, 20*us)}, []Seen{{Count: 100, Time: 2 * ms}}},
		"shorter gaps":                           {seen(100, 10*us), []Seen{seen(5, 20*us)}, []Seen{{Count: 100, Time: ms}}},
		"more than twice what it stands for":     {seen(2_000, 100*us), []Seen{seen(5, 100*us)}, []Seen{{Count: 1_000, Time: 100 * ms}}},
		"long times, which are seen always":      {seen(100, 100*us), []Seen{{Count: 9, Time: 9_000 * ms, Longest: 1_000 * ms}}, []Seen{{}}},
		"long times among which short ones were": {seen(100, 100*us), []Seen{{Count: 9, ByChance: 2, Time: 8_000 * ms, Longest: 1_000 * ms, Weight: 20 * ms}}, []Seen{{}}},
	} {
		if got := Divide(c.unknown, c.seen); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A gap counts once for what its thread did in several parts of it, and the longest time is that of a gap.
func TestRowOfGaps(t *testing.T) {
	t.Parallel()
	var r Row
	for _, x := range [][2]uint64{{100, 10}, {100, 20}, {200, 25}, {300, 5}, {300, 30}} {
		r.countIdle(x[0], &Spent{Time: x[1], Weight: 1}, new(lastSeen))
	}
	if want := (Seen{Count: 3, ByChance: 5, Time: 90, Longest: 35, Weight: 5}); r.Seen != want || r.MaxAt != 300 {
		t.Errorf("%+v at %d, want %+v", r.Seen, r.MaxAt, want)
	}
}

// Of a gap that a mark divides, a part may have a row of what was not seen that has no time.
func TestPoolWithoutTime(t *testing.T) {
	t.Parallel()
	d := Idle{Rows: make(map[Reason]*Row)}
	seen, unseen := d.ownedRow(&Owner{OwnerKind: RanCode, Text: "f.py:1 f"}), d.ownedRow(&Owner{OwnerKind: Ran, Text: "(on CPU, code unknown)"})
	for at := range uint64(6) {
		seen.countIdle(at, &Spent{Time: 10, Weight: 1}, new(lastSeen))
	}
	d.Pool()
	if seen.Time != 60 || len(d.Rows) != 1 || unseen.Count != 0 {
		t.Errorf("%+v and %+v, %d rows", seen.Seen, unseen.Seen, len(d.Rows))
	}
}

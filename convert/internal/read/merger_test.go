package read

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A threadMerge merges the calls of a log with one thread.
type threadMerge struct {
	catalog *Catalog
	calls   *Calls
	merger  *Merger[Call]
	counts  Counts
	lows    Lows
	reader  *tracelog.Reader
}

func newThreadMerge(t testing.TB, open logtest.Opener, filter *tracelog.Filter) *threadMerge {
	t.Helper()
	m := &threadMerge{catalog: numbered(t, open), reader: openLog(t, open)}
	m.calls = NewCalls(m.catalog, &Wanted{Filter: filter}, &m.counts)
	m.merger = m.calls.Thread(m.catalog.Processes.Get(1))
	threads := m.catalog.Watermarks.Threads(m.catalog)
	m.lows = threads.Of(ThreadKey{PID: 1, TID: 1})
	return m
}

// add adds the next block of the log. It returns the number of its records, 0 at the end.
func (m *threadMerge) add() int {
	for m.reader.Next() {
		if b := m.reader.Block(); b.Kind == tracelog.KindCall || b.Kind == tracelog.KindAPI {
			m.catalog.Watermarks.Passed(b)
			m.calls.Add(m.reader, func(uint32, uint32) *Merger[Call] { return m.merger })
			return b.N
		}
	}
	return 0
}

// until returns the records that begin before a time.
func (m *threadMerge) until(below uint64, all bool) (list []Call) {
	m.merger.Until(below, all)
	for c := m.merger.Next(); c != nil; c = m.merger.Next() {
		list = append(list, *c)
	}
	return list
}

// callsText shows calls by their interval and rank.
func callsText(list []Call) string {
	var words []string
	for i := range list {
		words = append(words, fmt.Sprintf("%d-%d%s", list[i].Start, list[i].End, []string{"r", "", "d"}[list[i].Rank]))
	}
	return strings.Join(words, " ")
}

// Calls come in the order in which they nest, whatever blocks they are in.
func TestMerger(t *testing.T) {
	t.Parallel()
	pair := func(enter, leave int) string {
		return fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=%d\n", enter, leave-enter)
	}
	api := func(domain, start, end int) string {
		return fmt.Sprintf("api pid=1 tid=1 domain=%d name=f start=%d dur=%d\n", domain, start, end-start)
	}
	for _, test := range []struct {
		name  string
		parts []string // a block each
		want  string   // r and d mark API records of the runtime and of the driver
	}{
		{"no calls", []string{"clock monotonic=1\nprocess pid=1 start=1"}, ""},
		{"one block after the other",
			[]string{pair(100, 110) + pair(120, 130), pair(140, 150)}, "100-110 120-130 140-150"},
		{"a later block that lies before",
			[]string{pair(140, 150), pair(100, 110) + pair(120, 130)}, "100-110 120-130 140-150"},
		{"a block within another",
			[]string{pair(100, 110) + pair(200, 210), pair(120, 130) + pair(140, 150)}, "100-110 120-130 140-150 200-210"},
		{"blocks that alternate",
			[]string{pair(100, 110) + pair(120, 130) + pair(140, 150), api(1, 111, 112) + api(1, 131, 132), api(2, 99, 151)},
			"99-151r 100-110 111-112d 120-130 131-132d 140-150"},
		{"a block that is out of order in itself",
			[]string{pair(120, 130) + pair(100, 110), pair(105, 106)}, "100-110 105-106 120-130"},
		{"of two that begin together the longer comes first",
			[]string{pair(100, 110), pair(100, 120) + pair(100, 105)}, "100-120 100-110 100-105"},
		{"of equal intervals the runtime's is outside, the driver's record inside",
			[]string{api(1, 100, 110), pair(100, 110), api(2, 100, 110)}, "100-110r 100-110 100-110d"},
		{"a record of no known domain counts as the driver's",
			[]string{api(7, 100, 110), api(2, 100, 110)}, "100-110r 100-110d"},
		{"calls of unknown start come first",
			[]string{pair(100, 110), pair(0, 50)}, "0-50 100-110"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newThreadMerge(t, logtest.Parts(t, append([]string{"process pid=1 start=1"}, test.parts...)...), nil)
			for m.add() > 0 {
			}
			if got := callsText(m.until(0, true)); got != test.want {
				t.Errorf("calls are\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// Until gives what begins before a time; a block that comes between two steps is put in
// where it belongs. One that reaches back behind what was given comes at once.
func TestMergerInSteps(t *testing.T) {
	t.Parallel()
	pairs := func(starts ...int) (text string) {
		for _, at := range starts {
			text += fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=1\n", at)
		}
		return text
	}
	m := newThreadMerge(t, logtest.Parts(t, pairs(100, 200, 300, 400), pairs(150, 350), pairs(120, 250, 500), pairs(390)), nil)
	var got []string
	step := func(below uint64) { got = append(got, fmt.Sprint(below, ": ", callsText(m.until(below, false)))) }
	m.add()
	step(100)
	step(101)
	m.add()
	step(200)
	step(201)
	m.add()
	step(201)
	step(351)
	step(351)
	m.add()
	step(450)
	step(never)
	want := []string{
		"100: ", "101: 100-101", // not what begins at the time itself
		"200: 150-151", "201: 200-201",
		"201: 120-121", // too late
		"351: 250-251 300-301 350-351", "351: ",
		"450: 390-391 400-401", "18446744073709551615: 500-501",
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("calls of each step (-want +got):\n%s", diff)
	}
}

// randomPart makes the records of a thread in a span of time, with few different times.
func randomPart(rnd *rand.Rand, from, span, n int, id *int) (text string) {
	for range n {
		*id++
		start, dur := from+rnd.IntN(span), rnd.IntN(5)
		switch rnd.IntN(3) {
		case 0:
			text += fmt.Sprintf("api pid=1 tid=1 domain=%d cbid=7 name=f start=%d dur=%d correlation=%d\n", 1+rnd.IntN(2), start, dur, *id)
		default:
			text += fmt.Sprintf("call pid=1 tid=1 func=#%d enter=%d dur=%d args: a=%d\n", rnd.IntN(2), start, dur, *id)
		}
	}
	return text
}

// sortedCalls is the order in which calls should come.
func sortedCalls(list []Call) []Call {
	slices.SortFunc(list, func(a, b Call) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End), cmp.Compare(a.Rank, b.Rank))
	})
	return list
}

// identities are the numbers that randomPart gave to calls, in order.
func identities(list []Call) (ids []uint64) {
	for i := range list {
		id := uint64(list[i].Correlation)
		if list[i].Rank == Pair {
			id = list[i].Arguments.Args[0]
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// However the blocks of a thread overlap, and whenever they come, a merger gives the same
// calls as a sort of all, and knows meanwhile what it holds.
func TestMergerSorts(t *testing.T) {
	t.Parallel()
	for name, shape := range map[string]struct{ blocks, rows, span, step int }{
		"few blocks that hardly overlap":                   {10, 40, 50, 40},
		"all times are nearly equal":                       {10, 20, 3, 0},
		"blocks of many rows":                              {6, 400, 1000, 100},
		"more blocks than are gone through side by side":   {150, 3, 10_000, 1},
		"so many in parts of the time, few in the others":  {200, 4, 400, 3},
		"as many blocks as are gone through side by side":  {maxActive, 2, 10_000, 0},
		"one more than are gone through side by side":      {maxActive + 1, 2, 10_000, 0},
		"blocks with a single record, all at another time": {100, 1, 1000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(8) {
				rnd := rand.New(rand.NewPCG(seed, 5))
				var parts []string
				id := 0
				for i := range shape.blocks {
					parts = append(parts, randomPart(rnd, 1000+i*shape.step, shape.span, 1+rnd.IntN(shape.rows), &id))
				}
				checkMerge(t, fmt.Sprint("seed ", seed), newThreadMerge(t, logtest.Parts(t, parts...), nil), rnd, id)
			}
		})
	}
}

func checkMerge(t *testing.T, name string, m *threadMerge, rnd *rand.Rand, n int) {
	t.Helper()
	var got []Call
	added := 0
	for more := true; more; {
		rows := m.add()
		added += rows
		if more = rows > 0; more && rnd.IntN(4) > 0 {
			continue
		}
		low := m.lows.Low()
		x := m.merger.Extent(low)
		list := m.until(low, false)
		if len(list) > 0 && (x.From != list[0].Start || x.To < list[len(list)-1].Start) || x.Rows < len(list) {
			t.Fatalf("%s: before %d the extent is %+v, and there are %d calls: %s", name, low, x, len(list), callsText(list))
		}
		got = append(got, list...)
		held := m.merger.Held()
		if held != added-len(got) {
			t.Fatalf("%s: %d records are held, %d were added and %d given", name, held, added, len(got))
		}
		if x := m.merger.Extent(never); x.Rows != held || held > 0 && x.From < low {
			t.Fatalf("%s: the extent of %d records from %d on is %+v", name, held, low, x)
		}
	}
	if ids := identities(got); len(ids) != n || ids[0] != 1 || ids[n-1] != uint64(n) || len(slices.Compact(ids)) != n {
		t.Fatalf("%s: %d of %d calls came", name, len(ids), n)
	}
	if want := callsText(sortedCalls(slices.Clone(got))); callsText(got) != want {
		t.Fatalf("%s: calls are\n%s, want\n%s", name, callsText(got), want)
	}
	if m.counts.Pairs+m.counts.APIs != uint64(n) {
		t.Errorf("%s: %+v were counted of %d", name, m.counts, n)
	}
}

// What a filter does not want is left out, also where that is a whole block, and counted.
func TestMergerFilter(t *testing.T) {
	t.Parallel()
	open := logtest.Parts(t, "call pid=1 tid=1 func=#1 enter=100 dur=1\ncall pid=1 tid=1 func=#1 enter=200 dur=1\ncall pid=1 tid=1 func=#1 enter=300 dur=1",
		"call pid=1 tid=1 func=#1 enter=110 dur=1\ncall pid=1 tid=1 func=#1 enter=120 dur=1", "api pid=1 tid=1 domain=1 name=f start=210 dur=1")
	filter := &tracelog.Filter{From: 150, To: 250}
	m := newThreadMerge(t, open, filter)
	for m.add() > 0 {
	}
	if got := callsText(m.until(never, true)); got != "200-201 210-211d" {
		t.Errorf("calls are %s", got)
	}
	if m.calls.wanted.Taken != 2 || m.merger.Held() != 0 {
		t.Errorf("%d records were taken, %d are held", m.calls.wanted.Taken, m.merger.Held())
	}
}

// An extent is from the first to the last start before a time, with the records of all
// blocks that begin before it.
func TestExtent(t *testing.T) {
	t.Parallel()
	pair := func(enter int) string { return fmt.Sprintf("call pid=1 tid=1 func=#1 enter=%d dur=1\n", enter) }
	m := newThreadMerge(t, logtest.Parts(t, pair(100)+pair(900), pair(500)+pair(200), pair(600)+pair(700)), nil)
	for m.add() > 0 {
	}
	m.merger.loose.Add(Call{Start: 150})
	m.merger.loose.Add(Call{Start: 800})
	check := func(before uint64, want Extent) {
		t.Helper()
		if x := m.merger.Extent(before); x != want {
			t.Errorf("before %d the extent is %+v, want %+v", before, x, want)
		}
	}
	check(100, NoExtent)
	check(101, Extent{100, 101, 2})
	check(201, Extent{100, 201, 6})
	check(never, Extent{100, 900, 8})
	m.until(201, false) // takes 100, 150 and 200
	check(never, Extent{500, 900, 5})
	check(500, NoExtent)
	check(801, Extent{500, 800, 4})
	x := NoExtent
	x.Join(NoExtent)
	x.Join(Extent{30, 40, 2})
	x.Join(Extent{10, 20, 1})
	if x != (Extent{10, 40, 3}) {
		t.Errorf("joined extents are %+v", x)
	}
}

// A burst of loose records gives its memory back.
func TestMergerTrim(t *testing.T) {
	t.Parallel()
	m := newThreadMerge(t, logtest.Parts(t, "call pid=1 tid=1 func=#1 enter=1"), nil)
	for i := range uint64(1 << 16) {
		m.merger.loose.Add(Call{Start: i})
	}
	m.until(1<<16-10, false)
	m.merger.Trim()
	if got := callsText(m.until(never, true)); m.merger.Held() != 0 || !strings.HasPrefix(got, "65526-0r 65527-0r ") {
		t.Errorf("calls are %s, %d are held", got, m.merger.Held())
	}
}

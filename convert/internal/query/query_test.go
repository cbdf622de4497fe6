package query

import (
	"slices"
	"testing"
)

// Rows beyond the bound have one row.
func TestRows(t *testing.T) {
	type row struct {
		name  string
		count int
	}
	rows := NewRows(2, "other", func(key string) row { return row{name: key} })
	for _, key := range []string{"b", "a", "b", "c", "d", "a", "c"} {
		rows.Of(key).count++
	}
	var got []row
	for _, r := range rows.List {
		got = append(got, *r)
	}
	if want := []row{{"b", 2}, {"a", 2}, {"other", 3}}; !slices.Equal(got, want) {
		t.Errorf("rows %v, want %v", got, want)
	}
	if rows.Find("a") != rows.List[1] || rows.Find("c") != nil {
		t.Errorf("found %v and %v", rows.Find("a"), rows.Find("c"))
	}
}

// Each query takes the events that it wants, in the order of the queries, and is asked once about a shape while the shapes
// are not too many to be kept.
func TestSource(t *testing.T) {
	type event struct{ size int }
	var s Source[event, int]
	asked := make(map[int]int)
	even, all := 0, []int(nil)
	s.By(func(shape int) func(*event) {
		asked[shape]++
		if shape%2 != 0 {
			return nil
		}
		return func(e *event) { even += e.size }
	})
	s.Each(func(e *event) { all = append(all, e.size, even) })
	for _, shape := range []int{0, 1, 0, 0, 2, 1} {
		s.Take(shape, &event{10 + shape})
	}
	if want := []int{10, 10, 11, 10, 10, 20, 10, 30, 12, 42, 11, 42}; !slices.Equal(all, want) {
		t.Errorf("events with the sums of even ones: %v, want %v", all, want)
	}
	for shape, n := range asked {
		if n != 1 {
			t.Errorf("asked %d times about shape %d", n, shape)
		}
	}
	for shape := range 2 * maxCached {
		s.Take(shape, new(event))
	}
	if len(s.takers) > maxCached {
		t.Errorf("%d shapes are kept", len(s.takers))
	}
}

// A source without queries takes events.
func TestNoQueries(t *testing.T) {
	var s Source[string, int]
	s.Take(1, new("event"))
	s.Take(1, new("event"))
}

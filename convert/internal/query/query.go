// Package query groups events.
//
// Input: events of a type, one after the other, through [Source.Take]. Output: rows by their keys, in [Rows].
// The memory of both is bounded.
package query

import "iter"

// Rows are rows by their keys.
type Rows[K comparable, R any] struct {
	List   []*R // in the order of first use
	keys   []K  // of List
	byKey  map[K]*R
	most   int
	others K // key of the row for everything beyond most
	create func(K) R
}

// NewRows returns rows without any; create makes the row of a key.
func NewRows[K comparable, R any](most int, others K, create func(K) R) *Rows[K, R] {
	return &Rows[K, R]{byKey: make(map[K]*R), most: most, others: others, create: create}
}

// Of returns the row of a key.
func (r *Rows[K, R]) Of(key K) *R {
	row := r.byKey[key]
	if row != nil {
		return row
	}
	if len(r.List) >= r.most {
		key = r.others
		if row = r.byKey[key]; row != nil {
			return row
		}
	}
	row = new(r.create(key))
	r.byKey[key] = row
	r.List, r.keys = append(r.List, row), append(r.keys, key)
	return row
}

// All are all rows with their keys, in the order of first use.
func (r *Rows[K, R]) All() iter.Seq2[K, *R] {
	return func(yield func(K, *R) bool) {
		for i, row := range r.List {
			if !yield(r.keys[i], row) {
				return
			}
		}
	}
}

// Find returns the row of a key, nil if there is none.
func (r *Rows[K, R]) Find(key K) *R { return r.byKey[key] }

// maxCached bounds a cache. A full cache is emptied.
const maxCached = 1 << 16

// A Cache keeps what is found for keys.
type Cache[K comparable, V any] map[K]V

// Of returns the value of a key; find finds it the first time.
func (c Cache[K, V]) Of(key K, find func() V) V {
	v, known := c[key]
	if !known {
		if len(c) >= maxCached {
			clear(c)
		}
		v = find()
		c[key] = v
	}
	return v
}

// A Source gives events of a type to the queries that read it. The zero Source has none. Most
// queries group by the shape of an event, which many events have in common, so they choose a row once for each shape.
type Source[E any, S comparable] struct {
	queries []func(S) func(*E)
	takers  Cache[S, []func(*E)]
}

// By adds a query: a function that returns what takes the events of a shape, nil where none of them counts. It comes
// before all events.
func (s *Source[E, S]) By(query func(S) func(*E)) { s.queries = append(s.queries, query) }

// Each adds a query that looks at every event.
func (s *Source[E, S]) Each(take func(*E)) { s.By(func(S) func(*E) { return take }) }

// Take takes an event.
func (s *Source[E, S]) Take(shape S, e *E) {
	if s.takers == nil {
		s.takers = make(Cache[S, []func(*E)])
	}
	for _, take := range s.takers.Of(shape, func() []func(*E) { return s.bind(shape) }) {
		take(e)
	}
}

func (s *Source[E, S]) bind(shape S) (takers []func(*E)) {
	for _, query := range s.queries {
		if take := query(shape); take != nil {
			takers = append(takers, take)
		}
	}
	return takers
}

package stats

import "github.com/cudatrace/cudatrace/convert/stats/table"

// other is the name of the row that counts what would need a row beyond [table.MaxRows].
const other = "other"

// groups are the rows of a report by their keys.
type groups[K comparable, R any] struct {
	list   []*R // in the order of first use
	byKey  map[K]*R
	others K // key of the row for everything beyond table.MaxRows
	create func(K) *R
}

func newGroups[K comparable, R any](others K, create func(K) *R) groups[K, R] {
	return groups[K, R]{byKey: make(map[K]*R), others: others, create: create}
}

// of returns the row of a key.
func (g *groups[K, R]) of(key K) *R {
	r := g.byKey[key]
	if r != nil {
		return r
	}
	if len(g.list) >= table.MaxRows {
		key = g.others
		if r = g.byKey[key]; r != nil {
			return r
		}
	}
	r = g.create(key)
	g.byKey[key] = r
	g.list = append(g.list, r)
	return r
}

// maxCached bounds a cache. A full cache is emptied.
const maxCached = 1 << 16

// cached returns the value of a key from a cache; find finds it the first time.
func cached[K comparable, V any](cache map[K]*V, key K, find func() *V) *V {
	v := cache[key]
	if v == nil {
		if len(cache) >= maxCached {
			clear(cache)
		}
		v = find()
		cache[key] = v
	}
	return v
}

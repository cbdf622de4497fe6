package callers

import (
	"strings"
	"unsafe"
)

// DefaultBudget is the most memory that the mappings of all processes may take, in bytes: their texts
// and entries. Where it is not enough, the process that was used least recently gives way.
const DefaultBudget = 128 << 20

const (
	pathCost    = 128                                // of a path, beside its text
	mappingCost = int(unsafe.Sizeof(mapping{})) + 16 // with its device as text
)

// maxNames is the most bytes of symbols that are remembered with return addresses, of all files.
const maxNames = 32 << 20

// A budget bounds the memory of mappings. It holds their paths, each once: processes of one program map
// the same files.
type budget struct {
	most  int
	taken int
	paths map[string]*keptPath
}

// A keptPath is a path with the number of mappings that have it.
type keptPath struct {
	path  string
	users int
}

// keep takes the memory of a mapping, and gives it the kept text of its path. It returns false if there
// is no room.
func (b *budget) keep(m *mapping) bool {
	kept := b.paths[m.Path]
	cost := mappingCost
	if kept == nil {
		cost += len(m.Path) + pathCost
	}
	if cost > b.most-b.taken {
		return false
	}
	b.taken += cost
	if kept == nil {
		if b.paths == nil {
			b.paths = map[string]*keptPath{}
		}
		kept = &keptPath{path: strings.Clone(m.Path)}
		b.paths[kept.path] = kept
	}
	kept.users++
	// The texts were parts of a line.
	m.Path, m.File.Device = kept.path, strings.Clone(m.File.Device)
	return true
}

// drop gives the memory of a snapshot back.
func (b *budget) drop(s snapshot) {
	for _, m := range s.code {
		b.taken -= mappingCost
		kept := b.paths[m.Path]
		if kept.users--; kept.users == 0 {
			b.taken -= len(kept.path) + pathCost
			delete(b.paths, kept.path)
		}
	}
}

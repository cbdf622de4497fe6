package perfetto

import (
	"math/bits"
	"strings"
)

// A tableID names a table of interned strings.
type tableID uint8

const (
	tableEventNames tableID = iota
	tableCategories
	tableAnnotationNames
	tableStrings // values of arguments
	tableComputeArgNames
	tables
)

// A stringTable numbers the strings of one field of InternedData. The numbers hold for all
// sequences of a trace; each sequence interns a string before it uses the number.
type stringTable struct {
	field   field
	longest int // longer strings are cut
	ids     map[string]uint32
	texts   []string // by number - 1
	recent  [recentStrings]struct {
		s  string
		id uint32
	}
}

const (
	// recentStrings is the number of slots for strings that were asked for recently. Such
	// a string is found without hashing it.
	recentStrings = 32

	// maxInterned bounds a table. Further strings are written in full each time. A program
	// has far fewer names.
	maxInterned = 1 << 16

	// longestValue bounds the values that String arguments intern. Longer values, such as
	// paths, hardly ever come twice.
	longestValue = 128

	longestName = 1 << 20

	// cutMark ends a string that was cut.
	cutMark = "... (cut)"
)

// id returns the number of s, or 0 when s is not interned. The empty string is not.
func (t *stringTable) id(s string) uint32 {
	n := len(s)
	if n == 0 {
		return 0
	}
	// Names differ in length and towards their end.
	slot := &t.recent[(n+int(s[n-1])+int(s[n/2])<<2)%recentStrings]
	if slot.s != s {
		id := t.lookup(s)
		if id == 0 {
			return 0
		}
		slot.s, slot.id = s, id
	}
	return slot.id
}

func (t *stringTable) lookup(s string) uint32 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	if len(s) > t.longest {
		return t.lookup(strings.ToValidUTF8(s[:t.longest-len(cutMark)], "") + cutMark)
	}
	if len(t.texts) >= maxInterned {
		return 0
	}
	if t.ids == nil {
		t.ids = make(map[string]uint32)
	}
	t.texts = append(t.texts, s)
	id := uint32(len(t.texts))
	t.ids[s] = id
	return id
}

// An interner has the tables of a trace, and the InternedData of the packet that is
// written next.
type interner struct {
	tables [tables]stringTable
	data   buffer
}

func newInterner() interner {
	return interner{tables: [tables]stringTable{
		tableEventNames:      {field: internedEventNames, longest: longestName},
		tableCategories:      {field: internedCategories, longest: longestName},
		tableAnnotationNames: {field: internedAnnotationNames, longest: longestName},
		tableStrings:         {field: internedStrings, longest: longestName},
		tableComputeArgNames: {field: internedComputeArgNames, longest: longestName},
	}}
}

// A stringRef refers to an interned string.
type stringRef struct {
	table tableID
	id    uint32
}

// number returns the number of a string and adds the string to refs. It returns 0 for a
// string that is not interned.
func (n *interner) number(refs *[]stringRef, t tableID, s string) uint64 {
	id := n.tables[t].id(s)
	if id != 0 {
		*refs = append(*refs, stringRef{t, id})
	}
	return uint64(id)
}

// internStrings makes sure that the sequence has interned the strings. New ones go out
// with the packet that is written next.
func (s *sequence) internStrings(refs []stringRef) {
	for _, r := range refs {
		if !s.interned[r.table].has(r.id) {
			s.intern(r)
		}
	}
}

// intern appends a string to the InternedData of the next packet.
func (s *sequence) intern(r stringRef) {
	s.interned[r.table].set(r.id)
	t, data := &s.w.interner.tables[r.table], &s.w.interner.data
	start := data.open(t.field)
	data.uint(internedID, uint64(r.id))
	data.text(internedText, t.texts[r.id-1])
	data.close(start)
}

// A bitset is a set of small numbers.
type bitset []uint64

func (b *bitset) set(i uint32) {
	word := int(i / bits.UintSize)
	for word >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[word] |= 1 << (i % bits.UintSize)
}

func (b bitset) has(i uint32) bool {
	word := int(i / bits.UintSize)
	return word < len(b) && b[word]>>(i%bits.UintSize)&1 != 0
}

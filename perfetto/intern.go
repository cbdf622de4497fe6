package perfetto

import "math/bits"

// A tableID names one of a trace's tables of strings.
type tableID uint8

const (
	tableNames tableID = iota
	tableCategories
	tableArgNames // of slices
	tableStrings  // values of arguments
	tableComputeNames
	tables
)

// A stringTable gives the strings of one field of InternedData their numbers, which
// are the same in all sequences of a trace. A sequence has to write a string once
// before it uses its number.
type stringTable struct {
	field   field
	longest int // strings longer than this are not interned
	ids     map[string]uint32
	texts   []string // by number - 1
	recent  [recentStrings]struct {
		s  string
		id uint32
	}
}

const (
	// recentStrings is the number of slots for strings that were asked for lately,
	// each found without hashing it.
	recentStrings = 32

	// maxInterned bounds a table; what comes later is written out each time. A
	// program has far fewer names than this.
	maxInterned = 1 << 16

	// longestValue bounds the interned values of arguments. Longer ones, paths
	// say, hardly ever come twice.
	longestValue = 128

	longestName = 1 << 20
)

func newTables() [tables]stringTable {
	return [tables]stringTable{
		tableNames:        {field: internedEventName, longest: longestName},
		tableCategories:   {field: internedCategory, longest: longestName},
		tableArgNames:     {field: internedAnnotationName, longest: longestName},
		tableStrings:      {field: internedString, longest: longestValue},
		tableComputeNames: {field: internedComputeArgName, longest: longestName},
	}
}

// id returns the number of s, or 0 when s is not interned, as when it is empty.
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
	if len(s) > t.longest || len(t.texts) >= maxInterned {
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

// A ref is a string of a table that an event refers to.
type ref struct {
	table tableID
	id    uint32
}

// A bitset has the numbers that a sequence has written.
type bitset []uint64

func (b *bitset) add(i uint32) (isNew bool) {
	word := int(i / bits.UintSize)
	for word >= len(*b) {
		*b = append(*b, 0)
	}
	bit := uint64(1) << (i % bits.UintSize)
	isNew = (*b)[word]&bit == 0
	(*b)[word] |= bit
	return isNew
}

// has reports whether i is in the set.
func (b bitset) has(i uint32) bool {
	word := int(i / bits.UintSize)
	return word < len(b) && b[word]>>(i%bits.UintSize)&1 != 0
}

// refer makes sure that the sequence has written the strings. What is new is put into
// InternedData, which goes out in the packet that is being written.
func (s *sequence) refer(refs []ref) {
	for _, r := range refs {
		if !s.sent[r.table].has(r.id) {
			s.send(r)
		}
	}
}

func (s *sequence) send(r ref) {
	s.sent[r.table].add(r.id)
	t, data := &s.w.tables[r.table], &s.w.interned
	start := data.open(t.field)
	data.uint(internID, uint64(r.id))
	data.text(internText, t.texts[r.id-1])
	data.close(start)
}

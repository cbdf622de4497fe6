package perfetto

// An internTable gives the strings of one field of InternedData their ids.
// A string is written once in a sequence, and its id from then on.
type internTable struct {
	field   field
	longest int // strings longer than this are not interned
	ids     map[string]uint64
	recent  [recentStrings]struct {
		s  string
		id uint64
	}
}

const (
	// recentStrings is the number of slots for strings that were asked for lately,
	// each found without hashing it.
	recentStrings = 32

	// maxInterned bounds a table of a sequence; what comes later is written out
	// each time. A program has far fewer names than this.
	maxInterned = 1 << 16

	// longestValue bounds the interned values of arguments. Longer ones, paths
	// say, hardly ever come twice.
	longestValue = 128

	longestName = 1 << 20
)

// id returns the id of s, or 0 when s is not interned, as when it is empty. What
// is new is appended to data, which goes out as InternedData in the same packet.
func (t *internTable) id(data *buffer, s string) uint64 {
	n := len(s)
	if n == 0 {
		return 0
	}
	// Names differ in length and towards their end.
	slot := &t.recent[(n+int(s[n-1])+int(s[n/2])<<2)%recentStrings]
	if slot.s != s {
		id := t.lookup(data, s)
		if id == 0 {
			return 0
		}
		slot.s, slot.id = s, id
	}
	return slot.id
}

func (t *internTable) lookup(data *buffer, s string) uint64 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	if len(s) > t.longest || len(t.ids) >= maxInterned {
		return 0
	}
	if t.ids == nil {
		t.ids = make(map[string]uint64)
	}
	id := uint64(len(t.ids) + 1)
	t.ids[s] = id
	start := data.open(t.field)
	data.uint(internID, id)
	data.text(internText, s)
	data.close(start)
	return id
}

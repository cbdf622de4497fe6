package schema

// Bounds of the tables of this version. A log's own schema may have up to MaxColumns fields.
const (
	MaxFields = 32 // of a table
	MaxKeys   = 5  // fields of a table that are keys
)

// A Layout is a table prepared for use.
type Layout struct {
	*Table
	Stored []int // fields in the order in which the writer stores their columns
	Keys   []int // fields whose values make the key of an open block
	Times  []int
	Dur    int // the first duration, -1 without
	Texts  []int

	PID, TID, Device, Context, Stream int // fields, -1 without
}

// LayoutOf returns the layout of a kind, nil for one that this version does not know.
func LayoutOf(k Kind) *Layout { return layouts[k] }

var layouts = func() (all [256]*Layout) {
	for _, list := range [][]Table{records, frames} {
		for i := range list {
			all[list[i].Kind] = NewLayout(&list[i])
		}
	}
	return all
}()

// NewLayout prepares a table.
func NewLayout(t *Table) *Layout {
	l := &Layout{Table: t, Dur: -1}
	l.PID, l.TID, l.Device = t.Field("pid"), t.Field("tid"), t.Field("device")
	l.Context, l.Stream = t.Field("context"), t.Field("stream")
	var rest []int
	for i, f := range t.Fields {
		switch f.Type {
		case Time:
			l.Times = append(l.Times, i)
		case Text:
			l.Texts = append(l.Texts, i)
		}
		if f.Type == Dur && l.Dur < 0 {
			l.Dur = i
			l.Stored = append(l.Stored, i) // times are stored relative to it
		} else {
			rest = append(rest, i)
		}
		if f.Key {
			l.Keys = append(l.Keys, i)
		}
	}
	l.Stored = append(l.Stored, rest...)
	return l
}

package columns

import (
	"errors"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A Schema is the schema of one log: the tables of its own schema block, and the places in them of the fields of this
// version, which are found by name and type: so logs of older and newer versions can be read. FORMAT.md specifies the
// block under "Schema". Its methods are not safe for concurrent use; a copy is.
type Schema struct {
	tables [256]*schema.Table
	places [256][]int // see PlacesOf
}

// BuiltinSchema is the schema of this version, for a log that lost its own.
func BuiltinSchema() *Schema {
	var s Schema
	for _, t := range schema.Records() {
		s.tables[t.Kind] = schema.LayoutOf(t.Kind).Table
	}
	return &s
}

// AppendSchema appends the payload of a schema block that describes tables.
func AppendSchema(dst []byte, enc *Encoder, tables []schema.Table) []byte {
	var kinds, fields []uint64
	var kindTexts, fieldTexts []string
	for _, t := range tables {
		kinds = append(kinds, uint64(t.Kind), 0, 0)
		kindTexts = append(kindTexts, t.Name, t.Meaning)
		for _, f := range t.Fields {
			fields = append(fields, uint64(t.Kind), 0, uint64(f.Type), 0)
			fieldTexts = append(fieldTexts, f.Name, f.Meaning)
		}
	}
	l := schema.LayoutOf(schema.Kinds)
	dst = enc.AppendTable(dst, l, enc.Transpose(l, kinds), kindTexts)
	l = schema.LayoutOf(schema.Fields)
	return enc.AppendTable(dst, l, enc.Transpose(l, fields), fieldTexts)
}

// ErrSchema is the error of a schema, or a table of records, that no writer writes.
var ErrSchema = errors.New("the schema makes no sense")

// ParseSchema reads the payload of a schema block.
func ParseSchema(dec *Decoder, payload []byte) (*Schema, error) {
	s := new(Schema)
	err := dec.EachTable(payload, func(t *Table) error {
		switch schema.Kind(t.Number) {
		case schema.Kinds:
			return s.addKinds(t)
		case schema.Fields:
			return s.addFields(t)
		}
		return nil // of a newer version
	})
	if err == nil && !s.readsStrings() {
		err = ErrSchema
	}
	return s, err
}

// readsStrings reports whether string records have the fields that they have in all
// versions: without them nothing else can be understood.
func (s *Schema) readsStrings() bool {
	file := s.tables[schema.Strings]
	if file == nil {
		return true
	}
	for i, from := range placesIn(file, schema.LayoutOf(schema.Strings)) {
		if i != from {
			return false
		}
	}
	return true
}

func (s *Schema) addKinds(t *Table) error {
	kind, name, meaning := t.Find(0), t.Find(1), t.Find(2)
	for i := range t.Rows {
		k := kind.At(i)
		if k >= uint64(schema.Kinds) || s.tables[k] != nil || !schema.IsName(name.Text(i)) {
			return ErrSchema
		}
		s.tables[k] = &schema.Table{Kind: schema.Kind(k), Name: name.Text(i), Meaning: meaning.Text(i)}
	}
	return nil
}

func (s *Schema) addFields(t *Table) error {
	kind, name, types, meaning := t.Find(0), t.Find(1), t.Find(2), t.Find(3)
	for i := range t.Rows {
		k := kind.At(i)
		if k >= uint64(schema.Kinds) || s.tables[k] == nil {
			return ErrSchema
		}
		file := s.tables[k]
		if len(file.Fields) == schema.MaxColumns || !schema.IsName(name.Text(i)) {
			return ErrSchema
		}
		file.Fields = append(file.Fields, schema.Field{
			Name: name.Text(i), Type: schema.Type(types.At(i)), Meaning: meaning.Text(i),
		})
	}
	return nil
}

// Table is the log's own description of a kind, else this version's, so that the columns of
// every kind that this version knows are there, whatever the log says. It is nil for a kind
// without either.
func (s *Schema) Table(k schema.Kind) *schema.Table {
	if t := s.tables[k]; t != nil {
		return t
	}
	if l := schema.LayoutOf(k); l != nil {
		return l.Table
	}
	return nil
}

// PlacesOf has for each field of this version the number of the field in the log's table.
func (s *Schema) PlacesOf(l *schema.Layout) []int {
	if s.places[l.Kind] == nil {
		s.places[l.Kind] = placesIn(s.Table(l.Kind), l)
	}
	return s.places[l.Kind]
}

// placesIn has for each field of a layout the number of the field of that name and type in a
// log's table, -1 without one.
func placesIn(file *schema.Table, l *schema.Layout) []int {
	places := make([]int, len(l.Fields))
	for i, own := range l.Fields {
		places[i] = -1
		for at, f := range file.Fields {
			if f.Name == own.Name && f.Type == own.Type {
				places[i] = at
				break
			}
		}
	}
	return places
}

package tracelog

import (
	"errors"
	"sync"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// A logSchema is the tables of one log as its own schema block gives them.
type logSchema [256]*schema.Table

// builtin is the schema of this version, for a log that lost its own.
var builtin = sync.OnceValue(func() *logSchema {
	var s logSchema
	for _, t := range schema.Records() {
		s[t.Kind] = &t
	}
	return &s
})

// appendSchema appends the payload of a schema block that describes the tables.
func (e *encoder) appendSchema(dst []byte, tables []schema.Table) []byte {
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
	dst = e.appendSized(dst, schema.LayoutOf(schema.Kinds), e.transpose(schema.LayoutOf(schema.Kinds), kinds), kindTexts)
	return e.appendSized(dst, schema.LayoutOf(schema.Fields), e.transpose(schema.LayoutOf(schema.Fields), fields), fieldTexts)
}

var errSchema = errors.New("the schema makes no sense")

// parseSchema reads the payload of a schema block.
func (d *decoder) parseSchema(payload []byte) (*logSchema, error) {
	s := new(logSchema)
	err := d.eachTable(payload, func(t *table) error {
		switch Kind(t.number) {
		case schema.Kinds:
			return s.addKinds(t)
		case schema.Fields:
			return s.addFields(t)
		}
		return nil // of a newer version
	})
	if err == nil && !s.readsStrings() {
		err = errSchema
	}
	return s, err
}

// readsStrings reports whether string records have the fields that they have in all
// versions: without them nothing else can be understood.
func (s *logSchema) readsStrings() bool {
	l, file := schema.LayoutOf(KindString), s[KindString]
	if file == nil {
		return true
	}
	for i, from := range mapping(l, file) {
		if i != from {
			return false
		}
	}
	return true
}

func (s *logSchema) addKinds(t *table) error {
	kind, name, meaning := t.find(0), t.find(1), t.find(2)
	for i := range t.rows {
		k := kind.at(i)
		if k >= uint64(schema.Kinds) || s[k] != nil || !schema.IsName(name.text(i)) {
			return errSchema
		}
		s[k] = &schema.Table{Kind: Kind(k), Name: name.text(i), Meaning: meaning.text(i)}
	}
	return nil
}

func (s *logSchema) addFields(t *table) error {
	kind, name, types, meaning := t.find(0), t.find(1), t.find(2), t.find(3)
	for i := range t.rows {
		k := kind.at(i)
		if k >= uint64(schema.Kinds) || s[k] == nil || len(s[k].Fields) == schema.MaxColumns || !schema.IsName(name.text(i)) {
			return errSchema
		}
		s[k].Fields = append(s[k].Fields, schema.Field{Name: name.text(i), Type: schema.Type(types.at(i)), Meaning: meaning.text(i)})
	}
	return nil
}

// text is the text in row i, "" in a column that is missing.
func (c *column) text(i int) string {
	if c.texts == nil {
		return ""
	}
	return c.texts[i]
}

// mapping says for each field of this version at which field of the log's table it
// is found: by name and type, -1 for one that the log does not have.
func mapping(l *schema.Layout, file *schema.Table) []int {
	m := make([]int, len(l.Fields))
	for i, own := range l.Fields {
		m[i] = -1
		for at, f := range file.Fields {
			if f.Name == own.Name && f.Type == own.Type {
				m[i] = at
				break
			}
		}
	}
	return m
}

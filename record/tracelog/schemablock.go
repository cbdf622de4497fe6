package tracelog

import (
	"errors"
	"sync"
)

// A schema is the tables of one log as its own schema block gives them.
type schema [256]*Table

// builtin is the schema of this version, for a log that lost its own.
var builtin = sync.OnceValue(func() *schema {
	var s schema
	for i := range tables {
		s[tables[i].Kind] = &tables[i]
	}
	return &s
})

// appendSchema appends the payload of a schema block that describes the tables.
func (e *encoder) appendSchema(dst []byte, tables []Table) []byte {
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
	dst = e.appendSized(dst, layouts[tableKinds], e.transpose(layouts[tableKinds], kinds), kindTexts)
	return e.appendSized(dst, layouts[tableFields], e.transpose(layouts[tableFields], fields), fieldTexts)
}

var errSchema = errors.New("the schema makes no sense")

// parseSchema reads the payload of a schema block.
func (d *decoder) parseSchema(payload []byte) (*schema, error) {
	s := new(schema)
	err := d.eachTable(payload, func(t *table) error {
		switch Kind(t.number) {
		case tableKinds:
			return s.addKinds(t)
		case tableFields:
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
func (s *schema) readsStrings() bool {
	l, file := layouts[KindString], s[KindString]
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

func (s *schema) addKinds(t *table) error {
	kind, name, meaning := t.find(0), t.find(1), t.find(2)
	for i := range t.rows {
		k := kind.at(i)
		if k >= uint64(tableKinds) || s[k] != nil || !isName(name.text(i)) {
			return errSchema
		}
		s[k] = &Table{Kind: Kind(k), Name: name.text(i), Meaning: meaning.text(i)}
	}
	return nil
}

func (s *schema) addFields(t *table) error {
	kind, name, types, meaning := t.find(0), t.find(1), t.find(2), t.find(3)
	for i := range t.rows {
		k := kind.at(i)
		if k >= uint64(tableKinds) || s[k] == nil || len(s[k].Fields) == MaxColumns || !isName(name.text(i)) {
			return errSchema
		}
		s[k].Fields = append(s[k].Fields, Field{Name: name.text(i), Type: Type(types.at(i)), Meaning: meaning.text(i)})
	}
	return nil
}

// isName reports whether a name of the schema can stand in the text form.
func isName(s string) bool {
	for _, c := range []byte(s) {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != "" && len(s) <= 64
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
func mapping(l *layout, file *Table) []int {
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

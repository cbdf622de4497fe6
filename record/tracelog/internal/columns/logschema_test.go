package columns

import (
	"errors"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// parsed is what ParseSchema makes of the schema block of tables.
func parsed(t *testing.T, tables []schema.Table) (*Schema, error) {
	t.Helper()
	enc := must.Get(NewEncoder())(t)
	dec := must.Get(NewDecoder())(t)
	return ParseSchema(dec, AppendSchema(nil, enc, tables))
}

// A schema that AppendSchema writes is the one that ParseSchema reads, and the places of its fields are in
// order.
func TestParseSchema(t *testing.T) {
	t.Parallel()
	s := must.Get(parsed(t, schema.Records()))(t)
	for _, want := range schema.Records() {
		got := s.Table(want.Kind)
		if got.Name != want.Name || got.Meaning != want.Meaning || len(got.Fields) != len(want.Fields) {
			t.Errorf("kind %d is %+v", want.Kind, got)
		}
		for i, place := range s.PlacesOf(schema.LayoutOf(want.Kind)) {
			if place != i {
				t.Errorf("field %d of %s is at %d", i, want.Name, place)
			}
		}
	}
}

func TestParseSchemaRefuses(t *testing.T) {
	t.Parallel()
	fields := make([]schema.Field, schema.MaxColumns+1)
	for i := range fields {
		fields[i] = schema.Field{Name: "f", Type: schema.Uint, Meaning: "m"}
	}
	for name, list := range map[string][]schema.Table{
		"one kind twice":       {{Kind: 77, Name: "a", Meaning: "m"}, {Kind: 77, Name: "b", Meaning: "m"}},
		"a kind of the format": {{Kind: schema.Kinds, Name: "a", Meaning: "m"}},
		"no name":              {{Kind: 77, Meaning: "m"}},
		"too many fields":      {{Kind: 77, Name: "a", Meaning: "m", Fields: fields}},
		"texts without words":  {{Kind: schema.Strings, Name: "string", Meaning: "m", Fields: fields[:1]}},
	} {
		if _, err := parsed(t, list); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

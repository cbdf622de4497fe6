package logschema

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// parsed is what Parse makes of the schema block of tables.
func parsed(t *testing.T, tables []schema.Table) (*Schema, error) {
	t.Helper()
	enc, err := columns.NewEncoder()
	if err != nil {
		t.Fatal(err)
	}
	dec, err := columns.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	return Parse(dec, Append(nil, enc, tables))
}

// A schema that Append writes is the one that Parse reads, and the places of its fields are in
// order.
func TestParse(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, schema.Records())
	if err != nil {
		t.Fatal(err)
	}
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

// Fields are found by name and type, whatever their order; a field of another type is another one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	text := schema.Field{Name: "text", Type: schema.String, Meaning: "m"}
	time := schema.Field{Name: "time", Type: schema.Time, Meaning: "m"}
	odd := schema.Field{Name: "pid", Type: schema.Text, Meaning: "m"}
	tables := schema.Records()
	note := schema.LayoutOf(tables[slices.IndexFunc(tables, func(t schema.Table) bool { return t.Name == "note" })].Kind)
	s, err := parsed(t, []schema.Table{{Kind: note.Kind, Name: "note", Meaning: "m", Fields: []schema.Field{odd, text, time}}})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]int, len(note.Fields))
	for i, f := range note.Fields {
		want[i] = slices.Index([]string{"", "text", "time"}, f.Name)
	}
	if diff := cmp.Diff(want, s.PlacesOf(note)); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// A kind without a description has that of this version, if it has one.
func TestTable(t *testing.T) {
	t.Parallel()
	s, err := parsed(t, []schema.Table{{Kind: 77, Name: "range", Meaning: "m", Fields: []schema.Field{{Name: "depth", Type: schema.Int, Meaning: "m"}}}})
	if err != nil {
		t.Fatal(err)
	}
	own := schema.LayoutOf(schema.Strings).Table
	if s.Table(77).Name != "range" || s.Table(78) != nil || s.Table(schema.Strings) != own || Builtin().Table(schema.Strings) != own {
		t.Error("a table is another kind's")
	}
}

func TestParseRefuses(t *testing.T) {
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

package table

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Row is a row of a table: the cells of its columns, and the struct that they come from.
type Row struct {
	Cells []any
	Of    any // a pointer to the struct
}

// Of makes a table of structs: a row for each, a column for each field that has a key. An embedded struct stands for
// its fields. The tags of a field say what the column is:
//
//	key   its name in JSON and CSV
//	title what people read above it; without one only JSON and CSV have it
//	rank  its place in the order in which columns are left out where there is no room
//	unit  a name of units; without one the key and the type tell it
//
// A comment says what the column means: docs/stats.md is made of these. A nil pointer, a nil list and an empty text are
// null.
func Of[R any](rows []R) *Table {
	list := make([]*R, 0, len(rows))
	for i := range rows {
		list = append(list, &rows[i])
	}
	return OfRows(list)
}

// OfRows makes a table of pointers to structs likewise.
func OfRows[R any](rows []*R) *Table {
	t := &Table{Type: reflect.TypeFor[R]()}
	fields := fieldsOf(t.Type)
	for i := range fields {
		t.Columns = append(t.Columns, fields[i].Column)
	}
	for _, row := range rows {
		v := reflect.ValueOf(row).Elem()
		cells := make([]any, len(fields))
		for k := range fields {
			cells[k] = cellOf(v.FieldByIndex(fields[k].index))
		}
		t.Rows = append(t.Rows, Row{Cells: cells, Of: row})
	}
	return t
}

// Find returns the table whose rows are of a struct, and the structs of its rows. It panics if there is no such table.
func Find[R any](tables []*Table) (t *Table, rows []*R) {
	i := slices.IndexFunc(tables, func(t *Table) bool { return t.Type == reflect.TypeFor[R]() })
	if i < 0 {
		panic(fmt.Sprintf("no table has rows of %v", reflect.TypeFor[R]()))
	}
	for _, row := range tables[i].Rows {
		rows = append(rows, row.Of.(*R))
	}
	return tables[i], rows
}

// A field is a column, and where its values are in a struct.
type field struct {
	Column
	index []int
}

// Fields returns the fields of a struct that are columns, with the indexes that lead to them through embedded structs.
func Fields(of reflect.Type) (list []reflect.StructField) {
	for f := range of.Fields() {
		if f.Anonymous {
			for _, inner := range Fields(f.Type) {
				inner.Index = append(slices.Clone(f.Index), inner.Index...)
				list = append(list, inner)
			}
		} else if _, ok := f.Tag.Lookup("key"); ok {
			list = append(list, f)
		}
	}
	return list
}

// units are the units' names in tags.
var units = map[string]Unit{
	"text": Text, "number": Number, "duration": Duration, "moment": Moment, "bytes": Bytes, "share": Share, "rate": Rate,
	"address": Address, "flag": Flag, "id": ID, "percent": Percent, "difference": Difference, "figures": Figures,
	"plain": Plain,
}

// fieldsOf returns the columns of a struct. It panics where a tag is wrong.
func fieldsOf(of reflect.Type) (list []field) {
	for _, f := range Fields(of) {
		key, rank := f.Tag.Get("key"), 0
		if tag, ok := f.Tag.Lookup("rank"); ok {
			var err error
			if rank, err = strconv.Atoi(tag); err != nil {
				panic(fmt.Sprintf("%v: the rank of %s is %q", of, key, tag))
			}
		}
		c := Column{Key: key, Title: f.Tag.Get("title"), Unit: unitOf(of, key, &f), Rank: rank}
		list = append(list, field{c, f.Index})
	}
	return list
}

// unitOf is the unit of a field: the one that it names, else what its key and its type tell.
func unitOf(of reflect.Type, key string, f *reflect.StructField) Unit {
	if tag, ok := f.Tag.Lookup("unit"); ok {
		u, known := units[tag]
		if !known {
			panic(fmt.Sprintf("%v: the unit of %s is %q", of, key, tag))
		}
		return u
	}
	kind := f.Type
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	switch {
	case kind.Kind() == reflect.String:
		return Text
	case kind.Kind() == reflect.Bool:
		return Flag
	case strings.HasSuffix(key, "_ns"):
		return Duration
	case strings.HasSuffix(key, "bytes"):
		return Bytes
	case strings.HasSuffix(key, "share"):
		return Share
	case kind.Kind() == reflect.Uint64, kind.Kind() == reflect.Int:
		return Number
	}
	panic(fmt.Sprintf("%v: %s has no unit", of, key))
}

// cellOf is the value of a field as a cell.
func cellOf(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if v.Kind() == reflect.Pointer {
			return cellOf(v.Elem())
		}
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}
		return v.String()
	case reflect.Uint32:
		return v.Uint()
	case reflect.Int, reflect.Int64:
		return uint64(v.Int())
	}
	return v.Interface()
}

package parquetsink

import (
	"reflect"

	"github.com/cudatrace/cudatrace/convert/internal/joined"
	"github.com/cudatrace/cudatrace/parquet"
)

// A Table is a table of the schema: the columns of a table of package joined, and the log.
type Table struct {
	Name    string
	Columns []Column
}

// A Column is a column of a table.
type Column struct {
	parquet.Column
	kind   reflect.Kind
	offset uintptr // in the struct of a row; of the log none
}

// Tables is the schema: the tables of package joined, in their order.
var Tables = schema()

// sorted is the column by which the rows of a row group are sorted, in tables that have it.
const sorted = "start_unix_ns"

// logID is the column of the log, the last one of each table.
const logID = "log_id"

func schema() (all []Table) {
	for _, t := range joined.Tables {
		table := Table{Name: t.Name}
		for f := range t.Row.Fields() {
			_, null := f.Tag.Lookup("null")
			table.Columns = append(table.Columns, Column{
				parquet.Column{Name: f.Tag.Get("key"), Type: typeOf(f.Type), Nullable: null}, f.Type.Kind(), f.Offset,
			})
		}
		table.Columns = append(table.Columns, Column{
			Column: parquet.Column{Name: logID, Type: parquet.Text}, kind: reflect.String,
		})
		all = append(all, table)
	}
	return all
}

// typeOf is the type of a column of a Go type.
func typeOf(t reflect.Type) parquet.Type {
	switch {
	case t == reflect.TypeFor[joined.Moment]():
		return parquet.Time
	case t.Kind() == reflect.Int64, t.Kind() == reflect.Uint32:
		return parquet.Int
	case t.Kind() == reflect.Float64:
		return parquet.Float
	case t.Kind() == reflect.Bool:
		return parquet.Bool
	case t.Kind() == reflect.String:
		return parquet.Text
	}
	panic("no column holds " + t.String())
}

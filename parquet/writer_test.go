package parquet_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/parquet"
	"github.com/cudatrace/cudatrace/parquet/sqltest"
	"github.com/cudatrace/cudatrace/record/must"
)

// columns of every type, encoding and shape.
var columns = []parquet.Column{
	{Name: "moment", Type: parquet.Int},                  // rises: differences
	{Name: "narrow", Type: parquet.Int, Nullable: true},  // a dictionary by table
	{Name: "wide", Type: parquet.Int},                    // a dictionary by map
	{Name: "any", Type: parquet.Int, Nullable: true},     // 64 random bits
	{Name: "name", Type: parquet.Text, Nullable: true},   // texts, also odd ones
	{Name: "same", Type: parquet.Text},                   // one text
	{Name: "flag", Type: parquet.Bool, Nullable: true},   //
	{Name: "value", Type: parquet.Float, Nullable: true}, //
	{Name: "when", Type: parquet.Time},                   //
	{Name: "nothing", Type: parquet.Int, Nullable: true}, // null alone
	{Name: "notext", Type: parquet.Text, Nullable: true}, // null alone
	{Name: "one", Type: parquet.Int},                     // one number
	{Name: "small", Type: parquet.Int, Nullable: true},   // small numbers: a dictionary by table
	{Name: "smalls", Type: parquet.Int, Nullable: true},  // differences
}

var texts = []string{"", "a'b\"c\n", "größer", strings.Repeat("long", 100), "unused", "d"}

// random makes the values of a row group, at times after those of the group before.
func random(rnd *rand.Rand, rows, group int) []parquet.Values {
	v := make([]parquet.Values, len(columns))
	at := int64(1_600_000_000_000_000_000 + group*100_000_000_000_000_000)
	for range rows {
		at += 1 + rnd.Int64N(1<<rnd.IntN(40))
		ints := func(column int, x int64) { v[column].Ints = append(v[column].Ints, x) }
		null := func(x int64) int64 {
			if rnd.IntN(7) == 0 {
				return parquet.NullInt
			}
			return x
		}
		ints(0, at)
		ints(1, null(rnd.Int64N(300)-100))
		ints(2, []int64{math.MinInt64 + 1, -1, 0, 4194304, math.MaxInt64}[rnd.IntN(5)])
		ints(3, null(int64(rnd.Uint64())))
		ints(6, null(rnd.Int64N(2)))
		ints(8, at/1000)
		ints(9, parquet.NullInt)
		ints(11, 7)
		small := func(column int, x uint32) {
			if rnd.IntN(9) == 0 {
				x = parquet.NullSmall
			}
			v[column].Small = append(v[column].Small, x)
		}
		small(12, 1<<31+rnd.Uint32N(100))
		small(13, rnd.Uint32())
		name := uint32(rnd.IntN(len(texts)))
		if texts[name] == "unused" {
			name = parquet.NullText
		}
		v[4].Index = append(v[4].Index, name)
		v[5].Index = append(v[5].Index, 5)
		v[10].Index = append(v[10].Index, parquet.NullText)
		value := rnd.Float64()
		if rnd.IntN(5) == 0 {
			value = math.NaN()
		}
		v[7].Floats = append(v[7].Floats, value)
	}
	v[4].Texts, v[5].Texts, v[10].Texts = texts, texts, texts
	return v
}

// repeated makes the values of a row group whose columns have one value each: null, or another one.
func repeated(rows int, null bool) []parquet.Values {
	v := make([]parquet.Values, len(columns))
	for i, c := range columns {
		v[i] = parquet.Values{Repeated: rows, Ints: []int64{1}, Floats: []float64{1.5}, Index: []uint32{2}, Texts: texts}
		if i >= 12 {
			v[i].Small, v[i].Ints[0] = []uint32{8}, -8 // ignored
		}
		if null && c.Nullable {
			v[i].Small = slices.Repeat([]uint32{parquet.NullSmall}, len(v[i].Small))
			v[i].Ints[0], v[i].Floats[0], v[i].Index[0] = parquet.NullInt, math.NaN(), parquet.NullText
		}
	}
	v[0] = parquet.Values{} // the order of the rows
	for i := range rows {
		v[0].Ints = append(v[0].Ints, int64(i))
	}
	return v
}

// written are values with one for each row.
func written(v parquet.Values) parquet.Values {
	if v.Repeated == 0 {
		return v
	}
	return parquet.Values{Texts: v.Texts, Ints: slices.Repeat(v.Ints, v.Repeated), Small: slices.Repeat(v.Small, v.Repeated), Floats: slices.Repeat(v.Floats, v.Repeated), Index: slices.Repeat(v.Index, v.Repeated)}
}

// write writes row groups to a file.
func write(t testing.TB, path string, groups [][]parquet.Values) {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewWriter(&b, parquet.Options{Columns: columns, Sorted: "moment", CreatedBy: "test", Facts: []parquet.Fact{{Key: "k", Value: "v"}}})
	e := parquet.NewEncoders()
	for _, g := range groups {
		w.Group(e, parquet.RowGroup{Rows: len(g[0].Ints), Values: func(_, i int) parquet.Values { return g[i] }})
	}
	must.Do(t, e.Wait())
	must.Do(t, w.Close())
	must.Do(t, os.WriteFile(path, b.Bytes(), 0o600))
}

// cell is a value as the engines print it.
func cell(c parquet.Column, v parquet.Values, row int) string {
	if len(v.Small) > 0 {
		if v.Small[row] == parquet.NullSmall {
			return "NULL"
		}
		return fmt.Sprint(v.Small[row])
	}
	switch {
	case c.Type == parquet.Text && v.Index[row] == parquet.NullText, c.Type != parquet.Text && c.Type != parquet.Float && v.Ints[row] == parquet.NullInt,
		c.Type == parquet.Float && math.IsNaN(v.Floats[row]):
		return "NULL"
	case c.Type == parquet.Text:
		return v.Texts[v.Index[row]]
	case c.Type == parquet.Float:
		return fmt.Sprintf("%.12f", v.Floats[row])
	case c.Type == parquet.Bool:
		return fmt.Sprint(v.Ints[row] == 1)
	}
	return fmt.Sprint(v.Ints[row])
}

func TestReadDuckDB(t *testing.T)     { testRead(t, sqltest.DuckDB) }
func TestReadClickHouse(t *testing.T) { testRead(t, sqltest.ClickHouse) }

// testRead reads what was written with an engine: row groups of sizes around those of blocks, groups and pages.
func testRead(t *testing.T, name string) {
	engine := sqltest.Open(t, name)
	path := filepath.Join(t.TempDir(), "a.parquet")
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, sizes := range [][]int{{}, {1}, {2, 7, 8, 9}, {31, 32, 33, 127, 128, 129, 130}, {5000}, {64<<10 + 3, 1}} {
		var groups [][]parquet.Values
		for i, n := range sizes {
			groups = append(groups, random(rnd, n, i))
		}
		write(t, path, groups)
		compare(t, engine, path, groups)
	}
	for _, rows := range []int{1, 9, 64<<10 + 3} {
		for _, null := range []bool{false, true} {
			v := repeated(rows, null)
			write(t, path, [][]parquet.Values{v})
			for i := range v {
				v[i] = written(v[i])
			}
			compare(t, engine, path, [][]parquet.Values{v})
		}
	}
}

// sparse is the number of rows from which only every 64th is compared.
const sparse = 10_000

// compare compares a file with the values that were written.
func compare(t *testing.T, engine *sqltest.Engine, path string, groups [][]parquet.Values) {
	t.Helper()
	from, micros := "'"+path+"'", "epoch_us"
	if engine.Name == sqltest.ClickHouse {
		from, micros = "file('"+path+"', Parquet)", "toUnixTimestamp64Micro"
	}
	total := 0
	for _, g := range groups {
		total += len(g[0].Ints)
	}
	step := int64(1)
	if total > sparse {
		step = 64
	}
	if n := engine.Int("select count(*) from " + from); n != int64(total) {
		t.Fatalf("%d rows instead of %d", n, total)
	}
	got := engine.Rows(fmt.Sprintf(`select moment, narrow, wide, "any", name, same, flag, printf('%%.12f', value), %s("when"), nothing, notext, one, small, smalls
		from %s where moment %% %d = 0 order by moment`, micros, from, step))
	row := 0
	for _, g := range groups {
		for i, moment := range g[0].Ints {
			if moment%step != 0 {
				continue
			}
			for c := range columns {
				if want := cell(columns[c], g[c], i); row >= len(got) || got[row][c] != want {
					t.Fatalf("%d rows: row %d, %s: %q, not %q", len(got), row, columns[c].Name, at(got, row, c), want)
				}
			}
			row++
		}
	}
	if row != len(got) {
		t.Errorf("%d rows instead of %d", len(got), row)
	}
}

func at(rows [][]string, row, column int) string {
	if row >= len(rows) {
		return "no such row"
	}
	return rows[row][column]
}

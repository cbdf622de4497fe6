package table

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

func rowsOf(list [][]any) (rows []Row) {
	for _, cells := range list {
		rows = append(rows, Row{Cells: cells})
	}
	return rows
}

// sample is a table with values of every unit, and unknown ones.
func sample() *Table {
	return &Table{Name: "things", Title: "all things", Columns: []Column{
		{Key: "name", Title: "name"}, {Key: "count", Title: "count", Unit: Number, Rank: 1}, {Key: "total_ns", Title: "total", Unit: Duration, Rank: 1},
		{Key: "share", Title: "share", Unit: Share, Rank: 2}, {Key: "bytes", Title: "bytes", Unit: Bytes, Rank: 3}, {Key: "gbps", Title: "GB/s", Unit: Rate, Rank: 4},
		{Key: "at_ns", Title: "at", Unit: Moment, Rank: 5}, {Key: "pid", Title: "process", Unit: ID, Rank: 6}, {Key: "address", Title: "address", Unit: Address, Rank: 7},
		{Key: "peer", Title: "peer", Unit: Flag, Rank: 8}, {Key: "from", Title: "from", Unit: Text, Rank: 9}, {Key: "hidden", Unit: Number},
	}, Rows: rowsOf([][]any{
		{"void gemm<float, 128, 64>", uint64(12_345), uint64(7_330), 0.123456789, uint64(4096), 32.5, uint64(1_500_000_000), uint64(3200), uint64(0xff), true, "Zażółć", uint64(1)},
		{"a\x1b[31m|`b", uint64(1), 1_234_567.25, 1.0, 512.0, nil, nil, nil, nil, false, nil, uint64(2)},
		{"", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil},
	}), LeftOut: 2, Notes: []string{"a note"}}
}

func empty() *Table {
	return &Table{Name: "nothing", Title: "no things", Columns: sample().Columns, Reason: "no <things>"}
}

func TestText(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	must.Do(t, WriteText(&out, []*Table{sample(), empty()}, 140))
	const want = `things: all things
  name                        count    total    share    bytes   GB/s          at  process  address  peer  from
  void gemm<float, 128, 64>  12,345  7.33 µs   12.3 %  4.0 KiB  32.50  1.500000 s     3200     0xff   yes  Zażółć
  a�[31m|` + "`" + `b                       1  1.23 ms  100.0 %    512 B      -           -        -        -    no  -
                                  -        -        -        -      -           -        -        -     -  -
  2 more rows are not shown
  a note

nothing: no <things>
`
	goldentest.Same(t, want, out.String(), "result")
}

// Columns are left out from the highest rank on, names are cut in the middle, and no line is
// too long.
func TestWidth(t *testing.T) {
	t.Parallel()
	long := sample()
	long.Rows[0].Cells[0] = strings.Repeat("ab", 40) + "END"
	long.Notes, long.LeftOut = nil, 0
	for width := 49; width < 200; width++ {
		var out strings.Builder
		must.Do(t, WriteText(&out, []*Table{long}, width))
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: %d characters: %s", width, n, line)
			}
		}
		if !strings.Contains(out.String(), "count") || width < 120 && !strings.Contains(out.String(), "…") || !strings.Contains(out.String(), "END") {
			t.Errorf("width %d:\n%s", width, &out)
		}
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	must.Do(t, WriteMarkdown(&out, []*Table{sample(), empty()}))
	const want = "### things: all things\n\n" +
		"| name | count | total | share | bytes | GB/s | at | process | address | peer | from |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n" +
		"| `void gemm<float, 128, 64>` | 12,345 | 7.33 µs | 12.3 % | 4.0 KiB | 32.50 | 1.500000 s | 3200 | 0xff | yes | `Zażółć` |\n" +
		"| `a\uFFFD[31m\\|'b` | 1 | 1.23 ms | 100.0 % | 512 B | - | - | - | - | no | - |\n" +
		"|  | - | - | - | - | - | - | - | - | - | - |\n\n" +
		"2 more rows are not shown\na note\n\n" +
		"### nothing: no things\n\nno <things>\n"
	goldentest.Same(t, want, out.String(), "result")
}

func TestCSV(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, table := range []*Table{sample(), empty()} {
		must.Do(t, table.WriteCSV(&out))
	}
	const keys = "name,count,total_ns,share,bytes,gbps,at_ns,pid,address,peer,from,hidden\n"
	const want = keys + "\"void gemm<float, 128, 64>\",12345,7330,0.123457,4096,32.5,1500000000,3200,0xff,true,Zażółć,1\n" +
		"a\x1b[31m|`b,1,1234567.25,1,512,,,,,false,,2\n" + ",,,,,,,,,,,\n" + keys
	goldentest.Same(t, want, out.String(), "result")
}

// hostile is a table with texts that a spreadsheet would run, and fractions that are no numbers.
func hostile() *Table {
	var rows [][]any
	for _, s := range []string{`=cmd|' /C calc'!A1`, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "a\nb\r\nc", "a=b"} {
		rows = append(rows, []any{s, -1.5, []string{s}, Cell{s, Text}, []float64{math.NaN(), -1}})
	}
	rows = append(rows, []any{"", math.Inf(1), nil, Cell{math.NaN(), Rate}, []float64{math.Inf(-1)}})
	return &Table{Name: "hostile", Rows: rowsOf(rows), Columns: []Column{{Key: "name"}, {Key: "change", Unit: Percent}, {Key: "list"}, {Key: "cell"}, {Key: "shares", Unit: Share}}}
}

// No text of CSV is a formula or has line breaks, and numbers stay numbers.
func TestCSVTexts(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	must.Do(t, hostile().WriteCSV(&out))
	lines := []string{"name,change,list,cell,shares"}
	texts := []string{`'=cmd|' /C calc'!A1`, "'+1+1", "'-2+3", "'@SUM(A1)", "'\t=1", "' =1", "a b c", "a=b"}
	for _, s := range texts {
		lines = append(lines, s+",-1.5,"+s+","+s+", -1")
	}
	want := strings.ReplaceAll(strings.Join(append(lines, ",,,,", ""), "\n"), ", -1", `," -1"`)
	goldentest.Same(t, want, out.String(), "result")
}

// A fraction that is no number is a value that is not known.
func TestNoNumber(t *testing.T) {
	t.Parallel()
	var text, object strings.Builder
	tables := []*Table{hostile()}
	tables[0].Sort("change")
	must.Do(t, errors.Join(WriteText(&text, tables, 80), WriteJSON(&object, nil, tables)))
	var members map[string]any
	if err := json.Unmarshal([]byte(object.String()), &members); err != nil {
		t.Fatalf("%v in\n%s", err, object.String())
	}
	rows := members["hostile"].([]any)
	want := map[string]any{"name": "", "change": nil, "list": nil, "cell": nil, "shares": []any{nil}}
	goldentest.Same(t, want, rows[len(rows)-1], "result")
	if s := text.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
		t.Error(s)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	must.Do(t, WriteJSON(&out, []Member{{"version", 1}}, []*Table{sample(), empty()}))
	const want = `{
  "version": 1,
  "things": [
    {"name": "void gemm<float, 128, 64>", "count": 12345, "total_ns": 7330, "share": 0.123457, "bytes": 4096, "gbps": 32.5, "at_ns": 1500000000, "pid": 3200, "address": "0xff", "peer": true, "from": "Zażółć", "hidden": 1},
    {"name": "a\u001b[31m|` + "`" + `b", "count": 1, "total_ns": 1234567.25, "share": 1, "bytes": 512, "gbps": null, "at_ns": null, "pid": null, "address": null, "peer": false, "from": null, "hidden": 2},
    {"name": "", "count": null, "total_ns": null, "share": null, "bytes": null, "gbps": null, "at_ns": null, "pid": null, "address": null, "peer": null, "from": null, "hidden": null}
  ],
  "nothing": [],
  "reasons": {
    "nothing": "no <things>"
  },
  "notes": {
    "things": ["a note"]
  },
  "left_out": {
    "things": 2
  }
}
`
	goldentest.Same(t, want, out.String(), "result")
}

func TestSort(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"name": "a b c d", "n": "d b c a", "f": "c a b d", "none": "c a d b", "id": "d a c b"} {
		table := &Table{Columns: []Column{{Key: "name"}, {Key: "n", Unit: Number}, {Key: "f", Unit: Share}, {Key: "id", Unit: ID}}, Rows: rowsOf([][]any{
			{"c", uint64(3), 0.5, uint64(2)}, {"a", nil, 0.25, uint64(3)}, {"d", uint64(9), nil, uint64(4)}, {"b", uint64(3), 0.25, uint64(1)}})}
		table.Sort(key)
		var got []string
		for _, row := range table.Rows {
			got = append(got, row.Cells[0].(string))
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("by %s: %s, want %s", key, s, want)
		}
	}
}

func TestTop(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][2]int{0: {3, 2}, 1: {1, 4}, 3: {3, 2}, 9: {3, 2}} {
		table := sample()
		table.Top(n)
		if got := [2]int{len(table.Rows), table.LeftOut}; got != want {
			t.Errorf("top %d: %d, want %d", n, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for ns, want := range map[uint64]string{0: "0 ns", 999: "999 ns", 1000: "1.00 µs", 9_994: "9.99 µs", 9_996: "10.0 µs", 99_949: "99.9 µs", 99_951: "100 µs",
		999_499: "999 µs", 999_500: "1.00 ms", 999_499_999: "999 ms", 999_500_000: "1.00 s", 599e9: "599 s", 600e9: "10m0s"} {
		if got := span(ns); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}

// prose is a table that people read as paragraphs.
func prose() *Table {
	return &Table{Name: "words", Title: "in words", Columns: []Column{{Key: "name"}, {Key: "at_ns", Unit: Moment}, {Key: "names"}, {Key: "shares", Unit: Share}},
		Rows: rowsOf([][]any{
			{"a <b> *c*", []uint64{1_500_000_000, 2}, []string{"x, y", `"z"`}, []float64{0.5, 0.25}},
			{"second\x1b[31m", []uint64{}, nil, nil},
		}),
		Prose: func(row Row) Paragraph {
			return Paragraph{Head: row.Cells[0].(string), Items: []Item{{"at", Words(row.Cells[1], Moment)}, {"longer", "some words that do not fit one line of 30 characters, 12 ms" + Glue + "long"}}}
		}}
}

func TestProse(t *testing.T) {
	t.Parallel()
	var text, markdown, csv, json strings.Builder
	tables := []*Table{prose()}
	must.Do(t, errors.Join(WriteText(&text, tables, 30), WriteMarkdown(&markdown, tables), tables[0].WriteCSV(&csv), WriteJSON(&json, nil, tables)))
	for name, c := range map[string][2]string{
		"text": {text.String(), `words: in words
  1. a <b> *c*
     at      1.500000 s,
             0.000000 s
     longer  some words that
             do not fit one
             line of 30
             characters,
             12 ms long
  2. second�[31m
     at
     longer  some words that
             do not fit one
             line of 30
             characters,
             12 ms long
`},
		"markdown": {markdown.String(), `### words: in words

1. **a \<b\> \*c\***
   - at: 1.500000 s, 0.000000 s
   - longer: some words that do not fit one line of 30 characters, 12 ms long
2. **second�\[31m**
   - at: 
   - longer: some words that do not fit one line of 30 characters, 12 ms long

`},
		"CSV": {csv.String(), "name,at_ns,names,shares\na <b> *c*,1500000000 2,\"x, y | \"\"z\"\"\",0.5 0.25\nsecond\x1b[31m,,,\n"},
		"JSON": {json.String(), `{
  "words": [
    {"name": "a <b> *c*", "at_ns": [1500000000, 2], "names": ["x, y", "\"z\""], "shares": [0.5, 0.25]},
    {"name": "second\u001b[31m", "at_ns": [], "names": null, "shares": null}
  ],
  "reasons": {},
  "notes": {},
  "left_out": {}
}
`},
	} {
		if diff := cmp.Diff(strings.ReplaceAll(strings.ReplaceAll(c[1], `\uFFFD`, "\uFFFD"), `\n`, "\n"), c[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Names that would read alike when they are cut in the middle are cut where they differ.
func TestCutApart(t *testing.T) {
	t.Parallel()
	long := func(middle string) string {
		return "at::native::reduce_kernel<512, 1, at::native::" + middle + "<float, at::native::func_wrapper_t<float>, unsigned int, float, 4, 4>>"
	}
	texts := []string{"kernel", long("ReduceOp"), long("MeanOps"), long("ReduceOp"), "a name that is cut in its middle as it is no other's", "short"}
	full := slices.Clone(texts)
	cutApart(texts, 36)
	for i, s := range texts {
		if utf8.RuneCountInString(s) > 36 {
			t.Errorf("%q is longer than its column", s)
		}
		for k := range texts[:i] {
			if (s == texts[k]) != (full[i] == full[k]) {
				t.Errorf("%q and %q read %q and %q", full[k], full[i], texts[k], s)
			}
		}
	}
	if !strings.Contains(texts[1], "ReduceOp") || !strings.Contains(texts[2], "MeanOps") || texts[4] != "a name that is cut…as it is no other's" && !strings.Contains(texts[4], "…") || texts[5] != "short" {
		t.Errorf("%q", texts)
	}
}

// People read how many columns have no room.
func TestShort(t *testing.T) {
	t.Parallel()
	base := func(row Row) string {
		s := row.Cells[0].(string)
		return s[strings.LastIndexByte(s, '/')+1:]
	}
	made := &Table{Name: "lines", Title: "lines", Columns: []Column{{Key: "name", Title: "line", Short: base}},
		Rows: rowsOf([][]any{{"/a/x.py:1 f"}, {"/a/y.py:1 f"}, {"/b/y.py:1 f"}, {"/a/x.py:1 f"}})}
	for width, want := range map[int]string{
		80:   "lines: lines\n  line\n  x.py:1 f\n  /a/y.py:1 f\n  /b/y.py:1 f\n  x.py:1 f\n",
		Wide: "lines: lines\n  line\n  /a/x.py:1 f\n  /a/y.py:1 f\n  /b/y.py:1 f\n  /a/x.py:1 f\n",
	} {
		var b strings.Builder
		if err := WriteText(&b, []*Table{made}, width); err != nil || b.String() != want {
			t.Errorf("width %d: %v\n%s", width, err, &b)
		}
	}
}

// Find returns the structs of a table in the order of its rows, and none of rows that Top leaves out.
func TestFind(t *testing.T) {
	t.Parallel()
	type small struct {
		Name string `key:"name"`
		Time uint64 `key:"time_ns"`
	}
	type none struct {
		Name string `key:"name"`
	}
	made := Of([]small{{"a", 1}, {"b", 3}, {"c", 2}})
	made.Sort("time_ns")
	made.Top(2)
	tables := []*Table{prose(), Of[none](nil), made}
	found, rows := Find[small](tables)
	if found != made || len(rows) != 2 || *rows[0] != (small{"b", 3}) || *rows[1] != (small{"c", 2}) {
		t.Errorf("%v, %d rows", found, len(rows))
	}
	if found, rows := Find[none](tables); found != tables[1] || rows != nil {
		t.Errorf("%v, %d rows", found, len(rows))
	}
	defer func() {
		if recover() == nil {
			t.Error("a struct that no table has is found")
		}
	}()
	Find[small](tables[:2])
}

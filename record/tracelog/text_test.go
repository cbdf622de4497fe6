package tracelog

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

var update = flag.Bool("update", false, "rewrite golden files and generated sections")

// assemble makes a log of a text.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	w, out := newTestWriter(t, Options{})
	end, err := Assemble(strings.NewReader(text), w)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(end); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func dump(t testing.TB, log []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := Dump(&b, openBytes(t, log)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func sortedLines(s string) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	slices.Sort(lines)
	return lines
}

// testdata/all.txt has a record of every kind. It shows the text form as people see
// it, and is what comes out again when it has been a log.
func TestGolden(t *testing.T) {
	path := filepath.Join("testdata", "all.txt")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := dump(t, assemble(t, string(text)))
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(text), got); diff != "" {
		t.Error(diff)
	}
	for _, table := range schema.Records()[1:] {
		if !strings.Contains(got, "\n"+table.Name+" ") && !strings.HasPrefix(got, table.Name+" ") {
			t.Errorf("there is no %s record in %s", table.Name, path)
		}
	}
}

// Binary to text to binary to text, for hostile values of every kind.
func TestTextRoundTrip(t *testing.T) {
	for _, k := range allKinds {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(9, uint64(k)))
			w, out := newTestWriter(t, Options{})
			for i := range uint32(9) {
				w.Add(&Function{ID: i, Name: []string{"f", "g", "f", "a#b", "", "x y"}[i%6],
					Args: "a:i32 b:i64 c:u32 d:ptr flags:handle ret:size x=y:u8 \"q:u8 é:u8"})
			}
			for range 500 {
				record := NewRecord(k)
				fill(reflect.ValueOf(record).Elem(), hostileNumber(rnd), hostileText(rnd))
				w.Add(record)
			}
			var end End
			fill(reflect.ValueOf(&end).Elem(), hostileNumber(rnd), hostileText(rnd))
			if err := w.Close(end); err != nil {
				t.Fatal(err)
			}
			first := dump(t, out.Bytes())
			second := dump(t, assemble(t, first))
			if diff := cmp.Diff(sortedLines(first), sortedLines(second)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAssembleErrors(t *testing.T) {
	for text, want := range map[string]string{
		"nonsense":               `line 1: "nonsense" is no kind of record`,
		"string id=1":            `line 1: "string" is no kind of record`,
		"\n# x\nnote time":       "line 3: a field must be name=value",
		"note time=1 colour=2":   `line 1: a note record has no field "colour"`,
		"note time=soon":         `line 1: time: "soon" is no number`,
		"note time=-1":           `line 1: time: "-1" is no number`,
		`note text="a`:           "line 1: text: the quote is not closed",
		"call func=cuInit":       `line 1: func: there is no function "cuInit" above`,
		"call func=#1 args: a=b": `line 1: a: "b" is no number`,
		"call args: " + strings.Repeat("a=1 ", 13): "line 1: a call has at most 12 arguments",
	} {
		w, _ := newTestWriter(t, Options{})
		if _, err := Assemble(strings.NewReader(text), w); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestDumpShowsDamage(t *testing.T) {
	log := launches(t, 100)
	text := dump(t, log[:len(log)/2])
	last := text[strings.LastIndex(strings.TrimSpace(text), "\n")+1:]
	if !strings.HasPrefix(last, "# the log ends in the middle of a block at byte ") {
		t.Errorf("the last line is %q", last)
	}
}

// A failingWriter takes n bytes.
type failingWriter struct{ n int }

func (f *failingWriter) Write(b []byte) (int, error) {
	if f.n -= len(b); f.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestDumpReportsWriteError(t *testing.T) {
	if err := Dump(&failingWriter{100_000}, openBytes(t, launches(t, 2000))); err != errFull {
		t.Errorf("error %v", err)
	}
}

func BenchmarkDump(b *testing.B) {
	log := launches(b, 10_000)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Dump(io.Discard, openBytes(b, log)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*30_000), "ns/record")
}

// dumpJSON is the JSON form of a log.
func dumpJSON(t testing.TB, log []byte, f Filter) string {
	t.Helper()
	var b bytes.Buffer
	if err := DumpWith(&b, openBytes(t, log), DumpOptions{Filter: f, JSON: true}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const jsonDoc = "../../docs/ndjson.md"

// The JSON form of every kind of record is in its documentation, and is valid JSON
// with the fields of the tables in their order.
func TestJSON(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "all.txt"))
	if err != nil {
		t.Fatal(err)
	}
	examples := make(map[string]string)
	var shown strings.Builder
	shown.WriteString("```\n")
	for line := range strings.Lines(dumpJSON(t, assemble(t, string(text)), Filter{})) {
		kind := checkJSONRecord(t, line)
		if examples[kind] == "" {
			examples[kind] = line
			shown.WriteString(line)
		}
	}
	shown.WriteString("```\n")
	for _, table := range schema.Records()[1:] {
		if examples[table.Name] == "" {
			t.Errorf("there is no %s record", table.Name)
		}
	}
	checkSection(t, jsonDoc, "<!-- examples: go test ./record/tracelog -update -->\n", "<!-- end of examples -->", shown.String())
}

// checkJSONRecord holds a line against the table of its kind.
func checkJSONRecord(t *testing.T, line string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var record map[string]any
	if err := d.Decode(&record); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	kind, _ := record["kind"].(string)
	k, ok := KindByName(kind)
	if !ok {
		t.Fatalf("%s: no kind", line)
	}
	l := schema.LayoutOf(k)
	for i, f := range l.Fields {
		if l.Kind == KindCall && i >= callArg0-1 {
			if _, ok := record["args"].(map[string]any); !ok {
				t.Errorf("%s: no arguments", line)
			}
			break
		}
		_, isNumber := record[f.Name].(json.Number)
		_, isText := record[f.Name].(string)
		text := f.Type == schema.String || f.Type == schema.Hex || l.Kind == KindCall && f.Name == "func"
		if isText != text || isNumber == text {
			t.Errorf("%s: %s is %v", line, f.Name, record[f.Name])
		}
	}
	return kind
}

// checkSection holds the part of a file between two marks against a text.
func checkSection(t *testing.T, path, begin, end, want string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, to := bytes.Index(text, []byte(begin)), bytes.Index(text, []byte(end))
	if from < 0 || to < from {
		t.Fatalf("%s: the marks are missing", path)
	}
	from += len(begin)
	if string(text[from:to]) == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the package; go test -update rewrites it", path)
	}
	text = append(append(bytes.Clone(text[:from]), want...), text[to:]...)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Whatever the texts and numbers are, each line is valid JSON and says them.
func TestJSONHostile(t *testing.T) {
	t.Parallel()
	for _, k := range allKinds {
		rnd := rand.New(rand.NewPCG(11, uint64(k)))
		w, out := newTestWriter(t, Options{})
		w.Add(&Function{ID: 7, Name: "f", Args: "a:i32 b:i64 \"q:u8 é:u8 a:u64"})
		for range 200 {
			record := NewRecord(k)
			fill(reflect.ValueOf(record).Elem(), hostileNumber(rnd), hostileText(rnd))
			w.Add(record)
		}
		if err := w.Close(End{Reason: "\x01\x7f\xff\u2028"}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(dumpJSON(t, out.Bytes(), Filter{})) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%v: %q is no JSON", k, line)
			}
		}
	}
	log := newerVersion(t)
	text := dumpJSON(t, log, Filter{})
	for _, want := range []string{`{"kind":"note","text":"hello","colour":"0xc0","time":5000,"pid":"a range"}`,
		`{"kind":"range","name":"a range","depth":-3,"raw":"raw bytes","odd":9}`, `{"kind":"kind88","field1":4}`,
		`{"kind":"remark","text":"the log ends at byte `} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// With a filter, lines are those of the whole dump that it wants, calls with the names
// of their functions.
func TestDumpFilter(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "all.txt"))
	if err != nil {
		t.Fatal(err)
	}
	log := assemble(t, string(text))
	var b bytes.Buffer
	if err := DumpWith(&b, openBytes(t, log), DumpOptions{Filter: Filter{Kinds: []Kind{KindCall, KindNote}}}); err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for line := range strings.Lines(dump(t, log)) {
		if strings.HasPrefix(line, "call ") || strings.HasPrefix(line, "note ") {
			want.WriteString(line)
		}
	}
	if diff := cmp.Diff(want.String(), b.String()); diff != "" || want.Len() == 0 {
		t.Error(diff)
	}
}

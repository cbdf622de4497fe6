package logtext

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/logtest"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// assemble makes a log of a text.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	w, out := newWriter(t)
	end := must.Get(Assemble(strings.NewReader(text), w))(t)
	must.Do(t, w.Close(end))
	return out.Bytes()
}

func newWriter(t testing.TB) (*tracelog.Writer, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	w := must.Get(tracelog.NewWriter(&out, tracelog.Options{RowsPerBlock: 150}))(t)
	return w, &out
}

func open(t testing.TB, log []byte) *tracelog.Reader {
	t.Helper()
	r := must.Get(tracelog.NewReader(bytes.NewReader(log), int64(len(log)), "test.cudatrace"))(t)
	return r
}

func dumpWith(t testing.TB, log []byte, o Options) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Dump(&b, open(t, log), o))
	return b.String()
}

func dump(t testing.TB, log []byte) string {
	t.Helper()
	return dumpWith(t, log, Options{})
}

func dumpJSON(t testing.TB, log []byte) string {
	t.Helper()
	return dumpWith(t, log, Options{JSON: true})
}

// seeds are the logs that the reader's tests have, by name.
func seeds(t testing.TB) map[string][]byte {
	t.Helper()
	return logtest.Seeds(t, "../testdata/fuzz/FuzzReader")
}

// manyLaunches is a log of n times the launches of the seed of that name.
func manyLaunches(t testing.TB, n int) []byte {
	t.Helper()
	w, out := newWriter(t)
	seed := seeds(t)["launches"]
	for range n {
		for r := open(t, seed); r.Next(); {
			record := tracelog.NewRecord(r.Block().Kind)
			for i := 0; record != nil && i < r.Block().N; i++ {
				record.Read(r.Block(), i)
				w.Add(record)
			}
		}
	}
	must.Do(t, w.Close(tracelog.End{Complete: 1}))
	return out.Bytes()
}

// golden is the text with a record of every kind.
func golden(t testing.TB) string {
	t.Helper()
	text := must.Get(os.ReadFile(goldenPath))(t)
	return string(text)
}

const goldenPath = "../testdata/all.txt"

func sortedLines(s string) []string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	slices.Sort(lines)
	return lines
}

// testdata/all.txt has a record of every kind. It shows the text form as people see
// it, and is what comes out again when it has been a log.
func TestGolden(t *testing.T) {
	got := dump(t, assemble(t, golden(t)))
	goldentest.Hold(t, goldenPath, got)
	for _, table := range schema.Records()[1:] {
		if !strings.Contains(got, "\n"+table.Name+" ") && !strings.HasPrefix(got, table.Name+" ") {
			t.Errorf("there is no %s record in %s", table.Name, goldenPath)
		}
	}
}

// Binary to text to binary to text, for hostile values of every kind.
func TestTextRoundTrip(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.String(), func(t *testing.T) {
			t.Parallel()
			first := dump(t, hostileLog(t, k))
			second := dump(t, assemble(t, first))
			if diff := cmp.Diff(sortedLines(first), sortedLines(second)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// hostileLog has records of some kinds, and of functions, with values that no program has.
func hostileLog(t testing.TB, kinds ...tracelog.Kind) []byte {
	t.Helper()
	number, text := logtest.Hostile(rand.New(rand.NewPCG(9, uint64(kinds[0]))))
	w, out := newWriter(t)
	for i := range uint32(9) {
		w.Add(&tracelog.Function{ID: i, Name: []string{"f", "g", "f", "a#b", "", "x y", "a=b"}[i%7],
			Args: "a:i32 b:i64 c:u32 d:ptr flags:handle ret:size x=y:u8 \"q:u8 é:u8 nothing b:c:u8"})
	}
	for _, k := range kinds {
		for range 500 {
			record := tracelog.NewRecord(k)
			logtest.Fill(record, number, text)
			if c, ok := record.(*tracelog.Call); ok && number()%2 == 0 {
				c.Func %= 12
			}
			w.Add(record)
		}
	}
	var end tracelog.End
	logtest.Fill(&end, number, text)
	end.Reason += "\x01\x7f\xff\u2028é"
	must.Do(t, w.Close(end))
	return out.Bytes()
}

func TestAssembleErrors(t *testing.T) {
	for text, want := range map[string]string{
		"nonsense":                                 `line 1: "nonsense" is no kind of record`,
		"string id=1":                              `line 1: "string" is no kind of record`,
		"\n# x\nnote time":                         "line 3: a field must be name=value",
		"note time=1 colour=2":                     `line 1: a note record has no field "colour"`,
		"note time=soon":                           `line 1: time: "soon" is no number`,
		"note time=-1":                             `line 1: time: "-1" is no number`,
		"note pid=4294967296":                      `line 1: pid: "4294967296" has more than 32 bits`,
		"stream priority=1e3":                      `line 1: priority: "1e3" is no number`,
		`note text="a`:                             "line 1: text: the quote is not closed",
		"call func=cuInit":                         `line 1: func: there is no function "cuInit" above`,
		"call func=#1 args: a=b":                   `line 1: a: "b" is no number`,
		"call args: " + strings.Repeat("a=1 ", 13): "line 1: a call has at most 12 arguments",
	} {
		w, _ := newWriter(t)
		if _, err := Assemble(strings.NewReader(text), w); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// Whatever is wrong with a log, its dump ends without an error and says so.
func TestDumpOfDamagedLogs(t *testing.T) {
	t.Parallel()
	for name, log := range seeds(t) {
		r, err := tracelog.NewReader(bytes.NewReader(log), int64(len(log)), name)
		if err != nil {
			continue // it is no log
		}
		var b bytes.Buffer
		if err := Dump(&b, r, Options{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if damaged := strings.Contains("\n"+b.String(), "\n# "); damaged != (r.Damage().Count > 0) {
			t.Errorf("%s: damage is %v, the text %s", name, r.Damage(), &b)
		}
	}
}

func TestDumpReportsWriteError(t *testing.T) {
	if err := Dump(&logtest.FailingWriter{Room: 100_000}, open(t, manyLaunches(t, 30)), Options{}); err != logtest.ErrFull {
		t.Errorf("error %v", err)
	}
}

// The text of a small log is bounded, however long the names that its records repeat.
func TestDumpIsBounded(t *testing.T) {
	t.Parallel()
	w, out := newWriter(t)
	for range 2000 {
		w.Add(&tracelog.Kernel{GPU: tracelog.GPU{PID: 1, Start: 1}, Name: strings.Repeat("x", 1<<20)})
	}
	must.Do(t, w.Close(tracelog.End{}))
	for _, o := range []Options{{}, {JSON: true}} {
		room := &logtest.FailingWriter{Room: 16<<20 + 2048*out.Len()}
		if err := Dump(room, open(t, out.Bytes()), o); err == nil || !strings.Contains(err.Error(), "no recorder writes such a log") {
			t.Errorf("error %v", err)
		}
	}
}

// A file that cannot be read is an error, not a remark.
func TestDumpReportsReadError(t *testing.T) {
	log := manyLaunches(t, 30)
	r := must.Get(tracelog.NewReader(bytes.NewReader(log[:len(log)/2]), int64(len(log)), "short"))(t)
	if err := Dump(io.Discard, r, Options{}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
}

// committedLog is a log that this version wrote once; its text is beside it.
const committedLog = "../testdata/version2.0.log"

// The text of a committed log and of one of a later version.
func TestDumpOfOtherVersions(t *testing.T) {
	log := must.Get(os.ReadFile(committedLog))(t)
	text := must.Get(os.ReadFile(strings.TrimSuffix(committedLog, ".log") + ".txt"))(t)
	if got := dump(t, log); got != string(text) {
		t.Errorf("%s: text is %s", committedLog, got)
	}
	want := "note text=hello colour=0xc0 time=5000 pid=\"a range\"\n" +
		"range name=\"a range\" depth=-3 raw=\"raw bytes\" odd=9\n" +
		"kind88 field1=4\n# the log ends "
	if got := dump(t, seeds(t)["newer_minor_version"]); !strings.HasPrefix(got, want) {
		t.Errorf("text is %s", got)
	}
}

func BenchmarkDump(b *testing.B) {
	log := manyLaunches(b, 167)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		must.Do(b, Dump(io.Discard, open(b, log), Options{}))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*167*180), "ns/record")
}

const jsonDoc = "../../../docs/ndjson.md"

// The JSON form of every kind of record is in its documentation, and is valid JSON
// with the fields of the tables in their order.
func TestJSON(t *testing.T) {
	examples := make(map[string]string)
	var shown strings.Builder
	shown.WriteString("```\n")
	for line := range strings.Lines(dumpJSON(t, assemble(t, golden(t)))) {
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
	goldentest.Section(t, jsonDoc, "<!-- examples: go test ./record/tracelog/logtext -update -->\n", "<!-- end of examples -->", shown.String())
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
	k, ok := tracelog.KindByName(kind)
	if !ok {
		t.Fatalf("%s: no kind", line)
	}
	l := schema.LayoutOf(k)
	values, _ := record["nvalues"].(json.Number)
	for i, f := range l.Fields {
		if n, err := values.Int64(); err == nil && i >= sampleValue0+int(n) {
			break
		}
		if l.Kind == tracelog.KindCall && i >= callArg0-1 {
			if _, ok := record["args"].(map[string]any); !ok {
				t.Errorf("%s: no arguments", line)
			}
			break
		}
		_, isNumber := record[f.Name].(json.Number)
		_, isText := record[f.Name].(string)
		text := f.Type == schema.String || f.Type == schema.Hex || l.Kind == tracelog.KindCall && f.Name == "func"
		if isText != text || isNumber == text {
			t.Errorf("%s: %s is %v", line, f.Name, record[f.Name])
		}
	}
	return kind
}

// Whatever the texts and numbers are, each line is valid JSON and says them.
func TestJSONHostile(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(dumpJSON(t, hostileLog(t, kinds()...))) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is no JSON", line)
		}
	}
	text := dumpJSON(t, seeds(t)["newer_minor_version"])
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
	log := assemble(t, golden(t))
	got := dumpWith(t, log, Options{Filter: tracelog.Filter{Kinds: []tracelog.Kind{tracelog.KindCall, tracelog.KindNote}}})
	var want strings.Builder
	for line := range strings.Lines(dump(t, log)) {
		if strings.HasPrefix(line, "call ") || strings.HasPrefix(line, "note ") {
			want.WriteString(line)
		}
	}
	if diff := cmp.Diff(want.String(), got); diff != "" || want.Len() == 0 {
		t.Error(diff)
	}
}

// kinds are all kinds of record that callers add.
func kinds() (all []tracelog.Kind) {
	for _, table := range schema.Records() {
		if tracelog.NewRecord(table.Kind) != nil {
			all = append(all, table.Kind)
		}
	}
	return all
}

package tracelog

import (
	"bytes"
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
	for _, table := range tables[1:] {
		if !strings.Contains(got, "\n"+table.Name+" ") && !strings.HasPrefix(got, table.Name+" ") {
			t.Errorf("there is no %s record in %s", table.Name, path)
		}
	}
}

// Binary to text to binary to text, for hostile values of every kind.
func TestTextRoundTrip(t *testing.T) {
	for _, o := range allKinds {
		t.Run(o.kind.String(), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(9, uint64(o.kind)))
			w, out := newTestWriter(t, Options{})
			for i := range uint32(9) {
				w.Function(&Function{ID: i, Name: []string{"f", "g", "f", "a#b", "", "x y"}[i%6],
					Args: "a:i32 b:i64 c:u32 d:ptr flags:handle ret:size x=y:u8 \"q:u8 é:u8"})
			}
			for range 500 {
				record := o.zero()
				fill(reflect.ValueOf(record).Elem(), hostileNumber(rnd), hostileText(rnd))
				o.add(w, record)
			}
			if err := w.Close(End{Time: 1, Reason: "a b"}); err != nil {
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

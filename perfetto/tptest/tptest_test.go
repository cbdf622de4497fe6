package tptest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A recorder takes the failures of a test, so that failing can be tested.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs f as a test and returns what it failed with.
func failures(t *testing.T, f func(t testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return strings.Join(r.said, "\n")
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.pftrace")
	must.Do(t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

const (
	// One packet with a sequence id only.
	emptyTrace = "\x0a\x02\x50\x01"
	// And a track event whose time is of a clock that is nowhere defined.
	lossyTrace = emptyTrace + "\x0a\x0d\x40\x05\xd0\x03\x63\x50\x01\x68\x01\x5a\x02\x48\x03"
)

func TestValues(t *testing.T) {
	t.Parallel()
	tr := Open(t, write(t, emptyTrace))
	NoErrors(t, tr)
	want := []Row{{"i": int64(9007199254740993), "f": 2.0, "h": 0.5, "n": nil, "s": "a\n\"ü", "b": []byte{1, 255}}}
	got := tr.Query("select 9007199254740993 as i, 2.0 as f, 0.5 as h, null as n, 'a\n\"ü' as s, x'01ff' as b")
	goldentest.Same(t, want, got, "result")
	if n := tr.Int(`select count(*) from (select 1 union select 2)`); n != 2 {
		t.Errorf("Int is %d, want 2", n)
	}
	if got := tr.Query(`select 1 where false`); len(got) != 0 {
		t.Errorf("a query without a result gives %v", got)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trace string
		sql   string
		want  string
	}{
		"bad query":      {emptyTrace, "select nope", "no such column: nope"},
		"two values":     {emptyTrace, "select 1, 2", "want a single value"},
		"not an integer": {emptyTrace, "select 'x'", "want an integer"},
		"not a trace":    {"some text, no trace", "", "the trace processor cannot read it"},
		"loss":           {lossyTrace, "select 1", "counts 1 of clock_sync_failure_unknown_source_clock"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, c.trace)
			said := failures(t, func(t testing.TB) {
				tr := Open(t, path)
				tr.Int(c.sql)
				NoErrors(t, tr)
			})
			if !strings.Contains(said, c.want) {
				t.Errorf("it fails with %q, want %q", said, c.want)
			}
		})
	}
}

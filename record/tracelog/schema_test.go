package tracelog

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/internal/columns"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

// nextMinor is a version with more kinds and fields than this one.
var nextMinor = blockfile.Version{Major: blockfile.Current.Major, Minor: blockfile.Current.Minor + 1}

// customLog is a log whose schema and blocks are those of another version.
func customLog(t *testing.T, v blockfile.Version, list []schema.Table, blocks func(add func(l *schema.Layout, rows []uint64, texts []string))) []byte {
	t.Helper()
	e := newEncoder(t)
	log := blockfile.AppendFileHeader(nil, v)
	log = withBlock(log, blockfile.Schema, 0, columns.AppendSchema(nil, e, list))
	seq := uint32(1)
	blocks(func(l *schema.Layout, rows []uint64, texts []string) {
		log = withBlock(log, blockfile.Records, seq, e.AppendTable(nil, l, e.Transpose(l, rows), texts))
		seq++
	})
	return log
}

// newerVersion is a log of a version that has more kinds and fields than this one, and
// others in another order.
func newerVersion(t *testing.T) []byte {
	note := schema.Table{Kind: KindNote, Name: "note", Meaning: "m", Fields: []schema.Field{
		{Name: "text", Type: schema.String, Meaning: "m"}, {Name: "colour", Type: schema.Hex, Meaning: "m"}, {Name: "time", Type: schema.Time, Meaning: "m"}, {Name: "pid", Type: schema.String, Meaning: "m"}}}
	range_ := schema.Table{Kind: 77, Name: "range", Meaning: "m", Fields: []schema.Field{{Name: "name", Type: schema.String, Meaning: "m"}, {Name: "depth", Type: schema.Int, Meaning: "m"}, {Name: "raw", Type: schema.Text, Meaning: "m"}, {Name: "odd", Type: 55, Meaning: "m"}}}
	return customLog(t, nextMinor, []schema.Table{schema.Records()[0], note, range_}, func(add func(*schema.Layout, []uint64, []string)) {
		add(schema.LayoutOf(KindString), []uint64{1, 0, 2, 0}, []string{"hello", "a range"})
		add(schema.NewLayout(&note), []uint64{1, 0xC0, 5000, 2}, nil)
		add(schema.NewLayout(&range_), []uint64{2, columns.Zigzag(-3), 0, 9}, []string{"raw bytes"})
		add(schema.NewLayout(&schema.Table{Kind: 88, Fields: []schema.Field{{Name: "x", Type: schema.Uint, Meaning: "m"}, {Name: "y", Type: schema.Uint, Meaning: "m"}}}), []uint64{0, 4}, nil)
	})
}

// Fields are found by name and type; what this version does not know it leaves out,
// and shows in the text form by the log's own schema.
func TestOtherVersion(t *testing.T) {
	log := newerVersion(t)
	r := openBytes(t, log)
	var kinds []Kind
	for r.Next() {
		kinds = append(kinds, r.Block().Kind)
		if r.Block().Kind != KindNote {
			if r.Block().Known() {
				t.Errorf("kind %d is known", r.Block().Kind)
			}
			continue
		}
		var n Note
		n.Read(r.Block(), 0)
		if want := (Note{Time: 5000, Text: "hello"}); n != want {
			t.Errorf("note is %+v", n)
		}
	}
	if fmt.Sprint(kinds) != "[note kind77 kind88]" {
		t.Errorf("kinds are %v", kinds)
	}
	want := []string{`note text="hello" colour=192 time=5000 pid="a range"`, `range name="a range" depth=5 raw="raw bytes" odd=9`, "kind88 0=0 1=4"}
	if got := allLines(openBytes(t, log)); !slices.Equal(got, want) {
		t.Errorf("records are %q", got)
	}
}

// A schema may leave a kind that this version knows without fields, or with others: what
// a repair adds is in the log even so.
func TestRepairOddSchema(t *testing.T) {
	for name, fields := range map[string][]schema.Field{
		"none":  nil,
		"moved": {{Name: "reason", Type: schema.String, Meaning: "m"}, {Name: "raw", Type: schema.Text, Meaning: "m"}, {Name: "complete", Type: schema.Uint, Meaning: "m"}},
	} {
		list := []schema.Table{schema.Records()[0], {Kind: KindNote, Name: "note", Fields: fields}, {Kind: KindEnd, Name: "end", Fields: fields}}
		log := customLog(t, nextMinor, list, func(func(*schema.Layout, []uint64, []string)) {})
		fixed, done := repairOf(t, log)
		r := openBytes(t, fixed)
		if n := survivors(r); n != 2 || r.Err() != nil {
			t.Errorf("%s: %d records, error %v", name, n, r.Err())
		}
		if end, ok := r.End(); !ok || fields != nil && end.Reason != done.Reason {
			t.Errorf("%s: end is %+v", name, end)
		}
	}
}

const formatFile = "FORMAT.md"

// FORMAT.md has the limits and the fixed numbers.
func TestFormat(t *testing.T) {
	text := must.Get(os.ReadFile(formatFile))(t)
	for what, want := range map[string]string{
		"version":      fmt.Sprintf("version %d.%d", blockfile.Current.Major, blockfile.Current.Minor),
		"rows":         fmt.Sprintf("| rows of a table | %d |", schema.MaxRows),
		"columns":      fmt.Sprintf("| columns of a table, and field numbers below | %d |", schema.MaxColumns),
		"payload":      fmt.Sprintf("| bytes of a payload, and of a table's decoded columns | %d |", schema.MaxPayload),
		"tables":       fmt.Sprintf("| tables of a block | %d |", schema.MaxTables),
		"strings":      fmt.Sprintf("| strings of a log | %d |", schema.MaxStrings),
		"string bytes": fmt.Sprintf("| bytes of all strings | %d |", schema.MaxStringBytes),
		"by size":      fmt.Sprintf("| bytes of all strings, by the bytes of the log | %d + %d a byte |", schema.MostStringBytes(0), schema.MostStringBytes(1)-schema.MostStringBytes(0)),
		"records":      fmt.Sprintf("| records of a log, strings included, by the bytes of the log | %d + %d a byte |", schema.MostRecords(0), schema.MostRecords(1)-schema.MostRecords(0)),
		"string":       fmt.Sprintf("| bytes of one string | %d |", schema.MaxString),
		"marker":       "CD 7A B1 0C",
		"index":        fmt.Sprintf("at most %d record blocks", indexRows),
		"span":         fmt.Sprintf("soon after %d other records", maxWait),
	} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: %q is missing", what, want)
		}
	}
}

// The example of FORMAT.md, byte for byte: whoever writes a reader can begin with it.
func TestFormatExample(t *testing.T) {
	text := must.Get(os.ReadFile(formatFile))(t)
	payload := oneTable(appendUvarints(nil, uint64(KindClock), 2, 2,
		0, reprVarint|relDelta, 3, columns.Zigzag(1000), columns.Zigzag(5), // monotonic 1000, 1005
		1, reprConst, 1, 9)...) // realtime 9, 9
	log := withBlock(blockfile.AppendFileHeader(nil, blockfile.Current), blockfile.Records, 0, payload)
	var b strings.Builder
	for at := 0; at < len(log); at += 16 {
		fmt.Fprintf(&b, "%04x  % x\n", at, log[at:min(at+16, len(log))])
	}
	if !bytes.Contains(text, []byte(b.String())) {
		t.Errorf("the example is missing or differs from\n%s", b.String())
	}
	want := []string{"clock monotonic=1000 realtime=9 boottime=0 spread=0 max_error=0", "clock monotonic=1005 realtime=9 boottime=0 spread=0 max_error=0"}
	if got := allLines(openBytes(t, log)); !slices.Equal(got, want) {
		t.Errorf("the example says %q", got)
	}
}

// A log that this version wrote once is read as it was. Its records of retired kinds are those of unknown kinds, which are no damage.
func TestCommittedLog(t *testing.T) {
	log := must.Get(os.ReadFile("testdata/version2.0.log"))(t)
	r := openBytes(t, log)
	unknown := make(map[string]int)
	var thread Thread
	var end ProcessEnd
	for r.Next() {
		switch b := r.Block(); {
		case !b.Known():
			unknown[b.Name()] += b.N
		case b.Kind == KindThread:
			thread.Read(b, 0)
		case b.Kind == KindProcessEnd:
			end.Read(b, 0)
		}
	}
	if want := map[string]int{"sync": 1, "graph": 1}; r.Err() != nil || !maps.Equal(unknown, want) {
		t.Errorf("unknown are %v, error %v", unknown, r.Err())
	}
	if thread.PID != 12 || thread.Name == "" {
		t.Errorf("thread is %+v", thread)
	}
	if end.PID != 12 || end.Until != 0 || end.Reason != "" {
		t.Errorf("process_end is %+v", end)
	}
}

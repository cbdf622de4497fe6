package tracelog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/tracelog/internal/blockfile"
	"github.com/cudatrace/cudatrace/record/tracelog/schema"
)

var someFields = map[Kind][]string{
	KindCall:   {"pid", "tid", "enter", "dur"},
	KindAPI:    {"start"},
	KindKernel: {"stream", "start", "grid_x"}, // the latter is looked up by the name's column
	KindNote:   {"text"},
}

// fieldsOf has the fields of all records of kinds, one line a record.
func fieldsOf(r *Reader, fields map[Kind][]string) (lines []string) {
	for r.Next() {
		b := r.Block()
		for i := range b.N {
			line := fmt.Sprint(b.Kind)
			for _, name := range fields[b.Kind] {
				c := b.Column(name)
				line += fmt.Sprint(" ", name, "=", c.At(i))
				if name == "text" {
					line += b.Text(c.At(i))
				}
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// A reader that is asked for some fields gives these as one that gives all, also where a
// log has other numbers for them.
func TestProject(t *testing.T) {
	t.Parallel()
	call := *schema.LayoutOf(KindCall).Table
	call.Fields = slices.Clone(call.Fields)
	slices.Reverse(call.Fields)
	moved := schema.NewLayout(&call)
	row := make([]uint64, len(call.Fields))
	for i := range row {
		row[i] = uint64(100 + i)
	}
	logs := map[string][]byte{
		"launches": launches(t, 12_000),
		"small":    smallLog(t),
		"newer":    newerVersion(t),
		"moved": customLog(t, 3, []schema.Table{schema.Records()[0], call}, func(add func(*schema.Layout, []uint64, []string)) {
			for range 20 { // more than are decoded ahead
				add(moved, row, nil)
			}
		}),
	}
	for name, log := range logs {
		all := openBytes(t, log)
		want := fieldsOf(all, someFields)
		if len(want) == 0 {
			t.Errorf("%s: no records", name)
		}
		for _, workers := range []int{0, 2} {
			r := openBytes(t, log)
			r.Project(someFields)
			r.Parallel(workers)
			if got := fieldsOf(r, someFields); !slices.Equal(got, want) {
				t.Errorf("%s, %d workers: %d records, or what is in them, differ from %d", name, workers, len(got), len(want))
			}
			if r.Damage().String() != all.Damage().String() {
				t.Errorf("%s: %v, and %v", name, r.Damage(), all.Damage())
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is not asked for is not decoded.
func TestProjectLeavesOut(t *testing.T) {
	t.Parallel()
	r := openBytes(t, launches(t, 1000))
	r.Project(map[Kind][]string{KindAPI: {"start"}})
	blocks := 0
	for r.Next() {
		if r.Block().Kind != KindAPI {
			continue
		}
		blocks++
		ids := r.Block().Column("correlation")
		if v, same := ids.Const(); v != 0 || !same {
			t.Errorf("correlation IDs are there, the first is %d", v)
		}
	}
	if blocks == 0 {
		t.Error("no API records")
	}
}

// A fault in what is not asked for is found by who asks for it, once.
func TestProjectDamage(t *testing.T) {
	t.Parallel()
	// A note's time is field 0; the number of its process, field 1, has a byte too many.
	bad := oneTable(byte(KindNote), 1, 2, 0, reprConst, 1, 7, 1, reprConst, 2, 5, 5)
	log := withBlock(customLog(t, 3, schema.Records(), func(func(*schema.Layout, []uint64, []string)) {}), blockfile.Records, 1, bad)
	first := openBytes(t, log)
	first.Project(map[Kind][]string{KindNote: {"time"}})
	notes := 0
	for r := first; r.Next(); {
		if r.Block().Kind == KindNote {
			notes++
		}
	}
	d := first.Damage()
	before := d.Count
	for i, want := range []int{1, 0} { // again nothing is new
		r := openBytes(t, log)
		for r.Next() {
		}
		if !strings.Contains(r.Damage().String(), "a column is cut short or too long") {
			t.Fatalf("damage is %v", r.Damage())
		}
		count := d.Count
		if d.Join(r.Damage()); d.Count-count != want {
			t.Errorf("reading %d adds %d faults: %v", i, d.Count-count, d)
		}
	}
	if notes == 0 || strings.Contains(fmt.Sprint(d.Errors[:before]), "a column is cut short or too long") {
		t.Errorf("%d notes, damage %v", notes, d.Errors[:before])
	}
}

// Records with the same pick have the same number.
func TestPicks(t *testing.T) {
	t.Parallel()
	r := openBytes(t, launches(t, 12_000))
	picked := 0
	for r.Next() {
		b := r.Block()
		for _, f := range schema.LayoutOf(b.Kind).Fields {
			c := b.Column(f.Name)
			p := c.Picks()
			if p == nil {
				continue
			}
			picked++
			of := make(map[byte]uint64)
			for i := range b.N {
				if v, known := of[p[i]]; known && v != c.At(i) {
					t.Fatalf("%v %s of record %d is %d, and %d of one with the same pick", b.Kind, f.Name, i, c.At(i), v)
				}
				of[p[i]] = c.At(i)
			}
		}
	}
	if picked < 10 {
		t.Errorf("%d columns have picks", picked)
	}
}

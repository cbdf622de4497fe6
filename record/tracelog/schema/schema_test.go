package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/goldentest"
)

// The rules that a table keeps, so that its records fit the format.
func TestTables(t *testing.T) {
	last := Kind(0)
	names := map[string]bool{"sync": true, "graph": true}
	retired := []Kind{20, 26}
	for _, table := range slices.Concat(records, frames) {
		if table.Kind <= last {
			t.Errorf("%s: number %d does not follow %d", table.Name, table.Kind, last)
		}
		last = table.Kind
		if slices.Contains(retired, table.Kind) {
			t.Errorf("%s: number %d was that of another kind", table.Name, table.Kind)
		}
		if names[table.Name] || !IsName(table.Name) || table.Meaning == "" {
			t.Errorf("%s: a name must be new, of a-z, 0-9 and _, and have a meaning", table.Name)
		}
		names[table.Name] = true
		checkFields(t, table)
	}
	for _, table := range records {
		if table.Kind >= Kinds {
			t.Errorf("%s: number %d is of the tables that are not records", table.Name, table.Kind)
		}
		checkWire(t, table)
		switch l := NewLayout(&table); {
		case table.Owner != "" && table.Field(table.Owner) < 0:
			t.Errorf("%s: it has no field %s, its owner", table.Name, table.Owner)
		case table.Role == Event && (len(l.Times) != 1 || l.PID < 0):
			t.Errorf("%s: an event has one time and a process", table.Name)
		}
	}
}

func checkFields(t *testing.T, table Table) {
	l := NewLayout(&table)
	if len(table.Fields) == 0 || len(table.Fields) > MaxFields {
		t.Errorf("%s: %d fields", table.Name, len(table.Fields))
	}
	if len(l.Keys) > MaxKeys {
		t.Errorf("%s: %d fields make the key", table.Name, len(l.Keys))
	}
	names := make(map[string]bool)
	for i, f := range table.Fields {
		if names[f.Name] || !IsName(f.Name) || f.Type < Uint || f.Type > Text {
			t.Errorf("%s.%s: name or type is wrong", table.Name, f.Name)
		}
		names[f.Name] = true
		if f.Meaning == "" && (i == 0 || table.Fields[i-1].Type != f.Type) {
			t.Errorf("%s.%s: only a field that continues the one before may be without a meaning", table.Name, f.Name)
		}
		if f.Type == Text && table.Kind != Strings && table.Kind < Kinds {
			t.Errorf("%s.%s: texts of records are strings", table.Name, f.Name)
		}
		if f.Type == Dur && (i != l.Dur || len(l.Times) == 0 || l.Times[0] > i) {
			t.Errorf("%s.%s: a table has at most one duration, behind its time", table.Name, f.Name)
		}
	}
}

// checkWire checks that the injected library can send the records of a kind.
func checkWire(t *testing.T, table Table) {
	counts := strings.Fields("kernels memcpys memsets apis objects extras")
	if table.Sent != "" && !slices.Contains(counts, table.Sent) {
		t.Errorf("%s: no count is named %s", table.Name, table.Sent)
	}
	texts := 0
	for _, f := range table.Fields {
		switch {
		case f.Wire != Plain && table.Sent == "":
			t.Errorf("%s.%s: the kind is not sent", table.Name, f.Name)
		case (f.Wire == Behind || f.Wire == Bytes) && f.Type != String, (f.Wire == Chain || f.Wire == PythonFrames || f.Wire == OperatorStack) && f.Type != Uint:
			t.Errorf("%s.%s: a value of its type has no such form on the wire", table.Name, f.Name)
		case f.Wire == Behind:
			texts++
		}
	}
	if texts > 1 {
		t.Errorf("%s: more than one text follows a record", table.Name)
	}
}

// The numbers of types are on disk: they stay. Those of kinds are in the log testdata/version2.0.log.
func TestWireNumbers(t *testing.T) {
	for i, name := range strings.Fields("uint int hex time dur string text") {
		if got := Type(i + 1).String(); got != name {
			t.Errorf("type %d is %s, was %s", i+1, got, name)
		}
	}
	if Kind(77).String() != "kind77" || Type(77).String() != "type77" {
		t.Error("a number without a name does not say so")
	}
}

// roleNames are the names of the roles in FORMAT.md.
var roleNames = map[Role]string{
	Event: "event", Definition: "definition", Statement: "statement", Watermark: "watermark", Texts: "strings", Closing: "end",
}

// kindTables is the section of FORMAT.md that the tables make.
func kindTables() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### GPU work\n\nThe first fields of every kind of GPU work:\n\n%s", fieldList(gpu.Fields))
	for _, table := range slices.Concat(records, frames) {
		role, fields, part := "", table.Fields, ""
		if table.Kind < Kinds {
			role = " (" + roleNames[table.Role] + ")"
		}
		if table.Part == &gpu {
			fields, part = fields[len(gpu.Fields):], "- the fields of [GPU work](#gpu-work)\n"
		}
		fmt.Fprintf(&b, "\n### %d `%s`%s: %s\n\n%s%s", table.Kind, table.Name, role, table.Meaning, part, fieldList(fields))
	}
	return b.String() + "\n"
}

// fieldList lists fields. Fields that differ in their number or their axis alone share a line.
func fieldList(fields []Field) string {
	var b strings.Builder
	for len(fields) > 0 {
		first, n := fields[0], 1
		meaning := numbered(first, 0)
		for n < len(fields) && (fields[n].Meaning == "" || numbered(fields[n], n) == meaning && strings.HasSuffix(first.Name, "0")) {
			n++
		}
		names := "`" + first.Name + "`"
		switch {
		case n > 1 && fields[1].Meaning == "":
			for _, f := range fields[1:n] {
				names += ", `" + f.Name + "`"
			}
		case n > 1:
			names += " to `" + fields[n-1].Name + "`"
			first.Meaning = meaning
		}
		var special []string
		if first.Type != Uint {
			special = append(special, first.Type.String())
		}
		if first.Key {
			special = append(special, "key")
		}
		if first.Optional {
			special = append(special, "optional")
		}
		if special != nil {
			names += " *" + strings.Join(special, ", ") + "*"
		}
		fmt.Fprintf(&b, "- %s: %s\n", names, first.Meaning)
		fields = fields[n:]
	}
	return b.String()
}

// numbered is the meaning of a field with N in place of a number.
func numbered(f Field, n int) string {
	return strings.Replace(f.Meaning, fmt.Sprintf(" %d", n), " N", 1)
}

// FORMAT.md has the tables.
func TestFormat(t *testing.T) {
	goldentest.Section(t, "../FORMAT.md", "<!-- tables: go test ./record/tracelog/schema -update -->\n", "<!-- end of tables -->", kindTables())
}

// The least size of a log is the one from which its records and strings are within the limits.
func TestLeastSize(t *testing.T) {
	for _, records := range []int64{0, 1, MostRecords(0), MostRecords(0) + 1, MostRecords(7), MostRecords(7) + 1, 1 << 40} {
		for _, text := range []int64{0, 1, int64(MostStringBytes(0)), int64(MostStringBytes(0)) + 1, int64(MostStringBytes(9)), int64(MostStringBytes(9)) + 1, MaxStringBytes} {
			size := LeastSize(records, text)
			if MostRecords(size) < records || int64(MostStringBytes(size)) < text {
				t.Errorf("a log of %d bytes may not have %d records and %d bytes of strings", size, records, text)
			}
			if size > 0 && MostRecords(size-1) >= records && int64(MostStringBytes(size-1)) >= text {
				t.Errorf("a log of %d bytes may have %d records and %d bytes of strings, too", size-1, records, text)
			}
		}
	}
}

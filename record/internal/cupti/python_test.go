package cupti

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// codeRecord is a CODE with characters of one byte. A line table of nil is one that was left out.
func codeRecord(id, firstLine uint32, name, file string, table []byte) []byte {
	widths, left := uint32(1|1<<8), uint32(0)
	if table == nil {
		left = 1 << 16
	}
	b := record(tracelog.KindPythonFrame, id, firstLine, uint32(len(name)), uint32(len(file)), uint32(len(table)), widths|left, 0)
	b = append(append(append(b, name...), file...), table...)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	le.PutUint16(b[2:], uint16(len(b)))
	return b
}

// stackRecord is a STACK.
func stackRecord(id, parent, code, offset uint32) []byte {
	return record(tracelog.KindPythonStack, id, parent, code, offset, 0)
}

// pythonCall is an API record with a Python stack.
func pythonCall(stack uint32) []byte {
	return record(tracelog.KindAPI, 43, 1000, 0, 1500, 0, 1, 307, 0, 7, 0, 0, stack, 0)
}

// calls is a sink that keeps calls and Python frames.
type calls []tracelog.Record

func (s *calls) Add(r tracelog.Record) {
	switch r := r.(type) {
	case *tracelog.API:
		c := *r
		*s = append(*s, &c)
	case *tracelog.PythonFrame:
		c := *r
		*s = append(*s, &c)
	case *tracelog.PythonStack:
		c := *r
		*s = append(*s, &c)
	}
}

// pythonDecoder decodes the records of a process with CPython 3.12.
func pythonDecoder(sink Sink, log *PythonLog) *decoder {
	d := &decoder{pid: 42, shared: new(peerMemory), sink: sink}
	d.python.log = log
	d.python.use(&pyframes.Interpreter{Layout: &pyframes.Layouts[3]})
	return d
}

// Two instructions in the first line, then two in the line behind it.
var twoLines = []byte{0x80 | 10<<3 | 1, 0, 0, 0x80 | 11<<3 | 1, 0, 0}

func TestPythonRecords(t *testing.T) {
	t.Parallel()
	log := PythonLog{BareFiles: true}
	var got calls
	in := concat(
		codeRecord(1, 10, "main", "/home/ann/train.py", twoLines), codeRecord(7, 3, "Model.forward", "model.py", nil),
		codeRecord(8, 5, "shim", "", []byte{0x80 | 15<<3 | 7}),
		stackRecord(5, 0, 0, leftOutDeep), stackRecord(9, 5, 1, 4), stackRecord(10, 9, 8, 0), stackRecord(11, 10, 7, 2),
		pythonCall(11), pythonCall(0), pythonCall(9), pythonCall(10))
	must.Do(t, pythonDecoder(&got, &log).batch(in))
	call := func(stack uint32) *tracelog.API {
		return &tracelog.API{PID: 42, TID: 43, Start: 1000, Dur: 500, Domain: 1, CBID: 307, Correlation: 7, Python: stack}
	}
	want := calls{
		&tracelog.PythonFrame{ID: 1, Function: "(frames further out are left out)"}, &tracelog.PythonStack{ID: 1, Frame: 1},
		&tracelog.PythonFrame{ID: 2, File: "train.py", Function: "main", FirstLine: 10, Line: 11}, &tracelog.PythonStack{ID: 2, Parent: 1, Frame: 2},
		&tracelog.PythonFrame{ID: 3, File: "model.py", Function: "Model.forward", FirstLine: 3}, &tracelog.PythonStack{ID: 3, Parent: 2, Frame: 3},
		call(3), call(0), call(2), call(2),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Another process with the same frames names the same records.
	got = nil
	err := pythonDecoder(&got, &log).batch(concat(codeRecord(2, 10, "main", "/root/train.py", twoLines), stackRecord(3, 0, 0, leftOutDeep), stackRecord(4, 3, 2, 6), pythonCall(4)))
	if diff := cmp.Diff(calls{call(2)}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestMalformedPython(t *testing.T) {
	t.Parallel()
	long := codeRecord(1, 1, "f", "f.py", nil)
	le.PutUint32(long[codeTableSizeAt:], 9)
	wide := codeRecord(1, 1, "f", "f.py", nil)
	wide[codeNameWidthAt] = 3
	for name, c := range map[string]struct {
		why   string
		batch []byte
	}{
		"code-zero":      {"out of range", codeRecord(0, 1, "f", "f.py", nil)},
		"code-beyond":    {"out of range", codeRecord(codesMax, 1, "f", "f.py", nil)},
		"code-twice":     {"sent before", concat(codeRecord(1, 1, "f", "f.py", nil), codeRecord(1, 1, "f", "f.py", nil))},
		"code-cut":       {"in 16 bytes", record(tracelog.KindPythonFrame, 1, 1, 1)},
		"code-too-long":  {"texts of 1, 4 and 9 bytes", long},
		"code-wide":      {"texts of 1, 4 and 0 bytes", wide},
		"stack-zero":     {"out of range", stackRecord(0, 0, 0, 1)},
		"stack-beyond":   {"out of range", stackRecord(stacksMax, 0, 0, 1)},
		"stack-twice":    {"sent before", concat(stackRecord(1, 0, 0, 1), stackRecord(1, 0, 0, 1))},
		"stack-cut":      {"in 16 bytes", record(tracelog.KindPythonStack, 1, 0, 0)},
		"call-of-nobody": {"never sent", pythonCall(stacksMax)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := pythonDecoder(&collect{}, &PythonLog{}).batch(c.batch); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want an error with %q", err, c.why)
			}
		})
	}
	d := decoder{pid: 42, shared: new(peerMemory), sink: &collect{}}
	if err := d.batch(codeRecord(1, 1, "f", "f.py", nil)); err == nil {
		t.Error("a process without an interpreter sends code")
	}
}

// What has no room has no number: neither have the stacks above.
func TestPythonWithoutRoom(t *testing.T) {
	t.Parallel()
	var got calls
	d := pythonDecoder(&got, &PythonLog{})
	d.shared.most = 1
	if err := d.batch(concat(codeRecord(1, 1, "f", "f.py", nil), stackRecord(1, 0, 1, 0), stackRecord(2, 1, 1, 0), pythonCall(2))); err != nil {
		t.Fatal(err)
	}
	if a, ok := got[len(got)-1].(*tracelog.API); !ok || a.Python != 0 || len(got) != 1 {
		t.Errorf("%v", got)
	}
}

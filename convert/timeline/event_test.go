package timeline

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// allEvents has an event of every kind.
var allEvents = []Event{
	new(Recording), new(GPUs), new(Metadata), new(Process), new(Thread), new(ThreadEnd), new(Context), new(Stream),
	new(Slices), new(WorkList), new(SpanBegin), new(SpanEnd), new(Instant), new(CounterValue), new(Allocation), new(OutOfMemory), new(TorchBlock), new(Loss), new(Note), new(Hang), new(Known), new(Samples), new(GPUUser), new(States), new(StackSamples),
}

// Every type that has a move method is in allEvents.
func TestAllEvents(t *testing.T) {
	t.Parallel()
	files := must.Get(filepath.Glob("*.go"))(t)
	var types []string
	for _, file := range files {
		parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "move" {
				types = append(types, f.Recv.List[0].Type.(*ast.StarExpr).X.(*ast.Ident).Name)
			}
		}
	}
	var listed []string
	for _, e := range allEvents {
		listed = append(listed, reflect.TypeOf(e).Elem().Name())
	}
	slices.Sort(types)
	slices.Sort(listed)
	if diff := cmp.Diff(types, listed); diff != "" {
		t.Errorf("the events of this test (-package +test):\n%s", diff)
	}
}

// The names of the uint64 fields of events, by what they are.
var (
	timeFields  = []string{"Start", "End", "Time", "LaunchStart", "Until", "Midway", "Allocated", "Since"}
	otherFields = []string{"Dur", "Value", "ID", "GraphNode", "Address", "Bytes", "Communicator", "Count", "Args", "Memory", "Bandwidth",
		"Interval", "Scale", "Period", "Ret", "Held", "Reserved",
		"Outer",                                // of a Span: the number of the one around it
		"Number", "Entered", "Waited", "Doubt", // of a Part, whose times are the timeline's
		"From", "To", // of a Loss: ns into the recording
		"Monotonic", "Realtime", "Boottime", "LastStart"} // of the Recording, whose clock the timeline has
)

// Every time of every event moves, and nothing else does. What an event points to belongs
// to other events, too, and stays.
func TestShiftMovesTimes(t *testing.T) {
	t.Parallel()
	const by = 7_000_000
	for _, e := range allEvents {
		v := reflect.ValueOf(e).Elem()
		t.Run(v.Type().Name(), func(t *testing.T) {
			t.Parallel()
			v := reflect.New(v.Type()).Elem()
			next := uint64(1000)
			fill(v, &next)
			want := numbers(t, v)
			for path, n := range want {
				if _, own := e.(*Recording); !own && isTime(path) {
					want[path] = n + by
				}
			}
			Move(v.Addr().Interface().(Event), Shifted(by))
			goldentest.Same(t, want, numbers(t, v), "fields")
		})
	}
}

// isTime reports whether the field at a path is a time of the event itself: a path goes
// through a pointer at a *.
func isTime(path string) bool {
	return !strings.Contains(path, "*") && slices.Contains(timeFields, path[strings.LastIndexByte(path, '.')+1:])
}

// fill gives the exported fields of a value numbers of their own, and lists an element.
func fill(v reflect.Value, next *uint64) {
	if !v.CanSet() {
		return
	}
	*next++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).Type() != reflect.PointerTo(v.Type()) { // else it has no end
				fill(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), next)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), next)
	case reflect.Uint64:
		v.SetUint(*next)
	}
}

// numbers returns the uint64 fields of a value by their path.
func numbers(t *testing.T, v reflect.Value) map[string]uint64 {
	all := make(map[string]uint64)
	walk(v, "", func(path string, n uint64) {
		all[path] = n
		name := path[strings.LastIndexByte(path, '.')+1:]
		if !slices.Contains(timeFields, name) && !slices.Contains(otherFields, name) {
			t.Errorf("field %s is new: add it to timeFields or to otherFields", path)
		}
	})
	return all
}

func walk(v reflect.Value, path string, found func(path string, n uint64)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				walk(v.Field(i), path+"."+f.Name, found)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), path, found)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), path+"*", found)
		}
	case reflect.Uint64:
		found(path, v.Uint())
	}
}

// The times of what hangs on a slice or a piece of work, and times that are not known.
func TestShift(t *testing.T) {
	t.Parallel()
	back := ^uint64(0) // -1: the sum wraps
	waiting := func(at ...uint64) (sl Slice) {
		sl.Start, sl.End = 100, 200
		for i, t := range at {
			sl.AddWork(uint64(i + 1))
			sl.AddWait(Awaited{Work: uint64(i + 1), Start: t, End: t + 5})
		}
		return sl
	}
	for name, c := range map[string]struct {
		event Event
		by    uint64
		want  string
	}{
		"back":                   {&Note{Time: 100}, back, "99"},
		"process of unknown age": {&Process{}, 10, "0-0"},
		"work of no call":        {&WorkList{List: []Work{{Start: 100, Dur: 3}}}, 10, "110+3 by 0-0"},
		"call with two waits":    {&Slices{List: []Slice{waiting(20, 40)}}, back, "99-199 waits 19-24 waits 39-44"},
		"second call waits":      {&Slices{List: []Slice{waiting(), waiting(30)}}, 10, "110-210, 110-210 waits 40-45"},
	} {
		Move(c.event, Shifted(c.by))
		if got := timesOf(t, c.event); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// timesOf shows the times of an event.
func timesOf(t *testing.T, e Event) string {
	t.Helper()
	var list []string
	switch e := e.(type) {
	case *Note:
		return fmt.Sprint(e.Time)
	case *Process:
		return fmt.Sprintf("%d-%d", e.Start, e.End)
	case *WorkList:
		for _, w := range e.List {
			list = append(list, fmt.Sprintf("%d+%d by %d-%d", w.Start, w.Dur, w.Call.Start, w.Call.End))
		}
	case *Slices:
		for _, sl := range e.List {
			words := fmt.Sprintf("%d-%d", sl.Start, sl.End)
			for _, w := range sl.Waits() {
				words += fmt.Sprintf(" waits %d-%d", w.Start, w.End)
			}
			list = append(list, words)
		}
	default:
		t.Fatalf("no times of %T", e)
	}
	return strings.Join(list, ", ")
}

func TestEnd(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]uint64{
		{0, 0, 0}, {100, 50, 150}, {100, 0, 100}, {Never - 1, 1, Never}, {Never, 0, Never},
		{Never - 1, 2, Never}, {1, Never, Never}, {Never, Never, Never}, {0, Never, Never},
	} {
		if got := End(c[0], c[1]); got != c[2] {
			t.Errorf("End(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

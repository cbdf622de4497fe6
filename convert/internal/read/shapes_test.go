package read

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// shapesOf returns the shape of each record of work in a log, from one table.
func shapesOf(t testing.TB, table *shapeTable, open logtest.Opener) (list []*timeline.Shape) {
	t.Helper()
	var c shapeColumns
	for r := openLog(t, open); r.Next(); {
		b := r.Block()
		kind, ok := workKinds[b.Kind]
		if !ok {
			continue
		}
		c.open(b, kind)
		for i := range b.N {
			list = append(list, table.row(&c, b, i))
		}
	}
	return list
}

// Launches that differ in any field of their shape have shapes of their own, others one.
func TestKernelShapes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	const base = "kernel pid=1 stream=7 "
	lines := []string{base + "name=k"}
	for _, field := range kernelFields {
		lines = append(lines, base+field+"=3")
	}
	for range 3 {
		for i, line := range lines {
			fmt.Fprintf(&text, "%s start=%d correlation=%d\n", line, 1+i, i)
		}
	}
	for name, open := range map[string]logtest.Opener{
		"one block":        logtest.Parts(t, text.String()),
		"a block for each": logtest.Parts(t, strings.SplitAfter(text.String(), "\n")...),
	} {
		list := shapesOf(t, newShapeTable(), open)
		for i, shape := range list {
			first := list[i%len(lines)]
			if shape != first || shape.ID != uint32(1+i%len(lines)) {
				t.Errorf("%s: launch %d has shape %+v, want %+v", name, i, shape, first)
			}
		}
		if list[0].Kernel != (timeline.KernelShape{Name: "k"}) || list[3].Kernel != (timeline.KernelShape{Grid: [3]uint32{0, 3, 0}}) {
			t.Errorf("%s: the shapes are %+v, %+v", name, list[0], list[3])
		}
	}
}

// Copies and memsets have shapes by their fields.
func TestOtherShapes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for range 2 {
		for _, field := range memcpyFields {
			fmt.Fprintf(&text, "memcpy pid=1 stream=7 start=1 %s=4\n", field)
		}
	}
	for range 2 {
		for _, field := range memsetFields {
			fmt.Fprintf(&text, "memset pid=1 stream=7 start=1 %s=4\n", field)
		}
	}
	var ids []string
	for _, shape := range shapesOf(t, newShapeTable(), logtest.Parts(t, text.String())) {
		ids = append(ids, fmt.Sprint(shape.ID))
	}
	if got, want := strings.Join(ids, " "), "1 2 3 4 5 6 1 2 3 4 5 6 7 8 7 8"; got != want {
		t.Errorf("the shapes have the numbers %s, want %s", got, want)
	}
}

// However the numbers of a block are stored, each launch has its own shape.
func TestShapesAreTheLaunches(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]int{"few values": 2, "values that bytes can tell": 100, "more values": 2000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(3, 4))
			var parts []string
			var want []timeline.KernelShape
			for part := range 5 {
				var text strings.Builder
				for range 2000 {
					v := func() uint32 { return uint32(rnd.IntN(values)) }
					k := timeline.KernelShape{Name: fmt.Sprint("kernel", v()), Grid: [3]uint32{v(), 1, uint32(part)}, Registers: v()}
					want = append(want, k)
					fmt.Fprintf(&text, "kernel pid=1 stream=7 start=1 name=%s grid_x=%d grid_y=1 grid_z=%d registers=%d\n", k.Name, k.Grid[0], k.Grid[2], k.Registers)
				}
				parts = append(parts, text.String())
			}
			byShape := make(map[timeline.KernelShape]*timeline.Shape)
			for i, shape := range shapesOf(t, newShapeTable(), logtest.Parts(t, parts...)) {
				if shape.Kernel != want[i] {
					t.Fatalf("launch %d has the shape %+v, want %+v", i, shape.Kernel, want[i])
				}
				if known := byShape[want[i]]; known != nil && known != shape {
					t.Fatalf("launch %d has another shape than an equal one", i)
				}
				byShape[want[i]] = shape
			}
		})
	}
}

// Shapes are remembered up to a bound; then all are forgotten, and numbers go on.
func TestShapesBound(t *testing.T) {
	t.Parallel()
	table := newShapeTable()
	make := func(bytes uint64) *timeline.Shape {
		m := timeline.MemsetShape{Bytes: bytes}
		return shapeOf(table, table.memsets, &m, func(s *timeline.Shape) { s.Memset = m })
	}
	first := make(1)
	for i := range uint64(maxShapes - 1) {
		make(2 + i)
	}
	if again := make(1); again != first || len(table.memsets) != maxShapes {
		t.Fatalf("%d shapes are remembered, the first is %+v", len(table.memsets), again)
	}
	if last := make(maxShapes + 1); last.ID != maxShapes+1 || len(table.memsets) != 1 {
		t.Errorf("shape %d is one of %d", last.ID, len(table.memsets))
	}
	if again := make(1); again == first || again.ID != maxShapes+2 || again.Memset.Bytes != 1 || first.Memset.Bytes != 1 {
		t.Errorf("the first shape is %+v, then %+v", first, again)
	}
}

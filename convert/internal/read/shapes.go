package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxShapes bounds the shapes of each kind that the table keeps. A full table is emptied.
const maxShapes = 1 << 16

// A shapeTable returns one value for equal shapes of work, nearly always.
type shapeTable struct {
	kernels map[kernelKey]*timeline.Shape
	copies  map[timeline.MemcpyShape]*timeline.Shape
	memsets map[timeline.MemsetShape]*timeline.Shape
	last    uint32 // ID
}

// A kernelKey is a KernelShape whose name is replaced by the name's number in the log.
type kernelKey struct {
	name uint64
	v    [13]uint32
}

func newShapeTable() *shapeTable {
	return &shapeTable{
		kernels: make(map[kernelKey]*timeline.Shape),
		copies:  make(map[timeline.MemcpyShape]*timeline.Shape),
		memsets: make(map[timeline.MemsetShape]*timeline.Shape),
	}
}

// shapeOf returns the shape of a key; fill fills in a new shape.
func shapeOf[K comparable](t *shapeTable, known map[K]*timeline.Shape, key *K,
	fill func(*timeline.Shape)) *timeline.Shape {
	shape := known[*key]
	if shape != nil {
		return shape
	}
	if len(known) >= maxShapes {
		clear(known)
	}
	t.last++
	shape = &timeline.Shape{ID: t.last}
	fill(shape)
	known[*key] = shape
	return shape
}

// The fields of the shape of each kind of work.
var (
	kernelFields = [14]string{"name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
		"cluster_x", "cluster_y", "cluster_z", "static_shared", "dynamic_shared", "local_per_thread", "registers"}
	memcpyFields = [...]string{"bytes", "copy_kind", "src_kind", "dst_kind", "src_device", "dst_device"}
	memsetFields = [...]string{"bytes", "value"}
)

// shapeColumns are the columns of the shape's fields in a block of work, by the places of the
// fields in the lists above.
type shapeColumns struct {
	columns [len(kernelFields)]tracelog.Column
	kind    timeline.WorkKind
	varying []uint8   // of a kernel's fields
	key     kernelKey // the fields that all rows share, and the latest values of the others
}

// open starts a block of work of a kind.
func (c *shapeColumns) open(b *tracelog.Block, kind timeline.WorkKind) {
	c.kind, c.varying = kind, c.varying[:0]
	var fields []string
	switch kind {
	case timeline.KernelWork:
		fields = kernelFields[:]
	case timeline.MemcpyWork:
		fields = memcpyFields[:]
	case timeline.MemsetWork:
		fields = memsetFields[:]
	}
	for f, name := range fields {
		column := &c.columns[f]
		*column = b.Column(name)
		if kind != timeline.KernelWork {
			continue
		}
		if v, same := column.Const(); same {
			c.key.set(f, v)
		} else {
			c.varying = append(c.varying, uint8(f))
		}
	}
}

// row returns the shape of a row.
func (t *shapeTable) row(c *shapeColumns, b *tracelog.Block, i int) *timeline.Shape {
	v := func(f int) uint32 { return uint32(c.columns[f].At(i)) }
	switch c.kind {
	case timeline.KernelWork:
		return t.kernel(c, b, i)
	case timeline.MemcpyWork:
		m := timeline.MemcpyShape{
			Bytes: c.columns[0].At(i), CopyKind: v(1), SrcKind: v(2), DstKind: v(3), SrcDevice: v(4), DstDevice: v(5),
		}
		return shapeOf(t, t.copies, &m, func(shape *timeline.Shape) { shape.Memcpy = m })
	}
	m := timeline.MemsetShape{Bytes: c.columns[0].At(i), Value: v(1)}
	return shapeOf(t, t.memsets, &m, func(shape *timeline.Shape) { shape.Memset = m })
}

func (t *shapeTable) kernel(c *shapeColumns, b *tracelog.Block, i int) *timeline.Shape {
	for _, f := range c.varying {
		c.key.set(int(f), c.columns[f].At(i))
	}
	key := &c.key
	return shapeOf(t, t.kernels, key, func(shape *timeline.Shape) {
		v := &key.v
		shape.Kernel = timeline.KernelShape{
			Name: b.Text(key.name), Grid: [3]uint32(v[0:3]), Block: [3]uint32(v[3:6]), Cluster: [3]uint32(v[6:9]),
			StaticShared: v[9], DynamicShared: v[10], LocalPerThread: v[11], Registers: v[12],
		}
	})
}

// set sets a field by its place in kernelFields.
func (k *kernelKey) set(f int, v uint64) {
	if f == 0 {
		k.name = v
	} else {
		k.v[f-1] = uint32(v)
	}
}

package convert

import "github.com/cudatrace/cudatrace/record/tracelog"

// maxShapes bounds what is remembered of each kind; after so many it begins anew.
const maxShapes = 1 << 16

// shapes interns launch shapes, so that work stays small and a sink can keep what it made
// of them.
type shapes struct {
	kernels map[kernelKey]*Shape
	copies  map[MemcpyShape]*Shape
	sets    map[MemsetShape]*Shape
	next    uint32
	none    *Shape
}

// A kernelKey is a KernelShape with its name as the number that the log gives it.
type kernelKey struct {
	name uint64
	v    [13]uint32
}

func newShapes() *shapes {
	return &shapes{
		kernels: make(map[kernelKey]*Shape),
		copies:  make(map[MemcpyShape]*Shape),
		sets:    make(map[MemsetShape]*Shape),
		none:    &Shape{},
	}
}

// shapeOf finds the shape of a key, or makes it and has fill say what it is.
func shapeOf[K comparable](s *shapes, known map[K]*Shape, key *K, fill func(*Shape)) *Shape {
	shape := known[*key]
	if shape != nil {
		return shape
	}
	if len(known) >= maxShapes {
		clear(known)
	}
	s.next++
	shape = &Shape{id: s.next}
	fill(shape)
	known[*key] = shape
	return shape
}

var kernelFields = [14]string{"name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
	"cluster_x", "cluster_y", "cluster_z", "static_shared", "dynamic_shared", "local_per_thread", "registers"}

// shapeRows are the fields that make the shapes of a block's work, by their places in
// kernelFields, copyFields or setFields.
type shapeRows struct {
	columns [len(kernelFields)]tracelog.Column
	kind    WorkKind
	varying []uint8   // of kernels
	key     kernelKey // of the fields that all rows share, and the latest of the others
	known   pickTable[Shape]
}

var (
	copyFields = [...]string{"bytes", "copy_kind", "src_kind", "dst_kind", "src_device", "dst_device"}
	setFields  = [...]string{"bytes", "value"}
)

// of makes the rows those of a block of work.
func (s *shapes) of(r *shapeRows, b *tracelog.Block) {
	r.kind, r.varying = workKinds[b.Kind], r.varying[:0]
	r.known.begin()
	var fields []string
	switch r.kind {
	case WorkKernel:
		fields = kernelFields[:]
	case WorkMemcpy:
		fields = copyFields[:]
	case WorkMemset:
		fields = setFields[:]
	}
	for f, name := range fields {
		column := &r.columns[f]
		*column = b.Column(name)
		r.known.add(column)
		if r.kind != WorkKernel {
			continue
		}
		if v, same := column.Const(); same {
			r.key.set(f, v)
		} else {
			r.varying = append(r.varying, uint8(f))
		}
	}
}

// row gives the shape of a row.
func (s *shapes) row(r *shapeRows, b *tracelog.Block, i int) *Shape {
	if !r.known.usable {
		return s.search(r, b, i)
	}
	e := r.known.entry(i)
	if e.of == nil {
		e.of = s.search(r, b, i)
	}
	return e.of
}

// search finds the shape of a row by what it is.
func (s *shapes) search(r *shapeRows, b *tracelog.Block, i int) *Shape {
	v := func(f int) uint32 { return uint32(r.columns[f].At(i)) }
	switch r.kind {
	case WorkKernel:
		return s.kernel(r, b, i)
	case WorkMemcpy:
		m := MemcpyShape{Bytes: r.columns[0].At(i), CopyKind: v(1), SrcKind: v(2), DstKind: v(3), SrcDevice: v(4), DstDevice: v(5)}
		return shapeOf(s, s.copies, &m, func(shape *Shape) { shape.Memcpy = m })
	case WorkMemset:
		m := MemsetShape{Bytes: r.columns[0].At(i), Value: v(1)}
		return shapeOf(s, s.sets, &m, func(shape *Shape) { shape.Memset = m })
	default:
		return s.none
	}
}

func (s *shapes) kernel(r *shapeRows, b *tracelog.Block, i int) *Shape {
	for _, f := range r.varying {
		r.key.set(int(f), r.columns[f].At(i))
	}
	key := &r.key
	return shapeOf(s, s.kernels, key, func(shape *Shape) {
		v := &key.v
		shape.Kernel = KernelShape{
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

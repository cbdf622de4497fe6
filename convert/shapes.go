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
	blocks  uint64 // so far
	recent  [recentShapes]recentShape
}

// recentShape is a shape, and the last block of which it has what all rows share.
type recentShape struct {
	shape *Shape
	block uint64
	key   kernelKey
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

func (s *shapes) make() *Shape {
	s.next++
	return &Shape{id: s.next}
}

var kernelFields = [14]string{"name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
	"cluster_x", "cluster_y", "cluster_z", "static_shared", "dynamic_shared", "local_per_thread", "registers"}

// recentShapes is how many kernels' shapes are found without a look into the map of all.
const recentShapes = 1 << 12

// shapeRows are the fields that make the shapes of a block's work, by their places in
// kernelFields, copyFields or setFields.
type shapeRows struct {
	columns [len(kernelFields)]tracelog.Column
	varying []uint8
	key     kernelKey // of the fields that all rows share, and the latest of the others
	same    uint64    // hash of the former
	block   uint64
	known   pickTable[Shape] // of kernels
}

var (
	copyFields = [...]string{"bytes", "copy_kind", "src_kind", "dst_kind", "src_device", "dst_device"}
	setFields  = [...]string{"bytes", "value"}
)

// of makes the rows those of a block of work.
func (s *shapes) of(r *shapeRows, b *tracelog.Block) {
	var fields []string
	switch b.Kind {
	case tracelog.KindKernel:
		fields = kernelFields[:]
	case tracelog.KindMemcpy:
		fields = copyFields[:]
	case tracelog.KindMemset:
		fields = setFields[:]
	}
	s.blocks++
	r.known.begin()
	r.varying, r.same, r.block = r.varying[:0], 0, s.blocks
	for f, name := range fields {
		r.columns[f] = b.Column(name)
		v, same := r.columns[f].Const()
		if b.Kind == tracelog.KindKernel {
			r.key.set(f, v)
		}
		if !same {
			r.varying = append(r.varying, uint8(f))
			r.known.add(&r.columns[f])
			continue
		}
		r.same = mix(r.same, v+uint64(f))
	}
}

// ofKernel gives the shape of a kernel.
func (s *shapes) ofKernel(r *shapeRows, b *tracelog.Block, i int) *Shape {
	if !r.known.usable {
		return s.search(r, b, i)
	}
	e := r.known.entry(i)
	if e.of == nil {
		e.of = s.search(r, b, i)
	}
	return e.of
}

// search finds the shape of a kernel by what it is.
func (s *shapes) search(r *shapeRows, b *tracelog.Block, i int) *Shape {
	h := r.same
	for _, f := range r.varying {
		h = (h ^ r.columns[f].At(i)) * 0x9E3779B97F4A7C15
	}
	recent := &s.recent[h>>32%recentShapes]
	if recent.block == r.block && r.equal(&recent.key, i) {
		return recent.shape
	}
	for _, f := range r.varying {
		r.key.set(int(f), r.columns[f].At(i))
	}
	if recent.shape == nil || recent.key != r.key {
		recent.shape, recent.key = s.kernel(b, &r.key), r.key
	}
	recent.block = r.block
	return recent.shape
}

// equal says whether a key of the block is that of a row.
func (r *shapeRows) equal(k *kernelKey, i int) bool {
	for _, f := range r.varying {
		if v := r.columns[f].At(i); k.get(int(f)) != v {
			return false
		}
	}
	return true
}

func (k *kernelKey) get(f int) uint64 {
	if f == 0 {
		return k.name
	}
	return uint64(k.v[f-1])
}

// set sets a field by its place in kernelFields.
func (k *kernelKey) set(f int, v uint64) {
	if f == 0 {
		k.name = v
	} else {
		k.v[f-1] = uint32(v)
	}
}

func (s *shapes) kernel(b *tracelog.Block, key *kernelKey) *Shape {
	shape := s.kernels[*key]
	if shape != nil {
		return shape
	}
	if len(s.kernels) >= maxShapes {
		clear(s.kernels)
	}
	v := &key.v
	shape = s.make()
	shape.Kernel = KernelShape{
		Name: b.Text(key.name), Grid: [3]uint32(v[0:3]), Block: [3]uint32(v[3:6]), Cluster: [3]uint32(v[6:9]),
		StaticShared: v[9], DynamicShared: v[10], LocalPerThread: v[11], Registers: v[12],
	}
	s.kernels[*key] = shape
	return shape
}

func (s *shapes) ofCopy(r *shapeRows, i int) *Shape {
	v := func(f int) uint32 { return uint32(r.columns[f].At(i)) }
	m := MemcpyShape{Bytes: r.columns[0].At(i), CopyKind: v(1), SrcKind: v(2), DstKind: v(3), SrcDevice: v(4), DstDevice: v(5)}
	shape := s.copies[m]
	if shape == nil {
		if len(s.copies) >= maxShapes {
			clear(s.copies)
		}
		shape = s.make()
		shape.Memcpy = m
		s.copies[m] = shape
	}
	return shape
}

func (s *shapes) ofSet(r *shapeRows, i int) *Shape {
	m := MemsetShape{Bytes: r.columns[0].At(i), Value: uint32(r.columns[1].At(i))}
	shape := s.sets[m]
	if shape == nil {
		if len(s.sets) >= maxShapes {
			clear(s.sets)
		}
		shape = s.make()
		shape.Memset = m
		s.sets[m] = shape
	}
	return shape
}

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
	block   kernelColumns
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

// blockShapes is how many shapes of a block are found without a look into the map of all.
const blockShapes = 256

// kernelColumns find the shapes of the rows of a block by the few fields that differ.
type kernelColumns struct {
	key     kernelKey // of the fields that all rows share, and the latest of the others
	columns [14]tracelog.Column
	varying []uint8
	recent  [blockShapes]struct {
		shape *Shape
		key   kernelKey
	}
}

// ofKernels gives the shapes of the rows of a block.
func (s *shapes) ofKernels(b *tracelog.Block) func(i int) *Shape {
	k := &s.block
	k.varying = k.varying[:0]
	for f, name := range kernelFields {
		k.columns[f] = b.Column(name)
		v, same := k.columns[f].Const()
		k.key.set(f, v)
		if !same {
			k.varying = append(k.varying, uint8(f))
		}
	}
	return func(i int) *Shape {
		h := uint64(len(k.varying))
		for _, f := range k.varying {
			v := k.columns[f].At(i)
			k.key.set(int(f), v)
			h = (h ^ v) * 0x9E3779B97F4A7C15
		}
		recent := &k.recent[h>>56%blockShapes]
		if recent.shape == nil || recent.key != k.key {
			recent.shape, recent.key = s.kernel(b, &k.key), k.key
		}
		return recent.shape
	}
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

func (s *shapes) ofCopies(b *tracelog.Block) func(i int) *Shape {
	bytes, kinds, src, dst := b.Column("bytes"), b.Column("copy_kind"), b.Column("src_kind"), b.Column("dst_kind")
	from, to := b.Column("src_device"), b.Column("dst_device")
	return func(i int) *Shape {
		m := MemcpyShape{Bytes: bytes.At(i), CopyKind: uint32(kinds.At(i)), SrcKind: uint32(src.At(i)), DstKind: uint32(dst.At(i)),
			SrcDevice: uint32(from.At(i)), DstDevice: uint32(to.At(i))}
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
}

func (s *shapes) ofSets(b *tracelog.Block) func(i int) *Shape {
	bytes, values := b.Column("bytes"), b.Column("value")
	return func(i int) *Shape {
		m := MemsetShape{Bytes: bytes.At(i), Value: uint32(values.At(i))}
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
}

func (s *shapes) ofGraphs(int) *Shape { return s.none }

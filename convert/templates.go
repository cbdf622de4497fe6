package convert

import (
	"math/bits"

	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// templates is how many calls, and how many pieces of work, are remembered in their
// encoded form. Programs do the same over and over.
const templates = 1 << 12

// A callKey is what calls have to have in common to be encoded alike.
type callKey struct {
	fn     *Function
	kernel *Kernel
	queue  *Queue
	ret    int32
	flags  uint32
	nargs  int
	args   [tracelog.MaxArgs]uint64
}

type callTemplate struct {
	key callKey
	perfetto.Template
}

// call returns the template of a call.
func (s *perfettoSink) call(sl *Slice) *perfetto.Template {
	h := uint64(sl.Function.id)<<8 ^ uint64(uint32(sl.Ret)) ^ uint64(len(sl.Args))
	if sl.Queue != nil {
		h ^= uint64(sl.Queue.Stream+1) << 32
	}
	for _, v := range sl.Args {
		h = mix(h, v)
	}
	t := &s.calls[mix(h, 0)%templates]
	k := &t.key
	if k.fn == sl.Function && k.queue == sl.Queue && k.kernel == sl.Kernel && k.ret == sl.Ret && k.flags == sl.Flags && k.nargs == len(sl.Args) {
		same := true
		for i, v := range sl.Args {
			same = same && k.args[i%tracelog.MaxArgs] == v
		}
		if same {
			return &t.Template
		}
	}
	*k = callKey{fn: sl.Function, kernel: sl.Kernel, queue: sl.Queue, ret: sl.Ret, flags: sl.Flags, nargs: len(sl.Args)}
	copy(k.args[:], sl.Args)
	s.callArgs(sl)
	s.w.Template(&t.Template, sl.Name, sl.Category, s.args)
	return &t.Template
}

// mix stirs a number into a hash.
func mix(h, v uint64) uint64 {
	hi, lo := bits.Mul64(h^v, 0x9E3779B97F4A7C15)
	return hi ^ lo
}

// A workKey is what pieces of work have to have in common to be encoded alike.
type workKey struct {
	shape *Shape
	queue *Queue
	graph uint32
	kind  WorkKind
}

type workTemplate struct {
	key workKey
	perfetto.Shape
}

// work returns the template of a piece of work on the chosen queue.
func (s *perfettoSink) work(w *Work) *perfetto.Shape {
	key := workKey{w.Shape, s.stream, w.Graph, w.Kind}
	t := &s.works[mix(uint64(w.Shape.id)<<32^uint64(w.Graph), uint64(s.stream.Stream)<<32^uint64(s.stream.PID))%templates]
	if t.key != key {
		t.key = key
		s.w.Shape(&t.Shape, s.event(w))
	}
	return &t.Shape
}

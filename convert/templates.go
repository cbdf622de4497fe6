package convert

import (
	"math/bits"

	"github.com/cudatrace/cudatrace/perfetto"
)

// templates is how many calls, and how many pieces of work, are remembered in their
// encoded form. Programs do the same over and over.
const templates = 1 << 12

// A callKey is what calls have to have in common to be encoded alike.
type callKey struct {
	fn     *Function
	kernel *Kernel
	queue  *Queue
	args   uint64 // their id
	ret    int32
	flags  uint16
}

type callTemplate struct {
	key callKey
	perfetto.Template
}

// call returns the template of a call.
func (s *perfettoSink) call(sl *Slice) *perfetto.Template {
	key := callKey{sl.Function, sl.Kernel, sl.Queue, sl.Arguments.id, sl.Ret, sl.Flags}
	h := uint64(sl.Function.id)<<32 ^ uint64(uint32(sl.Ret))
	if sl.Queue != nil {
		h ^= uint64(sl.Queue.Stream+1) << 8
	}
	t := &s.calls[mix(h, sl.Arguments.id)%templates]
	if t.key != key {
		t.key = key
		s.callArgs(sl)
		s.w.Template(&t.Template, sl.Name, sl.Category, s.args)
	}
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

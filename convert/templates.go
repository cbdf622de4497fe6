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
	perfetto.TrackEventTemplate
}

// call returns the template of a call.
func (s *perfettoSink) call(sl *Slice) *perfetto.TrackEventTemplate {
	var t *callTemplate
	if id := sl.Arguments.id; id != 0 { // arguments nearly always belong to one function and stream
		t = &s.calls[id%recentArguments]
	} else {
		h := uint64(sl.Function.id)<<32 ^ uint64(uint32(sl.Ret))
		if sl.Queue != nil {
			h ^= uint64(sl.Queue.Stream+1) << 8
		}
		t = &s.plain[mix(h, 0)%templates]
	}
	if !t.key.is(sl) {
		t.key = callKey{sl.Function, sl.Kernel, sl.Queue, sl.Arguments.id, sl.Ret, sl.Flags}
		s.callArgs(sl)
		t.Encode(s.w, sl.Name, sl.Category, s.args)
	}
	return &t.TrackEventTemplate
}

// is says whether a call has the key.
func (k *callKey) is(sl *Slice) bool {
	return k.fn == sl.Function && k.args == sl.Arguments.id && k.queue == sl.Queue && k.kernel == sl.Kernel &&
		k.ret == sl.Ret && k.flags == sl.Flags
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
	perfetto.RenderStageTemplate
}

// work returns the template of a piece of work on the chosen queue.
func (s *perfettoSink) work(w *Work) *perfetto.RenderStageTemplate {
	h := uint64(w.Shape.id)<<4 + s.queue.nth // a few hundred shapes on a few streams do not collide
	if w.Graph != 0 {
		h = mix(h, uint64(w.Graph))
	}
	t := &s.works[h%templates]
	if k := &t.key; k.shape != w.Shape || k.queue != s.stream || k.graph != w.Graph || k.kind != w.Kind {
		t.key = workKey{w.Shape, s.stream, w.Graph, w.Kind}
		t.Encode(s.w, s.event(w))
	}
	return &t.RenderStageTemplate
}

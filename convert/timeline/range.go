package timeline

import "sync/atomic"

// A Range is an NVTX range of a thread: it begins on the thread, and ends where the program ends
// it, on any thread. The work of a range is the work of the calls that its thread made meanwhile.
type Range struct {
	Thread *Thread
	Name   string
	Domain string // "" for NVTX's default domain
	Step   *Step  // the step of the program that the range is; nil for none
	NCCL   *NCCL  // what a call of NCCL says in the payload of its range; nil for none
	// the calls of NCCL whose kernels are launched in the range, for who joins calls and work; nil for none
	Group  *NCCLGroup
	length atomic.Uint64
}

// A Step is a step of a program, such as one of a training loop.
type Step struct{ Number int64 }

// Ended says how long the range was open.
func (r *Range) Ended(dur uint64) { r.length.Store(End(dur, 1)) }

// Duration is the time that the range was open, in ns. It is not known while the end of the
// range has not been read. Any goroutine may ask.
func (r *Range) Duration() (dur uint64, known bool) {
	n := r.length.Load()
	return n - min(n, 1), n > 0
}

// A RangeStack is the NVTX ranges that are open on a thread at one time: the range that began last,
// and the stack around it. Nil is no range.
type RangeStack struct {
	*Range
	Outer *RangeStack
}

// Group is the calls of NCCL whose kernels are launched in the range that began last, nil for none.
func (s *RangeStack) Group() *NCCLGroup {
	if s == nil {
		return nil
	}
	return s.Range.Group
}

// Path appends the stack and the stacks around it to a list, the outermost one first.
func (s *RangeStack) Path(list []*RangeStack) []*RangeStack {
	if s == nil {
		return list
	}
	return append(s.Outer.Path(list), s)
}

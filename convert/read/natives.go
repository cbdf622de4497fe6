package read

import (
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// maxNativeIDs bounds the IDs of native frames and stacks. Samples with a larger ID have no frames.
const maxNativeIDs = 1 << 21

// Natives are the native stacks of a log, by ID.
type Natives struct {
	frames map[uint32]*timeline.NativeFrame
	stacks map[uint32]*timeline.Native
	texts  int // bytes of their texts
}

func newNatives() Natives {
	return Natives{frames: make(map[uint32]*timeline.NativeFrame), stacks: make(map[uint32]*timeline.Native)}
}

func (l *Natives) takeFrame(b *tracelog.Block, i int) {
	var r tracelog.NativeFrame
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxNativeIDs {
		return
	}
	*l.frame(r.ID) = timeline.NativeFrame{Module: r.Module, Symbol: r.Symbol}
	l.texts += len(r.Module) + len(r.Symbol)
}

// takeStack takes a stack. Only stacks with lower IDs can call it, so that none calls itself.
func (l *Natives) takeStack(b *tracelog.Block, i int) {
	var r tracelog.NativeStack
	r.Read(b, i)
	if r.ID == 0 || r.ID >= maxNativeIDs {
		return
	}
	s := l.stack(r.ID)
	s.NativeFrame, s.Parent = l.frame(r.Frame), nil
	if r.Parent != 0 && r.Parent < r.ID {
		s.Parent = l.stack(r.Parent)
	}
}

// frame returns the frame with an ID, an unknown one until its record is taken.
func (l *Natives) frame(id uint32) *timeline.NativeFrame {
	f := l.frames[id]
	if f == nil {
		f = &timeline.NativeFrame{}
		l.frames[id] = f
	}
	return f
}

// stack returns the stack with an ID, one of an unknown frame until its record is taken.
func (l *Natives) stack(id uint32) *timeline.Native {
	s := l.stacks[id]
	if s == nil {
		s = &timeline.Native{NativeFrame: l.frame(0), ID: id}
		l.stacks[id] = s
	}
	return s
}

// ByID returns the stack with an ID, nil if the log has no record of it.
func (l *Natives) ByID(id uint32) *timeline.Native { return l.stacks[id] }

package convert

import "slices"

// A streamHandle is a stream as calls name it, 0 for none. The two default streams have
// the numbers of CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, also where a call says 0.
type streamHandle uint64

const (
	legacyStream streamHandle = 1
	threadStream streamHandle = 2
)

// streamOf is the stream that a call with these arguments names.
func (fn *Function) streamOf(args []uint64) streamHandle {
	switch {
	case fn.stream < 0 || fn.stream >= len(args):
		return 0
	case args[fn.stream] != 0:
		return streamHandle(args[fn.stream])
	case fn.own:
		return threadStream
	}
	return legacyStream
}

// A streamTable knows on which streams the work of launches ran that named a handle, and
// on which contexts that of threads.
type streamTable struct {
	recent  [recentHandles]streamUse // so that nearly all launches need no map
	handles map[streamUser][]*workQueue
	named   map[*workQueue]bool
	callers map[uint32]callerContext
}

const (
	recentHandles = 64

	// maxHandleStreams bounds the streams that a handle stands for, one after the other.
	maxHandleStreams = 64

	// maxHandles bounds the handles of a program that makes streams all the time.
	maxHandles = 1 << 16
)

// A streamUser is a handle, with the thread where it means another stream in each.
type streamUser struct {
	handle streamHandle
	tid    uint32
}

type streamUse struct {
	streamUser
	queue *workQueue
}

// callerContext is the context of a thread's work.
type callerContext struct {
	context uint32
	several bool
}

func userOf(sl *Slice) streamUser {
	u := streamUser{handle: sl.stream}
	if sl.stream == threadStream {
		u.tid = sl.tid
	}
	return u
}

// learn takes in that work of a call ran on a queue. A graph may run on streams of its
// own.
func (t *streamTable) learn(sl *Slice, q *workQueue) {
	use := streamUse{streamUser{sl.stream, sl.tid}, q}
	slot := &t.recent[mix(uint64(sl.stream), uint64(sl.tid))%recentHandles]
	if *slot == use {
		return
	}
	*slot = use
	if t.handles == nil {
		t.handles, t.named = make(map[streamUser][]*workQueue), make(map[*workQueue]bool)
		t.callers = make(map[uint32]callerContext)
	}
	context, known := t.callers[sl.tid]
	if known {
		context.several = context.several || context.context != q.out.Context
	} else {
		context.context = q.out.Context
	}
	t.callers[sl.tid] = context
	user := userOf(sl)
	list := t.handles[user]
	if sl.stream == 0 || graphLaunchers[sl.base] || slices.Contains(list, q) ||
		len(list) >= maxHandleStreams || list == nil && len(t.handles) >= maxHandles {
		return
	}
	t.handles[user] = append(list, q)
	t.named[q] = true
}

var graphLaunchers = map[string]bool{"cudaGraphLaunch": true, "cuGraphLaunch": true}

// of returns the queues that a call names, none where no launch has named them. Default
// streams are one in each context: of several contexts it is that of the thread.
func (t *streamTable) of(sl *Slice) []*workQueue {
	if sl.stream == 0 {
		return nil
	}
	list := t.handles[userOf(sl)]
	if sl.stream > threadStream {
		return list
	}
	caller, known := t.callers[sl.tid]
	if !known || caller.several {
		return list
	}
	var own []*workQueue
	for _, q := range list {
		if q.out.Context == caller.context {
			own = append(own, q)
		}
	}
	return own
}

// unnamed are those of some queues that no handle is known of.
func (t *streamTable) unnamed(queues []*workQueue) (list []*workQueue) {
	for _, q := range queues {
		if !t.named[q] {
			list = append(list, q)
		}
	}
	return list
}

// oneContext says whether all queues are of one context.
func oneContext(queues []*workQueue) bool {
	for _, q := range queues {
		if q.out.Context != queues[0].out.Context {
			return false
		}
	}
	return true
}

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
	graphs  map[streamUser][]*workQueue // the same of launches of graphs, which may have streams of their own
	named   map[*workQueue]bool         // in handles
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

// learn takes in that work of a call ran on a queue.
func (t *streamTable) learn(sl *Slice, q *workQueue) {
	use := streamUse{streamUser{sl.stream, sl.tid}, q}
	slot := &t.recent[mix(uint64(sl.stream), uint64(sl.tid))%recentHandles]
	if *slot == use {
		return
	}
	*slot = use
	if t.handles == nil {
		t.handles, t.graphs = make(map[streamUser][]*workQueue), make(map[streamUser][]*workQueue)
		t.named, t.callers = make(map[*workQueue]bool), make(map[uint32]callerContext)
	}
	context, known := t.callers[sl.tid]
	if known {
		context.several = context.several || context.context != q.out.Context
	} else {
		context.context = q.out.Context
	}
	t.callers[sl.tid] = context
	if sl.stream == 0 {
		return
	}
	if graphLaunchers[sl.base] {
		note(t.graphs, userOf(sl), q)
		return
	}
	note(t.handles, userOf(sl), q)
	t.named[q] = true
}

func note(known map[streamUser][]*workQueue, user streamUser, q *workQueue) {
	list := known[user]
	if slices.Contains(list, q) || len(list) >= maxHandleStreams || list == nil && len(known) >= maxHandles {
		return
	}
	known[user] = append(list, q)
}

var graphLaunchers = map[string]bool{"cudaGraphLaunch": true, "cuGraphLaunch": true}

// of returns the queues that a call names, none where no launch has named them. Default
// streams are one in each context: of several contexts it is that of the thread.
func (t *streamTable) of(sl *Slice) []*workQueue {
	if sl.stream == 0 {
		return nil
	}
	list := t.handles[userOf(sl)]
	if graphs := t.graphs[userOf(sl)]; len(list) == 0 && len(graphs) == 1 {
		list = graphs
	}
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
